"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { load } = require("./modules.js");
const { Points } = load(["points"]);
const plain = { isAll: false, isLogarithmic: false };
const good = Array.from({ length: 100 }, (_, i) => 1 - i / 200);

test("one diverged run of five does not flatten the others", () => {
  const diverged = Array.from({ length: 25 }, (_, i) => 10 ** i);
  const [low, high] = Points.rangeOf([...good, ...diverged], plain);
  assert.ok(low > 0 && high < 20, `${low} ${high}`);
  assert.ok(Points.rangeOf([...good, ...diverged], { ...plain, isAll: true })[1] > 1e24);
});

test("what is only somewhat far out is drawn", () => {
  const [low, high] = Points.rangeOf([2.5, ...good], plain);
  assert.ok(low < 0.5 && high > 2.5);
});

test("a logarithmic axis ends at whole decades", () => {
  assert.deepEqual(Points.rangeOf([-1.4, -0.2, 0.3], { isAll: false, isLogarithmic: true }), [-2, 1]);
  assert.deepEqual(Points.rangeOf([2, 2], { isAll: false, isLogarithmic: true }), [2, 3]);
});

test("one value alone, or none, has a range around it", () => {
  const [low, high] = Points.rangeOf([5, 5], plain);
  assert.ok(low < 5 && high > 5);
  assert.deepEqual(Points.rangeOf([], plain), [0, 1]);
  assert.deepEqual(Points.rangeOf([0], plain), [-1, 1]);
});

test("an axis of values up to those of a 32-bit float has ticks", () => {
  for (const most of [1e-40, 1e-3, 1, 7, 1e6, 1e30, 1e37, 3e38]) {
    const ticks = Points.ticks(0, most, Points.stepOf(0, most, 6));
    assert.ok(ticks.length >= 3 && ticks.length <= 8, `${most}: ${ticks}`);
  }
  assert.deepEqual(Points.ticks(0.1, 0.5, 0.2), [0.2, 0.4]);
});

test("decades are thinned evenly", () => {
  assert.deepEqual(Points.decades(-2, 2), [-2, -1, 0, 1, 2]);
  assert.deepEqual(Points.decades(0, 30, 4), [0, 8, 16, 24]);
});

test("times of an axis are round in the zone of the reader", () => {
  assert.deepEqual(Points.timeTicks(7000, 14000, 4, -1800), [7200, 9000, 10800, 12600]);
});

test("smoothing starts at the first value and skips what is not finite", () => {
  assert.deepEqual(Points.smoothed([1, 3], 0.5), [1, (0.25 * 1 + 0.5 * 3) / 0.75]);
  const [, bad, after] = Points.smoothed([2, null, 2], 0.9);
  assert.equal(bad, null);
  assert.ok(Math.abs(after - 2) < 1e-12);
});

test("the first value that is not finite is found behind one that is", () => {
  assert.equal(Points.firstBad([null, 1, null, 1]), 2);
  assert.equal(Points.firstBad([1, 2]), -1);
  assert.equal(Points.firstBad([null]), -1);
});
