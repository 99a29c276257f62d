// What the Python side (simile.evaluation.report) puts into a report, and the studio sends: plain data, no HTML.
// Numbers that do not exist (NaN) arrive as null.

/** Values (frames, columns) as text: whole multiples of `unit` above `offset` in 16 bits, as differences in time,
 * column after column, deflated (zlib) and in base64. -32768 stands for a missing value. */
export interface Packed {
  unit: number[]; // of each column
  offset: number[];
  columns: number;
  frames: number;
  values: string;
  holds: number[][]; // of each column: the first and the last frame of a rest, of the next, and so on
}

/** One of the questions that every report answers. */
export interface Answer {
  question: string; // "Is it accurate?"
  answer: string; // "Yes: ..." in a sentence or two
  mood: "good" | "fair" | "poor" | "unknown" | "plain"; // good: recordings enough show it; plain: no judgement
}

/** A held-out sequence. Trajectories lie in <script id={series}> as Packed: for each curve, for each action, a column. */
export interface Sequence {
  name: string;
  frames: number;
  begins: number; // the first frame that the policy chose
  step: number; // frames between stored samples; above 1 where long recordings were thinned to their extremes
  series: string;
  error: number | null; // RMSE in standard deviations of the expert's actions
  rmse: (number | null)[]; // of each action, in its unit
  roughness: number | null; // 1: the expert's
  reversals: (number | null)[][]; // of each action, policy and expert; a minute, or per 1,000 frames without a rate
  rest: (number | null)[][]; // shares of time
  lag: number | null; // frames late
}

export interface Round {
  number: number;
  beta: number | null;
  sigma: number | null;
  error: number | null; // RMSE, in standard deviations of the expert's actions
  roughness: number | null;
  radius: number | null;
  validation_error: number | null; // RMSE too
  validation_roughness: number | null;
  diverged: boolean;
}

/** A contender of the frontier: a path from rough to smooth, or a single point. */
export interface Contender {
  name: string;
  kind: "ours" | "path" | "reduction" | "rival";
  points: { roughness: number | null; error: number | null; label: string }[];
}

/** A stretch of frames in which the error is large. */
export interface Moment {
  sequence: number;
  begin: number; // frames
  end: number;
  action: number;
  error: number; // RMSE there, in the action's unit
}

export interface Share {
  name: string;
  share: number;
}

export interface Report {
  title: string;
  subtitle: string; // where the data came from, in a line
  version: string; // of simile
  made: string; // ISO date
  headline: string; // the verdict in a few words
  verdict: string;
  answers: Answer[];
  notes: string[];
  rate: number | null; // frames per second
  actions: string[];
  curves: string[]; // names of the trajectories; the first is the expert, the second the policy in question
  sequences: Sequence[];
  moments: Moment[]; // worst first
  rounds: Round[];
  chosen: number | null; // number of the chosen round
  mixture: { columns: string[]; rows: (string | number | null)[][] } | null; // what the policy consists of
  in_turn: boolean; // whether in each recording parts of the policy act that have not seen it
  frontier: Contender[];
  frontier_note: string; // on which sequences it was measured
  table: { columns: string[]; rows: (string | number | null)[][] }; // held-out results of every contender
  lag: { frames: number[]; correlation: (number | null)[][]; best: (number | null)[] } | null; // by action
  spectrum: { hertz: number[]; expert: (number | null)[][]; policy: (number | null)[][]; unit: string } | null;
  motion: { columns: string[]; rows: (string | number | null)[][] } | null; // of policy and expert, action by action
  importances: { contexts: Share[]; lags: Share[]; note: string } | null;
  diagnosis: { findings: string[]; values: { name: string; value: number | null; meaning: string }[] } | null;
  band: { level: number; coverage: number | null; said: string } | null; // of the policy; its ends follow the curves
  repeat: { command: string; python: string; config: string } | null;
}
