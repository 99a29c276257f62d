// Stretches of x that are shaded, behind the curves.

import type uPlot from "uplot";
import { variable } from "./theme";

/** Two columns of values, `step` frames apart, between which to shade. */
export interface Ribbon {
  low: Float32Array;
  high: Float32Array;
}

/** Fill what lies between two columns, where x is `unit` times the frame: of each pixel the widest. */
export function ribbon(u: uPlot, { low, high }: Ribbon, step: number, unit: number, paint: string): void {
  const { left, top, width, height } = u.bbox;
  const { min, max } = u.scales.x!;
  const [first, last] = [Math.max(0, Math.floor(min! / unit / step) - 1), Math.ceil(max! / unit / step) + 1];
  const end = Math.min(low.length, last + 1);
  const bucket = Math.max(1, Math.floor((end - first) / width));
  const [above, below]: [number, number][][] = [[], []];
  for (let i = first; i < end; i += bucket) {
    let [lowest, highest] = [Infinity, -Infinity];
    for (let j = i; j < Math.min(end, i + bucket); j++) {
      if (low[j]! < lowest) lowest = low[j]!;
      if (high[j]! > highest) highest = high[j]!;
    }
    if (lowest > highest) continue; // nothing is there
    const x = u.valToPos(i * step * unit, "x", true);
    above!.push([x, u.valToPos(highest, "y", true)]);
    below!.push([x, u.valToPos(lowest, "y", true)]);
  }
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.rect(left, top, width, height);
  u.ctx.clip();
  u.ctx.beginPath();
  for (const [x, y] of [...above!, ...below!.reverse()]) u.ctx.lineTo(x, y);
  u.ctx.globalAlpha = 0.16;
  u.ctx.fillStyle = paint;
  u.ctx.fill();
  u.ctx.restore();
}

/** Fill the plot from one x to another with a colour of the page, at least so many pixels wide. */
export function shade(u: uPlot, begin: number, end: number, paint: string, least = 0): void {
  const { left, top, width, height } = u.bbox;
  const inside = (x: number) => Math.min(left + width, Math.max(left, u.valToPos(x, "x", true)));
  const [from, to] = [inside(begin), inside(end)];
  if (to <= from) return;
  u.ctx.save();
  u.ctx.fillStyle = variable(paint);
  u.ctx.fillRect(from, top, Math.max(least, to - from), height);
  u.ctx.restore();
}
