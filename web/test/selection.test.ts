import assert from "node:assert/strict";
import { test } from "node:test";
import { firstCell, Selection } from "../src/report/selection";
import { emptyRun, failedRun, sampleRun } from "./sample";

test("the page opens with the finding's cell, or with one that worked", () => {
  const run = sampleRun();
  assert.equal(firstCell(run), 6);
  assert.equal(firstCell({ ...run, finding: null }), 21);
  assert.equal(firstCell(failedRun()), 1);
  assert.equal(firstCell(emptyRun()), null);
});

test("cells are chosen, and steps stay inside the run", () => {
  const run = sampleRun();
  const selection = new Selection(run);
  let changes = 0;
  selection.onChange(() => (changes += 1));
  selection.choose(21);
  selection.step(1);
  assert.equal(selection.cell, 21);
  selection.step(-1);
  assert.equal(selection.cell, 20);
  selection.choose(99);
  selection.choose(20);
  assert.equal(selection.cell, 20);
  assert.equal(changes, 2);
});

test("layers hide and come back", () => {
  const selection = new Selection(sampleRun());
  selection.toggle("wire");
  assert.ok(selection.isHidden("wire"));
  selection.toggle("wire");
  assert.ok(!selection.isHidden("wire"));
});
