// Stretches of x that are shaded, behind the curves.

import type uPlot from "uplot";
import { variable } from "./theme";

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
