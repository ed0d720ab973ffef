import assert from "node:assert/strict";
import { test } from "node:test";
import { readNetwork } from "../src/report/topology";
import { gridRun, sampleRun } from "./sample";

test("a plan's tables become a network from the initiators to the target", () => {
  const { manifest, cells } = gridRun();
  const network = readNetwork(manifest, cells);
  assert.deepEqual(network?.nodes.map(({ name, role, count, column }) => `${name} ${role} ${count} ${column}`), [
    "client initiator 2 0",
    "storage target 1 3",
    "far router 1 2",
    "near-1 router 1 1",
    "near-2 router 1 1",
  ]);
  const upper = network?.paths.find(({ name }) => name === "upper");
  assert.deepEqual(upper, {
    name: "upper",
    ends: ["near-1", "far"],
    effects: ["delay 0ms … 8ms", "rate 330Mbit/s", "queue 64KiB", "loss gilbert-elliott p 1%", "back: delay 3ms"],
    tunnels: ["ipsec 3des (upper)"],
  });
  const effects = (path: string) => network?.paths.find(({ name }) => name === path)?.effects;
  assert.deepEqual([effects("lan-1"), effects("lan"), effects("lower")], [[], [], ["delay 0ms … 8ms"]]);
  assert.deepEqual(network?.routes[1], { name: "lower", via: ["near-2", "far"], vpn: null });
});

test("hosts that one path joins stand opposite each other", () => {
  const manifest = { document: { host: [{ name: "a" }, { name: "b" }], path: [{ name: "wan", between: ["b", "a"], delay: "1ms" }], target: { host: "b" }, initiator: [{ host: "a" }] } };
  const network = readNetwork(manifest, []);
  assert.deepEqual(network?.nodes.map(({ column }) => column), [0, 1]);
  assert.deepEqual(network?.paths[0]?.ends, ["a", "b"]);
});

test("a manifest without a plan has no network", () => {
  for (const manifest of [null, 3, [], {}, { document: {} }, { document: { path: [{}], target: {} } }, sampleRun().manifest]) {
    assert.equal(readNetwork(manifest, []), null);
  }
});
