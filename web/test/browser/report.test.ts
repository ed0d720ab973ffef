/** Opens the built page with sample runs in a real browser, without a network. */

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import type { BrowserContext, Locator, Page } from "playwright-core";
import type { Json, ReportData } from "../../src/report/data";
import { changedRun, emptyRun, failedRun, gridRun, samplePackets, sampleRun, singleCellRun, twoParameterRun } from "../sample";
import { launch, resize, whyNot } from "./chromium";

const skip = whyNot();

const folder = mkdtempSync(join(tmpdir(), "wansan-web-"));
let browser: BrowserContext;

before(async () => {
  if (skip !== false) {
    return;
  }
  browser = await launch(folder);
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The page as the lab would write it, opened from disk; whatever goes wrong in it is collected. */
async function open(data: ReportData): Promise<{ page: Page; wrong: string[] }> {
  const place = '<script id="run-data" type="application/json">{}</script>';
  const json = JSON.stringify(data).replaceAll("<", "\\u003c");
  const html = readFileSync("dist/report.html", "utf8");
  assert.equal(html.split(place).length, 2);
  const file = join(folder, "report.html");
  writeFileSync(file, html.replace(place, () => place.replace("{}", () => json)));
  const url = pathToFileURL(file).href;
  const page = await browser.newPage();
  const wrong: string[] = [];
  page.on("console", (message) => message.type() !== "log" && wrong.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => (wrong.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
  page.on("request", (request) => request.url() !== url && !request.url().startsWith("data:") && wrong.push(`request: ${request.url()}`));
  await page.goto(url);
  await page.waitForSelector("h1");
  return { page, wrong };
}

/** How many different colours a chart's canvas shows. */
async function colours(chart: Locator): Promise<number> {
  return chart.locator("canvas").evaluate((canvas) => {
    const { width, height } = canvas as HTMLCanvasElement;
    const { data } = (canvas as HTMLCanvasElement).getContext("2d")!.getImageData(0, 0, width, height);
    return new Set(new Uint32Array(data.buffer)).size;
  });
}

interface Pixels {
  width: number;
  height: number;
  /** Where the plot begins, and how wide it is. */
  left: number;
  inner: number;
  rgba: number[];
}

/** What a chart's canvas shows. */
async function pixels(chart: Locator): Promise<Pixels> {
  return chart.evaluate((root) => {
    const canvas = root.querySelector("canvas")!;
    const over = root.querySelector(".u-over")!.getBoundingClientRect();
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d")!.getImageData(0, 0, width, height);
    const scale = width / canvas.getBoundingClientRect().width;
    return { width, height, left: (over.left - canvas.getBoundingClientRect().left) * scale, inner: over.width * scale, rgba: [...new Uint32Array(data.buffer)] };
  });
}

/** The columns in which at least that share of the pixels are others. */
function columnsThatDiffer(a: Pixels, b: Pixels, share: number): number[] {
  return Array.from({ length: a.width }, (_, x) => x).filter((x) => {
    let others = 0;
    for (let y = 0; y < a.height; y++) {
      others += a.rgba[y * a.width + x] === b.rgba[y * a.width + x] ? 0 : 1;
    }
    return others >= share * a.height;
  });
}

async function picture(chart: Locator): Promise<string> {
  return chart.locator("canvas").evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());
}

/** Drags from one share of a chart's width to another. */
async function drag(page: Page, chart: Locator, from: number, to: number): Promise<void> {
  await chart.scrollIntoViewIfNeeded();
  const box = (await chart.locator(".u-over").boundingBox())!;
  await page.mouse.move(box.x + box.width * from, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * to, box.y + box.height / 2, { steps: 5 });
  await page.mouse.up();
}

test("the sample run's page draws all charts and asks nobody for anything", { skip }, async () => {
  const { page, wrong } = await open(sampleRun());
  for (const id of ["curves", "latency", "in-flight", "cwnd", "queue", "utilisation"]) {
    assert.ok((await colours(page.locator(`#${id} .chart`))) > 8, `${id} is drawn`);
  }
  assert.match((await page.textContent("#finding .sentence")) ?? "", /command window/);
  assert.equal(await page.textContent("#finding code"), "--command-window");
  assert.equal(await page.locator("#cells tbody tr").count(), 22);
  assert.equal(await page.locator("#breakdown .bars li").count(), 22);
  // The finding's cell shows what its limit takes, in the cause's words.
  assert.deepEqual(await page.locator("#breakdown .binds").evaluateAll((parts) => parts.map((part) => part.getAttribute("title"))), [
    "iSCSI queue, command window: 4.19 ms (11 %); the command window was closed",
  ]);
  assert.match((await page.textContent("#expectations")) ?? "", /✓ met.*✗ failed/s);
  assert.match((await page.textContent("#manifest .tree")) ?? "", /<\/script><img src=x/);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("another cell is shown by menu, by table and by a click on a point", { skip }, async () => {
  const { page, wrong } = await open(sampleRun());
  const numbers = page.locator("#cell .numbers");
  const chart = page.locator("#in-flight .chart");
  const before = await picture(chart);
  await page.selectOption("#cell-menu", "21");
  assert.match((await numbers.textContent()) ?? "", /18,993 IOPS/);
  assert.notEqual(await picture(chart), before);
  await page.getByRole("button", { name: "Look at cell 3", exact: true }).click();
  assert.equal(await page.inputValue("#cell-menu"), "3");
  await page.getByRole("button", { name: "Next cell" }).click();
  assert.equal(await page.inputValue("#cell-menu"), "4");
  const over = page.locator("#curves .u-over");
  const box = (await over.boundingBox())!;
  // The chart takes the point that it has seen the pointer on.
  await over.hover({ position: { x: box.width - 14, y: 41 } });
  await over.click({ position: { x: box.width - 12, y: 40 } });
  await page.waitForFunction(() => document.querySelector<HTMLSelectElement>("#cell-menu")?.value === "10");
  assert.deepEqual(wrong, []);
  await page.close();
});

test("charts zoom by drag, wheel and keys, together, and a double click shows all", { skip }, async () => {
  const { page, wrong } = await open(sampleRun());
  const chart = page.locator("#in-flight .chart");
  const other = page.locator("#queue .chart");
  const whole = [await picture(chart), await picture(other)];
  const zoomed = async () => [await chart.locator(".reset").isVisible(), await other.locator(".reset").isVisible()];
  await drag(page, chart, 0.3, 0.5);
  assert.deepEqual(await zoomed(), [true, true]);
  assert.notEqual(await picture(chart), whole[0]);
  assert.notEqual(await picture(other), whole[1]);
  await chart.locator(".u-over").dblclick();
  assert.deepEqual(await zoomed(), [false, false]);
  await chart.locator(".u-over").hover();
  await page.mouse.wheel(0, -300);
  assert.deepEqual(await zoomed(), [true, true]);
  await chart.press("0");
  assert.deepEqual(await zoomed(), [false, false]);
  await other.press("+");
  assert.deepEqual(await zoomed(), [true, true]);
  await other.locator(".reset").click();
  assert.deepEqual(await zoomed(), [false, false]);
  await chart.press("ArrowRight");
  assert.match((await chart.locator(".spoken").textContent()) ?? "", /application/);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("a page that is scrolled past does not zoom", { skip }, async () => {
  const { page } = await open(sampleRun());
  const chart = page.locator("#curves .chart");
  await chart.locator(".u-over").hover();
  await page.mouse.wheel(0, 200);
  assert.equal(await chart.locator(".reset").isVisible(), false);
  await page.close();
});

test("layers are hidden and shown, per session and in total", { skip }, async () => {
  const { page, wrong } = await open(sampleRun());
  const chart = page.locator("#in-flight .chart");
  const before = await picture(chart);
  await page.locator('.ladder [data-layer="tcp_initiator"]').click();
  assert.notEqual(await picture(chart), before);
  await page.locator('.ladder [data-layer="tcp_initiator"]').click();
  assert.equal(await picture(chart), before);
  const row = page.locator(".ladder tr", { has: page.locator('[data-layer="queue"]') });
  assert.match((await row.textContent()) ?? "", /112\.0.*4\.19 ms11 %command window$/);
  await page.getByLabel("all 4 sessions").check();
  assert.match((await row.textContent()) ?? "", /448\.0/);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("the layer that is marked is the finding's", { skip }, async () => {
  // I/Os wait above it: the queue holds them longest for the command window.
  const run = sampleRun();
  assert.equal(run.finding?.layer, "window");
  const { page, wrong } = await open(run);
  const marked = page.locator(".ladder tr", { hasText: "binds" });
  assert.deepEqual(await marked.locator("button").evaluateAll((buttons) => buttons.map((button) => button.getAttribute("data-layer"))), ["window"]);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("packets of a tunnel stand beside those without one, told by their lengths", { skip }, async () => {
  const { page, wrong } = await open(gridRun());
  await page.selectOption("#cell-menu", "0");
  const diagrams = page.locator("#packets .transfer");
  assert.deepEqual(await page.locator("#packets h4").allTextContents(), ["case none · upper delay 0ms · lower delay + third delay 0ms", "case ipsec · upper delay 0ms · lower delay + third delay 0ms"]);
  const tunnel = diagrams.nth(1);
  await tunnel.press("0");
  assert.equal(await tunnel.locator(".packet.thin").count(), 8);
  assert.equal(await tunnel.locator(".packet").count(), 40);
  await tunnel.press("ArrowRight");
  assert.match((await tunnel.locator(".tip").textContent()) ?? "", /^encryptedinitiator to target.*length 144 B$/);
  assert.match((await page.locator("#packets .legend").nth(1).textContent()) ?? "", /encrypted 32encrypted, as short as an ACK 8/);
  assert.equal(await page.locator("#packet-gaps .legend button").count(), 2);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("cuts of the windows are marked by reason, and the windows are summed", { skip }, async () => {
  const { page, wrong } = await open(sampleRun());
  const chart = page.locator("#cwnd .chart");
  const legend = page.locator("#cwnd .legend");
  assert.equal(await legend.locator('[data-cut="loss"]').textContent(), "Loss (timeout) 1");
  assert.match((await legend.textContent()) ?? "", /sum of the windows.*CWR \d+Recovery \d+/);
  assert.match((await page.textContent("#cwnd .reading")) ?? "", /2 more reductions are not drawn.*3 segments were retransmitted/);
  assert.equal(await chart.locator(".reset").isVisible(), false);
  const before = await picture(chart);
  await legend.locator('[data-cut="cwr"]').click();
  const without = await picture(chart);
  assert.notEqual(without, before);
  await legend.locator("button", { hasText: "ssthresh" }).first().click();
  assert.notEqual(await picture(chart), without);
  await drag(page, chart, 0.3, 0.5);
  assert.equal(await page.locator("#queue .chart .reset").isVisible(), true);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("changes of the paths are listed, and marked where they were made on every chart over time", { skip }, async () => {
  const charts = ["in-flight", "cwnd", "queue", "utilisation"];
  const drawn = async (data: ReportData, look: (page: Page) => Promise<void>) => {
    const { page, wrong } = await open(data);
    await look(page);
    const pictures = [];
    for (const id of charts) {
      pictures.push(await pixels(page.locator(`#${id} .chart`)));
    }
    assert.deepEqual(wrong, []);
    await page.close();
    return pictures;
  };
  const changed = await drawn(changedRun(), async (page) => {
    assert.deepEqual(await page.locator("#changes li").allTextContents(), [
      "upper.loss = 1% at -0.200 s",
      "upper.delay = 32ms at 0.800 s",
      "upper.back.rate = 50Mbit/s at 0.800 s",
      "lower.queue.limit = 1MiB, not applied: it has no queue",
      "upper down at 1.600 s, by hand",
    ]);
    assert.match((await page.textContent("#changes .reading")) ?? "", /7 more changes are not shown/);
  });
  const plain = await drawn(singleCellRun(), async (page) => assert.equal(await page.locator("#changes").count(), 0));
  const { from_s, step_s, steps } = singleCellRun().cells[0]!.time!;
  for (const [i, id] of charts.entries()) {
    const [with_, without] = [changed[i]!, plain[i]!];
    assert.deepEqual([with_.width, with_.height], [without.width, without.height]);
    // Columns that differ in most of their height are lines.
    const lines = columnsThatDiffer(with_, without, 0.5);
    const expected = [-0.2, 0.8, 1.6].map((at_s) => with_.left + ((at_s - from_s) / ((steps - 1) * step_s)) * with_.inner);
    for (const x of expected) {
      assert.ok(lines.some((column) => Math.abs(column - x) <= 1.5), `${id}: a line at ${x} among ${lines}`);
    }
    for (const column of lines) {
      assert.ok(expected.some((x) => Math.abs(column - x) <= 1.5), `${id}: no line at ${column}, but at ${expected}`);
    }
  }
});

test("two swept quantities make heat maps and curves of any measure, with the paper's numbers", { skip }, async () => {
  const { page, wrong } = await open(gridRun());
  assert.match((await page.textContent("#paper")) ?? "", /Fig\. 16.*123 Mbit\/s.*96 Mbit\/s.*0\.78.*0\.8––/s);
  assert.deepEqual(await page.locator("#paper .remarks li").allTextContents(), [
    "16-4 is slower than 4-16 <as well>.",
    "With us it is faster: its router serves the first route first.",
  ]);
  const maps = page.locator("#grid .heat-map");
  assert.deepEqual(await maps.locator("caption").allTextContents(), ["case none", "case ipsec"]);
  assert.equal(await maps.locator("button").count(), 17);
  assert.deepEqual(await maps.locator(".nothing").allTextContents(), ["–"]);
  assert.deepEqual(await maps.locator(".papers").allTextContents(), ["◇ 123"]);
  // The paper's measure comes first; another is chosen by name.
  assert.equal(await page.inputValue("#measure-menu"), "bytes_per_s");
  const values = await maps.locator("button").allTextContents();
  const curve = await picture(page.locator("#curves .chart"));
  await page.selectOption("#measure-menu", "routers.far.cpu_s_per_gib");
  assert.notDeepEqual(await maps.locator("button").allTextContents(), values);
  assert.match((await page.textContent("#curves h3")) ?? "", /Router far: cpu \(s\/GiB\) against delay/);
  assert.notEqual(await picture(page.locator("#curves .chart")), curve);
  await page.selectOption("#axis-menu", "path.upper.delay");
  assert.equal(await page.locator("#curves .legend button").count(), 6);
  await maps.nth(1).locator("button").last().click();
  assert.equal(await page.inputValue("#cell-menu"), "17");
  assert.equal(await maps.nth(1).locator('[aria-current="true"]').count(), 1);
  assert.deepEqual(wrong, []);
  await page.close();
});

/** The rows, as shares of a chart's canvas, between which it shows a colour; null where it does not. */
async function rowsOf(chart: Locator, variable: string): Promise<[number, number] | null> {
  return chart.locator("canvas").evaluate((node, variable) => {
    const canvas = node as HTMLCanvasElement;
    const context = canvas.getContext("2d")!;
    context.save();
    context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(variable);
    const hex = String(context.fillStyle);
    context.restore();
    const [r, g, b] = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
    const { width, height } = canvas;
    const { data } = context.getImageData(0, 0, width, height);
    const rows: number[] = [];
    for (let i = 0; i < data.length; i += 4) {
      if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255) {
        rows.push(Math.floor(i / 4 / width) / height);
      }
    }
    return rows.length === 0 ? null : ([rows[0], rows[rows.length - 1]] as [number, number]);
  }, variable);
}

test("a paper's numbers of another size have a scale of their own, and press no curve flat", { skip }, async () => {
  const near = gridRun();
  const far = gridRun();
  for (const known of far.paper?.known ?? []) {
    known.value *= known.relative_to === null ? 40 : 1;
  }
  const spans: number[] = [];
  for (const [run, apart] of [[near, false], [far, true]] as const) {
    const { page, wrong } = await open(run);
    assert.equal(/on the scale on the right/.test((await page.textContent("#curves")) ?? ""), apart);
    const rows = await rowsOf(page.locator("#curves .chart"), "--series-1");
    assert.ok(rows !== null);
    spans.push(rows[1] - rows[0]);
    assert.deepEqual(wrong, []);
    await page.close();
  }
  assert.ok((spans[1] ?? 0) > 0.8 * (spans[0] ?? 1), `the curve covers ${spans.join(" and then ")} of the height`);
});

test("what a plan expects something of is shown first", { skip }, async () => {
  const run = gridRun();
  run.paper = null;
  run.expectations = [
    { expected: 'finding.limit equals "command_window"', found: "nothing", met: false },
    { expected: "cells.bytes_per_s where case = ipsec is at most 3", found: "2", met: true },
  ];
  const { page, wrong } = await open(run);
  assert.equal(await page.inputValue("#measure-menu"), "bytes_per_s");
  assert.deepEqual(wrong, []);
  await page.close();
});

test("long names along an axis are all there, and none is cut", { skip }, async () => {
  const run = gridRun();
  const names = ["single/single, 2 ms", "two/single, 2 ms", "two/two, 2-2 ms", "two/two, 2-16 ms", "two/two, 16-16 ms"];
  const [cell] = run.cells;
  assert.ok(cell !== undefined);
  run.paper = null;
  run.cells = names.map((name, number) => ({ ...cell, cell: number, parameters: { case: name } }));
  const { page, wrong } = await open(run);
  const edge = await page.locator("#curves .chart canvas").evaluate((node) => {
    const canvas = node as HTMLCanvasElement;
    const { width, height } = canvas;
    const column = canvas.getContext("2d")!.getImageData(width - 1, 0, 1, height).data;
    return new Set(new Uint32Array(column.buffer)).size;
  });
  assert.equal(edge, 1, "something is drawn up to the right edge");
  assert.deepEqual(wrong, []);
  await page.close();
});

test("no text of a path runs under a box", { skip }, async () => {
  const run = gridRun();
  const { document: plan } = run.manifest as unknown as { document: { path: Record<string, Json>[] } };
  for (const path of plan.path) {
    path["rate"] = "43Mbit/s";
    path["queue"] = { kind: "priority", limit: "1MiB", routes: ["upper", "lower"] };
  }
  const { page, wrong } = await open(run);
  const under = await page.evaluate(() => {
    const boxes = [...document.querySelectorAll(".topology .node rect")].map((box) => box.getBoundingClientRect());
    const texts = [...document.querySelectorAll(".topology .path-label text")];
    return texts
      .filter((text) => {
        const at = text.getBoundingClientRect();
        return boxes.some((box) => at.left < box.right && box.left < at.right && at.top < box.bottom && box.top < at.bottom);
      })
      .map((text) => text.textContent);
  });
  assert.deepEqual(under, []);
  assert.match((await page.textContent(".topology")) ?? "", /priority/);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("the network is drawn, and told in words where there is no room", { skip }, async () => {
  const { page, wrong } = await open(gridRun());
  assert.equal(await page.locator(".topology .node").count(), 5);
  assert.equal(await page.locator(".topology .path").count(), 5);
  assert.equal(await page.locator(".topology .tunnel").count(), 1);
  const words = page.locator(".topology-words");
  assert.match((await words.textContent()) ?? "", /path upper: near-1 – far, delay 0ms … 8ms.*route upper: via near-1, far, ipsec 3des/);
  await resize(page, 375, 900);
  assert.equal(await page.locator(".topology").isVisible(), false);
  assert.ok(((await words.boundingBox())?.height ?? 0) > 50);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 375);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("each packet is an arrow that tells what it is; lost ones end in a cross", { skip }, async () => {
  const { page, wrong } = await open(sampleRun());
  const diagram = page.locator("#packets .transfer").first();
  const arrows = diagram.locator(".packet");
  await diagram.press("0");
  assert.equal(await arrows.count(), 40);
  assert.equal(await diagram.locator(".packet.arrived .head").count(), 38);
  assert.equal(await diagram.locator(".packet.lost .cross").count(), 1);
  assert.equal(await diagram.locator(".packet.dropped .cross").count(), 1);
  // PDUs begin in commands and in the last segments of answers; one answer's last one waited.
  assert.equal(await diagram.locator(".packet .begin").count(), 16);
  // Each I/O has a lane with its waits, which the pointer tells of.
  assert.equal(await diagram.locator(".wait").count(), 48);
  const band = (await diagram.locator(".wait-acknowledgement rect").first().boundingBox())!;
  await page.mouse.move(band.x + band.width / 2, band.y + band.height / 2);
  assert.match((await diagram.locator(".tip").textContent()) ?? "", /^nagleNagle's algorithm held.*ITT 0, held by target for 1\.09 ms/);
  assert.match((await page.textContent("#stalls")) ?? "", /1\.98 round trips.*nagle.*98 %/s);
  await page.locator("#packets .legend button", { hasText: "ACK" }).first().click();
  assert.equal(await arrows.count(), 32);
  await diagram.press("ArrowRight");
  const told = (await diagram.locator(".tip").textContent()) ?? "";
  assert.match(told, /SCSI Command, ITT 0.*initiator to target.*arrived after 1 ms.*length 48 B, seq 0, ack 0, PSH ACK/);
  assert.match((await diagram.locator(".spoken").textContent()) ?? "", /SCSI Command/);
  // Where its arrow ends at the target, the pointer finds the same packet.
  await diagram.press("ArrowRight");
  assert.match((await diagram.locator(".tip").textContent()) ?? "", /ITT 1/);
  const tip = diagram.locator(".packet.chosen .head");
  const box = (await tip.boundingBox())!;
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  assert.match((await diagram.locator(".tip").textContent()) ?? "", /ITT 1/);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("each cause of stalls shows the packets of its costliest stall, down to microseconds", { skip }, async () => {
  const run = sampleRun();
  for (const { stall_packets, stalls } of run.cells) {
    stall_packets.push({ cause: "fast_retransmit", packets: samplePackets(4, 12) });
    stalls!.causes.push({ ...stalls!.causes[0]!, cause: "fast_retransmit", cost_ns: 1e6 });
  }
  const { page, wrong } = await open(run);
  const diagram = page.locator("#stalls .transfer");
  // The costliest cause is shown at once: three answers, where a PDU begins in them, and their waits.
  assert.equal(await diagram.count(), 1);
  assert.equal(await diagram.locator(".packet").count(), 15);
  assert.equal(await diagram.locator(".packet .begin").count(), 6);
  assert.equal(await diagram.locator(".wait-acknowledgement").count(), 3);
  // From milliseconds …
  const ticks = async () => await diagram.locator(".tick text").allTextContents();
  assert.match((await ticks()).join(" "), /\d ms/);
  // … to parts of a microsecond, which the axis distinguishes.
  for (let i = 0; i < 30; i += 1) {
    await diagram.press("+");
  }
  const close = await ticks();
  assert.equal(new Set(close).size, close.length, close.join(", "));
  assert.match(close.join(" "), /\d\.\d{4} ms/);
  await diagram.press("0");
  await page.locator("#stalls").getByRole("button", { name: "Show the packets: fast retransmit" }).click();
  assert.equal(await diagram.locator(".packet").count(), 20);
  assert.match((await page.locator("#stalls .stall-example h4").textContent()) ?? "", /fast retransmit/);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("two cells' packets zoom and move together", { skip }, async () => {
  const { page, wrong } = await open(twoParameterRun());
  const diagrams = page.locator("#packets .transfer");
  assert.equal(await diagrams.count(), 2);
  const [one, other] = [diagrams.nth(0), diagrams.nth(1)];
  const counts = async () => [await one.locator(".packet").count(), await other.locator(".packet").count()];
  await one.press("0");
  assert.deepEqual(await counts(), [40, 40]);
  await one.locator(".over").hover();
  await page.mouse.wheel(0, -900);
  const zoomed = await counts();
  assert.ok(zoomed[0]! < 40 && zoomed[0] === zoomed[1], String(zoomed));
  const ticks = () => other.locator(".tick text").allTextContents();
  const before = await ticks();
  const box = (await one.locator(".over").boundingBox())!;
  await page.mouse.move(box.x + 300, box.y + 100);
  await page.mouse.down();
  await page.mouse.move(box.x + 100, box.y + 100, { steps: 4 });
  await page.mouse.up();
  assert.notDeepEqual(await ticks(), before);
  await one.locator(".reset").click();
  assert.deepEqual(await counts(), [40, 40]);
  await page.selectOption("#beside-menu", "");
  assert.equal(await diagrams.count(), 1);
  assert.equal(await page.locator("#packet-gaps .legend button").count(), 2);
  assert.ok((await colours(page.locator("#packet-gaps .chart"))) > 4);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("the manifest can be searched", { skip }, async () => {
  const { page, wrong } = await open(sampleRun());
  const leaf = page.locator(".tree .leaf", { hasText: "tcp_congestion_control" });
  assert.equal(await leaf.isVisible(), false);
  await page.getByLabel("Search the manifest").fill("CONGESTION");
  assert.equal(await leaf.isVisible(), true);
  assert.equal(await page.locator(".tree .leaf", { hasText: "seed" }).isVisible(), false);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("nothing is cut in a narrow window, text and tables alike", { skip }, async () => {
  const { page, wrong } = await open(sampleRun());
  for (const width of [375, 420, 800]) {
    await resize(page, width, 900);
    const cut = await page.evaluate(() => {
      const wider = [...document.querySelectorAll("#report *")].filter((element) => {
        const { right, width } = element.getBoundingClientRect();
        return width > 1 && right > innerWidth + 0.5;
      });
      const scrolled = [...document.querySelectorAll(".scroll")].filter((element) => element.scrollWidth > element.clientWidth);
      return [...wider, ...scrolled].map((element) => `${element.tagName} ${element.className}`);
    });
    assert.deepEqual(cut, [], `at ${width} px`);
  }
  const row = page.locator("#cells tbody tr").first();
  assert.match((await row.locator("td").nth(2).getAttribute("data-heading")) ?? "", /IOPS/);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("nothing is wider than the window, and dark is dark", { skip }, async () => {
  const { page, wrong } = await open(sampleRun());
  const chart = page.locator("#curves .chart");
  const light = await picture(chart);
  await page.emulateMedia({ colorScheme: "dark" });
  assert.notEqual(await picture(chart), light);
  for (const width of [375, 768, 1280, 2560]) {
    await resize(page, width, 800);
    const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.equal(content, window);
  }
  assert.deepEqual(wrong, []);
  await page.close();
});

for (const [name, data] of Object.entries({ emptyRun: emptyRun(), failedRun: failedRun(), singleCellRun: singleCellRun(), twoParameterRun: twoParameterRun(), gridRun: gridRun() })) {
  test(`${name} has a page that makes sense`, { skip }, async () => {
    const { page, wrong } = await open(data);
    assert.equal(await page.locator("h1").count(), 1);
    const text = (await page.textContent("#report")) ?? "";
    assert.doesNotMatch(text, /undefined|NaN|\[object|null/);
    assert.deepEqual(wrong, []);
    await page.close();
  });
}
