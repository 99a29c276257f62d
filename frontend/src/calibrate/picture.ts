// The picture, the crosses that were clicked on it, and the lines of the court over it.
import { h } from "../dom";
import type { Board, Click } from "./board";
import { points, s } from "./svg";

const ARM = 9; // pixels of the screen: half a cross
const STEPS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

export class Picture {
  size: [width: number, height: number] | null = null;
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly lines = s("g", { class: "lines" });
  private readonly marks = s("g", { class: "marks" });
  private readonly drawing = s("svg", { tabindex: 0, role: "application" }, this.lines, this.marks);
  private readonly sheet = h("div", { class: "sheet" }, this.canvas, this.drawing as unknown as Node);
  private readonly stage = h("div", { class: "stage", hidden: "" }, this.sheet);
  private unused = new Set<string>();

  constructor(
    root: HTMLElement,
    private readonly board: Board,
  ) {
    root.append(this.stage);
    this.drawing.setAttribute("aria-label", "The picture: Enter puts the chosen landmark into its middle");
    this.drawing.addEventListener("pointerdown", (event) => this.press(event));
    this.drawing.addEventListener("keydown", (event) => this.type(event));
    board.listen(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.sheet);
  }

  show(source: CanvasImageSource, width: number, height: number): void {
    this.size = [width, height];
    this.canvas.width = width;
    this.canvas.height = height;
    this.canvas.getContext("2d")!.drawImage(source, 0, 0);
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.stage.hidden = false;
    this.draw();
  }

  /** 0 fits the window; 1 is a pixel for a pixel. */
  zoom(factor: number): void {
    this.sheet.style.setProperty("width", factor && this.size ? `${factor * this.size[0]}px` : "100%");
  }

  /** Draw the lines of the court, and tell which points were not used. */
  overlay(lines: number[][], unused: Iterable<string>): void {
    this.lines.replaceChildren(...lines.map((line) => s("polyline", { class: "line", points: points(line) })));
    this.unused = new Set(unused);
    this.draw();
  }

  private draw(): void {
    if (this.size === null) return;
    const focused = (document.activeElement as SVGElement | null)?.dataset.mark;
    const unit = this.size[0] / Math.max(this.drawing.getBoundingClientRect().width, 1);
    this.marks.replaceChildren(...this.board.clicks.map((click) => this.mark(click, ARM * unit)));
    if (focused)
      this.marks.querySelector<SVGElement>(`[data-mark="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  private mark({ name, u, v }: Click, arm: number): SVGElement {
    const title = s("title");
    title.textContent = name;
    const cross = s("path", { d: `M${u - arm},${v}H${u + arm}M${u},${v - arm}V${v + arm}` });
    const touch = s("circle", { class: "touch", cx: u, cy: v, r: 1.3 * arm });
    const mark = s("g", { class: "mark", tabindex: 0, role: "button", "data-mark": name }, touch, cross, title);
    mark.setAttribute("aria-label", `${name} at ${u.toFixed(1)}, ${v.toFixed(1)}`);
    mark.classList.toggle("chosen", this.board.chosen === name);
    mark.classList.toggle("unused", this.unused.has(name));
    return mark;
  }

  private place(event: PointerEvent): [number, number] {
    const box = this.drawing.getBoundingClientRect();
    const [width, height] = this.size!;
    return [
      Math.min(Math.max(((event.clientX - box.left) / box.width) * width, 0), width),
      Math.min(Math.max(((event.clientY - box.top) / box.height) * height, 0), height),
    ];
  }

  private press(event: PointerEvent): void {
    if (event.button !== 0 || this.size === null) return;
    const held = (event.target as Element).closest<SVGElement>("[data-mark]")?.dataset.mark;
    // A landmark that has no cross yet is put where the click is, beside another cross, too.
    const fresh = this.board.chosen !== null && !this.board.clicks.some((c) => c.name === this.board.chosen);
    const name = fresh ? this.board.chosen : (held ?? this.board.chosen);
    if (name === null || name === undefined) return;
    event.preventDefault();
    const click = this.board.clicks.find((c) => c.name === name);
    const [u, v] = this.place(event);
    const [du, dv] = click && name === held && !fresh ? [click.u - u, click.v - v] : [0, 0];
    this.board.remember();
    this.board.chosen = name;
    this.board.put(name, u + du, v + dv);
    this.marks.querySelector<SVGElement>(`[data-mark="${CSS.escape(name)}"]`)?.focus({ preventScroll: true });
    const move = (moved: PointerEvent): void => {
      const [a, b] = this.place(moved);
      this.board.put(name, a + du, b + dv);
    };
    const end = (): void => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  }

  private type(event: KeyboardEvent): void {
    const name = (event.target as SVGElement).dataset.mark ?? null;
    const click = this.board.clicks.find((c) => c.name === name);
    const step = STEPS[event.key];
    if (click && step) {
      const far = event.shiftKey ? 10 : event.altKey ? 0.1 : 1;
      this.board.remember();
      this.board.put(click.name, click.u + far * step[0], click.v + far * step[1]);
    } else if (click && (event.key === "Delete" || event.key === "Backspace")) {
      this.board.remove(click.name);
      (this.drawing as unknown as HTMLElement).focus({ preventScroll: true });
    } else if (!click && event.key === "Enter" && this.board.chosen !== null && this.size !== null) {
      this.board.remember();
      this.board.put(this.board.chosen, this.size[0] / 2, this.size[1] / 2);
      this.marks
        .querySelector<SVGElement>(`[data-mark="${CSS.escape(this.board.chosen)}"]`)
        ?.focus({ preventScroll: true });
    } else return;
    event.preventDefault();
  }
}
