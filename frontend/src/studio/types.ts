// What the studio's server says, as JSON.
import type { Contender, Round } from "../payload";

export interface Column {
  name: string;
  kind: string; // "number", "text", "time", ...
}

export interface Understood {
  summary: string; // what `simile.read` prints
  actions: string[];
  contexts: string[];
  sequence: string | null;
  group: string | null; // what is held out as a whole
  time: string | null;
  rate: number | null;
  sequences: { name: string; frames: number }[];
}

/** How a table is to be read; what is left out is guessed. */
export interface ReadOptions {
  actions?: string[];
  contexts?: string[];
  sequence?: string;
  group?: string;
  time?: string;
  time_unit?: string;
  rate?: number;
  gap?: number;
  resample?: number;
}

export interface Data {
  id: string;
  name: string;
  kind: "table" | "games";
  frames: number | null;
  status: "ready" | "choose" | "broken";
  columns: Column[];
  understood: Understood | null;
  options: ReadOptions;
  error: string | null;
  bytes: number;
}

export interface Run {
  id: string;
  name: string;
  kind: "train" | "compare";
  data: string;
  parent: string | null;
  status: "waiting" | "running" | "done" | "stopped" | "failed";
  error: string | null;
  smoothness: number | null; // lambda of its policy, the mean over the actions
  summary: string | null; // its policy in a line: lambda and hold of each action
  options: Record<string, string | number | boolean | string[] | null>;
  started: string; // ISO
  seconds: number | null;
  rounds: Round[];
  fits: { what: string; done: number; steps: number } | null; // of a mixture
  chosen: number | null;
  verdict: string | null;
  notes: string[];
  contenders_done: string[];
  contenders_total: number;
  table: { columns: string[]; rows: (string | number | null)[][] } | null;
  frontier: Contender[];
  has: { policy: boolean; report: boolean; court: boolean };
  command: string;
  python: string;
}

export interface State {
  version: string;
  limits: { upload: number };
  algorithms: string[];
  data: Data[];
  runs: Run[];
}

export type Message =
  | ({ type: "state" } & State)
  | { type: "data"; data: Data }
  | { type: "run"; run: Run }
  | { type: "gone"; data?: string; run?: string };

/** The held-out sequences of a run, and how far its smoothness may be slid. */
export interface Sequences {
  actions: string[];
  rate: number | null;
  sequences: { name: string; frames: number }[];
  smoothness: { now: number; low: number; high: number };
  begins: number;
  hold: number[] | null; // how far each action holds still, in its units
  stepping: boolean[] | null; // whether it steps rather than glides
}

/** A policy rolled out over a sequence: of each curve, of each action, its samples. */
export interface Rolled {
  curves: string[];
  actions: string[];
  frames: number;
  step: number;
  begins: number;
  rate: number | null;
  smoothness: number | null;
  rmse: number | null; // in standard deviations of the expert's actions
  roughness: number | null; // 1: the expert's
  reversals: [policy: number | null, expert: number | null]; // a minute, or per 1,000 frames without a rate
  rest: [policy: number | null, expert: number | null]; // share of time
  lag: number | null; // frames late
  preview: boolean;
  hold: number[] | null; // how far each action holds still, in its units
  stepping: boolean[] | null; // whether it steps rather than glides
  milliseconds: number;
  values: Float32Array[][];
}

/** What a new run is asked to be. */
export interface Wish {
  kind: "train" | "compare";
  data: string;
  parent?: string;
  [option: string]: string | number | boolean | number[] | undefined;
}

export interface GamesWish {
  n_games: number;
  minutes: number;
  axes: number;
  sport: string;
  seed: number;
}

export const busy = (run: Run): boolean => run.status === "waiting" || run.status === "running";
