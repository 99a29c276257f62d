import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { fold, type Line } from "../src/live/events";
import { Grip, Hand, keyMove, pushed, Stick } from "../src/live/hand";
import { count, type Improvement, tell as tellImprovement } from "../src/live/improve";
import { Poll } from "../src/live/poll";
import {
  type By,
  correction,
  type Frame,
  lay,
  type Seated,
  Session,
  Sessions,
  seconds,
  table,
} from "../src/live/session";
import { canAct, type Standing, tell } from "../src/live/standing";
import { Refusal } from "../src/studio/api";

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
  session.add(frames("policy", ...Array(11).fill(4)));
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

test("what a recording takes for one correction is one here: pauses of a second are in it, and other numbers are not", () => {
  const session = new Session(SEATED);
  session.add(frames("operator", 1, 1));
  session.add(frames("policy", ...Array(10).fill(1)));
  session.add(frames("operator", 3, 3));
  assert.equal(session.stretches.length, 1);
  const [stretch] = session.stretches;
  assert.ok(Math.abs(seconds(stretch!) - 0.2) < 1e-9); // the pause is not the operator's
  assert.equal(table(SEATED, session.stretches).trim().split("\n").length, 5);
  assert.deepEqual(table(SEATED, session.stretches).match(/^one [\d.]+/gm), ["one 1", "one 1", "one 1.2", "one 1.2"]);
  stretch!.leftOut = true;
  const out = session.leftOut[0]!;
  assert.equal(out.last - out.first, 13);
  assert.equal(out.t, stretch!.frames[stretch!.first]!.t);
  // The stream was opened anew, and counts from 0.
  session.add([{ n: 0, t: n / 10, a: [1], by: "operator" }]);
  assert.equal(session.stretches.length, 2);
});

test("what is left out of one stream stays so while another is shown, and where the service acts otherwise", () => {
  const sessions = new Sessions();
  const one = sessions.open("ws://a", SEATED);
  one.add([{ n: 4, t: 9, a: [1], by: "operator" }]);
  one.stretches[0]!.leftOut = true;
  const two = sessions.open("ws://a", { ...SEATED, stream: "two" });
  assert.deepEqual(two.stretches, []);
  assert.deepEqual(sessions.leftOut, [{ stream: "one", t: 9, until: 9, first: 4, last: 4 }]);
  assert.equal(sessions.open("ws://a", { ...SEATED, live: false, operated: true }), one);
  const others = [
    { contexts: ["ball, y"] },
    { rate: 20 },
    { low: [-6] },
    { high: [9] },
    { lead: 2 },
    { actions: ["tilt"] },
  ];
  const found = [
    sessions.open("ws://b", SEATED),
    ...others.map((other) => sessions.open("ws://a", { ...SEATED, ...other })),
  ];
  assert.equal(new Set([one, two, ...found]).size, 9);
  assert.deepEqual(sessions.leftOut.length, 1);
});

test("with a lead, an action is beside the contexts that it is for, and a stretch has the numbers of a recording", () => {
  for (const lead of [-3, 3]) {
    const seated = { ...SEATED, contexts: ["ball"], lead };
    const session = new Session(seated);
    const made = Array.from({ length: 40 }, (_, k) => {
      const by: By = k >= 10 && k < 15 ? "operator" : "policy";
      return { n: k, t: k, a: [100 + k + lead], by, x: [k], for: k + lead };
    });
    session.add(made);
    const rows = table(seated, session.stretches).trim().split("\n").slice(1);
    assert.deepEqual(
      rows,
      [10, 11, 12, 13, 14].map((k) => `one 1,${10 + (k + lead - 10) / 10},${k + lead},${100 + k + lead},operator`),
    );
    session.stretches[0]!.leftOut = true;
    assert.deepEqual(session.leftOut, [{ stream: "one", t: 10, until: 14, first: 10 + lead, last: 14 + lead }]);
  }
  const waiting = new Session({ ...SEATED, lead: -3 });
  waiting.add([0, 1, 2, 3, 4].map((k) => ({ n: k, t: k, a: [1], by: "operator", for: k - 3 })));
  waiting.stretches[0]!.leftOut = true;
  assert.deepEqual(waiting.leftOut, [{ stream: "one", t: 3, until: 4, first: 0, last: 1 }]);
  const early = new Session({ ...SEATED, lead: 3 });
  early.add([{ n: 0, t: 0, a: [1], by: "operator", x: [1], for: 3 }]); // which has not come yet
  assert.equal(table(SEATED, early.stretches).trim().split("\n").length, 1);
});

test("curves go by the time at which frames came", () => {
  const at = (...times: number[]): Frame[] => times.map((t, i) => ({ n: i, t, a: [t] }));
  const values = (found: Frame[], holds = false) => [...lay(found, 10, 8, ({ a }) => a?.[0], holds)];
  const { NaN: hole } = Number;
  assert.deepEqual(values(at(100, 100.1, 100.4)), [hole, hole, hole, 100, 100.1, 100.2, 100.3, 100.4].map(Math.fround));
  assert.deepEqual(values(at(100, 100.4), true), [hole, hole, hole, 100, 100, 100, 100, 100.4].map(Math.fround));
  assert.deepEqual(values(at(100, 200, 200.1, ...Array(9).fill(200.1))).map(Number.isNaN), [
    ...Array(6).fill(true),
    false,
    false,
  ]);
  assert.equal(values(at(99, 100.2))[0], Math.fround(99.5)); // a line that comes from beyond the edge
});

test("an action that was not moved was not corrected, whatever the arithmetic says", () => {
  const session = new Session({ ...SEATED, actions: ["pan", "tilt"], low: [null, null], high: [null, null] });
  session.add([{ n: 0, t: 0, a: [1, 5], by: "policy" }]);
  session.add([{ n: 1, t: 0.1, a: [2, 5.0000002], by: "operator" }]);
  assert.deepEqual([session.went(session.stretches[0]!, 0), session.went(session.stretches[0]!, 1)], [1, 0]);
});

test("a stretch that nothing came before has no correction, and a frame without an action is a hole", () => {
  const session = new Session(SEATED);
  session.add([{ n: 0, t: n / 10 - 0.1 }]);
  session.add(frames("operator", 4, 5), 7);
  assert.equal(correction(session.stretches[0]!, 0), null);
  assert.equal(session.skipped, 7);
  session.add([{ n: 3, t: n / 10, shadows: { next: [1] } }]);
  assert.deepEqual(session.shadows, ["next"]);
  session.frames.pop();
  const values = session.values(5, ({ a }) => a?.[0]);
  assert.deepEqual([...values], [Number.NaN, Number.NaN, Number.NaN, 4, 5]);
});

test("the table has what was not left out, and quotes names", () => {
  const session = new Session(SEATED);
  session.add([{ n: 7, t: 1.5, a: [2], by: "operator", x: [0.5] }]);
  session.add(frames("policy", 1));
  session.add([{ n: 99, t: 2.5, a: [3], by: "operator", x: [null] }]);
  assert.equal(
    table(SEATED, session.stretches),
    'sequence,t,"ball, x",pan,who\none 1,1.5,0.5,2,operator\none 2,2.5,,3,operator\n',
  );
  session.stretches[0]!.leftOut = true;
  assert.equal(table(SEATED, session.stretches).split("\n").length, 3);
  // Frames that came early and late.
  const uneven = new Session(SEATED);
  uneven.add([1, 1.13, 1.19, 1.5].map((t, k) => ({ n: k, t, a: [2], by: "operator", x: [0] })));
  const times = (seated: Seated) => table(seated, uneven.stretches).match(/(?<=one 1,)[\d.]+/g);
  assert.deepEqual(times(SEATED), ["1", "1.1", "1.2", "1.3"]);
  assert.deepEqual(times({ ...SEATED, rate: null }), ["1", "1.13", "1.19", "1.5"]);
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

test("a hand that takes a stream says first that it had none", () => {
  const said: unknown[] = [];
  const grip = new Grip(new Hand([null], [null]), {
    take: (action) => said.push(action.length),
    handBack: () => said.push("back"),
  });
  grip.move((hand) => hand.set(0, 1, [0]), 1000);
  assert.deepEqual(said, ["back", 1]);
  grip.move((hand) => hand.set(0, 2, [0]), 1010);
  assert.equal(grip.act(1020), false);
  assert.equal(grip.act(1040), true);
  assert.deepEqual(said, ["back", 1, 1]);
  grip.handBack();
  grip.handBack();
  assert.equal(grip.act(2000), false);
  assert.deepEqual(said, ["back", 1, 1, "back"]);
  grip.move((hand) => hand.set(0, 1, [0]), 3000);
  assert.deepEqual(said.slice(4), ["back", 1]);
});

test("a stick that was held when the hand let go counts again from rest, and a button when it goes down", () => {
  const stick = new Stick();
  const read = (share: number, pressed = false) => {
    const { shares, back } = stick.read({ axes: [share], buttons: [{ pressed }] }, 1);
    return [shares[0], back];
  };
  assert.deepEqual(read(0.5), [0.5, false]);
  assert.deepEqual(read(0.5, true), [0.5, true]);
  stick.rest();
  assert.deepEqual(read(0.5, true), [0, false]);
  assert.deepEqual(read(0.9), [0, false]);
  assert.deepEqual(read(0.1), [0, false]);
  assert.deepEqual(read(0.9), [0.9, false]);
});

test("nobody acts where nothing is heard, where there is no connection, and where the stream has ended", () => {
  const well: Standing = { connected: true, ended: false, heard: 0.1, period: 0.04, holds: true, by: "operator" };
  const say = (change: Partial<Standing>): [string, boolean] => [
    tell({ ...well, ...change })[0],
    canAct({ ...well, ...change }),
  ];
  assert.deepEqual(say({}), ["You act", true]);
  assert.deepEqual(say({ holds: false }), ["An operator acts", true]);
  assert.deepEqual(say({ heard: 0.6 }), ["You act", true]);
  assert.deepEqual(say({ heard: 0.7 }), ["Nothing is heard", false]);
  assert.deepEqual(say({ heard: 0.7, period: 1 }), ["You act", true]);
  assert.deepEqual(say({ heard: null }), ["Waiting for a frame", false]);
  assert.deepEqual(say({ ended: true }), ["The stream has ended", false]);
  assert.deepEqual(say({ connected: false }), ["No connection", false]);
});

test("what is asked again and again goes on after a failure, and is one chain", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    const told: string[] = [];
    let asked = 0;
    const poll = new Poll(
      async () => {
        asked += 1;
        if (asked === 1) throw new Refusal(502, "gone");
        return `${asked}`;
      },
      (found) => told.push(found),
      (sentence) => told.push(sentence),
      () => 100,
    );
    const settle = () => new Promise((resolve) => setImmediate(resolve));
    await poll.start();
    mock.timers.tick(100);
    await settle();
    assert.deepEqual(told, ["gone", "2"]);
    await Promise.all([poll.start(), poll.start(), poll.start()]);
    assert.deepEqual(told, ["gone", "2", "5"]); // the others were overtaken
    mock.timers.tick(100);
    await settle();
    assert.equal(asked, 6);
  } finally {
    mock.timers.reset();
  }
});

test("the same event again and again is one line", () => {
  const lines: Line[] = [];
  for (let k = 0; k < 3; k++) fold(lines, { kind: "refused", on: true, reason: "no" }, new Date(k));
  fold(lines, { kind: "operated", on: true }, new Date(9));
  assert.deepEqual(
    lines.map(({ text, times, time }) => [text, times, time.getTime()]),
    [
      ["taken over", 1, 9],
      ["refused · no", 3, 2],
    ],
  );
});

test("what was learned from is counted, and a version that another has overtaken is told", () => {
  const found: Improvement = {
    policy: "pan",
    status: "outdated",
    error: null,
    digest: "b08",
    stretches: 1,
    left_out: 2,
  };
  assert.equal(count(found), "Learned from 1 correction, 2 left out.");
  assert.match(tellImprovement(found, true), /Another version of pan was put to work .* improve again/);
  assert.equal(count({ ...found, stretches: undefined } as unknown as Improvement), "");
});
