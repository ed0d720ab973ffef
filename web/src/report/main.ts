/** Puts the page together from the data that stands in it. */

import { ChartGroup } from "../chart/chart";
import { breakdownFigure } from "./breakdown";
import { cellTable } from "./cells";
import { changesFigure } from "./changes";
import type { CellReport, ReportData } from "./data";
import { el, section } from "./dom";
import { expectationTable, findingBlock, heading, problemList } from "./finding";
import { inFlightFigure, type Shown } from "./inflight";
import { manifestView } from "./manifest";
import { numberOf } from "./measures";
import { networkFigures } from "./network";
import { packetFigures } from "./packets";
import { paperTable } from "./paper";
import { networkPicture } from "./picture";
import { Selection } from "./selection";
import { cellLabel } from "./sweep";
import { sweptCharts } from "./swept";
import { readNetwork } from "./topology";
import { formatFixed, formatNs } from "./units";

function show(data: ReportData, page: HTMLElement): void {
  document.title = data.title || data.plan || document.title;
  const selection = new Selection(data);
  const parts: (HTMLElement | null)[] = [heading(data), problemList(data.problems), findingBlock(data)];
  const paper = paperTable(data.paper);
  if (paper !== null) {
    parts.push(section("paper", "The paper", paper));
  }
  const network = readNetwork(data.manifest, data.cells);
  if (network !== null) {
    parts.push(section("world", "The network", networkPicture(network)));
  }
  const sweep = [sweptCharts(data, selection), breakdownFigure(data.cells, data.finding, selection)].filter((part) => part !== null);
  if (sweep.length > 0) {
    parts.push(section("sweep", data.cells.length > 1 ? "The sweep" : "The run", ...sweep));
  }
  if (data.cells.length > 0) {
    parts.push(cellSection(data, selection));
    parts.push(section("cells", "All cells", el("p", { class: "reading" }, `All ${data.load} together; numbers in flight are means over the measured time.`), cellTable(data.cells, selection)));
  } else {
    parts.push(el("p", { class: "missing" }, "This run has no cells: nothing was measured."));
  }
  if (data.expectations.length > 0) {
    parts.push(section("expectations", "Expectations", expectationTable(data.expectations)));
  }
  parts.push(section("manifest", "Manifest", manifestView(data.manifest)));
  page.replaceChildren(...parts.filter((part) => part !== null));
}

/** One cell at a time: the selector, and the charts on that cell's time axis. */
function cellSection(data: ReportData, selection: Selection): HTMLElement {
  const group = new ChartGroup("cell-time");
  const menu = el(
    "select",
    { id: "cell-menu", onchange: () => selection.choose(Number(menu.value)) },
    ...data.cells.map((cell) => el("option", { value: cell.cell }, `${cell.cell}: ${cellLabel(cell, data.cells)}`)),
  );
  const back = el("button", { type: "button", "aria-label": "Previous cell", onclick: () => selection.step(-1) }, "‹");
  const on = el("button", { type: "button", "aria-label": "Next cell", onclick: () => selection.step(1) }, "›");
  const numbers = el("p", { class: "numbers", "aria-live": "polite" });
  const place = el("div", { class: "cell-view" });
  const draw = new CellView(data, selection, group, place);
  const update = () => {
    const chosen = data.cells.findIndex((cell) => cell.cell === selection.cell);
    const cell = data.cells[chosen];
    if (cell === undefined) {
      return;
    }
    menu.value = String(cell.cell);
    back.disabled = chosen === 0;
    on.disabled = chosen === data.cells.length - 1;
    numbers.textContent = cellNumbers(cell);
    draw.show(cell);
  };
  selection.onChange(update);
  update();
  return section(
    "cell",
    "One cell over time",
    el("div", { class: "controls" }, el("label", { for: "cell-menu" }, "Cell"), back, menu, on, numbers),
    place,
  );
}

function cellNumbers(cell: CellReport): string {
  if (cell.failure !== null) {
    return `Failed: ${cell.failure}`;
  }
  return `${formatFixed(numberOf(cell, "iops"), 0)} IOPS, p50 ${formatNs(numberOf(cell, "latency_p50_ns"))}, p99 ${formatNs(numberOf(cell, "latency_p99_ns"))}`;
}

/** The charts of the chosen cell; rebuilt for another cell, switched for another layer. */
class CellView {
  readonly #data: ReportData;
  readonly #selection: Selection;
  readonly #group: ChartGroup;
  readonly #place: HTMLElement;
  #cell: CellReport | null = null;
  #perSession: boolean | null = null;
  #inFlight: (Shown & { switchLayers(): void }) | null = null;
  #network: Shown | null = null;
  #packets: Shown | null = null;

  constructor(data: ReportData, selection: Selection, group: ChartGroup, place: HTMLElement) {
    this.#data = data;
    this.#selection = selection;
    this.#group = group;
    this.#place = place;
  }

  show(cell: CellReport): void {
    const { perSession } = this.#selection;
    if (cell === this.#cell && perSession === this.#perSession) {
      this.#inFlight?.switchLayers();
      return;
    }
    this.#inFlight?.destroy();
    this.#network?.destroy();
    this.#packets?.destroy();
    this.#cell = cell;
    this.#perSession = perSession;
    this.#inFlight = inFlightFigure(cell, this.#data.finding, this.#selection, this.#group);
    this.#network = networkFigures(cell, this.#group);
    this.#packets = packetFigures(cell, this.#data.cells);
    const parts = [changesFigure(cell), this.#inFlight.root, this.#network.root, this.#packets.root];
    this.#place.replaceChildren(...parts.filter((part) => part !== null));
  }
}

const page = document.getElementById("report");
const given = document.getElementById("run-data");
if (page !== null && given !== null) {
  show(JSON.parse(given.textContent ?? "") as ReportData, page);
}
