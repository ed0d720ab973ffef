/** The sweep as curves: a measure, or the latency, against one of its parameters. */

import type uPlot from "uplot";
import { Chart, type ChartGroup, type AxisSpec, type ChartSpec, type LineSpec, RIGHT } from "../chart/chart";
import { Legend } from "../chart/legend";
import { colour, lineStyle } from "../chart/theme";
import type { CellReport, KnownNumber, ReportData } from "./data";
import { figure } from "./dom";
import type { Shown } from "./inflight";
import { type MeasureSpec, numberOf } from "./measures";
import { isOf, knownOf } from "./paper";
import { longName, spread, type Spread, type Sweep } from "./sweep";
import type { Selection } from "./selection";
import { formatFixed, formatNumber } from "./units";

/** A line with what its points come from. */
interface MeasuredLine extends LineSpec {
  spreads: (Spread | null)[];
}

/** A measure against the sweep's parameter, a line for each of its series, and the paper's numbers. */
export function measureFigure(sweep: Sweep, measure: MeasureSpec, data: ReportData, selection: Selection, group: ChartGroup): Shown {
  const known = knownMarks(sweep, knownOf(data.paper, measure.metric), measure);
  const lines = [...measuredLines(sweep, measure.of), ...(measure.metric === "iops" ? predicted(sweep, data) : [])];
  const repeats = sweep.series.some((series) => series.cells.some((cells) => cells.length > 1))
    ? " Points are means of the repeats, strokes reach from the least to the greatest."
    : "";
  const apart = isApart(known, lines);
  const papers = known.length === 0 ? "" : ` Diamonds are the paper's numbers${apart ? ", on the scale on the right" : ""}.`;
  const title = `${capital(measure.label)} against ${longName(sweep.axis.parameter ?? "")}`;
  const least = Math.max(0, ...known.map(({ value }) => value));
  const y = { label: measure.label, format: formatNumber, least: [0, apart ? 0 : least] as [number, number] };
  const right = apart ? { right: { label: "the paper's", format: formatNumber, top: least } } : {};
  const { chart, legend } = draw(sweep, lines, { known, ...right }, y, title, selection, group);
  const root = figure("curves", title, `${measure.about}${repeats}${papers} Click a point to see its cell below.`.trim(), legend, chart.root);
  return { root, destroy: () => chart.destroy() };
}

/** Up to so many series show both percentiles; of more the lines would hide each other. */
const MOST_WITH_BOTH = 4;

/** Both percentiles of the latency, or the median alone. */
export function latencyFigure(sweep: Sweep, selection: Selection, group: ChartGroup): Shown {
  const both = sweep.series.length <= MOST_WITH_BOTH;
  const lines = [
    ...measuredLines(sweep, (cell) => milliseconds(numberOf(cell, "latency_p50_ns")), "p50"),
    ...(both ? measuredLines(sweep, (cell) => milliseconds(numberOf(cell, "latency_p99_ns")), "p99").map((line) => ({ ...line, dash: [2, 4] })) : []),
  ];
  const title = `Latency against ${longName(sweep.axis.parameter ?? "")}`;
  const { chart, legend } = draw(sweep, lines, { known: [] }, { label: "latency (ms)", format: (ms) => formatNumber(ms) }, title, selection, group);
  const reading = `From the submission of an I/O to its completion: median (p50)${both ? " and 99th percentile (p99)" : ""}.`;
  return { root: figure("latency", title, reading, legend, chart.root), destroy: () => chart.destroy() };
}

/** How many times greater the one may be for both to be read on one scale. */
const FAR = 3;

/** Whether the paper's numbers and ours would press each other flat on one scale. */
function isApart(known: KnownMark[], lines: MeasuredLine[]): boolean {
  const papers = Math.max(0, ...known.map(({ value }) => value));
  const ours = Math.max(0, ...lines.flatMap(({ spreads }) => spreads.map((range) => range?.greatest ?? 0)));
  return papers > 0 && ours > 0 && Math.max(papers / ours, ours / papers) > FAR;
}

/** The paper's numbers, and the scale that they stand on when it is not that of the lines. */
interface Papers {
  known: KnownMark[];
  right?: NonNullable<ChartSpec["right"]>;
}

/** A number of the paper at its place in the sweep. */
interface KnownMark {
  x: number;
  value: number;
  /** The CSS variable of the colour of the line that it belongs to. */
  colour: string;
}

/** Where the paper's numbers stand: once at each place of each series that they are of. */
function knownMarks(sweep: Sweep, known: KnownNumber[], measure: MeasureSpec): KnownMark[] {
  return known.flatMap((number) =>
    sweep.series.flatMap((series, place) =>
      sweep.axis.positions.flatMap((x, at) =>
        series.cells[at]?.some((cell) => isOf(number, cell)) === true ? [{ x, value: number.value * measure.factor, colour: lineStyle(place).colour }] : [],
      ),
    ),
  );
}

function draw(sweep: Sweep, lines: MeasuredLine[], { known, right }: Papers, y: AxisSpec, description: string, selection: Selection, group: ChartGroup) {
  const table = [sweep.axis.positions, ...lines.map((line) => line.spreads.map((s) => s?.mean ?? null))] as uPlot.AlignedData;
  const chart = new Chart(
    {
      description,
      x: xAxis(sweep),
      y,
      ...(right === undefined ? {} : { right }),
      lines,
      height: 300,
      over: (plot) => {
        drawSpreads(plot, lines);
        drawKnown(plot, known, right === undefined ? "y" : RIGHT);
      },
      onCursor: (place) => legend.show(lines.map((line) => (place === null ? null : line.spreads[place]?.mean))),
      onPick: (place) => pick(sweep, place, selection),
    },
    table,
    group,
  );
  const legend: Legend = new Legend(lines, y.format, (place, show) => chart.showLine(place, show));
  return { chart, legend: legend.root };
}

/** `text` as a title begins. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
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

function measuredLines(sweep: Sweep, measure: (cell: CellReport) => number | null, suffix?: string): MeasuredLine[] {
  return sweep.series.map((series, place) => ({
    label: suffix === undefined ? series.label : `${series.short}, ${suffix}`,
    ...lineStyle(place),
    marks: place % 2 === 0 ? "full" : "hollow",
    pointsOnly: !sweep.axis.continuous,
    spreads: series.cells.map((cells) => spread(cells, measure)),
  }));
}

/** What the finding foretold for its own point of the sweep, beside what was measured there. */
function predicted(sweep: Sweep, { advised, cells }: ReportData): MeasuredLine[] {
  const cell = cells.find((cell) => cell.cell === advised?.planned_cell);
  const at = cell === undefined ? null : sweep.axis.positionOf(cell);
  const iops = advised?.predicted_iops ?? null;
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

/** A diamond at each of the paper's numbers. */
function drawKnown(plot: uPlot, known: KnownMark[], scale: string): void {
  const { ctx, bbox } = plot;
  const size = 6.5 * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.lineWidth = 2 * devicePixelRatio;
  for (const mark of known) {
    const [x, y] = [plot.valToPos(mark.x, "x", true), plot.valToPos(mark.value, scale, true)];
    ctx.beginPath();
    ctx.moveTo(x, y - size);
    ctx.lineTo(x + size, y);
    ctx.lineTo(x, y + size);
    ctx.lineTo(x - size, y);
    ctx.closePath();
    ctx.fillStyle = colour("--surface");
    ctx.strokeStyle = colour(mark.colour);
    ctx.fill();
    ctx.stroke();
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
