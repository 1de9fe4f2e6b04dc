"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { load } = require("./modules.js");
const { Columns } = load(["columns"], { Table: { SCALAR: /^(last|min|max|best_step):(.+)$/s } });
const bare = (name) => name.replace(/^(metric|user_defined)\//, "");

test("settings are chosen that differ in the rows that are found", () => {
  const columns = { "metric/acc": [1, 2, 3, 4], network: ["A", "A", "B", "B"], rate: [0.1, 0.2, 0.1, 0.1] };
  assert.deepEqual(Columns.usual({ columns, same: {} }, [0, 1], bare), ["metric/acc", "rate"]);
  assert.deepEqual(Columns.usual({ columns, same: {} }, [0, 1, 2, 3], bare), ["metric/acc", "network", "rate"]);
  assert.deepEqual(Columns.usual({ columns, same: {} }, [3], bare), ["metric/acc", "network", "rate"]);
});

test("the first click sorts by the better end of a result, and from the least on else", () => {
  const first = (name) => Columns.startsDescending(name);
  assert.deepEqual(["metric/val/accuracy", "max:loss", "last:f1"].map(first), [true, true, true]);
  assert.deepEqual(["metric/val_loss", "metric/valLoss", "last:train/error", "min:acc", "learning_rate", "run", "metric/ppl"].map(first), Array(7).fill(false));
});
