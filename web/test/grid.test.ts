import assert from "node:assert/strict";
import { test } from "node:test";
import { readGrids } from "../src/report/grid";
import { formatMeasure, measuresOf } from "../src/report/measures";
import { inkOn, scaleColour } from "../src/report/scale";
import { readSweep, siblings } from "../src/report/sweep";
import { gridRun, sampleRun, twoParameterRun } from "./sample";

test("two quantities across each other make a grid for each case", () => {
  const { cells } = gridRun();
  const grids = readGrids(cells);
  assert.deepEqual(grids.map(({ label }) => label), ["case none", "case ipsec"]);
  const [none] = grids;
  assert.deepEqual(none?.y.labels, ["0", "2 ms", "8 ms"]);
  assert.deepEqual(none?.names, { x: "lower delay + third delay", y: "upper delay" });
  assert.deepEqual(none?.rows.map((row) => row.map((here) => here.map(({ cell }) => cell))), [[[0], [1], [2]], [[3], [], [5]], [[6], [7], [8]]]);
  for (const run of [sampleRun(), twoParameterRun()]) {
    assert.deepEqual(readGrids(run.cells), []);
  }
});

test("a sweep runs along the parameter that is asked for", () => {
  const { cells } = gridRun();
  assert.equal(readSweep(cells).axis.parameter, "path.upper.delay");
  const { axis, series } = readSweep(cells, "path.lower.delay + path.third.delay");
  assert.equal(axis.parameter, "path.lower.delay + path.third.delay");
  assert.deepEqual(series.map(({ label }) => label).slice(0, 2), ["case none, upper delay 0ms", "case none, upper delay 2ms"]);
});

test("cells of another case are what one is compared with", () => {
  const { cells } = gridRun();
  assert.deepEqual(siblings(cells[0]!, cells).map(({ cell }) => cell), [9]);
  assert.deepEqual(siblings(sampleRun().cells[0]!, sampleRun().cells), []);
});

test("measures are named, and in the unit that fits", () => {
  const measures = measuresOf(gridRun().cells);
  assert.deepEqual(measures.map(({ label }) => label), [
    "I/Os per second",
    "throughput (Mbit/s)",
    "latency, median (ms)",
    "latency, 99th percentile (ms)",
    "gap between data packets, median (µs)",
    "router far: cpu (s/GiB)",
    "stalls cost (ms)",
  ]);
  const cell = gridRun().cells[0]!;
  assert.equal(measures[1]?.of(cell), (cell.measures["bytes_per_s"]! * 8) / 1e6);
  assert.equal(measures[4]?.of(cell), 12);
  assert.equal(formatMeasure("latency_p50_ns", 2_500_000), "2.5 ms");
  assert.equal(formatMeasure("bytes_per_s", null), "–");
});

test("the colour scale goes from dark to light in steps that look equal", () => {
  const lightness = (hex: string) => {
    const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
      const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return Math.cbrt(0.2126 * r + 0.7152 * g + 0.0722 * b);
  };
  const steps = Array.from({ length: 11 }, (_, i) => lightness(scaleColour(i / 10)));
  const rises = steps.slice(1).map((step, i) => step - (steps[i] ?? 0));
  assert.ok(rises.every((rise) => rise > 0.03 && rise < 0.12), rises.map((rise) => rise.toFixed(3)).join(" "));
  assert.equal(scaleColour(-1), "#00224e");
  assert.equal(scaleColour(2), "#fee838");
  assert.equal(inkOn("#00224e"), "#ffffff");
  assert.equal(inkOn("#fee838"), "#000000");
});
