import assert from "node:assert/strict";
import { test } from "node:test";
import { numberOf } from "../src/report/measures";
import { cellLabel, readSweep, shortNames, spread } from "../src/report/sweep";
import { emptyRun, failedRun, sampleRun, singleCellRun, twoParameterRun } from "./sample";

test("a sweep of one number has a line per phase", () => {
  const run = sampleRun();
  const { axis, series } = readSweep(run.cells);
  assert.equal(axis.parameter, "workload.parallel");
  assert.deepEqual(axis.positions, [16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176]);
  assert.deepEqual(series.map(({ label }) => label), ["planned (command window 100)", "advised (command window 176)"]);
  assert.ok(series.every(({ cells }) => cells.every((here) => here.length === 1)));
  assert.equal(axis.logarithmic, false);
});

test("x is the first numeric parameter and the rest make the series", () => {
  const { cells } = twoParameterRun();
  const { axis, series } = readSweep(cells);
  assert.equal(axis.parameter, "path.wan.delay");
  assert.deepEqual(axis.positions.map((s) => Math.round(s * 1000)), [2, 16, 64]);
  assert.deepEqual(axis.labels, ["2 ms", "16 ms", "64 ms"]);
  assert.deepEqual(series.map(({ label }) => label), ["congestion control reno", "congestion control cubic"]);
  assert.deepEqual(series[0]?.cells.map((here) => here.map((cell) => cell.repeat)), [[0, 1], [0, 1], [0, 1]]);
});

test("values without numbers stand side by side in the plan's order", () => {
  const { cells } = twoParameterRun();
  const controls = cells.map((cell) => ({ ...cell, parameters: { "tcp.congestion_control": cell.parameters["tcp.congestion_control"] ?? null } }));
  const { axis } = readSweep(controls);
  assert.deepEqual(axis.positions, [0, 1]);
  assert.deepEqual(axis.labels, ["reno", "cubic"]);
});

test("wide ranges get equal room for equal factors", () => {
  const cells = sampleRun().cells.slice(0, 3).map((cell, i) => ({ ...cell, parameters: { "workload.block": ["4KiB", "64KiB", "1MiB"][i] ?? null } }));
  assert.equal(readSweep(cells).axis.logarithmic, true);
});

test("runs without a sweep have no axis", () => {
  for (const { cells } of [emptyRun(), singleCellRun()]) {
    assert.equal(readSweep(cells).axis.parameter, null);
  }
});

test("names are as short as tells them apart", () => {
  const names = shortNames(["path.east.delay", "path.west.delay", "target.command_window"]);
  assert.deepEqual([...names.values()], ["east delay", "west delay", "command window"]);
});

test("cells are named by what was swept", () => {
  const { cells } = failedRun();
  assert.deepEqual(cells.map((cell) => cellLabel(cell, cells)), ["parallel 16 · failed", "parallel 32"]);
  const several = twoParameterRun().cells;
  assert.equal(cellLabel(several[1]!, several), "congestion control reno · delay 2ms · repeat 2");
  const phases = sampleRun().cells;
  assert.equal(cellLabel(phases[21]!, phases), "advised · parallel 176");
  const [single] = singleCellRun().cells;
  assert.equal(cellLabel(single!, [single!]), "cell 0");
});

test("spreads leave out what was not measured", () => {
  const { cells } = failedRun();
  assert.deepEqual(spread(cells.slice(0, 1), (cell) => numberOf(cell, "iops")), null);
  const both = spread(cells, (cell) => numberOf(cell, "iops"));
  assert.equal(both?.mean, cells[1]?.measures["iops"]);
  assert.equal(both?.least, both?.greatest);
});
