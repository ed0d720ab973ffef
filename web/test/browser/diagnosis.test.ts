/** Opens the live page of a diagnosis in a real browser, on a server that sends what `wansan diagnose --web` would. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Message, Session } from "../../src/diagnosis/messages";
import { whyNot } from "./chromium";
import { LivePage } from "./livepage";

const skip = whyNot();
const live = new LivePage<Message>("diagnosis");

/** A session with 1000 IOPS, of whose latency half is at the target. */
function session(port: number): Session {
  const share = (wait: string, mean_ns: number) => ({ wait, why: `it was at <img src=x> ${wait}`, mean_ns, share: mean_ns / 8e6, source: "packets" });
  return {
    connections: [[`10.0.0.1:${port}`, "10.0.0.2:3260"]],
    target_name: "iqn.2026-11.net.example:vault",
    iops: 1000,
    outstanding: 8,
    shares: [share("target", 4e6), share("propagation", 4e6)],
    disks: [{ disk: "sda", lun: 3, ios: 2000, latency_ns: 8e6, queued_ns: 1e6, wire_ns: null, outstanding: 7.5, queue_depth: 32, full_share: 0.5 }],
    stores: [],
    judgement: { limit: "target", latency_ns: 8e6 },
    finding: "The target limits throughput.",
  };
}

function slice(at_s: number, sessions: Session[]): Message {
  const sources = [{ name: "packets", what: "4091 packets", is_used: true }];
  return { kind: "slice", at_s, diagnosis: { sources, sessions, unfinished: ["10.0.0.1:6 to 10.0.0.2:3260"], quiet: ["10.0.0.1:5 to 10.0.0.2:3260"] } };
}

test("each session has its waits over time and its LUNs, and another wait is added", { skip }, async () => {
  const { page, wrong } = await live.open();
  for (let at_s = 2; at_s < 40; at_s += 2) {
    live.send(slice(at_s, [session(1), session(2)]));
  }
  await page.waitForFunction(() => document.querySelectorAll("section").length === 2 && /38 s; 2 sessions/.test(document.querySelector(".state")!.textContent!));
  assert.match((await page.locator(".state").first().textContent()) ?? "", /seen in part only: 10\.0\.0\.1:6 to .*Without I\/Os: 10\.0\.0\.1:5 to 10\.0\.0\.2:3260\.$/);
  const first = page.locator("section").first();
  assert.match((await first.textContent()) ?? "", /vault, 10\.0\.0\.1:1 to 10\.0\.0\.2:3260.*1,000 IOPS, latency 8\.00 ms.*The target limits/s);
  const rows = first.locator("tbody tr");
  assert.equal(await rows.count(), 3);
  // By Little's law, 4 of them.
  assert.match((await rows.first().textContent()) ?? "", /<img src=x> target.*packets4\.04\.0050 %/);
  assert.match((await rows.last().textContent()) ?? "", /sda32,?0008\.001\.007\.53250 %/);
  assert.equal(await page.locator("canvas").count(), 2);
  const more = session(1);
  more.shares.push({ wait: "nagle", why: "Nagle's algorithm", mean_ns: 1e6, share: 0.1, source: "packets" });
  live.send(slice(40, [more]));
  await page.waitForFunction(() => document.querySelectorAll("section:first-of-type tbody tr").length >= 4);
  live.send({ kind: "over" });
  await page.waitForFunction(() => /has ended/.test(document.querySelector(".state")!.textContent!));
  assert.deepEqual(wrong, []);
  await page.close();
});
