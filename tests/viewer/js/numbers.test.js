"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { load } = require("./modules.js");
const { Numbers } = load(["numbers"]);

test("numbers of an axis are short and told apart", () => {
  assert.deepEqual(Numbers.ofAxis([0, 0.25, 0.5]), ["0", "0.25", "0.50"]);
  assert.deepEqual(Numbers.ofAxis([0, 1e6, 2e6]), ["0", "1e6", "2e6"]);
  assert.deepEqual(Numbers.ofAxis([1e6, 1.5e6]), ["1e6", "1.5e6"]);
  assert.deepEqual(Numbers.ofAxis([0, 5e29, 1e30]), ["0", "5e29", "1e30"]);
  assert.deepEqual(Numbers.ofAxis([0, 1e37]), ["0", "1e37"]);
  assert.deepEqual(Numbers.ofAxis([1e-5, 2e-5]), ["1e-5", "2e-5"]);
  assert.deepEqual(Numbers.ofAxis([-200, 0, 200]), ["-200", "0", "200"]);
  assert.deepEqual(Numbers.ofAxis([20, 1000]), ["20", "1000"]);
  assert.deepEqual(Numbers.ofAxis([1.5e10, 2e10]), ["1.5e10", "2e10"]);
  assert.deepEqual(Numbers.ofAxis([0]), ["0"]);
});

test("a recorded value has the digits of a 32-bit float and no more", () => {
  assert.equal(Numbers.exact(Math.fround(0.1)), "0.1");
  assert.equal(Numbers.exact(Math.fround(1 / 3)), "0.33333334");
  assert.equal(Numbers.exact(123456), "123456");
  assert.equal(Numbers.exact(null), "–");
});
