import assert from "node:assert/strict";
import { test } from "node:test";
import { gapCurve, lengthTicks } from "../src/diagram/gaps";
import { describe, flagNames, readPackets, usualTransit } from "../src/diagram/packet";
import { describeWait, ioNames, waitAt } from "../src/diagram/waits";
import { roundTicks, TimeView } from "../src/diagram/view";
import { samplePackets } from "./sample";

test("ticks are round and few", () => {
  assert.deepEqual(roundTicks({ from: 0, to: 100 }, 5), [0, 20, 40, 60, 80, 100]);
  assert.deepEqual(roundTicks({ from: 3, to: 3.9 }, 4).map((tick) => tick.toFixed(2)), ["3.00", "3.50"]);
  assert.deepEqual(roundTicks({ from: 5, to: 5 }, 4), []);
  for (let most = 2; most < 20; most += 1) {
    assert.ok(roundTicks({ from: -17, to: 1234 }, most).length <= most + 1);
  }
});

test("a view stays inside the whole and keeps its length when moved", () => {
  const view = new TimeView({ from: 0, to: 1000 }, { from: 0, to: 100 });
  let told = 0;
  view.onChange(() => (told += 1));
  view.move(50);
  assert.deepEqual(view.shown, { from: 50, to: 150 });
  view.move(-500);
  assert.deepEqual(view.shown, { from: 0, to: 100 });
  view.move(5000);
  assert.deepEqual(view.shown, { from: 900, to: 1000 });
  view.reveal({ from: 100, to: 120 });
  assert.deepEqual(view.shown, { from: 100, to: 200 });
  view.reveal({ from: 150, to: 250 });
  assert.deepEqual(view.shown, { from: 150, to: 250 });
  view.show({ from: -5, to: 9999 });
  assert.ok(view.isWhole());
  view.show({ from: 10, to: 10 });
  assert.ok(view.shown.to > view.shown.from);
  assert.equal(told, 7);
});

test("packets come out of their columns, and in words", () => {
  const diagram = samplePackets(4, 10);
  const packets = readPackets(diagram);
  assert.equal(packets.length, 20);
  assert.deepEqual(packets.filter(({ fate }) => fate !== "arrived").map(({ fate }) => fate).sort(), ["dropped", "lost"]);
  assert.equal(usualTransit(packets, true), 1000);
  const lost = packets.find(({ fate }) => fate === "lost");
  assert.match(describe(lost!, diagram).join("; "), /SCSI Data-In, ITT 2; target to initiator.*lost on the path; length 1,448 B/);
  assert.equal(flagNames(0x52), "SYN ACK ECE");
  const encrypted = { ...lost!, kind: 3, place: null, acked: null, flags: 0, task: null };
  const tunnel = { ...diagram, kinds: [...diagram.kinds, { is: "encrypted", name: "" }] };
  assert.equal(describe(encrypted, tunnel)[0], "encrypted");
  assert.equal(describe(encrypted, tunnel)[2], "length 1,448 B");
});

test("where PDUs begin comes to their packets", () => {
  const packets = readPackets(samplePackets(4, 10));
  const last = packets.find(({ payload_bytes }) => payload_bytes === 1248);
  assert.deepEqual(last?.begins, [{ share: 1200 / 1248, kind: 1 }]);
  assert.deepEqual(packets[0]?.begins, [{ share: 0, kind: 0 }]);
});

test("each moment of an I/O in its lane is one wait, in words", () => {
  const { ios } = samplePackets(4, 10);
  const at = (lane: number, time_us: number) => waitAt(ios, lane, time_us)?.wait.cause;
  assert.deepEqual([-21, -20, 0, 999, 1000, 1100, 2299, 3299].map((time) => at(0, time)), [undefined, "initiator", "propagation", "propagation", "store_service", "unknown", "nagle", "propagation"]);
  assert.equal(at(0, 3300), undefined);
  assert.equal(at(4, 1000), undefined);
  assert.deepEqual(describeWait(waitAt(ios, 1, 1500)!), ["nagle", "Nagle's algorithm held a short segment for a round trip", "ITT 1, held by target for 1.09 ms"]);
  assert.match(describeWait(waitAt(ios, 0, 1100)!).join("; "), /unknown.*200 µs, of which 12 µs may belong/);
});

test("I/Os of several sessions are named with their sessions", () => {
  const { ios } = samplePackets(2, 10);
  assert.deepEqual(ioNames(ios), ["ITT 0", "ITT 1"]);
  const other = ios.map((io) => ({ ...io, session: "initiator-2" }));
  const both = [...ios, ...other];
  assert.deepEqual(ioNames(both), ["initiator-1, ITT 0", "initiator-1, ITT 1", "initiator-2, ITT 0", "initiator-2, ITT 1"]);
  assert.match(describeWait(waitAt(both, 3, 1500)!).join("; "), /initiator-2, ITT 1, held by target/);
});

test("an empty diagram has no packets", () => {
  assert.deepEqual(readPackets(samplePackets(0, 1)), []);
  assert.equal(usualTransit([], true), 0);
});

test("gaps become a rising curve on round lengths", () => {
  const curve = gapCurve({ gaps: 3, mean_ns: 3000, p50_ns: 2000, p90_ns: 9000, quantiles_ns: [0, 50, 2000, 2000, 9000] });
  assert.deepEqual([...curve], [[0.1, 25], [2, 75], [9, 100]]);
  assert.deepEqual(lengthTicks([0.1, 2, 9]), [0.1, 0.2, 0.5, 1, 2, 5, 10]);
});
