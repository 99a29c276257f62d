// "How did the training go?": what each round of the reduction brought; of a mixture, what it is made of.

import { type Line, lineChart } from "../charts";
import { format, h } from "../dom";
import type { Report, Round } from "../payload";
import { type Section, section } from "./section";
import { type Cell, sortable } from "./sortable";

type Value = (round: Round) => number | null;

interface Plan {
  title: string;
  yLabel: string;
  lines: { name: string; colour: number; value: Value; dash?: number[] }[];
}

const DASH = [6, 4];
const PLANS: Plan[] = [
  {
    title: "Error",
    yLabel: "standard deviations",
    lines: [
      { name: "training", colour: 1, value: (round) => round.error, dash: DASH },
      { name: "validation", colour: 1, value: (round) => round.validation_error },
    ],
  },
  {
    title: "Roughness",
    yLabel: "1: the expert's",
    lines: [
      { name: "training", colour: 3, value: (round) => round.roughness, dash: DASH },
      { name: "validation", colour: 3, value: (round) => round.validation_roughness },
    ],
  },
  {
    title: "How much of the newest policy it takes on (β)",
    yLabel: "β",
    lines: [{ name: "β", colour: 5, value: (round) => round.beta }],
  },
  {
    title: "Share of its own trajectory in the targets (σ)",
    yLabel: "σ",
    lines: [{ name: "σ", colour: 4, value: (round) => round.sigma }],
  },
];

const MIXED =
  "The policy is the sum of models, each fitted to the expert's action of now, of a little later, or sharpened, so that " +
  "what is behind them may smooth it. Their shares are those with which they come closest to the expert in recordings " +
  "that they have not seen.";

const share = (cell: Cell) => format(cell as number | null, 2);

export function trainingSection(report: Report): Section | null {
  const { rounds, mixture } = report;
  if (mixture !== null) {
    const columns = mixture.columns.map((name, i) =>
      i > 1 ? { name, numeric: true, show: share } : { name, numeric: false },
    );
    const table = sortable(columns, mixture.rows as Cell[][], { caption: "What the policy consists of" });
    return section("training", "Parts", "What is it made of?", MIXED, table.root);
  }
  if (rounds.length === 0) return null;
  if (rounds.length === 1) return section("training", "Training", "How did the training go?", single(rounds[0]!));
  const plans = PLANS.map((plan) => ({
    ...plan,
    lines: plan.lines.filter(({ value }) => rounds.some((round) => value(round) !== null)),
  })).filter(({ lines }) => lines.length > 0);
  const roots = plans.map(() => h("div"));
  const panels = plans.map(({ title }, i) => h("div", { class: "panel" }, h("h3", {}, title), roots[i]));
  const grid = h("div", { class: "multiples" }, ...panels);
  const made = section("training", "Training", "How did the training go?", caption(report), grid);
  made.draw = () => {
    for (const [i, plan] of plans.entries()) draw(roots[i]!, plan, report);
  };
  return made;
}

function draw(root: HTMLElement, plan: Plan, { rounds, chosen }: Report): void {
  const series: Line[] = plan.lines.map(({ value, ...line }) => ({ ...line, points: true, values: rounds.map(value) }));
  lineChart(root, {
    x: rounds.map(({ number }) => number),
    series,
    xLabel: "round",
    yLabel: plan.yLabel,
    marks: chosen === null ? [] : [{ x: chosen, label: "chosen" }],
    height: 210,
    whole: true,
  });
}

function single(round: Round): string {
  const kept = round.validation_error === null ? "" : `, ${format(round.validation_error)} on validation data`;
  return (
    `There was a single round, so there is no curve to draw: its error was ${format(round.error)} in training${kept} ` +
    `(in standard deviations of the expert's actions), its roughness ${format(round.roughness)} (1: the expert's).`
  );
}

function caption({ rounds, chosen }: Report): string {
  const diverged = rounds.filter((round) => round.diverged).map(({ number }) => number);
  const words = [`${rounds.length} rounds; each trains a policy and takes on as much of it (β) as helps.`];
  if (chosen !== null) words.push(`Round ${chosen} was chosen.`);
  if (diverged.length === 1) words.push(`Round ${diverged[0]} diverged.`);
  if (diverged.length > 1) words.push(`Rounds ${diverged.join(", ")} diverged.`);
  return words.join(" ");
}
