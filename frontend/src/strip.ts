// The strip below a time chart: the whole sequence, small, with a window that one drags and resizes.

import uPlot from "uplot";
import { LEFT, RIGHT } from "./axes";
import { h } from "./dom";

type Part = "left" | "right" | "window";

export class Strip {
  readonly root = h("div", { class: "strip chart", "aria-hidden": "true" });
  /** Told when the window is moved, and when it is made wider or narrower, in units of x. */
  onmove: (begin: number, end: number) => void = () => {};
  onresize: (begin: number, end: number) => void = () => {};

  private readonly window = h("div", { class: "window" });
  private plot: uPlot | null = null;
  private span: [number, number] = [0, 1];
  private seen: [number, number] = [0, 1];

  constructor(private readonly height: number) {
    this.window.append(h("div", { class: "handle left" }), h("div", { class: "handle right" }));
    this.root.addEventListener("pointerdown", (event) => this.press(event));
  }

  /** Draw curves anew. */
  show(
    series: uPlot.Series[],
    data: uPlot.AlignedData,
    span: [number, number],
    width: number,
    shade: (u: uPlot) => void,
  ) {
    this.plot?.destroy();
    this.span = span;
    const options: uPlot.Options = {
      width,
      height: this.height,
      padding: [3, RIGHT, 3, LEFT],
      series: [{}, ...series.map((one) => ({ ...one, width: 1 }))],
      scales: { x: { time: false, range: () => this.span }, y: { range: (_, low, high) => [low, high] } },
      axes: [{ show: false }, { show: false }],
      cursor: { show: false },
      legend: { show: false },
      hooks: { drawClear: [shade] },
    };
    this.plot = new uPlot(options, data, this.root);
    this.plot.over.append(this.window);
    this.place(...this.seen);
  }

  resize(width: number): void {
    this.plot?.setSize({ width, height: this.height });
    requestAnimationFrame(() => this.place(...this.seen));
  }

  redraw(): void {
    this.plot?.redraw(false);
  }

  toggle(i: number, shown: boolean): void {
    this.plot?.setSeries(i, { show: shown });
  }

  /** Put the window around what the chart shows. */
  place(begin: number, end: number): void {
    this.seen = [begin, end];
    const length = this.span[1] - this.span[0] || 1;
    const [left, right] = [(begin - this.span[0]) / length, (end - this.span[0]) / length];
    this.window.style.left = `${100 * left}%`;
    this.window.style.width = `max(6px, ${100 * (right - left)}%)`;
  }

  destroy(): void {
    this.plot?.destroy();
  }

  private press(event: PointerEvent): void {
    if (!this.plot || event.button !== 0) return;
    event.preventDefault();
    const target = event.target as HTMLElement;
    const handle = target.classList.contains("handle");
    const part: Part = !handle ? "window" : target.classList.contains("left") ? "left" : "right";
    const box = this.plot.over.getBoundingClientRect();
    const unit = (this.span[1] - this.span[0]) / box.width;
    const at = (moved: PointerEvent) => this.span[0] + (moved.clientX - box.left) * unit;
    let [begin, end] = this.seen;
    if (part === "window" && target !== this.window) {
      // Pressed beside the window: it comes to the pointer.
      const half = (end - begin) / 2;
      [begin, end] = [at(event) - half, at(event) + half];
      this.onmove(begin, end);
    }
    const start = at(event);
    const move = (moved: PointerEvent) => {
      const by = at(moved) - start;
      if (part === "window") this.onmove(begin + by, end + by);
      else if (part === "left") this.onresize(Math.min(begin + by, end), end);
      else this.onresize(begin, Math.max(end + by, begin));
    };
    const release = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", release);
      removeEventListener("pointercancel", release);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", release);
    addEventListener("pointercancel", release);
  }
}
