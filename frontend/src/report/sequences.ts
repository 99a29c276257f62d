// "Where does it err?": all held-out sequences in a table, the worst first.

import { clock, format, h } from "../dom";
import type { Report } from "../payload";
import { type Section, section } from "./section";
import { type Cell, type Column, type Sortable, sortable } from "./sortable";

const MOST_ACTIONS = 6; // columns for single actions, at most

export function sequencesSection(report: Report, onchoose: (row: number) => void): { made: Section; table: Sortable } {
  const { rate, sequences } = report;
  const actions = report.actions.length > 1 ? report.actions.slice(0, MOST_ACTIONS) : [];
  const worst = Math.max(1e-12, ...sequences.map(({ error }) => error ?? 0));
  const bar = (cell: Cell) => {
    const share = typeof cell === "number" ? (100 * cell) / worst : 0;
    const inner = h("div", { class: "bar", style: { width: `${share}%` } });
    return h(
      "div",
      { class: "barred" },
      h("div", { class: "track" }, inner),
      h("span", {}, format(cell as number | null)),
    );
  };
  const length = (cell: Cell) => (rate ? clock((cell as number) / rate) : format(cell as number));
  const columns: Column[] = [
    { name: "Sequence", numeric: false },
    { name: "Error", numeric: true, show: bar },
    { name: "Roughness", numeric: true },
    { name: "Late by (frames)", numeric: true, show: (cell) => format(cell as number | null, 2) },
    { name: rate ? "Length" : "Frames", numeric: true, show: length },
    ...actions.map((name) => ({ name: `RMSE of ${name}`, numeric: true })),
  ];
  const rows = sequences.map(({ name, error, roughness, lag, frames, rmse }) => [
    name,
    error,
    roughness,
    lag,
    frames,
    ...actions.map((_, i) => rmse[i] ?? null),
  ]);
  const sorted = { column: 1, descending: true };
  const table = sortable(columns, rows, { caption: "Errors of sequences", sorted, onchoose });
  table.root.classList.add("tall");
  const words =
    "One row for each sequence, the worst first; choose one to see its curves. The error is the root of the " +
    "mean squared difference, in standard deviations of the expert's actions: 0 is the expert itself, 1 no better " +
    "than a constant. Roughness 1 is as smooth as the expert.";
  return { made: section("errors", "Errors", "Where does it err?", words, table.root), table };
}
