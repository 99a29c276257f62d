// The policy learned anew at the smoothness where the slider rests.
import { format } from "../dom";
import { startRun } from "./api";
import type { Store } from "./store";
import { busy, type Run } from "./types";
import { standing } from "./words";

/** Whether two lambda are the same to the eye: steps of the slider are further apart. */
const alike = (a: number | null, b: number | null): boolean =>
  a !== null && b !== null && Math.abs(Math.log(a / b)) < 0.005;

export class Retraining {
  private child: string | null = null;
  private later: number | null = null; // the smoothness to learn when the run itself is done
  private shown = new Set<string>();

  constructor(
    private readonly store: Store,
    private readonly say: (text: string) => void,
  ) {}

  /** A finished run of the family that was trained at this smoothness. */
  finished(run: Run, smoothness: number): Run | null {
    const done = this.store.family(run).filter((other) => other.status === "done" && other.has.policy);
    return done.find((other) => other !== run && alike(other.smoothness, smoothness)) ?? null;
  }

  /** The slider rests: learn anew, unless that was done before; when the run itself still learns, after it. */
  async rest(run: Run, smoothness: number | null): Promise<void> {
    this.later = null;
    if (smoothness === null) return;
    const done = this.finished(run, smoothness);
    if (done !== null) {
      if (!this.store.others.some((other) => other.run === done)) this.store.show(done.id);
      return;
    }
    if (busy(run)) {
      this.later = smoothness;
      this.update(run);
      return;
    }
    const going = this.store.family(run).find((other) => busy(other) && alike(wished(other), smoothness));
    if (going !== undefined) {
      this.child = going.id;
      this.update(run);
      return;
    }
    // All else it has from its parent.
    const child = await this.store.attempt(startRun({ kind: "train", data: run.data, parent: run.id, smoothness }));
    if (child === null) return;
    this.child = child.id;
    this.store.takeRun(child);
  }

  /** Tell how the learning goes; when it is done, its curve replaces the preview. */
  update(run: Run): void {
    if (this.later !== null) {
      this.say(`When this run is done, it is learned anew at λ ${format(this.later)}.`);
      if (!busy(run)) void this.rest(run, this.later);
      return;
    }
    const child = this.store.runs.find((run) => run.id === this.child);
    if (child === undefined) {
      this.say("");
    } else if (busy(child)) {
      this.say(`Retraining at λ ${format(wished(child))}: ${standing(child)} …`);
    } else if (child.status === "done") {
      this.say(
        `Retrained at λ ${format(child.smoothness)}: the solid curve is the new policy, also in the list of runs.`,
      );
      if (!this.shown.has(child.id)) {
        this.shown.add(child.id); // once: whoever unticks it means it
        this.store.show(child.id);
      }
    } else {
      this.say(`Retraining at λ ${format(wished(child))} ${child.status}. ${child.error ?? ""}`);
    }
  }

  forget(): void {
    this.child = this.later = null;
  }
}

/** The lambda that was asked for: where each action has its own, their mean. */
const wished = (run: Run): number => {
  if (run.smoothness !== null) return run.smoothness;
  const each = (String(run.options.smoothness).match(/[\d.e+-]+/g) ?? []).map(Number);
  return each.reduce((sum, one) => sum + one, 0) / each.length;
};
