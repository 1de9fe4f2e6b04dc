"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { load } = require("./modules.js");
const { Tags } = load(["tags"]);

test("four letters find a tag among 300", () => {
  const tags = Array.from({ length: 300 }, (_, i) => `layer_${i}/weight_norm`).concat("val/accuracy", "inaccurate");
  assert.deepEqual(Tags.filtered(tags, "accu"), ["val/accuracy", "inaccurate"]);
});

test("tags that begin with the letters come first", () => {
  assert.deepEqual(Tags.filtered(["train/loss", "loss", "glossy"], "LOSS"), ["loss", "train/loss", "glossy"]);
});

test("without letters all are listed, up to a limit", () => {
  assert.equal(Tags.filtered(Array.from({ length: 500 }, String), "").length, 200);
});
