// Who acted: a strip below the curves, in a colour for each.
import { LEFT, RIGHT } from "../axes";
import { h } from "../dom";
import { colour, onTheme } from "../theme";
import type { By, Frame } from "./session";

const HEIGHT = 12; // pixels
const COLOURS: Record<By, number> = { policy: 1, operator: 5, gap: 7 };

export class Who {
  private readonly canvas = h("canvas", { role: "img", "aria-label": "Who acted" });
  readonly root: HTMLElement;
  private shown: [frames: Frame[], n: number] = [[], 1];

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

  /** Show the latest `n` frames. */
  show(frames: Frame[], n: number): void {
    this.shown = [frames, n];
    this.draw();
  }

  private draw(): void {
    const [frames, n] = this.shown;
    const ratio = devicePixelRatio;
    const { canvas } = this;
    const width = Math.max(1, canvas.clientWidth);
    [canvas.width, canvas.height] = [Math.round(width * ratio), HEIGHT * ratio];
    const paper = canvas.getContext("2d")!;
    const unit = (ratio * (width - LEFT - RIGHT)) / n;
    const place = (i: number): number => ratio * LEFT + (n - frames.length + i) * unit;
    let i = Math.max(0, frames.length - n);
    while (i < frames.length) {
      const { by } = frames[i]!;
      let end = i + 1;
      while (end < frames.length && frames[end]!.by === by) end++;
      if (by !== undefined) {
        paper.fillStyle = colour(COLOURS[by]);
        paper.fillRect(place(i), 0, place(end) - place(i), canvas.height);
      }
      i = end;
    }
  }
}
