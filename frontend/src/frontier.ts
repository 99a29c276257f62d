// The frontier: for each contender a path of points from rough to smooth, or a single point.

import uPlot from "uplot";
import { axis, logAxis, RIGHT, yAxis } from "./axes";
import { drawMarks, frame, living, type Mark, widthOf } from "./charts";
import { format, h } from "./dom";
import { legend } from "./legend";
import { colour, variable } from "./theme";

export interface Point {
  x: number;
  y: number;
  label: string;
}

export interface Curve {
  name: string;
  colour: number;
  points: Point[];
  kind: string; // "ours" is drawn boldest, "baseline" as hollow squares
}

export interface ScatterOptions {
  curves: Curve[];
  xLabel: string;
  yLabel: string;
  logX: boolean;
  mark?: Mark;
  height?: number;
}

const FEW = 9; // curves that still have room for their names beside them
const SIDES = [8, -8].flatMap((dx) => [0, -10, 10].map((dy) => [dx, dy] as const)); // of a point, for its name
const NEAR = 24; // pixels
const APART = 8; // errors that differ by more than that factor are drawn on a logarithmic scale
const WIDE = 560; // below that names only in the legend

/** Draw paths of points. Returns a function that takes them away. */
export function scatterPaths(root: HTMLElement, options: ScatterOptions): () => void {
  const { logX, mark, height = 380 } = options;
  const usable = (point: Point) => Number.isFinite(point.x) && Number.isFinite(point.y) && (!logX || point.x > 0);
  const curves = options.curves.map((curve) => ({ ...curve, points: curve.points.filter(usable) }));
  const hidden = new Set<number>();
  const seen = () => curves.filter((_, i) => !hidden.has(i));
  const entries = legend(
    curves.map(({ name, colour }) => ({ name, colour })),
    (i, shown) => {
      if (shown) hidden.delete(i);
      else hidden.add(i);
      plot.setData(plot.data);
    },
  );
  const extent = (pick: (point: Point) => number, more: number[]) => {
    const values = [...seen().flatMap(({ points }) => points.map(pick)), ...more];
    return values.length ? ([Math.min(...values), Math.max(...values)] as const) : ([0.5, 2] as const);
  };
  // A contender that failed must not press all others together.
  const [least, most] = extent(({ y }) => y, []);
  const logY = least > 0 && most / least > APART;
  const tip = h("div", { class: "tip", hidden: true });
  const plot = new uPlot(
    {
      width: widthOf(root),
      height,
      padding: [22, RIGHT, 0, 0],
      series: [{}, { show: true, paths: () => null, points: { show: false } }],
      scales: {
        x: {
          time: false,
          distr: logX ? 3 : 1,
          range: (u) => {
            const [low, high] = extent(({ x }) => x, mark ? [mark.x] : []);
            // Names stand to the right of points.
            return padded(low, high, logX, 0.06, named(u, curves) ? 0.14 : 0.06);
          },
        },
        y: {
          distr: logY ? 3 : 1,
          range: () => {
            const [low, high] = extent(({ y }) => y, []);
            return padded(low, high, logY, 0.08, 0.08);
          },
        },
      },
      axes: [
        logX ? logAxis(axis({ label: options.xLabel })) : axis({ label: options.xLabel }),
        logY ? logAxis({ ...yAxis({ label: options.yLabel }), least: 30 }) : yAxis({ label: options.yLabel }),
      ],
      cursor: { x: false, y: false, drag: { x: false, y: false }, points: { show: false } },
      legend: { show: false },
      hooks: {
        draw: [(u) => (mark ? drawMarks(u, [mark]) : undefined), (u) => drawCurves(u, seen())],
        setCursor: [(u) => point(u, seen(), tip, options)],
      },
    },
    [
      [0.5, 2],
      [0, 1],
    ],
    frame(root, `${options.yLabel} by ${options.xLabel}`, entries.root),
  );
  plot.over.append(tip);
  return living(root, plot, height, entries.destroy);
}

function named(u: uPlot, curves: Curve[]): boolean {
  return curves.length <= FEW && u.width >= WIDE;
}

/** Limits with some room on either side, as a share of their distance. */
function padded(low: number, high: number, log: boolean, below: number, above: number): [number, number] {
  if (log) {
    const apart = Math.max(high / low, 1.2);
    return [low / apart ** below, high * apart ** above];
  }
  const apart = Math.max(high - low, 0.02 * Math.abs(high), 1e-9);
  return [low - below * apart, high + above * apart];
}

function drawCurves(u: uPlot, curves: Curve[]): void {
  const { ctx } = u;
  const ratio = devicePixelRatio;
  const taken: [number, number, number, number][] = [];
  ctx.save();
  ctx.beginPath();
  ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  ctx.clip();
  ctx.lineJoin = "round";
  // Ours last: on top.
  const order = [...curves].sort((a, b) => Number(a.kind === "ours") - Number(b.kind === "ours"));
  for (const curve of order) {
    const ours = curve.kind === "ours";
    const spots = curve.points.map(({ x, y }) => [u.valToPos(x, "x", true), u.valToPos(y, "y", true)] as const);
    ctx.strokeStyle = ctx.fillStyle = colour(curve.colour);
    ctx.lineWidth = (ours ? 2.5 : 1.5) * ratio;
    ctx.beginPath();
    for (const [x, y] of spots) ctx.lineTo(x, y);
    ctx.stroke();
    for (const [x, y] of spots) spot(ctx, x, y, (ours ? 4.5 : 3.5) * ratio, curve.kind);
    for (const [x, y] of spots) taken.push([x - 5 * ratio, y - 5 * ratio, x + 5 * ratio, y + 5 * ratio]);
  }
  if (named(u, curves)) for (const curve of order.reverse()) writeName(u, curve, taken);
  ctx.restore();
}

function spot(ctx: CanvasRenderingContext2D, x: number, y: number, size: number, kind: string): void {
  ctx.beginPath();
  if (kind === "baseline") {
    const inner = size * 0.9;
    ctx.rect(x - inner, y - inner, 2 * inner, 2 * inner);
    ctx.save();
    ctx.fillStyle = variable("--card");
    ctx.fill();
    ctx.restore();
    ctx.stroke();
  } else {
    ctx.arc(x, y, size, 0, 2 * Math.PI);
    ctx.fill();
  }
}

/** Write the name of a curve beside one of its ends, where there is room; else only the legend has it. */
function writeName(u: uPlot, curve: Curve, taken: [number, number, number, number][]): void {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio;
  ctx.font = `${curve.kind === "ours" ? "600 " : ""}${12 * ratio}px system-ui, sans-serif`;
  const name = curve.name.length > 28 ? `${curve.name.slice(0, 27)}…` : curve.name;
  const [wide, high] = [ctx.measureText(name).width, 13 * ratio];
  const ends = [curve.points.at(-1), curve.points[0]].filter((point) => point !== undefined);
  for (const { x, y } of ends) {
    const [px, py] = [u.valToPos(x, "x", true), u.valToPos(y, "y", true)];
    for (const [dx, dy] of SIDES) {
      const left = dx > 0 ? px + dx * ratio : px + dx * ratio - wide;
      const box = [left, py + dy * ratio - high / 2, left + wide, py + dy * ratio + high / 2] as const;
      const inside =
        box[0] > bbox.left && box[2] < bbox.left + bbox.width && box[1] > bbox.top && box[3] < bbox.top + bbox.height;
      const free = taken.every(
        (other) => box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3],
      );
      if (!inside || !free) continue;
      taken.push([...box]);
      ctx.fillStyle = variable(curve.kind === "ours" ? "--ink" : "--faint");
      ctx.textAlign = "left";
      ctx.textBaseline = "middle";
      ctx.fillText(name, left, py + dy * ratio);
      return;
    }
  }
}

/** Say what is nearest to the pointer. */
function point(u: uPlot, curves: Curve[], tip: HTMLElement, options: ScatterOptions): void {
  const [left, top] = [u.cursor.left ?? -1, u.cursor.top ?? -1];
  let best = NEAR;
  tip.hidden = true;
  if (left < 0) return;
  for (const curve of curves) {
    for (const { x, y, label } of curve.points) {
      const [px, py] = [u.valToPos(x, "x"), u.valToPos(y, "y")];
      const away = Math.hypot(px - left, py - top);
      if (away >= best) continue;
      best = away;
      tip.hidden = false;
      const values = `${options.xLabel}: ${format(x)}\n${options.yLabel}: ${format(y)}`;
      tip.textContent = `${curve.name}${label ? `\n${label}` : ""}\n${values}`;
      const right = px > u.over.clientWidth / 2;
      tip.style.left = right ? "auto" : `${px + 12}px`;
      tip.style.right = right ? `${u.over.clientWidth - px + 12}px` : "auto";
      tip.style.top = `${Math.max(0, py - 20)}px`;
    }
  }
}
