// One policy over one sequence, asked for again whenever its run, the sequence or the smoothness changes.
import { Refusal, roll } from "./api";
import { Newest } from "./newest";
import type { Rolled, Run } from "./types";

export interface Place {
  run: Run;
  sequence: number;
  smoothness: number | null; // null: the run's own
  since: number; // when somebody wished to see it, in the page's time (ms)
}

export class Line {
  rolled: Rolled | null = null;
  trouble = "";
  private where = ""; // run and sequence of `rolled`
  private asked = "";
  private readonly newest: Newest<Place>;

  /** `drawn` is called when there is something new to draw. */
  constructor(private readonly drawn: (place: Place) => void) {
    this.newest = new Newest((place) => this.fetch(place));
  }

  want(place: Place): void {
    // A run that goes on has a new policy after every round.
    const { run, sequence, smoothness } = place;
    const wanted = [run.id, run.status, run.rounds.length, sequence, smoothness].join("/");
    if (wanted === this.asked) return;
    this.asked = wanted;
    const where = `${run.id}/${sequence}`;
    if (where !== this.where) this.rolled = null;
    this.where = where;
    this.newest.wish(place);
  }

  clear(): void {
    this.newest.drop();
    this.asked = this.where = this.trouble = "";
    this.rolled = null;
  }

  private async fetch(place: Place): Promise<void> {
    const { run, sequence, smoothness } = place;
    const stale = (): boolean => this.where !== `${run.id}/${sequence}`;
    try {
      const rolled = await roll(run.id, sequence, smoothness);
      if (stale()) return;
      this.rolled = rolled;
      this.trouble = "";
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (stale()) return;
      this.trouble = error.message;
      this.asked = ""; // the next change tries again
    }
    this.drawn(place);
  }
}
