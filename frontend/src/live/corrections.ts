// The stretches in which somebody took over: how long, how far, to be watched again, kept or left out.
import { clock, format, h } from "../dom";
import { TimeChart } from "../timechart";
import { correction, type Session, type Stretch, seconds, table, USUAL_RATE } from "./session";

const EVERY = 50; // milliseconds between two pictures

export class Corrections {
  private readonly rows = h("tbody");
  private readonly none = h(
    "p",
    { class: "empty" },
    "None yet: what you do while you have the stream in hand appears here.",
  );
  private readonly list: HTMLElement;
  private readonly save = h("button", { type: "button" }, "Save as a table");
  private readonly screen = h("div", { class: "replay", hidden: "" });
  private readonly told = h("p", { class: "facts" });
  private charts: TimeChart[] = [];
  private timer = 0;
  private drawn = "";
  private watched: number | null = null;
  private session: Session | null = null;

  constructor(root: HTMLElement) {
    const head = h("tr", {}, h("th", {}), h("th", {}, "when"));
    head.append(...["seconds", "correction"].map((title) => h("th", { class: "number" }, title)), h("th", {}));
    const hint = "A correction: how far you went, in the mean, from where the policy stood when you took over.";
    this.list = h(
      "div",
      {},
      h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), this.rows)),
      h("p", { class: "hint" }, hint),
      this.save,
    );
    this.save.onclick = () => this.download();
    root.append(this.none, this.list, this.screen);
    this.list.hidden = true;
  }

  /** Another stream: its stretches are others. */
  open(session: Session): void {
    this.session = session;
    this.drawn = "";
    this.close();
    this.update();
  }

  update(): void {
    const stretches = this.session?.stretches ?? [];
    this.none.hidden = stretches.length > 0;
    this.list.hidden = stretches.length === 0;
    const state = stretches.map(({ id, frames, done, leftOut }) => [id, done ? -1 : frames.length, leftOut]);
    const now = JSON.stringify([state, this.watched]);
    if (now === this.drawn) return;
    this.drawn = now;
    this.rows.replaceChildren(...stretches.map((stretch) => this.row(stretch)).reverse());
    this.save.disabled = stretches.every(({ leftOut }) => leftOut);
  }

  private row(stretch: Stretch): HTMLElement {
    const { actions } = this.session!.seated;
    const watch = h("button", { type: "button", "aria-label": `Watch ${stretch.id} again` }, "Watch");
    watch.setAttribute("aria-pressed", String(this.watched === stretch.id));
    watch.onclick = () => this.watch(stretch);
    const leave = h("button", { type: "button", class: "quiet" }, stretch.leftOut ? "Take in" : "Leave out");
    leave.setAttribute("aria-label", `${leave.textContent} ${stretch.id}`);
    leave.onclick = () => {
      stretch.leftOut = !stretch.leftOut;
      this.update();
    };
    const far = actions.map((name, i) => {
      const by = format(correction(stretch, i));
      return actions.length === 1 ? by : `${name} ${by}`;
    });
    const begin = new Date(1000 * stretch.frames[stretch.first]!.t).toLocaleTimeString("en-GB");
    return h(
      "tr",
      { class: stretch.leftOut ? "left-out" : "", "data-stretch": stretch.id },
      h("td", {}, stretch.id),
      h("td", {}, begin),
      h("td", { class: "number" }, seconds(stretch).toFixed(1)),
      h("td", { class: "number" }, far.join(", ")),
      h("td", { class: "buttons" }, watch, leave),
    );
  }

  /** Play a stretch at the pace at which it was, with a little of what was before and after. */
  private watch(stretch: Stretch): void {
    const again = this.watched === stretch.id;
    this.close();
    this.update();
    if (again) return;
    this.watched = stretch.id;
    const { actions, rate } = this.session!.seated;
    const frames = [...stretch.frames];
    this.screen.hidden = false;
    this.screen.replaceChildren(h("h3", {}, `Correction ${stretch.id}, again`), this.told);
    const roots = actions.map(() => h("div", {}));
    this.screen.append(...roots);
    this.charts = roots.map(
      (root, i) => new TimeChart(root, { height: 200, label: `${actions[i]} again`, strip: false }),
    );
    const whole = actions.map((_, i) => Float32Array.from(frames, ({ a }) => a?.[i] ?? Number.NaN));
    const spans = whole.map(span);
    let shown = 0;
    const draw = (): void => {
      this.charts.forEach((chart, i) => {
        const values = whole[i]!.map((value, k) => (k < shown ? value : Number.NaN));
        const track = { name: actions[i]!, colour: 1, values, width: 1.75 };
        chart.show(
          { tracks: [track], rate, step: 1, begins: 0, unit: actions[i]!, origin: stretch.first, span: spans[i]! },
          shown > 0,
        );
        chart.mark(stretch.first, stretch.last);
      });
      const under = shown >= stretch.first && shown < stretch.last ? "the operator acts" : "the policy acts";
      this.told.textContent = `${clock((shown - stretch.first) / (rate ?? USUAL_RATE), 1)} from the take-over: ${under}`;
      if (shown >= frames.length) clearInterval(this.timer);
      shown = Math.min(frames.length, shown + (EVERY / 1000) * (rate ?? USUAL_RATE));
    };
    this.timer = window.setInterval(draw, EVERY);
    draw();
    this.update();
  }

  private close(): void {
    clearInterval(this.timer);
    for (const chart of this.charts) chart.destroy();
    this.charts = [];
    this.watched = null;
    this.screen.hidden = true;
  }

  private download(): void {
    const { seated, stretches } = this.session!;
    const file = URL.createObjectURL(new Blob([table(seated, stretches)], { type: "text/csv" }));
    const link = h("a", { href: file, download: `${seated.stream}-corrections.csv` });
    link.click();
    URL.revokeObjectURL(file);
  }
}

function span(values: Float32Array): [number, number] {
  const known = values.filter((value) => !Number.isNaN(value));
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const room = 0.1 * (high - low || 1);
  return [low - room, high + room];
}
