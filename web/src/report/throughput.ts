/** The sweep's charts: IOPS, and latency, against the first swept parameter. */

import type uPlot from "uplot";
import { Chart, ChartGroup, type AxisSpec, type LineSpec } from "../chart/chart";
import { Legend } from "../chart/legend";
import { colour, lineStyle } from "../chart/theme";
import type { Cell, ReportData } from "./data";
import { el, figure } from "./dom";
import { longName, readSweep, spread, type Spread, type Sweep } from "./sweep";
import type { Selection } from "./selection";
import { formatFixed, formatNumber } from "./units";

/** A line with what its points come from. */
interface MeasuredLine extends LineSpec {
  spreads: (Spread | null)[];
}

/** The charts' box, or null when the run swept nothing. */
export function sweepCharts(data: ReportData, selection: Selection): HTMLElement | null {
  const sweep = readSweep(data.cells);
  if (sweep.axis.parameter === null || sweep.axis.positions.length < 2) {
    return null;
  }
  const group = new ChartGroup("sweep");
  const x = xAxis(sweep);
  const name = longName(sweep.axis.parameter);
  const draw = (lines: MeasuredLine[], y: AxisSpec, description: string): HTMLElement[] => {
    const table = [sweep.axis.positions, ...lines.map((line) => line.spreads.map((s) => s?.mean ?? null))] as uPlot.AlignedData;
    const chart = new Chart(
      {
        description,
        x,
        y,
        lines,
        height: 300,
        over: (plot) => drawSpreads(plot, lines),
        onCursor: (place) => legend.show(lines.map((line) => (place === null ? null : line.spreads[place]?.mean))),
        onPick: (place) => pick(sweep, place, selection),
      },
      table,
      group,
    );
    const legend: Legend = new Legend(lines, y.format, (place, show) => chart.showLine(place, show));
    return [legend.root, chart.root];
  };
  const iops = [...measuredLines(sweep, (cell) => cell.iops), ...predicted(sweep, data)];
  const latency = [
    ...measuredLines(sweep, (cell) => milliseconds(cell.latency_p50_ns), "p50"),
    ...measuredLines(sweep, (cell) => milliseconds(cell.latency_p99_ns), "p99").map((line) => ({ ...line, dash: [2, 4] })),
  ];
  const repeats = sweep.series.some((series) => series.cells.some((cells) => cells.length > 1))
    ? " Points are means of the repeats, strokes reach from the least to the greatest."
    : "";
  return el(
    "div",
    { class: "pair" },
    figure(
      "throughput",
      `I/Os per second against ${name}`,
      `All initiators together.${repeats} Click a point to see its cell below.`,
      ...draw(iops, { label: "IOPS", format: formatNumber }, `I/Os per second against ${name}`),
    ),
    figure(
      "latency",
      `Latency against ${name}`,
      "From submitting an I/O to having its result; half of them (p50) or all but one in a hundred (p99) took at most this long.",
      ...draw(latency, { label: "latency (ms)", format: (ms) => formatNumber(ms) }, `Latency in milliseconds against ${name}`),
    ),
  );
}

function milliseconds(value_ns: number | null): number | null {
  return value_ns === null ? null : value_ns / 1e6;
}

function xAxis(sweep: Sweep): AxisSpec {
  const { axis } = sweep;
  return {
    label: axis.parameter === null ? "" : `${longName(axis.parameter)} (${axis.parameter})`,
    ticks: axis.positions,
    format: (value) => axis.labels[axis.positions.indexOf(value)] ?? formatFixed(value, 1),
    logarithmic: axis.logarithmic,
  };
}

function measuredLines(sweep: Sweep, measure: (cell: Cell) => number | null, suffix?: string): MeasuredLine[] {
  return sweep.series.map((series, place) => ({
    label: suffix === undefined ? series.label : `${series.short}, ${suffix}`,
    ...lineStyle(place),
    marks: place % 2 === 0 ? "full" : "hollow",
    spreads: series.cells.map((cells) => spread(cells, measure)),
  }));
}

/** What the finding foretold for its own point of the sweep, beside what was measured there. */
function predicted(sweep: Sweep, { gain, cells }: ReportData): MeasuredLine[] {
  const cell = cells.find((cell) => cell.cell === gain?.planned_cell);
  const at = cell === undefined ? null : sweep.axis.positionOf(cell);
  const iops = gain?.predicted_iops ?? null;
  if (at === null || iops === null) {
    return [];
  }
  return [
    {
      label: "predicted",
      colour: "--predicted",
      marks: "hollow",
      pointsOnly: true,
      spreads: sweep.axis.positions.map((x) => (x === at ? { mean: iops, least: iops, greatest: iops } : null)),
    },
  ];
}

/** Strokes from the least to the greatest of the repeats. */
function drawSpreads(plot: uPlot, lines: MeasuredLine[]): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const [i, line] of lines.entries()) {
    if (plot.series[i + 1]?.show === false) {
      continue;
    }
    ctx.strokeStyle = colour(line.colour);
    ctx.lineWidth = devicePixelRatio;
    for (const [place, range] of line.spreads.entries()) {
      const x = plot.data[0][place];
      if (range === null || range.least === range.greatest || x === undefined) {
        continue;
      }
      const px = plot.valToPos(x, "x", true);
      ctx.beginPath();
      ctx.moveTo(px, plot.valToPos(range.least, "y", true));
      ctx.lineTo(px, plot.valToPos(range.greatest, "y", true));
      ctx.stroke();
    }
  }
  ctx.restore();
}

/** Chooses the cell at that place of the sweep: of the phase now looked at, if it has one there. */
function pick(sweep: Sweep, place: number, selection: Selection): void {
  const here = sweep.series.find((series) => series.cells.some((cells) => cells.some((cell) => cell.cell === selection.cell)));
  const cell = (here?.cells[place] ?? [])[0] ?? sweep.series.flatMap((series) => series.cells[place] ?? [])[0];
  if (cell !== undefined) {
    selection.choose(cell.cell);
  }
}
