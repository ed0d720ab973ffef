/** One cell's first packets beside those of another, and how far apart data packets left the target. */

import type uPlot from "uplot";
import { Chart, ChartGroup, type LineSpec } from "../chart/chart";
import { Legend } from "../chart/legend";
import { lineStyle } from "../chart/theme";
import { gapCurve, lengthTicks } from "../diagram/gaps";
import { TransferDiagram } from "../diagram/transfer";
import { TimeView } from "../diagram/view";
import type { CellReport, PacketGaps } from "./data";
import { el, figure } from "./dom";
import type { Shown } from "./inflight";
import { packetLegend } from "./legend";
import { stallFigures } from "./stalls";
import { cellLabel, siblings } from "./sweep";
import { formatFixed, formatNs } from "./units";

/** So many packets are in view at first: about as many as can be told apart. */
const FIRST_PACKETS = 150;

export function packetFigures(cell: CellReport, cells: CellReport[]): Shown {
  if (cell.packets === null) {
    return { root: el("p", { class: "missing" }, "No packets were recorded for this cell."), destroy: () => undefined };
  }
  const alike = siblings(cell, cells);
  const transfers = new Transfers(cell, cells, alike);
  const gaps = gapFigure([cell, ...alike], cells);
  const stalls = stallFigures(cell);
  return {
    root: el("div", {}, stalls?.root ?? null, transfers.root, gaps?.root ?? null),
    destroy: () => {
      stalls?.destroy();
      transfers.destroy();
      gaps?.destroy();
    },
  };
}

/** The diagrams of the chosen cell and of one beside it, over the same time. */
class Transfers {
  readonly root: HTMLElement;
  readonly #place = el("div", { class: "transfers" });
  readonly #cell: CellReport;
  readonly #cells: CellReport[];
  #diagrams: TransferDiagram[] = [];

  constructor(cell: CellReport, cells: CellReport[], alike: CellReport[]) {
    this.#cell = cell;
    this.#cells = cells;
    const others = cells.filter((other) => other !== cell && other.packets !== null);
    const first = alike.find((other) => other.packets !== null) ?? null;
    const menu = el(
      "select",
      { id: "beside-menu", onchange: () => this.#show(others.find((other) => String(other.cell) === menu.value) ?? null) },
      el("option", { value: "" }, "nothing"),
      ...others.map((other) => el("option", { value: other.cell, selected: other === first }, `${other.cell}: ${cellLabel(other, cells)}`)),
    );
    this.root = figure(
      "packets",
      "Packet transfer diagram",
      "The first measured I/Os, packet by packet: each arrow runs from a packet's arrival at the path to its departure. Packets that never arrived end in a cross. A mark across an arrow shows where a PDU begins in the packet. Below the time lines each of the first I/Os has a lane with its waits in sequence. Drag to move, wheel or plus and minus to zoom, arrow keys to go from packet to packet.",
      others.length === 0 ? null : el("div", { class: "controls" }, el("label", { for: "beside-menu" }, "Beside it"), menu),
      this.#place,
    );
    this.#show(first);
  }

  destroy(): void {
    this.#diagrams.forEach((diagram) => diagram.destroy());
  }

  #show(other: CellReport | null): void {
    this.destroy();
    const shown = [this.#cell, ...(other === null ? [] : [other])];
    const ends = (last: number) => Math.max(1, ...shown.map(({ packets }) => Math.max(0, ...(packets?.sent_us ?? []).slice(0, last).map((sent, i) => sent + (packets?.transit_us[i] ?? 0)))));
    const view = new TimeView({ from: 0, to: ends(Number.MAX_SAFE_INTEGER) }, { from: 0, to: ends(FIRST_PACKETS) });
    const parts = shown.flatMap((cell) => {
      if (cell.packets === null) {
        return [];
      }
      const label = cellLabel(cell, this.#cells);
      const diagram = new TransferDiagram(cell.packets, label, view);
      return [{ diagram, root: el("div", { class: "beside-one" }, el("h4", {}, shown.length > 1 ? label : ""), packetLegend(diagram, cell.packets), diagram.root) }];
    });
    this.#diagrams = parts.map(({ diagram }) => diagram);
    this.#place.replaceChildren(...parts.map(({ root }) => root));
  }
}

/** The shares of gaps up to each length, a line for each cell. */
function gapFigure(cells: CellReport[], all: CellReport[]): Shown | null {
  const measured = cells.filter((cell) => cell.packet_gaps !== null);
  if (measured.length === 0) {
    return null;
  }
  const curves = measured.map((cell) => gapCurve(cell.packet_gaps as PacketGaps));
  const lengths = [...new Set(curves.flatMap((curve) => [...curve.keys()]))].sort((a, b) => a - b);
  const lines: LineSpec[] = measured.map((cell, place) => ({
    label: `${cellLabel(cell, all)}: mean ${formatNs(cell.packet_gaps?.mean_ns ?? null)}, p50 ${formatNs(cell.packet_gaps?.p50_ns ?? null)}, p90 ${formatNs(cell.packet_gaps?.p90_ns ?? null)}`,
    ...lineStyle(place),
    spansGaps: true,
  }));
  const percent = (value: number) => formatFixed(value, 0);
  const chart = new Chart(
    {
      description: "Share of gaps between data packets up to each length",
      x: { label: "gap", format: (length_us) => formatNs(length_us * 1e3), logarithmic: true, ticks: lengthTicks(lengths) },
      y: { label: "gaps up to it (%)", format: percent, least: [0, 100] },
      lines,
      height: 240,
      onCursor: (place) => legend.show(curves.map((curve) => (place === null ? null : (curve.get(lengths[place] ?? 0) ?? null)))),
    },
    [lengths, ...curves.map((curve) => lengths.map((length) => curve.get(length) ?? null))] as uPlot.AlignedData,
    new ChartGroup("gaps"),
  );
  const legend: Legend = new Legend(lines, (value) => `${percent(value)} %`, (place, show) => chart.showLine(place, show));
  const count = measured[0]?.packet_gaps?.gaps ?? 0;
  const root = figure(
    "packet-gaps",
    "Gaps between data packets",
    `The time between the data packets of a burst as they leave the target: ${formatFixed(count, 0)} gaps in this cell's measured time. Per-packet work, such as encryption, moves the curve to the right.`,
    legend.root,
    chart.root,
  );
  return { root, destroy: () => chart.destroy() };
}
