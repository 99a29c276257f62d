// Which frames of a sequence are in view: never beyond its ends, never fewer than can be seen.

export class View {
  begin = 0;
  end = 1;
  frames = 1;
  least = 1;

  /** Another sequence, of so many frames; the stretch in view stays where it fits. */
  fit(frames: number, least: number, keep: boolean): void {
    [this.frames, this.least] = [frames, Math.min(least, frames)];
    if (keep && this.end > this.begin) this.go(this.begin, this.end);
    else this.go(0, frames);
  }

  get width(): number {
    return this.end - this.begin;
  }

  get all(): boolean {
    return this.width >= this.frames;
  }

  /** Go there; what lies beyond the ends is left out. */
  go(begin: number, end: number): void {
    const [from, to] = [Math.max(0, Math.min(begin, end)), Math.min(this.frames, Math.max(begin, end))];
    this.move((from + to) / 2, to - from);
  }

  /** Go there without becoming narrower at the ends. */
  slide(begin: number, end: number): void {
    this.move((begin + end) / 2, end - begin);
  }

  pan(frames: number): void {
    this.slide(this.begin + frames, this.end + frames);
  }

  /** Zoom; the frame `about` stays where it is. */
  zoom(factor: number, about = (this.begin + this.end) / 2): void {
    const width = this.possible(this.width * factor);
    const share = (about - this.begin) / this.width;
    this.slide(about - share * width, about + (1 - share) * width);
  }

  private move(middle: number, wanted: number): void {
    const width = this.possible(wanted);
    this.begin = Math.min(Math.max(0, middle - width / 2), this.frames - width);
    this.end = this.begin + width;
  }

  private possible(width: number): number {
    return Math.min(this.frames, Math.max(this.least, width));
  }
}
