// How the training goes, round by round.
import { lineChart } from "../charts";
import { h } from "../dom";
import type { Round } from "../payload";
import { busy, type Run } from "./types";

interface Panel {
  title: string;
  series: { name: string; colour: number; of: (round: Round) => number | null; dash?: number[] }[];
}

const DASH = [5, 4];
const PANELS: Panel[] = [
  {
    title: "Error",
    series: [
      { name: "seen sequences", colour: 1, of: (round) => round.error, dash: DASH },
      { name: "unseen sequences", colour: 1, of: (round) => round.validation_error },
    ],
  },
  {
    title: "Roughness",
    series: [
      { name: "seen sequences", colour: 3, of: (round) => round.roughness, dash: DASH },
      { name: "unseen sequences", colour: 3, of: (round) => round.validation_roughness },
    ],
  },
  {
    title: "Steps",
    series: [
      { name: "beta, the step", colour: 2, of: (round) => round.beta },
      { name: "sigma, the feedback", colour: 4, of: (round) => round.sigma },
    ],
  },
];

export class RoundsView {
  readonly root: HTMLElement;
  private readonly caption = h("p", { class: "caption" });
  private readonly panels = h("div", { class: "panels" });
  private drawn = "";
  private ends: (() => void)[] = [];

  constructor() {
    this.root = h(
      "section",
      { class: "card", id: "rounds", "aria-labelledby": "rounds-title" },
      h("h2", { id: "rounds-title" }, "How the training goes"),
      this.caption,
      this.panels,
    );
  }

  update(run: Run): void {
    const { rounds, chosen } = run;
    this.root.hidden = run.kind === "compare" || rounds.length === 0;
    const key = `${run.id}/${rounds.length}/${chosen}`;
    if (this.root.hidden || key === this.drawn) return;
    this.drawn = key;
    this.root.dataset.rounds = String(rounds.length);
    for (const end of this.ends) end();
    this.panels.replaceChildren();
    const last = rounds.at(-1)!;
    const refused = rounds.filter((round) => round.diverged).length;
    this.caption.textContent =
      (rounds.length === 1
        ? `One round${busy(run) ? " so far" : ""}: the first policy, behind its filter.`
        : `Round ${last.number} is the last.`) +
      (chosen === null ? "" : ` Round ${chosen} was chosen.`) +
      (refused ? ` ${refused} of ${rounds.length} were refused, since their roll-outs diverged.` : "");
    this.ends = rounds.length > 1 ? PANELS.flatMap((panel) => this.draw(panel, rounds, chosen)) : [];
  }

  private draw(panel: Panel, rounds: Round[], chosen: number | null): (() => void)[] {
    const series = panel.series.map((line) => ({ ...line, values: rounds.map(line.of), points: rounds.length < 30 }));
    const there = series.filter((line) => line.values.some((value) => value !== null));
    if (there.length === 0) return [];
    const area = h("div", {});
    this.panels.append(h("div", { class: "panel" }, h("h3", {}, panel.title), area));
    return [
      lineChart(area, {
        x: rounds.map((round) => round.number),
        series: there,
        xLabel: "round",
        whole: true,
        yLabel: panel.title.toLowerCase(),
        marks: chosen === null ? [] : [{ x: chosen, label: "chosen" }],
        height: 220,
      }),
    ];
  }
}
