import assert from "node:assert/strict";
import { test } from "node:test";
import { blockSize, Pyramid } from "../src/lod";

/** Numbers that look random and are the same every time. */
function noise(length: number, seed = 1): Float32Array {
  let state = seed;
  return Float32Array.from({ length }, () => {
    state = (state * 1664525 + 1013904223) % 2 ** 32;
    return state / 2 ** 31 - 1;
  });
}

/** Slow and obvious: the extremes of each block, in the order in which they occur. */
function naive(values: Float32Array, begin: number, end: number, buckets: number) {
  const size = blockSize(end - begin, buckets);
  const x: number[] = [];
  const y: number[] = [];
  for (let block = Math.floor(begin / size); block * size < end; block++) {
    const inside = Array.from({ length: size }, (_, i) => block * size + i).filter((i) => i < values.length);
    const there = inside.filter((i) => !Number.isNaN(values[i]));
    x.push((block + 0.25) * size, (block + 0.75) * size);
    if (there.length === 0) y.push(Number.NaN, Number.NaN);
    else {
      const low = there.reduce((a, b) => (values[b]! < values[a]! ? b : a));
      const high = there.reduce((a, b) => (values[b]! > values[a]! ? b : a));
      y.push(values[Math.min(low, high)]!, values[Math.max(low, high)]!);
    }
  }
  return { x, y };
}

test("few values are given as they are", () => {
  const values = noise(100);
  const { x, y } = new Pyramid(values).extremes(20, 50, 40);
  assert.deepEqual(
    [...x],
    Array.from({ length: 30 }, (_, i) => 20 + i),
  );
  assert.deepEqual([...y], [...values.subarray(20, 50)]);
});

test("extremes are those of a slow twin, at every length and place", () => {
  for (const length of [1, 2, 15, 16, 17, 100, 1000, 4097]) {
    const values = noise(length, length);
    const pyramid = new Pyramid(values);
    for (const [from, to] of [
      [0, 1],
      [0.25, 0.75],
      [0.1, 0.13],
      [0.9, 1],
    ] as const) {
      const [begin, end] = [Math.floor(from * length), Math.ceil(to * length)];
      for (const buckets of [1, 3, 10, 50]) {
        if (end - begin < 2 * buckets) continue;
        const { x, y } = pyramid.extremes(begin, end, buckets);
        assert.deepEqual({ x: [...x], y: [...y] }, naive(values, begin, end, buckets));
      }
    }
  }
});

test("no peak is lost among a million values", () => {
  const values = new Float32Array(1_000_000);
  values[123_457] = 5;
  values[876_543] = -7;
  const { x, y } = new Pyramid(values).extremes(0, values.length, 1000);
  assert.equal(Math.max(...y), 5);
  assert.equal(Math.min(...y), -7);
  assert.ok(Math.abs(x[y.indexOf(5)]! - 123_457) <= 1024);
  assert.ok(x.length <= 2002);
});

test("missing values are skipped, and a block of nothing else is a gap", () => {
  const values = noise(1000);
  values.fill(Number.NaN, 300, 700);
  values[0] = Number.NaN;
  const pyramid = new Pyramid(values);
  const { x, y } = pyramid.extremes(0, 1000, 20);
  assert.deepEqual({ x: [...x], y: [...y] }, naive(values, 0, 1000, 20));
  assert.ok(y.some(Number.isNaN) && !Number.isNaN(y[0]));
});

test("blocks stay the same while one pans", () => {
  const pyramid = new Pyramid(noise(100_000));
  const seen = new Map<number, number>();
  for (let begin = 0; begin < 5000; begin += 7) {
    const { x, y } = pyramid.extremes(begin, begin + 50_000, 500);
    for (const [i, at] of x.entries()) assert.equal(seen.get(at) ?? y[i], y[i]);
    for (const [i, at] of x.entries()) seen.set(at, y[i]!);
  }
});

test("what lies outside is left out, and an empty curve has no points", () => {
  assert.equal(new Pyramid(new Float32Array(0)).extremes(0, 10, 5).x.length, 0);
  assert.deepEqual([...new Pyramid(noise(10)).extremes(-5, 100, 50).x], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});
