// Axes of all charts: their ink, their ticks, and the width they leave for labels.

import type uPlot from "uplot";
import { clock } from "./dom";
import { variable } from "./theme";

export const LEFT = 58; // pixels for the labels of y, the same in all charts: those above each other line up
export const RIGHT = 14;

const FONT = "12px system-ui, sans-serif";
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];

/** An axis in the colours of the page. */
export function axis(options: uPlot.Axis = {}): uPlot.Axis {
  const grid = { stroke: () => variable("--grid"), width: 1 };
  const label = options.label ? { labelFont: `13px system-ui, sans-serif`, labelSize: 22, labelGap: 2 } : {};
  return {
    stroke: () => variable("--faint"),
    font: FONT,
    grid,
    ticks: { ...grid, size: 4 },
    gap: 4,
    size: 28,
    ...label,
    ...options,
  };
}

/** The y axis: of fixed width. */
export function yAxis(options: uPlot.Axis = {}): uPlot.Axis {
  return axis({ size: options.label ? LEFT - 20 : LEFT, values: (_, splits) => splits.map(short), ...options });
}

/** An axis of seconds, counted from `origin`: plain ones, or minutes and seconds where there are many. */
export function timeAxis(seconds: number, origin = 0): uPlot.Axis {
  const fine = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
  const long = seconds >= 120;
  const write = (at: number) => (long && Number.isInteger(at) ? minutes(at) : String(Number(at.toFixed(3))));
  const splits: uPlot.Axis.Splits = (_, __, low, high, step) => {
    const first = Math.ceil((low - origin) / step - 1e-9);
    const last = Math.floor((high - origin) / step + 1e-9);
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => origin + (first + i) * step);
  };
  return axis({
    ...(origin ? { splits } : {}),
    incrs: long ? [...fine, ...TIMES] : [...fine, 1, 2, 5, 10, 20, 50, 100],
    values: (_, splits) =>
      splits.map((at) => (at === null ? "" : `${write(at - origin).replace("-", "−")}${long ? "" : " s"}`)),
    space: 70,
    size: 30,
  });
}

const minutes = (at: number) =>
  at === 0 ? "0:00" : Math.abs(at) < 120 ? `${Math.floor(at / 60)}:${String(at % 60).padStart(2, "0")}` : clock(at);

/** Ticks of a logarithmic scale: the densest of some ladders that are not too many. */
export function logTicks(low: number, high: number, most: number): number[] {
  if (!(low > 0) || !(high > low)) return [low];
  const ladders = [[1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8], [1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]];
  const powers: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) powers.push(power);
  for (const ladder of ladders) {
    const ticks = powers.flatMap((power) => ladder.map((step) => Number((step * 10 ** power).toPrecision(6))));
    const inside = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    if (inside.length <= most) return inside;
  }
  const stride = Math.ceil(powers.length / most);
  return powers.filter((power) => power % stride === 0).map((power) => 10 ** power);
}

/** A logarithmic axis with ticks at round numbers, however short it is. */
export function logAxis(options: uPlot.Axis & { least?: number }): uPlot.Axis {
  const least = options.least ?? 60;
  return {
    splits: (u, index, low, high) => {
      const pixels = index === 0 ? u.bbox.width : u.bbox.height;
      return logTicks(low, high, Math.max(2, pixels / devicePixelRatio / least));
    },
    values: (_, splits) => splits.map(short),
    filter: (_, splits) => splits,
    ...options,
  };
}

/** Write a tick: short, without needless digits. */
export function short(value: number | null): string {
  if (value === null) return "";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) {
    const [digits, power] = value.toExponential(1).split("e") as [string, string];
    const factor = digits === "1.0" ? "" : `${Number(digits)}·`.replace("-", "−");
    return `${factor}10${superscript(Number(power))}`;
  }
  return String(Number(value.toPrecision(6))).replace("-", "−");
}

function superscript(power: number): string {
  return [...String(power)].map((digit) => (digit === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)])).join("");
}
