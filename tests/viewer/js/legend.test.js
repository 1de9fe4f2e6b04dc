"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { load } = require("./modules.js");
const { Curves, Legend } = load(["points", "colours", "curves", "legend"]);

test("the legend is sorted by the values at the cursor", () => {
  const curve = (values) => ({ xs: [1, 2], points: [{ step: 1 }, { step: 2 }], values, smooth: values });
  const lines = [["a", [1, 5]], ["b", [2, 3]], ["c", [0, null]]].map(([id, values]) => ({ id, name: id, curve: curve(values) }));
  lines.push({ id: "off", name: "off", curve: null });
  assert.deepEqual(Legend.rows(lines, 1).map(({ id }) => id), ["b", "a", "c", "off"]);
  assert.deepEqual(Legend.rows(lines, null).map(({ id }) => id), ["c", "a", "b", "off"]);
  assert.equal(Curves.MOST, 20);
});
