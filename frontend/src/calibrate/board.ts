// What was clicked so far, which landmark is chosen, and how to go back.

export interface Court {
  name: string; // the sport
  court: string; // with its size, as --court tells it
  length: number;
  width: number;
  lines: number[][]; // x, y, x, y, ...: metres
  landmarks: Record<string, [x: number, y: number, z: number]>;
}

export interface Click {
  name: string; // of a landmark
  u: number; // pixels of the picture, from its upper left corner
  v: number;
}

export class Board {
  clicks: Click[] = [];
  chosen: string | null = null;
  private past: Click[][] = [];
  private readonly listeners: (() => void)[] = [];

  listen(f: () => void): void {
    this.listeners.push(f);
  }

  changed(): void {
    for (const f of this.listeners) f();
  }

  choose(name: string | null): void {
    this.chosen = name;
    this.changed();
  }

  /** What comes now can be taken back as one. */
  remember(): void {
    this.past.push(this.clicks);
  }

  put(name: string, u: number, v: number): void {
    const click = { name, u, v };
    const known = this.clicks.some((c) => c.name === name);
    this.clicks = known ? this.clicks.map((c) => (c.name === name ? click : c)) : [...this.clicks, click];
    this.changed();
  }

  remove(name: string): void {
    this.remember();
    this.clicks = this.clicks.filter((click) => click.name !== name);
    this.changed();
  }

  clear(): void {
    if (this.clicks.length) this.remember();
    this.clicks = [];
    this.chosen = null;
    this.changed();
  }

  undo(): void {
    const before = this.past.pop();
    if (before === undefined) return;
    this.clicks = before;
    this.changed();
  }

  get canUndo(): boolean {
    return this.past.length > 0;
  }
}
