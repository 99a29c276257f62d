// Who acted: a strip below the curves, in a colour for each.
import { LEFT, RIGHT } from "../axes";
import { h } from "../dom";
import { colour, onTheme } from "../theme";
import type { By, Session } from "./session";

const HEIGHT = 12; // pixels
const COLOURS: Record<By, number> = { policy: 1, operator: 5, gap: 7 }; // which, too, stand for who acted

export class Who {
  private readonly canvas = h("canvas", { role: "img", "aria-label": "Who acted" });
  readonly root: HTMLElement;
  private shown: Float32Array = new Float32Array(1).fill(Number.NaN); // the colour of who acted at each place in time

  constructor() {
    const swatches = Object.entries(COLOURS).map(([by, index]) => {
      const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
      const paint = (): void => swatch.style.setProperty("border-top-color", colour(index));
      paint();
      onTheme(paint);
      return h("span", {}, swatch, by);
    });
    this.root = h("div", { class: "who" }, this.canvas, h("p", { class: "facts" }, "who acted", ...swatches));
    onTheme(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  /** Show the latest `n` places in time. */
  show(session: Session, n: number): void {
    this.shown = session.values(n, ({ by }) => by && COLOURS[by], true);
    this.draw();
  }

  private draw(): void {
    const { canvas, shown } = this;
    const ratio = devicePixelRatio;
    const width = Math.max(1, canvas.clientWidth);
    [canvas.width, canvas.height] = [Math.round(width * ratio), HEIGHT * ratio];
    const paper = canvas.getContext("2d")!;
    const unit = (ratio * (width - LEFT - RIGHT)) / shown.length;
    let i = 0;
    while (i < shown.length) {
      const index = shown[i]!;
      let end = i + 1;
      while (shown[end] === index) end++;
      if (!Number.isNaN(index)) {
        paper.fillStyle = colour(index);
        paper.fillRect(ratio * LEFT + i * unit, 0, (end - i) * unit, canvas.height);
      }
      i = end;
    }
  }
}
