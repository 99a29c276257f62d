import assert from "node:assert/strict";
import { test } from "node:test";
import { View } from "../src/view";

function at(begin: number, end: number, frames = 1000): View {
  const view = new View();
  view.fit(frames, 10, false);
  view.go(begin, end);
  return view;
}

test("all of it is in view at first, and what lies beyond is left out", () => {
  assert.ok(at(0, 1000).all);
  const view = at(-50, 400);
  assert.deepEqual([view.begin, view.end], [0, 400]);
});

test("sliding stops at the ends and keeps its width", () => {
  const view = at(100, 300);
  view.pan(-500);
  assert.deepEqual([view.begin, view.end], [0, 200]);
  view.pan(5000);
  assert.deepEqual([view.begin, view.end], [800, 1000]);
});

test("zooming keeps a frame where it is, between the closest and all", () => {
  const view = at(100, 300);
  view.zoom(0.5, 150);
  assert.deepEqual([view.begin, view.end], [125, 225]);
  view.zoom(1e-9, 150);
  assert.equal(view.width, 10);
  view.zoom(1e9, 150);
  assert.ok(view.all);
});

test("another sequence keeps the stretch in view where that fits", () => {
  const view = at(600, 900);
  view.fit(700, 10, true);
  assert.deepEqual([view.begin, view.end], [600, 700]);
  view.fit(3, 10, true);
  assert.deepEqual([view.begin, view.end], [0, 3]);
  view.fit(500, 10, false);
  assert.deepEqual([view.begin, view.end], [0, 500]);
});
