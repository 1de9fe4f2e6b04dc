"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { load } = require("./modules.js");
const { Names } = load(["names"]);

test("names lose their beginning where it is the same", () => {
  const names = ["experiments/2026/sweep_of_rates/version_1", "experiments/2026/sweep_of_rates/version_20"];
  const common = Names.commonStart(names);
  assert.equal(Names.shortened(names[0], 20, common), "…/version_1");
  assert.equal(Names.shortened("short", 20, 3), "short");
});

test("a long name without a common beginning is shortened in its middle", () => {
  assert.equal(Names.shortened("a".repeat(30) + "b".repeat(30), 10), "aaaaa…bbbbb");
});

test("one name alone has no common beginning", () => {
  assert.equal(Names.commonStart(["abc"]), 0);
  assert.equal(Names.commonStart(["abc", "abd", "b"]), 0);
});
