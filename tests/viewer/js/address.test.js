"use strict";
const test = require("node:test");
const assert = require("node:assert");
const { load } = require("./modules.js");
const { Address } = load(["address"]);

test("an address that was written is read as the same state", () => {
  const address = "#q=a+b&size=20&over=loss&smooth=0.6&log=1&axis=wall&all=1&hide=1&x=1%2C5&tick=.%2Fa&tick=.%2Fb&off=.%2Fb";
  Address.read(address);
  assert.equal(Address.text(), address);
  assert.deepEqual(Address.range("x"), [1, 5]);
  assert.equal(Address.range("y"), null);
});

test("what no page writes becomes the plain view", () => {
  Address.read("#size=7&page=-2&axis=nonsense&x=5,1&y=a,b&smooth=7");
  const { size, page, axis, smooth } = Address.state;
  assert.deepEqual({ size, page, axis, smooth }, { size: 50, page: 1, axis: "step", smooth: 0.99 });
  assert.deepEqual([Address.range("x"), Address.range("y")], [null, null]);
});
