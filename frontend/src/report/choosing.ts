// "How smooth should I choose?": the frontier of error and roughness, and the results of every contender.

import { scatterPaths } from "../charts";
import { h } from "../dom";
import type { Contender, Report } from "../payload";
import { type Section, section } from "./section";
import { type Cell, sortable } from "./sortable";

const COLOURS: Partial<Record<Contender["kind"], number>> = { ours: 1, path: 6 };
const OTHERS = [2, 3, 4, 5, 8, 9];

export function choosingSection(report: Report): Section | null {
  const drawn = report.frontier.filter(({ points }) => points.some((point) => point.roughness !== null));
  const { columns, rows } = report.table;
  if (drawn.length === 0 && rows.length === 0) return null;
  const words =
    "Each point is a policy: the lower, the closer to the expert; the further left, the smoother. " +
    "Whatever lies to the lower left of another is better in both. Rest the pointer on a point to see what it is.";
  const chart = h("div");
  const note = report.frontier_note ? h("p", { class: "faint" }, report.frontier_note) : null;
  const made = section(
    "smoothness",
    "Smoothness",
    "How smooth should I choose?",
    words,
    drawn.length ? chart : null,
    note,
  );
  if (rows.length) {
    const kinds = columns.map((name, i) => ({ name, numeric: rows.every((row) => typeof row[i] !== "string") }));
    const table = sortable(kinds, rows as Cell[][], { caption: "Results of every contender" });
    made.root.append(h("h3", {}, "Results"), table.root);
  }
  made.draw = () => {
    if (drawn.length) draw(chart, drawn);
  };
  return made;
}

function draw(root: HTMLElement, contenders: Contender[]): void {
  let next = 0;
  const curves = contenders.map(({ name, kind, points }) => ({
    name,
    kind,
    colour: COLOURS[kind] ?? OTHERS[next++ % OTHERS.length]!,
    points: points.map(({ roughness, error, label }) => ({
      x: roughness ?? Number.NaN,
      y: error ?? Number.NaN,
      label,
    })),
  }));
  scatterPaths(root, {
    curves,
    xLabel: "roughness (1: the expert's)",
    yLabel: "error (standard deviations)",
    logX: true,
    mark: { x: 1, label: "the expert's own" },
  });
}
