"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { load } = require("./modules.js");
const { Saving } = load(["numbers", "saving"]);

test("what a spreadsheet would take for a formula is quoted", () => {
  assert.equal(Saving.csv([["=1+cmd|'x'", "-1.5", 'a "b", c', "-"]]), "\ufeff\"'=1+cmd|'x'\",-1.5,\"a \"\"b\"\", c\",-\n");
});

test("curves are saved point by point with recorded and smoothed values", () => {
  const points = [{ step: 1, wall_time: 5, value: Math.fround(0.1) }, { step: 2, wall_time: 6, value: null }];
  const lines = Saving.curveLines([{ name: "a", curve: { points, smooth: [0.25, null] } }], "loss");
  assert.deepEqual(lines.slice(1), [["a", "loss", 1, 5, "0.1", "0.25"], ["a", "loss", 2, 6, "NaN", "NaN"]]);
});
