"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { load } = require("./modules.js");

function curvesOf(scalars, asked = []) {
  const fetch = async (address) => {
    asked.push(address);
    return { ok: true, json: async () => ({ scalars }) };
  };
  return load(["points", "colours", "curves"], { fetch }).Curves;
}

const points = [[1, 10, 4], [2, 20, 2], [4, 40, null]].map(([step, wall_time, value]) => ({ step, wall_time, value }));

test("curves are asked for once, and again of a run that has grown", async () => {
  const asked = [], curves = curvesOf([{ train_id: "./a", values: points }], asked);
  await curves.load(["./a", "./b"], "loss");
  await curves.load(["./a", "./b"], "loss");
  assert.equal(asked.length, 1);
  curves.forget("./a");
  await curves.load(["./a", "./b"], "loss");
  assert.match(asked[1], /train_id=.%2Fa&tag=loss%2Fscalar$/);
});

test("a curve has the places of its axis, its raw and smoothed values, and the step from which it is lost", async () => {
  const curves = curvesOf([{ train_id: "./a", values: points }]);
  await curves.load(["./a", "./b"], "loss");
  const plain = curves.prepared("./a", "loss", { factor: 0, isLogarithmic: false, axis: "relative" });
  assert.deepEqual([plain.xs, plain.raw, plain.badStep, plain.lost], [[0, 10, 30], [4, 2, null], 4, [10, 2]]);
  const smooth = curves.prepared("./a", "loss", { factor: 0.5, isLogarithmic: true, axis: "wall" });
  assert.deepEqual(smooth.raw.slice(0, 2), [Math.log10(4), Math.log10(2)]);
  assert.notDeepEqual(smooth.shown, smooth.raw);
  assert.equal(curves.prepared("./b", "loss", { factor: 0, axis: "step" }), null);
});

test("the point that is nearest to the cursor is found, without a cursor the last", () => {
  const curves = curvesOf([]), curve = { xs: [1, 2, 10] };
  assert.deepEqual([-5, 1.4, 1.6, 7, 99, null].map((x) => curves.nearest(curve, x)), [0, 0, 1, 2, 2, 2]);
});
