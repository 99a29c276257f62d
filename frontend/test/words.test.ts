import assert from "node:assert/strict";
import { test } from "node:test";
import { logTicks, short } from "../src/axes";
import { clock, format, percent } from "../src/dom";
import { unpack } from "../src/unpack";

test("numbers have so many digits, and thousands are set apart", () => {
  assert.equal(format(0.123456), "0.123");
  assert.equal(format(0.5), "0.500");
  assert.equal(format(-2), "−2");
  assert.equal(format(1234567), "1\u2009234\u2009567");
  assert.equal(format(1234.5), "1\u2009235");
  assert.equal(format(0), "0");
  assert.equal(format(0.00001234), "1.23e−5");
});

test("what is not a number is a dash", () => {
  assert.equal(format(null), "–");
  assert.equal(format(undefined), "–");
  assert.equal(format(Number.NaN), "–");
  assert.equal(format(Number.POSITIVE_INFINITY), "∞");
});

test("times are seconds, then minutes and hours", () => {
  assert.equal(clock(7.256), "7.26 s");
  assert.equal(clock(125), "2:05");
  assert.equal(clock(3725), "1:02:05");
  assert.equal(percent(0.123), "12 %");
  assert.equal(percent(0.0123), "1.2 %");
});

test("logarithmic scales have ticks at round numbers, however short they are", () => {
  assert.deepEqual(logTicks(0.3, 3, 8), [0.3, 0.5, 0.7, 1, 1.5, 2, 3]);
  assert.deepEqual(logTicks(1e-6, 1e2, 9), [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100]);
  assert.ok(logTicks(1e-12, 1e12, 6).length <= 6);
  assert.equal(short(1e-6), "10⁻⁶");
  assert.equal(short(0.25), "0.25");
});

test("packed trajectories come back, with gaps, and sums that wrap around", async () => {
  // [[-30000, 1], [30000, missing], [-30000, 3]] in units of 0.5 above 10 and of 2 above 0, packed by Python.
  const values = "eNq70JXwaoEoI8P/euYGACdMBVw=";
  const columns = await unpack({ unit: [0.5, 2], offset: [10, 0], columns: 2, frames: 3, values });
  assert.deepEqual([...columns[0]!], [-14990, 15010, -14990]);
  assert.deepEqual([...columns[1]!], [2, Number.NaN, 6]);
});
