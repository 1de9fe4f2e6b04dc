"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { load } = require("./modules.js");

test("a run keeps its line when other runs come", () => {
  const { Colours } = load(["colours"]);
  Colours.assign(["./version_2", "./version_10"], [0, 1]);
  const before = ["./version_2", "./version_10"].map(Colours.lineOf);
  Colours.assign(["./version_10", "./a", "./version_2", "./version_1"], [3, 1, 2, 0]);
  assert.deepEqual(["./version_2", "./version_10"].map(Colours.lineOf), before);
});

test("36 runs that follow each other have 36 lines", () => {
  const { Colours } = load(["colours"]), ids = Array.from({ length: 36 }, (_, i) => `./version_${i}`);
  Colours.assign(ids, ids.map((_, i) => i));
  assert.equal(new Set(ids.map((id) => JSON.stringify(Colours.lineOf(id)))).size, 36);
});

test("every colour has a contrast of 3 with a light and with a dark page", () => {
  const channel = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = (hex) => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => sum + part * channel(parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16) / 255), 0);
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const { Colours } = load(["colours"]);
  for (const colour of Colours.COLOURS) {
    for (const page of ["#ffffff", "#14171b"]) assert.ok(contrast(colour, page) >= 3, `${colour} ${page} ${contrast(colour, page)}`);
  }
});
