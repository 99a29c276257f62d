// Asking again and again: one question at a time, whatever comes of it.
import { Refusal } from "../studio/api";

export class Poll<T> {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private turn = 0;

  constructor(
    private readonly ask: () => Promise<T>,
    private readonly found: (what: T) => void,
    private readonly failed: (sentence: string) => void,
    private readonly wait: () => number, // milliseconds until it is asked again
  ) {}

  /** Ask now, and again from then on; what was asked before is of no interest any more. */
  async start(): Promise<void> {
    clearTimeout(this.timer);
    this.turn += 1;
    const { turn } = this;
    try {
      const what = await this.ask();
      if (turn === this.turn) this.found(what);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (turn === this.turn) this.failed(error.message);
    } finally {
      if (turn === this.turn) this.timer = setTimeout(() => void this.start(), this.wait());
    }
  }
}
