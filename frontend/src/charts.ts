// Charts of numbers that do not run over time. Each returns a function that takes it away; colours follow the theme.

import uPlot from "uplot";
import { axis, logAxis, RIGHT, yAxis } from "./axes";
import { format, h, percent } from "./dom";
import { legend } from "./legend";
import type { Share } from "./payload";
import { colour, onTheme, PAPER, variable } from "./theme";

export { scatterPaths } from "./frontier";

export interface Line {
  name: string;
  colour: number;
  values: (number | null)[];
  dash?: number[];
  points?: boolean;
}

/** A labelled vertical line. */
export interface Mark {
  x: number;
  label: string;
}

export interface LineOptions {
  x: number[];
  series: Line[];
  xLabel: string;
  yLabel: string;
  logX?: boolean;
  logY?: boolean;
  whole?: boolean; // x counts something: ticks at whole numbers only
  marks?: Mark[];
  height?: number;
}

const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];

/** Draw lines over a common x. */
export function lineChart(root: HTMLElement, options: LineOptions): () => void {
  const { x, series, logX = false, logY = false, whole = false, marks = [], height = 240 } = options;
  // A logarithm of nothing does not exist: such points are left out.
  const kept = x.map((_, i) => i).filter((i) => !logX || x[i]! > 0);
  const visible = (value: number | null | undefined) => (value == null || (logY && value <= 0) ? null : value);
  const data = [kept.map((i) => x[i]!), ...series.map(({ values }) => kept.map((i) => visible(values[i])))];
  const entries = legend(
    series.map((one) => ({ ...one, dash: one.dash !== undefined })),
    (i, shown) => plot.setSeries(i + 1, { show: shown }),
  );
  const say = (u: uPlot) => {
    const i = u.cursor.idx ?? null;
    for (const [s, values] of data.slice(1).entries()) entries.say(s, i === null ? "" : format(values[i]));
    now.textContent = i === null ? "" : `${options.xLabel}: ${format(data[0]![i])}`;
  };
  const now = h("span", { class: "faint now" });
  const [first, last] = [data[0]![0] ?? 0, data[0]!.at(-1) ?? 1];
  const plot = new uPlot(
    {
      width: widthOf(root),
      height,
      padding: [marks.length ? 22 : 10, RIGHT, 0, 0],
      series: [{}, ...series.map(look)],
      scales: {
        x: { time: false, distr: logX ? 3 : 1, ...(first === last ? {} : { range: () => [first, last] }) },
        y: {
          distr: logY ? 3 : 1,
          ...(logY ? { range: (_, low, high) => [(low ?? 1) / 1.5, (high ?? 10) * 1.5] } : {}),
        },
      },
      axes: [
        logX
          ? logAxis(axis({ label: options.xLabel }))
          : axis({ label: options.xLabel, ...(whole ? { incrs: WHOLE } : {}) }),
        logY ? logAxis({ ...yAxis({ label: options.yLabel }), least: 30 }) : yAxis({ label: options.yLabel }),
      ],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
      legend: { show: false },
      hooks: { draw: [(u) => drawMarks(u, marks)], setCursor: [say] },
    },
    data as uPlot.AlignedData,
    frame(root, `${options.yLabel} by ${options.xLabel}`, series.length > 1 ? entries.root : null),
  );
  if (series.length > 1) entries.root.append(now);
  return living(root, plot, height, entries.destroy);
}

function look(line: Line): uPlot.Series {
  return {
    label: line.name,
    stroke: () => colour(line.colour),
    width: 2,
    spanGaps: false,
    pxAlign: 0,
    points: { show: line.points ?? false, size: 6, fill: () => colour(line.colour) },
    ...(line.dash ? { dash: line.dash } : {}),
  };
}

/** Draw shares as bars, the largest first or in their own order; beyond `most` the rest is one bar.
 *
 * They are a table: it can be read aloud and printed. */
export function shareBars(root: HTMLElement, shares: Share[], most: number, inOrder = false): () => void {
  const sorted = inOrder ? shares : [...shares].sort((a, b) => b.share - a.share);
  const rest = sorted.slice(most);
  const sum = rest.reduce((total, { share }) => total + share, 0);
  const shown = sorted.slice(0, most);
  if (rest.length) shown.push({ name: `${rest.length} more`, share: sum });
  const largest = Math.max(1e-12, ...shown.map(({ share }) => share));
  const rows = shown.map(({ name, share }) => {
    const bar = h("div", { class: "bar", style: { width: `${(100 * share) / largest}%` } });
    return h("tr", {}, h("td", {}, name), h("td", {}, bar), h("td", { class: "number" }, percent(share)));
  });
  const head = ["Name", "", "Share"].map((name) => h("th", { scope: "col", class: "hidden" }, name));
  const table = h("table", { class: "shares" }, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows));
  root.append(table);
  return () => table.remove();
}

/** A place for a plot that is a labelled group, below its legend. */
export function frame(root: HTMLElement, label: string, above: HTMLElement | null): HTMLElement {
  const area = h("div", { class: "area" });
  root.classList.add("chart");
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", label);
  if (above) root.append(above);
  root.append(area);
  return area;
}

/** Keep a plot as wide as its place and in the colours of the page; returns what ends that. */
export function living(root: HTMLElement, plot: uPlot, height: number, end: () => void): () => void {
  const fit = (width: number) => {
    if (width > 0 && width !== plot.width) plot.setSize({ width, height });
  };
  const observer = new ResizeObserver(() => fit(widthOf(root)));
  observer.observe(root);
  const unlisten = onTheme((printing) => {
    fit(printing ? Math.min(PAPER, widthOf(root)) : widthOf(root));
    plot.redraw(false);
  });
  return () => {
    observer.disconnect();
    unlisten();
    end();
    plot.destroy();
    root.replaceChildren();
  };
}

export function widthOf(root: HTMLElement): number {
  return Math.max(160, root.clientWidth);
}

/** Draw labelled vertical lines; a label that would leave the plot is written to the left. */
export function drawMarks(u: uPlot, marks: Mark[]): void {
  const { left, top, width, height } = u.bbox;
  const ratio = devicePixelRatio;
  u.ctx.save();
  u.ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  u.ctx.strokeStyle = u.ctx.fillStyle = variable("--faint");
  u.ctx.lineWidth = ratio;
  u.ctx.textAlign = "left";
  u.ctx.textBaseline = "alphabetic";
  for (const mark of marks) {
    const x = Math.round(u.valToPos(mark.x, "x", true)) + 0.5;
    if (x < left - 1 || x > left + width + 1) continue;
    u.ctx.setLineDash([5 * ratio, 4 * ratio]);
    u.ctx.beginPath();
    u.ctx.moveTo(x, top - 4 * ratio);
    u.ctx.lineTo(x, top + height);
    u.ctx.stroke();
    const wide = u.ctx.measureText(mark.label).width;
    const from = Math.min(Math.max(x - wide / 2, left), left + width - wide);
    u.ctx.fillText(mark.label, from, top - 8 * ratio);
  }
  u.ctx.restore();
}
