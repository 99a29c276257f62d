// Trajectories of the sequence that is looked at: decoded when they are wanted, the last few kept.

import type { Packed, Report } from "../payload";
import { unpack } from "../unpack";

const KEPT = 4;

/** A column for each action of each curve, and where it rests. */
export interface Series {
  columns: Float32Array[];
  holds: number[][];
}

export class SeriesStore {
  private readonly kept = new Map<number, Promise<Series>>();

  constructor(private readonly report: Report) {}

  /** Columns of a sequence: for each curve, for each action. */
  of(sequence: number): Promise<Series> {
    const found = this.kept.get(sequence) ?? this.decode(sequence);
    this.kept.delete(sequence);
    this.kept.set(sequence, found); // the latest is the last to go
    for (const old of this.kept.keys()) {
      if (this.kept.size <= KEPT) break;
      this.kept.delete(old);
    }
    return found;
  }

  private async decode(sequence: number): Promise<Series> {
    const { series, name } = this.report.sequences[sequence]!;
    const text = document.getElementById(series)?.textContent;
    if (!text) throw new Error(`The curves of ${name} are not in this file: it may have been cut short.`);
    const packed = JSON.parse(text) as Packed;
    return { columns: await unpack(packed), holds: packed.holds };
  }
}
