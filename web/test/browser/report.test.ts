/** Opens the built page with sample runs in a real browser, without a network. */

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import type { BrowserContext, Locator, Page } from "playwright-core";
import type { ReportData } from "../../src/report/data";
import { emptyRun, failedRun, gridRun, sampleRun, singleCellRun, twoParameterRun } from "../sample";

const CHROMIUM = "/usr/bin/chromium";
/** What playwright-core needs; the rest of this package is content with Debian 12's Node.js 18. */
const OLDEST_NODE = 20;
const skip = whyNot();

/** Why these tests cannot run here; false when they can. */
function whyNot(): string | false {
  if (!existsSync(CHROMIUM)) {
    return "not run: no chromium";
  }
  const [major] = process.versions.node.split(".").map(Number);
  return (major ?? 0) < OLDEST_NODE && `not run: driving a browser needs Node.js ${OLDEST_NODE} or newer`;
}

const folder = mkdtempSync(join(tmpdir(), "wansan-web-"));
let browser: BrowserContext;

before(async () => {
  if (skip !== false) {
    return;
  }
  // Loaded only where it runs: an older Node.js is told to go, and every test with it.
  const { chromium } = await import("playwright-core");
  browser = await chromium.launchPersistentContext(join(folder, "profile"), {
    executablePath: CHROMIUM,
    viewport: { width: 1280, height: 900 },
    args: [
      ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
      "--disable-gpu",
      "--disable-quic",
    ],
  });
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The page as the lab would write it, opened from disk; whatever goes wrong in it is collected. */
async function open(data: ReportData | Record<string, never>): Promise<{ page: Page; wrong: string[] }> {
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
  await over.click({ position: { x: box.width - 12, y: 40 } });
  assert.equal(await page.inputValue("#cell-menu"), "10");
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
  const row = page.locator(".ladder tr", { has: page.locator('[data-layer="window"]') });
  assert.match((await row.textContent()) ?? "", /100\.0.*binds/);
  await page.getByLabel("all 4 sessions").check();
  assert.match((await row.textContent()) ?? "", /400\.0/);
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
  assert.equal(await legend.locator('[data-cut="loss"]').textContent(), "Loss (time-out) 1");
  assert.match((await legend.textContent()) ?? "", /sum of the windows.*CWR \d+Recovery \d+/);
  assert.match((await page.textContent("#cwnd .reading")) ?? "", /2 more cuts are not drawn.*3 segments were sent again/);
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

test("a run of an older wansan shows what it has", { skip }, async () => {
  const run = sampleRun();
  for (const cell of run.cells) {
    for (const name of ["packets", "packet_gaps", "tcp_time"] as const) {
      delete (cell as Partial<typeof cell>)[name];
    }
    cell.connections = cell.connections.map(({ name, cwnd_packets, retransmits }) => ({ name, cwnd_packets, retransmits }) as (typeof cell.connections)[number]);
  }
  const { page, wrong } = await open(run);
  assert.ok((await colours(page.locator("#cwnd .chart"))) > 8);
  assert.match((await page.textContent("#cell")) ?? "", /No packets were recorded/);
  assert.deepEqual(wrong, []);
  await page.close();
});

test("two swept quantities make heat maps and curves of any measure, with the paper's numbers", { skip }, async () => {
  const { page, wrong } = await open(gridRun());
  assert.match((await page.textContent("#paper")) ?? "", /Fig\. 16.*123 Mbit\/s.*96 Mbit\/s.*0\.78.*0\.8––/s);
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

test("the network is drawn, and told in words where there is no room", { skip }, async () => {
  const { page, wrong } = await open(gridRun());
  assert.equal(await page.locator(".topology .node").count(), 5);
  assert.equal(await page.locator(".topology .path").count(), 5);
  assert.equal(await page.locator(".topology .tunnel").count(), 1);
  const words = page.locator(".topology-words");
  assert.match((await words.textContent()) ?? "", /path upper: near-1 – far, delay 0ms … 8ms.*route upper: via near-1, far, ipsec 3des/);
  await page.setViewportSize({ width: 375, height: 900 });
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
    await page.setViewportSize({ width, height: 900 });
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
    await page.setViewportSize({ width, height: 800 });
    const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.equal(content, window);
  }
  assert.deepEqual(wrong, []);
  await page.close();
});

for (const [name, data] of Object.entries({ emptyRun: emptyRun(), failedRun: failedRun(), singleCellRun: singleCellRun(), twoParameterRun: twoParameterRun(), gridRun: gridRun(), "no data at all": {} })) {
  test(`${name} has a page that makes sense`, { skip }, async () => {
    const { page, wrong } = await open(data as ReportData);
    assert.equal(await page.locator("h1").count(), 1);
    const text = (await page.textContent("#report")) ?? "";
    assert.doesNotMatch(text, /undefined|NaN|\[object|null/);
    assert.deepEqual(wrong, []);
    await page.close();
  });
}
