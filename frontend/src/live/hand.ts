// What a person wants the actions to be, and how they get there: as fast as a hand moves, and never at a jump.

const SOFT = 0.15; // seconds in which most of what a person wants is done

export class Hand {
  private wanted: number[] | null = null;
  private at: number[] = [];

  constructor(
    private readonly low: (number | null)[],
    private readonly high: (number | null)[],
  ) {}

  get holds(): boolean {
    return this.wanted !== null;
  }

  /** What is wanted of the i-th action; null while nothing is in hand. */
  aim(i: number): number | null {
    return this.wanted?.[i] ?? null;
  }

  /** Want the i-th action to be so; the others stay where they are when it is taken in hand. */
  set(i: number, value: number, now: number[]): void {
    if (this.wanted === null) {
      this.wanted = [...now];
      this.at = [...now];
    }
    const low = this.low[i] ?? Number.NEGATIVE_INFINITY;
    const high = this.high[i] ?? Number.POSITIVE_INFINITY;
    this.wanted[i] = Math.min(high, Math.max(low, value));
  }

  /** Want it to be so much more than it is wanted, or is. */
  nudge(i: number, by: number, now: number[]): void {
    this.set(i, (this.wanted?.[i] ?? now[i]!) + by, now);
  }

  /** What to do now, so many seconds after the last time. */
  step(passed: number): number[] {
    const share = 1 - Math.exp(-passed / SOFT);
    this.at = this.at.map((at, i) => at + share * (this.wanted![i]! - at));
    return this.at;
  }

  release(): void {
    this.wanted = null;
  }
}

const SAY = 40; // milliseconds between two words to the service while it is in hand: it lets go after 500

/** A hand on a stream: it says again and again what it does. */
export class Grip {
  private said = 0; // when, in the page's time (ms)

  constructor(
    private readonly hand: Hand,
    private readonly seat: { take(action: number[]): void; handBack(): void },
  ) {}

  get holds(): boolean {
    return this.hand.holds;
  }

  aim(i: number): number | null {
    return this.hand.aim(i);
  }

  /** Take in hand, or go on so. */
  move(how: (hand: Hand) => void, time: number): void {
    const began = !this.hand.holds;
    how(this.hand);
    if (began) {
      // What was said before a silence may come there late, and is refused until this was said.
      this.seat.handBack();
      this.said = time - SAY;
    }
    this.act(time);
  }

  /** Say what to do, where it is time; returns whether it was. */
  act(time: number): boolean {
    const passed = time - this.said;
    // A browser may call late; what is late is not made up for at a jump.
    if (!this.hand.holds || passed < SAY - 1) return false;
    this.seat.take(this.hand.step(Math.min(passed, 4 * SAY) / 1000));
    this.said = time;
    return true;
  }

  handBack(): void {
    if (!this.hand.holds) return;
    this.hand.release();
    this.seat.handBack();
  }
}

export const IDLE = 0.15; // of the way of a stick, in which it counts as let go

export interface Pad {
  readonly axes: readonly number[];
  readonly buttons: readonly { readonly pressed: boolean }[];
}

/** How far each of k actions is pushed by a gamepad, from -1 to 1; forwards counts down there. */
export function pushed(pad: Pad, k: number): number[] {
  const stick = (axis: number, sign: number): number => {
    const value = sign * (pad.axes[axis] ?? 0);
    return Math.abs(value) > IDLE ? value : 0;
  };
  const [across, along, right] = [stick(0, 1), stick(1, -1), stick(3, -1)];
  // Where there is one action, nobody knows whether it goes across or along.
  const all = k === 1 ? [across || along] : [across, along, right];
  return Array.from({ length: k }, (_, i) => all[i] ?? 0);
}

/** A gamepad over time: what was pushed when the hand let go counts again when it was let go, too. */
export class Stick {
  private free = true;
  private pressed = false;

  /** How far each of k actions is pushed, and whether the first button is pressed now, and was not before. */
  read(pad: Pad, k: number): { shares: number[]; back: boolean } {
    const pressed = pad.buttons[0]?.pressed ?? false;
    const back = pressed && !this.pressed;
    this.pressed = pressed;
    const shares = pushed(pad, k);
    this.free ||= shares.every((share) => share === 0);
    return { shares: this.free ? shares : shares.map(() => 0), back };
  }

  rest(): void {
    this.free = false;
  }
}

/** Which of k actions a key moves, and whether up or down; null for other keys. */
export function keyMove(key: string, k: number): [action: number, way: number] | null {
  const moves: Record<string, [number, number]> = {
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
    ArrowDown: [k === 1 ? 0 : 1, -1],
    ArrowUp: [k === 1 ? 0 : 1, 1],
    "-": [2, -1],
    "+": [2, 1],
  };
  const move = moves[key];
  return move !== undefined && move[0] < k ? move : null;
}
