// Lanes between the curves and the ticks: in each a bar wherever its curve rests.

import type uPlot from "uplot";
import { variable } from "./theme";

export const LANE = 9; // pixels, with the gap below it
const [BELOW, BAR] = [6, 6];

/** Say left of so many lanes what they are. */
export function nameLanes(u: uPlot, lanes: number): void {
  const middle = BELOW + (lanes * LANE - (LANE - BAR)) / 2;
  u.ctx.save();
  u.ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  u.ctx.textAlign = "right";
  u.ctx.textBaseline = "middle";
  u.ctx.fillStyle = variable("--faint");
  u.ctx.fillText("at rest", u.bbox.left - 8 * devicePixelRatio, u.bbox.top + u.bbox.height + middle * devicePixelRatio);
  u.ctx.restore();
}

/** Fill the i-th lane where something rests: first and last frame in turn, `unit` of x each. */
export function lane(u: uPlot, i: number, holds: number[], unit: number, paint: string): void {
  const { left, top, width, height } = u.bbox;
  const right = left + width;
  const at = top + height + (BELOW + i * LANE) * devicePixelRatio;
  const fill = (from: number, to: number) => u.ctx.fillRect(from, at, to - from, BAR * devicePixelRatio);
  const place = (frame: number) => u.valToPos(frame * unit, "x", true);
  u.ctx.save();
  u.ctx.fillStyle = variable("--grid");
  fill(left, right);
  u.ctx.fillStyle = paint;
  for (let n = 0; n + 1 < holds.length; n += 2) {
    const [from, to] = [place(holds[n]!), place(holds[n + 1]!)];
    if (from >= right) break;
    if (to > left) fill(Math.max(left, from), Math.min(right, to));
  }
  u.ctx.restore();
}
