// How smooth: a slider over lambda, on a log scale.
import { format, h } from "../dom";

const STEPS = 240;
const REST = 1000; // ms without a move
const THUMB = 8; // half its width, px

interface Mark {
  value: number;
  name: string;
  own: boolean;
  colour: string;
}

export class SmoothnessSlider {
  readonly root: HTMLElement;
  /** Told of every move, with the time at which it was made. */
  oninput: (time: number) => void = () => {};
  /** Told when the slider has rested for a second. */
  onrest: () => void = () => {};
  private readonly input = h("input", { type: "range", min: 0, max: STEPS, step: 1, id: "smoothness" });
  private readonly says = h("output", { for: "smoothness", class: "says" });
  private readonly marks = h("div", { class: "marks" });
  private range = { now: 1, low: 0.1, high: 10 };
  private drawnMarks = "";
  private timer = 0;
  private touched = false;

  constructor() {
    const back = h("button", { type: "button", class: "quiet" }, "Back to the run’s own");
    back.onclick = (event) => this.move(this.range.now, event.timeStamp);
    this.root = h(
      "div",
      { class: "slider" },
      h("div", { class: "row" }, h("label", { for: "smoothness" }, "How smooth?"), this.says),
      this.input,
      this.marks,
      h("div", { class: "ends" }, h("span", {}, "rougher, quicker"), back, h("span", {}, "smoother, later")),
    );
    this.input.addEventListener("input", (event) => this.moved(event.timeStamp));
  }

  /** The chosen lambda; null for the run's own. */
  get value(): number | null {
    const position = this.input.valueAsNumber;
    return !this.touched || position === this.position(this.range.now) ? null : this.lambda(position);
  }

  /** Take the range of a run. For another run (`anew`), or while nobody has moved it, the slider stands at its own. */
  setRange(range: { now: number; low: number; high: number }, anew: boolean): void {
    const value = anew || !this.touched ? range.now : (this.value ?? range.now);
    if (anew) clearTimeout(this.timer);
    this.touched &&= !anew;
    this.range = { ...range, low: range.low > 0 ? range.low : range.high / 1e6 };
    this.drawnMarks = "";
    this.input.value = String(this.position(value));
    this.say("");
  }

  setMarks(marks: Mark[]): void {
    const key = JSON.stringify(marks);
    if (key === this.drawnMarks) return;
    this.drawnMarks = key;
    this.marks.replaceChildren(
      ...marks.map((mark) => {
        const name = `${mark.name}: λ ${format(mark.value)}`;
        const button = h("button", {
          type: "button",
          class: mark.own ? "mark own" : "mark",
          title: name,
          "aria-label": name,
        });
        const share = this.position(mark.value) / STEPS;
        button.style.left = `calc(${THUMB}px + ${share} * (100% - ${2 * THUMB}px))`;
        button.style.setProperty("--dot", mark.colour);
        button.onclick = (event) => this.move(mark.value, event.timeStamp);
        return button;
      }),
    );
  }

  /** Say in words what the slider stands for; `measured`: what is known of it, such as how late it is. */
  say(measured: string): void {
    const value = this.value;
    const lambda = `λ ${format(value ?? this.range.now)}`;
    const { now } = this.range;
    const more = now > 0 ? `${format((value ?? now) / now, 2)} × the run’s own` : "the run itself has none";
    const times = value === null ? "the run’s own" : more;
    this.says.textContent = [lambda, times, measured].filter(Boolean).join(" · ");
    this.input.setAttribute("aria-valuetext", this.says.textContent.replace("λ", "lambda"));
    this.root.classList.toggle("moved", value !== null);
  }

  private move(lambda: number, time: number): void {
    this.input.value = String(this.position(lambda));
    this.moved(time);
  }

  private moved(time: number): void {
    this.touched = true;
    this.say("");
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.onrest(), REST);
    this.oninput(time);
  }

  private position(lambda: number): number {
    const { low, high } = this.range;
    const share = Math.log(Math.max(lambda, low) / low) / Math.log(high / low);
    return Math.round(STEPS * Math.min(1, Math.max(0, share)));
  }

  private lambda(position: number): number {
    const { low, high } = this.range;
    // Rounded to what the label shows: the retrained run can be quoted by it.
    return Number((low * (high / low) ** (position / STEPS)).toPrecision(3));
  }
}
