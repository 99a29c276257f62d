// Levels of detail: a million values drawn as a few thousand, without losing a peak.

const LEAF = 16; // values below a node of the lowest level that is kept

/** The least and greatest value of blocks of 16, 32, 64, ... values: where they lie, or -1 where all are missing. */
interface Level {
  low: Int32Array;
  high: Int32Array;
}

export class Pyramid {
  private levels: Level[] | null = null;

  constructor(private readonly values: Float32Array) {}

  get length(): number {
    return this.values.length;
  }

  /** Values from `begin` up to `end`, all of them if that is fewer than two a bucket, else extremes.
   *
   * Buckets are blocks of 2^n values, at most about `buckets` of them, and begin at multiples of their size: they stay
   * the same while one pans, and are the same for all curves. Each gives its least and greatest value, in the order
   * in which they occur, at a quarter and three quarters of the block. A block without a value gives NaN. */
  extremes(begin: number, end: number, buckets: number): { x: Float64Array; y: Float64Array } {
    const first = Math.max(0, Math.floor(begin));
    const last = Math.min(this.length, Math.ceil(end));
    const count = Math.max(0, last - first);
    if (count < 2 * buckets) {
      const x = Float64Array.from({ length: count }, (_, i) => first + i);
      return { x, y: Float64Array.from(this.values.subarray(first, first + count)) };
    }
    const size = blockSize(count, buckets);
    const [from, to] = [Math.floor(first / size), Math.ceil(last / size)];
    const x = new Float64Array(2 * (to - from));
    const y = new Float64Array(2 * (to - from));
    for (let block = from, i = 0; block < to; block++, i += 2) {
      const [low, high] = this.block(block, size);
      x[i] = (block + 0.25) * size;
      x[i + 1] = (block + 0.75) * size;
      y[i] = low < 0 ? Number.NaN : this.values[Math.min(low, high)]!;
      y[i + 1] = low < 0 ? Number.NaN : this.values[Math.max(low, high)]!;
    }
    return { x, y };
  }

  /** Where the least and the greatest value of a block lie. */
  private block(block: number, size: number): [number, number] {
    if (size < LEAF) return scan(this.values, block * size, Math.min((block + 1) * size, this.length));
    this.levels ??= build(this.values);
    const level = this.levels[Math.log2(size / LEAF)]!;
    return [level.low[block]!, level.high[block]!];
  }
}

/** The smallest power of two that leaves at most so many buckets. */
export function blockSize(count: number, buckets: number): number {
  let size = 1;
  while (count / size > Math.max(1, buckets)) size *= 2;
  return size;
}

function scan(values: Float32Array, begin: number, end: number): [number, number] {
  let [low, high] = [-1, -1];
  for (let i = begin; i < end; i++) {
    const value = values[i]!;
    if (Number.isNaN(value)) continue;
    if (low < 0 || value < values[low]!) low = i;
    if (high < 0 || value > values[high]!) high = i;
  }
  return [low, high];
}

function build(values: Float32Array): Level[] {
  const blocks = Math.ceil(values.length / LEAF);
  let level: Level = { low: new Int32Array(blocks), high: new Int32Array(blocks) };
  for (let block = 0; block < blocks; block++) {
    const [low, high] = scan(values, block * LEAF, Math.min((block + 1) * LEAF, values.length));
    level.low[block] = low;
    level.high[block] = high;
  }
  const levels = [level];
  while (level.low.length > 1) {
    level = halve(values, level);
    levels.push(level);
  }
  return levels;
}

function halve(values: Float32Array, below: Level): Level {
  const blocks = Math.ceil(below.low.length / 2);
  const level = { low: new Int32Array(blocks), high: new Int32Array(blocks) };
  for (let block = 0; block < blocks; block++) {
    const [left, right] = [2 * block, Math.min(2 * block + 1, below.low.length - 1)];
    level.low[block] = better(values, below.low[left]!, below.low[right]!, -1);
    level.high[block] = better(values, below.high[left]!, below.high[right]!, 1);
  }
  return level;
}

function better(values: Float32Array, left: number, right: number, sign: number): number {
  if (left < 0) return right;
  if (right < 0) return left;
  return sign * values[right]! > sign * values[left]! ? right : left;
}

/** Curves that end early are missing from there on: so all of them have the same blocks. */
export function padded(values: Float32Array, length: number): Float32Array {
  if (values.length === length) return values;
  const longer = new Float32Array(length).fill(Number.NaN);
  longer.set(values);
  return longer;
}
