import assert from "node:assert/strict";
import { test } from "node:test";
import { formatChange, formatFixed, formatNs, formatNumber, formatQuantity, formatShare, parseQuantity } from "../src/report/units";

test("quantities are read as plans write them", () => {
  assert.deepEqual(parseQuantity("512KiB"), { value: 524288, dimension: "bytes" });
  assert.deepEqual(parseQuantity("1Gbit/s"), { value: 1e9, dimension: "bits per second" });
  assert.deepEqual(parseQuantity("1.5 s"), { value: 1.5, dimension: "seconds" });
  assert.deepEqual(parseQuantity("16"), { value: 16, dimension: "plain" });
  assert.deepEqual(parseQuantity(176), { value: 176, dimension: "plain" });
  for (const none of ["cubic", "", "16 parsecs", "1e", "0x10", null, true, ["1ms"], undefined, "5constructor"]) {
    assert.equal(parseQuantity(none), null);
  }
});

test("quantities are written in the unit that fits", () => {
  for (const [written, read] of [
    ["16 ms", "16ms"],
    ["1 s", "1000ms"],
    ["250 µs", "0.25ms"],
    ["512 KiB", "524288B"],
    ["1 Gbit/s", "1000Mbit/s"],
    ["0 ns", "0s"],
  ] as const) {
    const quantity = parseQuantity(read);
    assert.ok(quantity !== null);
    assert.equal(formatQuantity(quantity), written);
  }
  assert.equal(formatNs(38_749_000), "38.7 ms");
  assert.equal(formatNs(0), "0 ns");
  assert.equal(formatNs(null), "–");
});

test("numbers keep three digits and group thousands", () => {
  assert.equal(formatNumber(11446.2), "11,446");
  assert.equal(formatNumber(0.012345), "0.0123");
  assert.equal(formatNumber(-2.5), "−2.5");
  assert.equal(formatNumber(Number.NaN), "–");
  assert.equal(formatFixed(1947.26, 1), "1,947.3");
  assert.equal(formatFixed(null, 1), "–");
});

test("small shares are not written as nothing", () => {
  assert.equal(formatShare(0), "0 %");
  assert.equal(formatShare(0.001), "< 1 %");
  assert.equal(formatShare(0.1071), "11 %");
  assert.equal(formatShare(null), "–");
});

test("ratios are written as changes", () => {
  assert.equal(formatChange(1.659), "+66 %");
  assert.equal(formatChange(0.8), "−20 %");
  assert.equal(formatChange(1), "±0 %");
});
