import assert from "node:assert/strict";
import { test } from "node:test";
import palette from "../src/report/palette.css";
import { CAUSES, type WaitUse } from "../src/report/data";
import { causeColour, causeOf, heldBy, layerSums } from "../src/report/waits";
import { sampleRun } from "./sample";

const total = (sums: { mean_ns: number }[]) => sums.reduce((sum, { mean_ns }) => sum + mean_ns, 0);

function use(sums: [layer: string, cause: string, source: string, mean_ns: number, uncertain_ns: number][]): WaitUse {
  return {
    ios: 10,
    latency_ns: sums.reduce((sum, [, , , mean_ns]) => sum + mean_ns, 0),
    latency_uncertain_ns: 0,
    uncertain_ns: 0,
    causes: {},
    sums: sums.map(([layer, cause, source, mean_ns, uncertain_ns]) => ({ layer, cause, source, mean_ns, uncertain_ns, way: null })),
  };
}

test("waits of one cause at one layer are one sum, whatever they are told from", () => {
  const layers = layerSums(use([
    ["queue", "command_window", "crossings", 5, 0],
    ["queue", "unknown", "crossings", 2, 0],
    ["queue", "command_window", "pdus", 3, 1],
    ["wire", "propagation", "stamps", 10, 4],
  ]));
  assert.deepEqual(layers, [
    { layer: "queue", mean_ns: 10, causes: [{ cause: "command_window", mean_ns: 8, uncertain_ns: 1 }, { cause: "unknown", mean_ns: 2, uncertain_ns: 0 }] },
    { layer: "wire", mean_ns: 10, causes: [{ cause: "propagation", mean_ns: 10, uncertain_ns: 4 }] },
  ]);
});

test("the sums of a cell add up to its latency", () => {
  for (const { waits, layers } of sampleRun().cells) {
    assert.ok(Math.abs(total(layerSums(waits!)) - waits!.latency_ns) < 1e-3);
    assert.ok(Math.abs(total([...heldBy(layers, waits!).values()]) - waits!.latency_ns) < 1e-3);
  }
});

test("what a layer that was not recorded held belongs to the one above it", () => {
  const recorded = ["app", "window", "target"].map((layer) => ({ layer, in_flight_mean: 0, in_flight_max: 0 }));
  const held = heldBy(recorded, use([["app", "initiator", "crossings", 1, 0], ["tcp_initiator", "unknown", "stamps", 2, 0], ["wire", "unknown", "stamps", 3, 0], ["store", "store_service", "crossings", 4, 0]]));
  assert.deepEqual([...held.values()].map(({ layer, mean_ns }) => [layer, mean_ns]), [["app", 1], ["window", 5], ["target", 4]]);
});

test("every cause has a colour of the palette, those of one family the same", () => {
  const colours = new Map(Object.entries(CAUSES).map(([cause, { family }]) => [causeColour(cause), family]));
  assert.equal(colours.size, new Set(Object.values(CAUSES).map(({ family }) => family)).size);
  for (const colour of colours.keys()) {
    assert.ok(palette.includes(`${colour}:`), colour);
  }
  assert.equal(causeOf("of a later version").family, "unknown");
});
