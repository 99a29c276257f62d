// A lever beside the curve of an action: it shows where the action is, and takes it in hand.
import { format, h } from "../dom";
import type { TimeChart } from "../timechart";

const STEP = 0.01; // of the span, for one press of a key

export class Lever {
  /** Told what the action should be, and by how much more it should be, for a key that may be held down. */
  onset: (value: number) => void = () => {};
  onnudge: (by: number, repeated: boolean) => void = () => {};

  readonly root: HTMLElement;
  private readonly knob: HTMLElement;
  private readonly rail: HTMLElement;
  private span: [number, number] = [0, 1];
  private release = (): void => {}; // ends the drag that is under way

  constructor(
    name: string,
    private readonly chart: TimeChart,
    private readonly beside: HTMLElement,
  ) {
    this.knob = h("div", { class: "knob", role: "slider", tabindex: "0", "aria-orientation": "vertical" });
    this.knob.setAttribute("aria-label", `${name}: drag, or use the arrow keys, to take over`);
    this.rail = h("div", { class: "rail" }, this.knob);
    this.root = h("div", { class: "lever" }, this.rail);
    this.rail.addEventListener("pointerdown", (event) => this.press(event));
    this.knob.addEventListener("keydown", (event) => this.key(event));
  }

  /** How much one press of a key moves. */
  get step(): number {
    return STEP * (this.span[1] - this.span[0]);
  }

  /** Put the knob where the action is, among what can be seen. */
  place(value: number, span: [number, number], held: boolean): void {
    this.span = span;
    const box = this.chart.box;
    if (box === null) return;
    const top = box.top - this.beside.getBoundingClientRect().top;
    this.rail.style.setProperty("top", `${top}px`);
    this.rail.style.setProperty("height", `${box.height}px`);
    const share = Math.min(1, Math.max(0, (value - span[0]) / (span[1] - span[0])));
    this.knob.style.setProperty("top", `${100 * (1 - share)}%`);
    this.knob.classList.toggle("held", held);
    this.knob.setAttribute("aria-valuemin", String(span[0]));
    this.knob.setAttribute("aria-valuemax", String(span[1]));
    this.knob.setAttribute("aria-valuenow", String(value));
    this.knob.setAttribute("aria-valuetext", format(value));
  }

  /** Let go of the knob, though the pointer may still be down. */
  drop(): void {
    this.release();
  }

  private press(event: PointerEvent): void {
    if (event.button !== 0) return;
    event.preventDefault();
    this.knob.focus();
    const rail = this.rail.getBoundingClientRect();
    const knob = this.knob.getBoundingClientRect();
    // Whoever grabs the knob itself moves it by as much as the pointer moves.
    const offset = event.target === this.knob ? event.clientY - (knob.top + knob.height / 2) : 0;
    const move = (now: PointerEvent): void => {
      const share = 1 - (now.clientY - offset - rail.top) / rail.height;
      this.onset(this.span[0] + Math.min(1, Math.max(0, share)) * (this.span[1] - this.span[0]));
    };
    this.release();
    const release = (): void => {
      this.rail.removeEventListener("pointermove", move);
      this.rail.removeEventListener("pointerup", release);
      this.rail.removeEventListener("pointercancel", release);
    };
    this.release = release;
    this.rail.setPointerCapture(event.pointerId);
    this.rail.addEventListener("pointermove", move);
    this.rail.addEventListener("pointerup", release);
    this.rail.addEventListener("pointercancel", release);
    move(event);
  }

  private key(event: KeyboardEvent): void {
    const ways: Record<string, number> = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 };
    const way = ways[event.key];
    if (way === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    this.onnudge(way * this.step * (event.shiftKey ? 5 : 1), event.repeat);
  }
}
