/** Opens the live page in a real browser, on a server that sends what a watch would. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Locator, Page } from "playwright-core";
import type { Message, Now } from "../../src/live/messages";
import { whyNot } from "./chromium";
import { LivePage } from "./livepage";

const skip = whyNot();
const live = new LivePage<Message>("live");
const send = (...messages: Message[]): void => live.send(...messages);

async function open(): Promise<{ page: Page; wrong: string[] }> {
  const opened = await live.open();
  send({ kind: "watch", way: "traced", why: "", interval_ns: 1e8 });
  return opened;
}

function begin(place: number): Message {
  return { kind: "begin", time_ns: 1e9, connection: place.toString(16), local: `10.0.0.1:${place}`, remote: "10.0.0.2:3260", congestion_control: "<img src=x>" };
}

/** The connections' state at a step of a tenth of a second: the higher its place, the faster. */
function frame(step: number, connections: number): Message {
  const now = (place: number): Now => ({
    connection: place.toString(16),
    time_ns: 1e9 + step * 1e8,
    event: "sample",
    seen: "traced",
    cwnd_packets: 10 + place + (step % 20),
    ssthresh_packets: 8 + place,
    in_flight_packets: 5,
    srtt_ns: 1e6 * (1 + (step % 7)),
    min_rtt_ns: 1e6,
    rwnd_bytes: 65536,
    delivery_bytes_per_s: place * 1000,
    congestion_state: "open",
    mss_bytes: 1448,
    unsent_bytes: 0,
    acked_bytes: 0,
    pacing_bytes_per_s: null,
    busy_ns: 0,
    rwnd_limited_ns: 0,
    sndbuf_limited_ns: 0,
    retransmits: 0,
    delivered_ce: 0,
    timeouts: 0,
    unread_bytes: 0,
    ece_signals: 0,
    send_memory_bytes: 0,
    send_buffer_bytes: 0,
    ecn: "off",
    shares: [0.5, 0.25, 0],
  });
  return { kind: "frame", time_ns: 1e9 + step * 1e8, connections: Array.from({ length: connections }, (_, i) => now(i + 1)) };
}

function cut(step: number, place: number, event: string): Message {
  return { kind: "event", event, seen: "traced", time_ns: 1e9 + step * 1e8, connection: place.toString(16), local: "", remote: "" };
}

async function picture(plot: Locator): Promise<string> {
  return plot.locator("canvas").evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());
}

async function colours(plot: Locator): Promise<number> {
  return plot.locator("canvas").evaluate((canvas) => {
    const { width, height } = canvas as HTMLCanvasElement;
    const { data } = (canvas as HTMLCanvasElement).getContext("2d")!.getImageData(0, 0, width, height);
    return new Set(new Uint32Array(data.buffer)).size;
  });
}

test("300 connections are listed, the fastest are drawn, and what comes next is added", { skip }, async () => {
  const { page, wrong } = await open();
  send(...Array.from({ length: 300 }, (_, i) => begin(i + 1)));
  for (let step = 1; step <= 40; step++) {
    send(frame(step, 300));
  }
  // The table is made anew from time to time, when a frame comes.
  let step = 40;
  const going = setInterval(() => send(frame(++step, 300)), 100);
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 300);
  clearInterval(going);
  await page.waitForTimeout(300);
  assert.equal(await page.locator("button[aria-pressed=true]").count(), 4);
  assert.match((await page.locator("tbody tr").first().textContent()) ?? "", /10\.0\.0\.1:300.*<img src=x>.*50 %/s);
  assert.match((await page.textContent(".state")) ?? "", /Every change is traced\. 300 connections/);
  const windows = page.locator("#windows");
  assert.ok((await colours(windows)) > 8, "windows are drawn");
  assert.ok((await colours(page.locator("#round-trips"))) > 5, "round trips are drawn");
  const before = await picture(windows);
  send(frame(step + 20, 300));
  await page.waitForFunction((old) => document.querySelector<HTMLCanvasElement>("#windows canvas")!.toDataURL() !== old, before);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("rows are sorted by any column, both ways, and stay where they are under the pointer", { skip }, async () => {
  const { page, wrong } = await open();
  send(begin(1), begin(2), begin(3));
  let step = 0;
  const going = setInterval(() => send(frame(++step, 3)), 100);
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 3);
  const order = (ports: number[]) =>
    page.waitForFunction((wanted) => [...document.querySelectorAll("tbody td:first-child")].map((cell) => /10\.0\.0\.1:(\d+)/.exec(cell.textContent!)![1]).join() === wanted, ports.join());
  await order([3, 2, 1]);
  const sort = page.getByRole("button", { name: "cwnd" });
  await sort.click();
  await order([3, 2, 1]);
  assert.equal(await page.locator("th[aria-sort=descending]").textContent(), "cwnd");
  await sort.click();
  await order([1, 2, 3]);
  await page.getByRole("button", { name: "connection" }).click();
  await order([1, 2, 3]);
  assert.equal(await page.locator("th[aria-sort=ascending]").textContent(), "connection");
  await page.getByRole("button", { name: "delivery" }).click();
  await order([3, 2, 1]);
  await page.locator("tbody tr").first().hover();
  clearInterval(going);
  // The slowest has become the fastest.
  const fast: Message = frame(++step, 3);
  if (fast.kind === "frame") {
    fast.connections[0]!.delivery_bytes_per_s = 1e6;
  }
  const going_on = setInterval(() => send({ ...fast, time_ns: 1e9 + ++step * 1e8 } as Message), 100);
  await page.waitForFunction(() => /8\.0/.test(document.querySelector("tbody tr:last-child")!.textContent!));
  await order([3, 2, 1]);
  await page.mouse.move(0, 0);
  await order([1, 3, 2]);
  clearInterval(going_on);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("events are marked and counted, and what was lost is told", { skip }, async () => {
  const { page, wrong } = await open();
  send(begin(1), ...[1, 2, 3, 4].map((step) => frame(step, 1)));
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
  await page.waitForTimeout(600);
  const before = await picture(page.locator("#windows"));
  const events = ["cwr_by_ece", "cwr_by_device", "recovery", "loss", "undo"];
  send(...events.map((event, i) => cut(1 + i / 2, 1, event)), { kind: "unseen", time_ns: 1, connections: 0, samples: 0, events: 1234, records: 0 }, frame(5, 1));
  await page.waitForTimeout(600);
  send(frame(6, 1));
  await page.waitForFunction(() => document.querySelector("tbody tr")!.lastElementChild!.textContent === "4");
  assert.notEqual(await picture(page.locator("#windows")), before);
  assert.match((await page.textContent(".lost")) ?? "", /1,234 events lost/);
  send({ kind: "device_gone", time_ns: 1, device: "wan" });
  await page.waitForFunction(() => /Device wan has gone/.test(document.querySelector(".state")!.textContent!));
  send({ kind: "end", time_ns: 2e9, connection: "1" }, { kind: "over", why: "process 7 has ended" });
  await page.waitForFunction(() => /process 7 has ended/.test(document.querySelector(".state")!.textContent!));
  assert.deepEqual(wrong, []);
  await page.close();
});

test("the view is paused, zoomed by drag and keys, and follows again", { skip }, async () => {
  const { page, wrong } = await open();
  send(begin(1), begin(2));
  for (let step = 1; step <= 100; step++) {
    send(frame(step, 2));
  }
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 2);
  const windows = page.locator("#windows");
  const shot = async (change: () => Promise<void>) => {
    const before = await picture(windows);
    await change();
    await page.waitForFunction((old) => document.querySelector<HTMLCanvasElement>("#windows canvas")!.toDataURL() !== old, before);
  };
  await page.waitForTimeout(200);
  await page.getByRole("button", { name: "pause" }).click();
  await page.waitForTimeout(200);
  const held = await picture(windows);
  send(frame(150, 2), frame(151, 2));
  await page.waitForTimeout(300);
  assert.equal(await picture(windows), held, "nothing moves while paused");

  const follow = page.getByRole("button", { name: "follow the present" });
  assert.equal(await follow.isVisible(), false);
  await shot(async () => {
    const box = (await windows.locator(".u-over").boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.3, box.y + 50);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 50, { steps: 5 });
    await page.mouse.up();
  });
  assert.equal(await follow.isVisible(), true);
  await windows.focus();
  await shot(() => page.keyboard.press("+"));
  await shot(() => follow.click());
  assert.equal(await follow.isVisible(), false);
  await page.getByRole("button", { name: "go on" }).click();
  await shot(async () => send(frame(200, 2)));

  // Another choice of connections.
  await shot(() => page.getByRole("button", { name: "10.0.0.1:1 >" }).click());
  assert.equal(await page.locator("tbody button[aria-pressed=true]").count(), 1);
  assert.deepEqual(wrong, []);
  await page.close();
});
