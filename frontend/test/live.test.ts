import assert from "node:assert/strict";
import { test } from "node:test";
import { Hand, keyMove, pushed } from "../src/live/hand";
import { type By, correction, type Frame, type Seated, Session, seconds, table } from "../src/live/session";

const SEATED: Seated = {
  stream: "one",
  live: true,
  operated: false,
  rate: 10,
  contexts: ["ball, x"],
  actions: ["pan"],
  low: [-5],
  high: [null],
};

let n = 0;
const frames = (by: By, ...values: number[]): Frame[] =>
  values.map((a) => ({ n: n++, t: n / 10, a: [a], by, x: [null] }));

test("stretches under an operator are found, with what was before and after", () => {
  const session = new Session(SEATED);
  session.add(frames("policy", ...Array(30).fill(1)));
  session.add(frames("operator", 1, 2, 3));
  const [stretch] = session.stretches;
  assert.equal(stretch!.first, 20);
  assert.equal(stretch!.last, 23);
  assert.equal(stretch!.done, false);
  assert.ok(Math.abs(seconds(stretch!) - 0.2) < 1e-9);
  assert.equal(correction(stretch!, 0), 1);
  session.add(frames("policy", ...Array(30).fill(3)));
  assert.equal(stretch!.frames.length, 43);
  assert.equal(stretch!.done, true);
  session.add(frames("operator", 4));
  session.add(frames("policy", 4, 4));
  session.add(frames("operator", 5, 5));
  assert.deepEqual(
    session.stretches.map(({ id, first, last }) => [id, last - first]),
    [
      [1, 3],
      [2, 1],
      [3, 2],
    ],
  );
  assert.equal(session.last!.a![0], 5);
});

test("a stretch that nothing came before has no correction, and a frame without an action is a hole", () => {
  const session = new Session(SEATED);
  session.add([{ n: 0, t: 0 }]);
  session.add(frames("operator", 4, 5), 7);
  assert.equal(correction(session.stretches[0]!, 0), null);
  assert.equal(session.skipped, 7);
  session.add([{ n: 3, t: 1, shadows: { next: [1] } }]);
  assert.deepEqual(session.shadows, ["next"]);
  session.frames.pop();
  const values = session.values(5, ({ a }) => a?.[0]);
  assert.deepEqual([...values], [Number.NaN, Number.NaN, Number.NaN, 4, 5]);
});

test("the table has what was not left out, and quotes names", () => {
  const session = new Session(SEATED);
  session.add([{ n: 7, t: 1.5, a: [2], by: "operator", x: [0.5] }]);
  session.add(frames("policy", 1));
  session.add([{ n: 9, t: 2.5, a: [3], by: "operator", x: [null] }]);
  assert.equal(
    table(SEATED, session.stretches),
    'sequence,n,t,"ball, x",pan,who\none 1,7,1.5,0.5,2,operator\none 2,9,2.5,,3,operator\n',
  );
  session.stretches[0]!.leftOut = true;
  assert.equal(table(SEATED, session.stretches).split("\n").length, 3);
});

test("a hand goes where it is wanted, softly, and not beyond the bounds", () => {
  const hand = new Hand([-5, null], [5, null]);
  assert.equal(hand.holds, false);
  hand.set(0, 20, [1, 2]);
  assert.equal(hand.aim(0), 5);
  const [first, other] = hand.step(0.04);
  assert.ok(first! > 1 && first! < 3);
  assert.equal(other, 2);
  for (let i = 0; i < 100; i++) hand.step(0.04);
  assert.ok(Math.abs(hand.step(0.04)[0]! - 5) < 1e-6);
  hand.nudge(1, -1, [0, 0]);
  assert.equal(hand.aim(1), 1);
  hand.release();
  assert.equal(hand.aim(0), null);
});

test("sticks and keys move the actions that they are for", () => {
  const pad = (...axes: number[]) => ({ axes, buttons: [] });
  assert.deepEqual(pushed(pad(0.1, 0.1, 0, 0.1), 3), [0, 0, 0]);
  assert.deepEqual(pushed(pad(0.5, 0.5, 0, 1), 3), [0.5, -0.5, -1]);
  assert.deepEqual(pushed(pad(0, -0.5), 1), [0.5]);
  assert.deepEqual(pushed(pad(1, 1, 1, 1), 4).length, 4);
  assert.deepEqual(keyMove("ArrowUp", 1), [0, 1]);
  assert.deepEqual(keyMove("ArrowUp", 2), [1, 1]);
  assert.equal(keyMove("+", 2), null);
  assert.equal(keyMove("x", 3), null);
});
