// What was seen of a stream: its latest frames, and the stretches in which somebody had it in hand.

export type By = "policy" | "gap" | "operator";

/** What a service says when an operator sits down. */
export interface Seated {
  stream: string;
  live: boolean;
  operated: boolean;
  rate: number | null;
  contexts: string[];
  actions: string[];
  low: (number | null)[];
  high: (number | null)[];
  lead?: number; // frames from the one that has come to the one that an action is for
}

export interface Frame {
  n: number | null;
  t: number; // unix seconds
  a?: number[];
  by?: By;
  x?: (number | null)[];
  band?: [low: number[], high: number[]]; // between which the policy is sure that the action belongs
  shadows?: Record<string, number[]>; // what candidates would have done
  for?: number; // the frame that the action is for, where it is another one
}

/** A stretch under an operator, with a little of what was before and after. */
export interface Stretch {
  id: number;
  frames: Frame[];
  first: number; // of the frames under the operator
  last: number; // and the one after
  done: boolean;
  leftOut: boolean;
}

/** What a studio must know of a stretch that is left out. */
export interface LeftOut {
  stream: string;
  t: number; // when the first frame came
  until: number; // and the last
  first: number;
  last: number;
}

export const USUAL_RATE = 30; // a second, where neither the policy nor its server says
const AROUND = 2; // seconds before and after a stretch
const TOGETHER = 1; // seconds that a policy may act between two stretches that are one, as in a recording
const HOLE = 2; // seconds without a frame that are a hole in a curve
const RECENT = 10; // frames that tell how fast they come
const KEPT = 20_000; // frames

export class Session {
  readonly frames: Frame[] = [];
  stretches: Stretch[] = [];
  skipped = 0;
  private made = 0;
  private readonly names = new Set<string>(); // of shadows
  private readonly largest: number[]; // that each action was, whatever its sign
  private readonly around: number;

  constructor(
    readonly seated: Seated,
    readonly service = "",
  ) {
    this.around = Math.max(Math.round(AROUND * this.rate), Math.abs(seated.lead ?? 0));
    this.largest = seated.actions.map(() => 0);
  }

  /** Frames a second; what is shown has as many places. */
  get rate(): number {
    return this.seated.rate ?? USUAL_RATE;
  }

  /** Seconds between two frames, as they come or as they are said to: the longer of both. */
  get period(): number {
    return period(this.frames, this.rate);
  }

  get last(): Frame | null {
    return latest(this.frames, this.frames.length);
  }

  /** Whether what somebody sees at a seat goes on with what was seen here. */
  fits(service: string, seated: Seated): boolean {
    const facts = ({ stream, rate, contexts, actions, low, high, lead = 0 }: Seated) =>
      JSON.stringify([stream, rate, contexts, actions, low, high, lead]);
    return service === this.service && facts(seated) === facts(this.seated);
  }

  /** Take what came since the last time. */
  add(frames: Frame[], skipped = 0): void {
    this.skipped += skipped;
    const { shadows } = frames.at(-1) ?? {};
    for (const frame of frames) {
      // Candidates are told of with the newest frame; those before it are of the same moment.
      if (shadows) frame.shadows = shadows;
      this.follow(frame);
      this.frames.push(frame);
      for (const name of Object.keys(frame.shadows ?? {})) this.names.add(name);
      frame.a?.forEach((value, i) => {
        this.largest[i] = Math.max(this.largest[i]!, Math.abs(value));
      });
    }
    if (this.frames.length > KEPT) this.frames.splice(0, this.frames.length - KEPT);
  }

  /** What `read` finds at the latest `n` places in time; see `lay`. */
  values(n: number, read: (frame: Frame) => number | undefined, holds = false): Float32Array {
    return lay(this.frames, this.rate, n, read, holds);
  }

  /** The candidates that act beside the policy at work. */
  get shadows(): string[] {
    return [...this.names];
  }

  /** How far the operator went with an action; 0 where that is nothing beside what the action is. */
  went(stretch: Stretch, i: number): number | null {
    const by = correction(stretch, i);
    return by !== null && by < 1e-4 * this.largest[i]! ? 0 : by;
  }

  /** The stretches that are left out, as a studio knows them again in a recording. */
  get leftOut(): LeftOut[] {
    return this.stretches.flatMap((stretch) => {
      // At the beginning of a stream whose policy waits, actions are for frames that never were, and in no recording.
      const counted = stretch.leftOut ? underOperator(stretch).filter((frame) => (meant(frame) ?? -1) >= 0) : [];
      if (counted.length === 0) return [];
      const [first, last] = [counted[0]!, counted.at(-1)!];
      return [{ stream: this.seated.stream, t: first.t, until: last.t, first: meant(first)!, last: meant(last)! }];
    });
  }

  private follow(frame: Frame): void {
    const stretch = this.stretches.at(-1);
    const open = stretch !== undefined && !stretch.done;
    if (frame.by === "operator" && !(open && this.joins(stretch, frame))) {
      if (open) stretch.done = true;
      const since = frame.t - HOLE - this.around / this.rate;
      const before = this.frames.slice(-this.around).filter(({ t }) => t >= since);
      const first = before.length;
      const frames = [...before, frame];
      this.stretches.push({ id: ++this.made, frames, first, last: first + 1, done: false, leftOut: false });
    } else if (frame.by === "operator") {
      stretch!.frames.push(frame);
      stretch!.last = stretch!.frames.length;
    } else if (open) {
      // Somebody may look at another stream meanwhile: what comes after that is not around it.
      stretch.done = frame.t - stretch.frames.at(-1)!.t > Math.max(HOLE, 2 * this.period);
      if (stretch.done) return;
      stretch.frames.push(frame);
      stretch.done = stretch.frames.length - stretch.last >= this.around;
    }
  }

  /** Whether a frame under the operator is of the same stretch: a recording counts alike, and forgets or learns both. */
  private joins({ frames, last }: Stretch, frame: Frame): boolean {
    const [from, to] = [meant(frames[last - 1]!), meant(frame)];
    if (from === null || to === null) return last === frames.length;
    return to > from && to - from <= 1 + TOGETHER * this.rate;
  }
}

/** The sessions of all streams that were looked at: what was left out of one stays so while another is shown. */
export class Sessions {
  private readonly all: Session[] = [];

  /** Go on with the session of a stream, or begin one: a service may act otherwise than before. */
  open(service: string, seated: Seated): Session {
    const found = this.all.find((session) => session.fits(service, seated)) ?? new Session(seated, service);
    if (!this.all.includes(found)) this.all.push(found);
    return found;
  }

  get leftOut(): LeftOut[] {
    return this.all.flatMap(({ leftOut }) => leftOut);
  }
}

/** The number of the frame that an action is for. */
const meant = ({ n, for: other }: Frame): number | null => other ?? n;

/** Its place in time, of so many a second. */
const cell = ({ t }: Frame, rate: number): number => Math.round(t * rate);

function period(frames: Frame[], rate: number): number {
  const some = frames.slice(-RECENT);
  const seen = some.length > 1 ? (some.at(-1)!.t - some[0]!.t) / (some.length - 1) : 0;
  return Math.max(seen, 1 / rate);
}

/** Which place in time a frame has among some, the first being 0. */
export const place = (frames: Frame[], rate: number, k: number): number =>
  cell(frames[k]!, rate) - cell(frames[0]!, rate);

/**
 * What `read` finds at `n` places in time, `rate` of them a second, of which the last is the latest frame's; NaN where
 * there is nothing. Between two frames that are close lies a line or, with `holds`, the first of them.
 */
export function lay(
  frames: Frame[],
  rate: number,
  n: number,
  read: (frame: Frame) => number | undefined,
  holds = false,
): Float32Array {
  const found = new Float32Array(n).fill(Number.NaN);
  const last = frames.at(-1);
  if (last === undefined) return found;
  const begin = cell(last, rate) - n + 1;
  const hole = Math.max(HOLE, 3 * period(frames, rate)) * rate;
  let [after, next] = [Number.POSITIVE_INFINITY, Number.NaN]; // place and value of the frame after
  for (let k = frames.length - 1; k >= 0; k--) {
    const at = cell(frames[k]!, rate) - begin;
    const value = read(frames[k]!) ?? Number.NaN;
    if (after - at <= hole) {
      for (let i = Math.max(0, at + 1); i < after; i++) {
        found[i] = holds ? value : value + ((next - value) * (i - at)) / (after - at);
      }
    }
    if (at < 0) break;
    if (at < after) [found[at], after, next] = [value, at, value];
  }
  return found;
}

/** The latest of the first n frames that has an action. */
function latest(frames: Frame[], n: number): Frame | null {
  for (let i = n - 1; i >= 0; i--) if (frames[i]!.a !== undefined) return frames[i]!;
  return null;
}

const underOperator = ({ frames, first, last }: Stretch): Frame[] =>
  frames.slice(first, last).filter(({ by }) => by === "operator");

/** Seconds under the operator. */
export function seconds({ frames, first, last }: Stretch): number {
  let sum = 0;
  for (let k = first + 1; k < last; k++) {
    const [before, now] = [frames[k - 1]!, frames[k]!];
    if (before.by === "operator" && now.by === "operator") sum += now.t - before.t;
  }
  return sum;
}

/** How far the operator went from where the policy stood when it was taken over, in the mean; null where nobody knows. */
export function correction(stretch: Stretch, i: number): number | null {
  const stood = latest(stretch.frames, stretch.first)?.a?.[i];
  if (stood === undefined) return null;
  const away = underOperator(stretch).flatMap(({ a }) => (a ? [Math.abs(a[i]! - stood)] : []));
  return away.reduce((sum, by) => sum + by, 0) / away.length;
}

/**
 * What the operator did as a table that `simile.read` takes, without what was left out: each action beside the contexts
 * of the frame that it is for. Parts between which the policy acted are sequences of their own. Times are as even as the
 * frames were meant to be, where that is known: as they came, every stretch would seem to have a rate of its own.
 */
export function table({ stream, rate, contexts, actions }: Seated, stretches: Stretch[]): string {
  const quoted = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const rows = [["sequence", "t", ...contexts, ...actions, "who"]];
  for (const { id, frames, first, last } of stretches.filter(({ leftOut }) => !leftOut)) {
    const numbered = new Map(frames.map((frame) => [frame.n, frame]));
    const { n: origin, t: begin } = frames[first]!;
    const time = ({ n, t }: Frame): number => (rate && n !== null && origin !== null ? begin + (n - origin) / rate : t);
    let part = 1;
    for (let k = first; k < last; k++) {
      const frame = frames[k]!;
      if (frame.by !== "operator") {
        part += frames[k - 1]!.by === "operator" ? 1 : 0;
        continue;
      }
      const seen = frame.for === undefined ? frame : numbered.get(frame.for);
      if (seen === undefined) continue; // it has not come yet, or was not shown
      const values = [...contexts.map((_, j) => seen.x?.[j] ?? ""), ...actions.map((_, j) => frame.a?.[j] ?? "")];
      const name = `${stream} ${id}${part > 1 ? `.${part}` : ""}`;
      rows.push([name, String(Number(time(seen).toFixed(6))), ...values.map(String), "operator"]);
    }
  }
  return rows.map((row) => `${row.map(quoted).join(",")}\n`).join("");
}
