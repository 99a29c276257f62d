// A comparison: who has had a turn, the frontier between error and roughness, and the table.
import { scatterPaths } from "../charts";
import { format, h } from "../dom";
import { setText } from "./keyed";
import { setProgress } from "./run_list";
import { busy, type Run } from "./types";
import { progress, standing } from "./words";

export class ContestView {
  readonly root: HTMLElement;
  private readonly title = h("h2", { id: "contest-title" });
  private readonly caption = h("p", { class: "caption" });
  private readonly bar = h("progress", { max: 1 });
  private readonly turns = h("ul", { class: "turns", "aria-label": "Contenders that are done" });
  private readonly chart = h("div", { id: "frontier" });
  private readonly table = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Held-out results" });
  private drawn = "";
  private end: () => void = () => {};

  constructor() {
    this.root = h(
      "section",
      { class: "card", id: "contest", "aria-labelledby": "contest-title" },
      this.title,
      this.caption,
      this.bar,
      this.turns,
      this.chart,
      this.table,
    );
  }

  update(run: Run): void {
    this.root.hidden = run.frontier.length === 0 && run.kind !== "compare";
    if (this.root.hidden) return;
    const waiting = busy(run) && run.frontier.length === 0;
    setText(this.title, run.kind === "compare" ? "Who does it best?" : "How smooth should I choose?");
    setText(
      this.caption,
      waiting
        ? "Every contender learns from the same sequences and is judged on the same others. It takes a while."
        : "Error against roughness, on held-out sequences: further down is more accurate, further left smoother.",
    );
    this.bar.hidden = !waiting;
    setProgress(this.bar, progress(run), standing(run));
    this.turns.hidden = !waiting || run.contenders_done.length === 0;
    if (this.turns.childElementCount !== run.contenders_done.length) {
      this.turns.replaceChildren(...run.contenders_done.map((name) => h("li", { class: "chip" }, `✓ ${name}`)));
    }
    const key = `${run.id}/${run.frontier.length}/${run.table?.rows.length ?? 0}`;
    if (key === this.drawn) return;
    this.drawn = key;
    this.end();
    this.end = () => {};
    this.chart.replaceChildren();
    this.table.replaceChildren(...tableOf(run));
    if (run.frontier.length === 0) return;
    const curves = run.frontier.map((contender, i) => ({
      name: contender.name,
      kind: contender.kind,
      colour: contender.kind === "ours" ? 1 : 2 + i,
      points: contender.points
        .filter((point) => point.roughness !== null && point.error !== null)
        .map((point) => ({ x: point.roughness!, y: point.error!, label: point.label })),
    }));
    this.end = scatterPaths(this.chart, {
      curves,
      xLabel: "roughness (1: the expert’s)",
      yLabel: "error (standard deviations)",
      logX: true,
      mark: { x: 1, label: "the expert’s roughness" },
      height: 340,
    });
  }
}

function tableOf(run: Run): HTMLElement[] {
  if (run.table === null) return [];
  const { columns, rows } = run.table;
  const numeric = columns.map((_, i) => rows.every((row) => typeof row[i] !== "string"));
  const heads = columns.map((name, i) => h("th", { scope: "col", class: numeric[i] ? "number" : null }, name));
  const cell = (value: string | number | null, i: number): HTMLElement =>
    h("td", { class: numeric[i] ? "number" : null }, typeof value === "string" ? value : format(value));
  const body = rows.map((row) => h("tr", {}, ...row.map(cell)));
  return [h("table", {}, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...body))];
}
