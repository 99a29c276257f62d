// Tables that sort by every column. What is missing comes last, in either direction.

import { type Child, format, h } from "../dom";

export type Cell = string | number | null;

export interface Column {
  name: string;
  numeric: boolean;
  /** What a cell shows, where that is not just the number or text. */
  show?: (cell: Cell) => Child;
}

export interface Sorted {
  column: number;
  descending: boolean;
}

export interface SortableOptions {
  caption: string;
  sorted?: Sorted;
  /** Rows can be chosen: their first cells are buttons then. */
  onchoose?: (row: number) => void;
}

export interface Sortable {
  root: HTMLElement;
  choose(row: number): void;
}

/** Make a table of rows of cells. */
export function sortable(columns: Column[], rows: Cell[][], options: SortableOptions): Sortable {
  const body = h("tbody");
  const made = rows.map((cells, row) => makeRow(columns, cells, row, options));
  const sort = ({ column, descending }: Sorted) => {
    const order = rows.map((_, row) => row).sort((a, b) => compare(rows[a]![column]!, rows[b]![column]!, descending));
    body.replaceChildren(...order.map((row) => made[row]!));
    for (const [i, head] of heads.entries()) {
      head.setAttribute("aria-sort", i !== column ? "none" : descending ? "descending" : "ascending");
    }
  };
  const heads = columns.map(({ name, numeric }, column) => {
    const head = h("th", { scope: "col", class: numeric ? "number" : "", "aria-sort": "none" });
    const press = () => {
      const now = head.getAttribute("aria-sort");
      // Numbers: the largest first, at first.
      sort({ column, descending: now === "none" ? numeric : now === "ascending" });
    };
    head.append(h("button", { type: "button", onclick: press }, name));
    return head;
  });
  if (options.sorted) sort(options.sorted);
  else body.append(...made);
  const caption = h("caption", { class: "hidden" }, options.caption);
  const table = h("table", { class: options.onchoose ? "choosable" : "" }, caption);
  table.append(h("thead", {}, h("tr", {}, ...heads)), body);
  const root = h("div", { class: "scroll", role: "region", "aria-label": options.caption, tabindex: 0 }, table);
  const choose = (row: number) => {
    for (const [i, element] of made.entries()) {
      if (i === row) element.setAttribute("aria-current", "true");
      else element.removeAttribute("aria-current");
    }
  };
  return { root, choose };
}

function makeRow(columns: Column[], cells: Cell[], row: number, { onchoose }: SortableOptions): HTMLElement {
  const element = h("tr");
  for (const [i, { numeric, show }] of columns.entries()) {
    const cell = cells[i] ?? null;
    const shown = show ? show(cell) : typeof cell === "string" ? cell : format(cell);
    const first = i === 0 && onchoose ? h("button", { type: "button", class: "plain" }, shown) : shown;
    element.append(h("td", { class: numeric ? "number" : "" }, first));
  }
  if (onchoose) element.addEventListener("click", () => onchoose(row));
  return element;
}

function compare(a: Cell, b: Cell, descending: boolean): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  const up = typeof a === "number" && typeof b === "number" ? a - b : words.compare(String(a), String(b));
  return descending ? -up : up;
}

const words = new Intl.Collator("en", { numeric: true });
