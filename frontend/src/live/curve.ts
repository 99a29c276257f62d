// The curve of one action as it comes, with the lever that takes it in hand.
import { h } from "../dom";
import { TimeChart, type Track } from "../timechart";
import { Lever } from "./lever";
import type { Session } from "./session";

const SHADOWS = [3, 4, 2, 8, 9, 6]; // colours
const DASH = [4, 4];
const MARGIN = 0.25; // of what was seen, above and below it
const EDGE = 0.004; // of what can be seen, by which it grows while the lever is held there

export class Curve {
  readonly root: HTMLElement;
  readonly lever: Lever;
  private readonly chart: TimeChart;
  private span: [number, number] | null = null;
  private drawn = 0; // places in time

  constructor(
    private readonly session: Session,
    readonly index: number,
  ) {
    const name = session.seated.actions[index]!;
    const root = h("div", {});
    this.chart = new TimeChart(root, {
      height: session.seated.actions.length === 1 ? 320 : 220,
      label: `${name} as it comes`,
      strip: false,
    });
    this.root = h("div", { class: "curve" }, root);
    this.lever = new Lever(name, this.chart, this.root);
    this.root.append(this.lever.root);
  }

  /** Draw the latest `n` places in time; `aim` is what somebody here wants. */
  show(n: number, aim: number | null): void {
    const { seated, last, rate } = this.session;
    const i = this.index;
    const tracks = this.tracks(n);
    const now = last?.a?.[i];
    this.widen(tracks, aim);
    const span = this.span ?? [0, 1];
    const name = seated.actions[i]!;
    this.chart.show({ tracks, rate, step: 1, begins: 0, unit: name, origin: n, span }, n === this.drawn);
    this.drawn = n;
    if (now !== undefined) this.lever.place(aim ?? now, span, aim !== null);
  }

  /** What was sent and, where the service tells it, the band around it and what candidates would have sent. */
  private tracks(n: number): Track[] {
    const { session, index: i } = this;
    const found: Track[] = [
      { name: session.seated.actions[i]!, colour: 1, values: session.values(n, ({ a }) => a?.[i]), width: 1.75 },
    ];
    const band = { colour: 7, width: 1, dash: DASH };
    if (session.last?.band) {
      found.push({ name: "band, low", ...band, values: session.values(n, (frame) => frame.band?.[0][i]) });
      found.push({ name: "band, high", ...band, values: session.values(n, (frame) => frame.band?.[1][i]) });
    }
    session.shadows.forEach((name, k) => {
      const values = session.values(n, ({ shadows }) => shadows?.[name]?.[i]);
      found.push({ name, colour: SHADOWS[k % SHADOWS.length]!, width: 1.25, values });
    });
    return found;
  }

  destroy(): void {
    this.chart.destroy();
  }

  /** See all that came; what can be seen never shrinks, so that the lever does not move by itself. */
  private widen(tracks: Track[], aim: number | null): void {
    let [low, high] = aim === null ? [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY] : [aim, aim];
    for (const { values } of tracks) {
      for (const value of values) {
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    if (low > high) return;
    const { low: lowest, high: highest } = this.session.seated;
    const limits: [number | null, number | null] = [lowest[this.index] ?? null, highest[this.index] ?? null];
    if (this.span === null || low < this.span[0] || high > this.span[1]) {
      const from = Math.min(low, this.span?.[0] ?? low);
      const to = Math.max(high, this.span?.[1] ?? high);
      const room = MARGIN * (to - from || Math.abs(to) || 1);
      this.span = [Math.max(from - room, limits[0] ?? from - room), Math.min(to + room, limits[1] ?? to + room)];
      if (this.span[0] >= this.span[1]) this.span = [from - room, to + room];
    } else if (aim !== null) {
      const room = EDGE * (this.span[1] - this.span[0]);
      if (aim - this.span[0] < room) this.span = [Math.max(this.span[0] - room, limits[0] ?? -Infinity), this.span[1]];
      if (this.span[1] - aim < room) this.span = [this.span[0], Math.min(this.span[1] + room, limits[1] ?? Infinity)];
    }
  }
}
