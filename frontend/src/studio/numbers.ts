// How good what is drawn is, in numbers: a row for every policy in the plot.
import { format, h } from "../dom";
import { colour } from "../theme";
import type { Rolled } from "./types";
import { lateness } from "./words";

export interface Row {
  name: string;
  colour: number;
  rolled: Rolled;
}

const HEADS: [text: string, title: string][] = [
  ["Policy", ""],
  ["λ", "How smooth it was asked to be"],
  ["Error", "RMSE on this sequence, in standard deviations of the expert’s actions"],
  ["Roughness", "Mean absolute second difference, 1 for the expert’s own"],
  ["Reversals", "How often it turns round a minute, or per 1,000 frames without a rate (the expert)"],
  ["Rest", "Share of the time that it rests (the expert)"],
  ["Holds", "How far what it wants may move before this action does; then it glides along, or steps"],
  ["Lag", "How late it is behind the expert"],
];

export function numbersTable(): { root: HTMLElement; update(rows: Row[], action: number): void } {
  const heads = HEADS.map(([text, title], i) => h("th", { scope: "col", title, class: i ? "number" : null }, text));
  const body = h("tbody", {});
  const table = h(
    "table",
    { class: "numbers" },
    h("caption", { class: "hidden" }, "The policies in the plot, on this sequence"),
    h("thead", {}, h("tr", {}, ...heads)),
    body,
  );
  const update = (rows: Row[], action: number): void => body.replaceChildren(...rows.map((row) => rowOf(row, action)));
  return { root: h("div", { class: "scroll" }, table), update };
}

function rowOf({ name, colour: i, rolled }: Row, action: number): HTMLElement {
  const dot = h("span", { class: rolled.preview ? "dot on hollow" : "dot on", style: { "--dot": colour(i) } });
  const cells = [
    format(rolled.smoothness),
    format(rolled.rmse),
    rolled.roughness === null ? "–" : `${format(rolled.roughness, 2)} ×`,
    `${format(rolled.reversals[0], 2)} (${format(rolled.reversals[1], 2)})`,
    `${format(rolled.rest[0], 2)} (${format(rolled.rest[1], 2)})`,
    holding(rolled, action),
    lateness(rolled.lag, rolled.rate),
  ];
  const head = h("th", { scope: "row" }, dot, name);
  return h("tr", {}, head, ...cells.map((text) => h("td", { class: "number" }, text)));
}

function holding({ hold, stepping }: Rolled, action: number): string {
  const width = hold?.[action];
  return width ? `${stepping?.[action] ? "steps beyond" : "within"} ${format(width, 2)}` : "–";
}
