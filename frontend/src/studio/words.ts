// Numbers and states in words, the same everywhere on the page.
import { format } from "../dom";
import { busy, type Data, type Run } from "./types";

export function size(bytes: number): string {
  if (bytes < 1e3) return `${bytes} bytes`;
  return bytes < 1e6
    ? `${format(bytes / 1e3)} kB`
    : bytes < 1e9
      ? `${format(bytes / 1e6)} MB`
      : `${format(bytes / 1e9)} GB`;
}

export const plural = (n: number, one: string): string => `${format(n)} ${one}${n === 1 ? "" : "s"}`;

function duration(seconds: number | null): string {
  if (seconds === null) return "";
  if (seconds < 100) return `${format(seconds, 2)} s`;
  return `${Math.round(seconds / 60)} min`;
}

export function lateness(lag: number | null, rate: number | null): string {
  if (lag === null) return "–";
  if (Math.abs(lag) < 0.05) return "none";
  const frames = `${format(Math.abs(lag), 2)} frame${Math.abs(lag) === 1 ? "" : "s"}`;
  const time = rate ? ` (${format(Math.abs((1000 * lag) / rate), 2)} ms)` : "";
  return `${frames}${time} ${lag < 0 ? "early" : "late"}`;
}

export const dataFacts = (data: Data): string =>
  [
    data.understood && plural(data.understood.sequences.length, data.kind === "games" ? "game" : "sequence"),
    data.frames !== null && plural(data.frames, "frame"),
    data.understood?.rate && `${format(data.understood.rate)} Hz`,
    data.status !== "ready" && size(data.bytes),
  ]
    .filter(Boolean)
    .join(" · ");

const STATUS: Record<Run["status"], string> = {
  waiting: "waiting for its turn",
  running: "running",
  done: "done",
  stopped: "stopped",
  failed: "failed",
};

/** Where a run stands, in half a line. */
export function standing(run: Run): string {
  if (run.kind === "compare" && busy(run) && run.contenders_total > 0) {
    return `${run.contenders_done.length} of ${run.contenders_total} contenders`;
  }
  if (run.status === "running" && run.fits !== null)
    return `${run.fits.what}, fit ${run.fits.done} of ${run.fits.steps}`;
  const last = run.rounds.at(-1);
  if (run.status === "running" && last !== undefined) {
    const error = last.validation_error ?? last.error;
    return `round ${last.number}${error === null ? "" : `, error ${format(error)}`}`;
  }
  return STATUS[run.status] + (run.status === "done" && run.seconds !== null ? ` in ${duration(run.seconds)}` : "");
}

/** How far a run is, from 0 to 1; null where nobody knows. */
export function progress(run: Run): number | null {
  if (run.kind === "compare") return run.contenders_total ? run.contenders_done.length / run.contenders_total : null;
  if (run.fits !== null) return run.fits.done / run.fits.steps;
  const total = Number(run.options.n_rounds ?? Number.NaN);
  return total > 0 && run.rounds.length > 0 ? Math.min(run.rounds.length / (total + 1), 1) : null;
}
