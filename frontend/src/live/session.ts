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
}

export interface Frame {
  n: number | null;
  t: number; // unix seconds
  a?: number[];
  by?: By;
  x?: (number | null)[];
  band?: [low: number[], high: number[]]; // between which the policy is sure that the action belongs
  shadows?: Record<string, number[]>; // what candidates would have done
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

export const USUAL_RATE = 30; // a second, where neither the policy nor its server says
const AROUND = 2; // seconds before and after a stretch
const KEPT = 20_000; // frames

export class Session {
  readonly frames: Frame[] = [];
  stretches: Stretch[] = [];
  skipped = 0;
  private made = 0;
  private readonly names = new Set<string>(); // of shadows
  private readonly around: number;

  constructor(readonly seated: Seated) {
    this.around = Math.round(AROUND * (seated.rate ?? USUAL_RATE));
  }

  get last(): Frame | null {
    return latest(this.frames, this.frames.length);
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
    }
    if (this.frames.length > KEPT) this.frames.splice(0, this.frames.length - KEPT);
  }

  /** What `read` finds in each of the latest `n` frames; NaN where there is nothing. */
  values(n: number, read: (frame: Frame) => number | undefined): Float32Array {
    const found = new Float32Array(n).fill(Number.NaN);
    const from = Math.max(0, this.frames.length - n);
    for (let k = from; k < this.frames.length; k++) {
      found[n - this.frames.length + k] = read(this.frames[k]!) ?? Number.NaN;
    }
    return found;
  }

  /** The candidates that act beside the policy at work. */
  get shadows(): string[] {
    return [...this.names];
  }

  private follow(frame: Frame): void {
    const stretch = this.stretches.at(-1);
    const open = stretch !== undefined && !stretch.done;
    if (frame.by === "operator" && (!open || stretch.last < stretch.frames.length)) {
      if (open) stretch.done = true;
      const before = this.frames.slice(-this.around);
      const first = before.length;
      const frames = [...before, frame];
      this.stretches.push({ id: ++this.made, frames, first, last: first + 1, done: false, leftOut: false });
    } else if (open) {
      stretch.frames.push(frame);
      if (frame.by === "operator") stretch.last = stretch.frames.length;
      else stretch.done = stretch.frames.length - stretch.last >= this.around;
    }
  }
}

/** The latest of the first n frames that has an action. */
function latest(frames: Frame[], n: number): Frame | null {
  for (let i = n - 1; i >= 0; i--) if (frames[i]!.a !== undefined) return frames[i]!;
  return null;
}

/** Seconds under the operator. */
export const seconds = ({ frames, first, last }: Stretch): number => frames[last - 1]!.t - frames[first]!.t;

/** How far the operator went from where the policy stood when it was taken over, in the mean; null where nobody knows. */
export function correction({ frames, first, last }: Stretch, i: number): number | null {
  const stood = latest(frames, first)?.a?.[i];
  if (stood === undefined) return null;
  const away = frames.slice(first, last).flatMap((frame) => (frame.a ? [Math.abs(frame.a[i]! - stood)] : []));
  return away.reduce((sum, by) => sum + by, 0) / away.length;
}

/** The frames under the operator as a table that `simile.read` takes, without what was left out. */
export function table({ stream, contexts, actions }: Seated, stretches: Stretch[]): string {
  const quoted = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const rows = [["sequence", "n", "t", ...contexts, ...actions, "who"]];
  for (const { id, frames, first, last } of stretches.filter(({ leftOut }) => !leftOut)) {
    for (const { n, t, a, x } of frames.slice(first, last)) {
      const values = [...contexts.map((_, j) => x?.[j] ?? ""), ...actions.map((_, j) => a?.[j] ?? "")];
      rows.push([`${stream} ${id}`, String(n ?? ""), String(t), ...values.map(String), "operator"]);
    }
  }
  return rows.map((row) => `${row.map(quoted).join(",")}\n`).join("");
}
