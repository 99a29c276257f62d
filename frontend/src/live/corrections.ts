// The stretches in which somebody took over: how long, how far, to be watched again, kept or left out.
import { clock, format, h } from "../dom";
import { type Entry, Keyed, setText } from "../studio/keyed";
import { TimeChart } from "../timechart";
import { lay, place, type Session, type Stretch, seconds, table } from "./session";

const EVERY = 50; // milliseconds between two pictures

interface Item {
  id: string;
  stretch: Stretch;
}

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
  private keyed = new Keyed<Item>(this.rows, ({ stretch }) => this.row(stretch));

  constructor(root: HTMLElement) {
    const head = h("tr", {}, h("th", {}), h("th", {}, "when"));
    head.append(h("th", { class: "number" }, "seconds"), h("th", {}, "correction"), h("th", {}));
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
    this.rows.replaceChildren();
    this.keyed = new Keyed<Item>(this.rows, ({ stretch }) => this.row(stretch));
    this.close();
    this.update();
  }

  update(): void {
    const stretches = this.session?.stretches ?? [];
    this.none.hidden = stretches.length > 0;
    this.list.hidden = stretches.length === 0;
    const now = JSON.stringify(stretches.map((stretch) => this.state(stretch)));
    if (now === this.drawn) return;
    this.drawn = now;
    this.keyed.update(stretches.map((stretch) => ({ id: String(stretch.id), stretch })).reverse());
    this.save.disabled = stretches.every(({ leftOut }) => leftOut);
  }

  /** All that changes what is shown of a stretch. */
  private state({ id, frames, done, leftOut }: Stretch): unknown {
    return [id, done ? -1 : frames.length, leftOut, this.watched === id];
  }

  /** A row that stays the same element while its numbers change: what is pressed or has the focus stays so. */
  private row(stretch: Stretch): Entry<Item> {
    const session = this.session!;
    const { id } = stretch;
    const watch = h("button", { type: "button", "aria-label": `Watch ${id} again` }, "Watch");
    watch.onclick = () => this.watch(stretch);
    const leave = h("button", { type: "button", class: "quiet" });
    leave.onclick = () => {
      stretch.leftOut = !stretch.leftOut;
      this.update();
    };
    const long = h("td", { class: "number" });
    const { actions } = session.seated;
    const far = actions.map(() => h("span", {}));
    const begin = new Date(1000 * stretch.frames[stretch.first]!.t).toLocaleTimeString("en-GB");
    const root = h(
      "tr",
      { "data-stretch": String(id) },
      h("td", {}, String(id)),
      h("td", {}, begin),
      long,
      h("td", { class: "far" }, ...actions.map((name, i) => h("div", {}, actions.length > 1 && `${name} `, far[i]!))),
      h("td", { class: "buttons" }, watch, leave),
    );
    let drawn = "";
    const update = (): void => {
      const now = JSON.stringify(this.state(stretch));
      if (now === drawn) return;
      drawn = now;
      root.classList.toggle("left-out", stretch.leftOut);
      watch.setAttribute("aria-pressed", String(this.watched === id));
      setText(leave, stretch.leftOut ? "Take in" : "Leave out");
      leave.setAttribute("aria-label", `${leave.textContent} ${id}`);
      setText(long, seconds(stretch).toFixed(1));
      for (const [i, one] of far.entries()) setText(one, format(session.went(stretch, i)));
    };
    return { root, update };
  }

  /** Play a stretch at the pace at which it was, with a little of what was before and after. */
  private watch(stretch: Stretch): void {
    const again = this.watched === stretch.id;
    this.close();
    this.update();
    if (again) return;
    this.watched = stretch.id;
    const { seated, rate } = this.session!;
    const { actions } = seated;
    const frames = [...stretch.frames];
    const at = (k: number): number => place(frames, rate, k);
    const [first, last, all] = [at(stretch.first), at(stretch.last - 1) + 1, at(frames.length - 1) + 1];
    this.screen.hidden = false;
    this.screen.replaceChildren(h("h3", {}, `Correction ${stretch.id}, again`), this.told);
    const roots = actions.map(() => h("div", {}));
    this.screen.append(...roots);
    this.charts = roots.map(
      (root, i) => new TimeChart(root, { height: 200, label: `${actions[i]} again`, strip: false }),
    );
    const whole = actions.map((_, i) => lay(frames, rate, all, ({ a }) => a?.[i]));
    const spans = whole.map(span);
    const acted = lay(frames, rate, all, ({ by }) => Number(by === "operator"), true);
    let shown = 0;
    const draw = (): void => {
      this.charts.forEach((chart, i) => {
        const values = whole[i]!.map((value, k) => (k < shown ? value : Number.NaN));
        const track = { name: actions[i]!, colour: 1, values, width: 1.75 };
        chart.show(
          { tracks: [track], rate, step: 1, begins: 0, unit: actions[i]!, origin: first, span: spans[i]! },
          shown > 0,
        );
        chart.mark(first, last);
      });
      const under = acted[Math.floor(shown)] === 1 ? "the operator acts" : "the policy acts";
      this.told.textContent = `${clock((shown - first) / rate, 1)} from the take-over: ${under}`;
      if (shown >= all) clearInterval(this.timer);
      shown = Math.min(all, shown + (EVERY / 1000) * rate);
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
