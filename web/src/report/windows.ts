/** Congestion windows over time: each sending end's, their sum, and when and why they were reduced. */

import type uPlot from "uplot";
import { Chart, type ChartGroup, type LineSpec } from "../chart/chart";
import { Legend } from "../chart/legend";
import { colour, lineStyle } from "../chart/theme";
import { svg } from "../diagram/svg";
import type { CellReport, ConnectionSamples } from "./data";
import { el, figure } from "./dom";
import { drawOver, timeAxis, timesOf } from "./inflight";
import { formatFixed, formatNumber } from "./units";

interface WindowLine extends LineSpec {
  values: (number | null)[];
}

/** Up to so many ends show thresholds and what is in flight without being asked. */
const MOST_DETAILED = 2;
/** Up to so many cuts in view are drawn from top to bottom; of more only the symbols. */
const MOST_VERTICALS = 80;

/** Without a loss, by fast recovery, or by a timeout. */
type CutReason = "cwr" | "recovery" | "loss";

const REASONS: { why: CutReason; label: string; path: string }[] = [
  { why: "cwr", label: "CWR", path: "M-5 -4H5L0 5Z" },
  { why: "recovery", label: "Recovery", path: "M0 -6L5 0L0 6L-5 0Z" },
  { why: "loss", label: "Loss (timeout)", path: "M-5 -5L5 5M5 -5L-5 5" },
];

export function windowFigure(cell: CellReport, group: ChartGroup): { root: HTMLElement; chart: Chart } | null {
  const time = cell.tcp_time;
  if (time === null || cell.connections.length === 0) {
    return null;
  }
  const lines = windowLines(cell.connections);
  const hidden = new Set<string>();
  const under = drawOver(cell, time);
  const chart = new Chart(
    {
      description: "Congestion windows against time",
      x: timeAxis(cell.time ?? time),
      y: { label: "segments", format: formatNumber },
      lines,
      height: 280,
      over: (plot) => {
        under(plot);
        drawCuts(plot, cell.connections, hidden);
      },
      onCursor: (place) => legend.show(lines.map(({ values }) => (place === null ? null : values[place]))),
    },
    [timesOf(time), ...lines.map(({ values }) => values)] as uPlot.AlignedData,
    group,
  );
  const legend: Legend = new Legend(lines, formatNumber, (place, show) => chart.showLine(place, show));
  legend.root.append(...cutSwitches(cell.connections, hidden, () => chart.plot.redraw(false)));
  const root = figure(
    "cwnd",
    "Congestion windows",
    `The number of segments that TCP may have in flight, per sending end, as sampled from the kernel.${cutsTold(cell)}${retransmits(cell)}${leftOut(cell)}`,
    legend.root,
    chart.root,
  );
  return { root, chart };
}

/** A window for each end, then their sum; thresholds and what is in flight in the window's colour. */
export function windowLines(connections: ConnectionSamples[]): WindowLine[] {
  const detailed = connections.length <= MOST_DETAILED;
  const several = connections.length > 1;
  const lines = connections.flatMap(({ name, cwnd_packets, ssthresh_packets, in_flight_packets }, place): WindowLine[] => {
    const style = lineStyle(place);
    const detail = (label: string, dash: number[], values: (number | null)[]): WindowLine[] =>
      values.some((value) => value !== null) ? [{ label: `${name}, ${label}`, colour: style.colour, dash, width: 1, hidden: !detailed, values }] : [];
    return [
      { label: several || detailed ? `${name}, cwnd` : name, ...style, values: cwnd_packets },
      ...detail("ssthresh", [2, 3], ssthresh_packets),
      ...detail("in flight", [6, 4], in_flight_packets),
    ];
  });
  return several ? [...lines, { label: "sum of the windows", colour: "--ink-2", width: 2.5, values: sum(connections.map(({ cwnd_packets }) => cwnd_packets)) }] : lines;
}

/** The sum at each step of those that have a value there; null where none has. */
export function sum(series: (number | null)[][]): (number | null)[] {
  const steps = Math.max(0, ...series.map((values) => values.length));
  return Array.from({ length: steps }, (_, step) => {
    const here = series.map((values) => values[step] ?? null).filter((value) => value !== null);
    return here.length === 0 ? null : here.reduce((sum, value) => sum + value, 0);
  });
}

/** How often each reason cut a window, all ends together. */
export function cutCounts(connections: ConnectionSamples[]): Record<CutReason, number> {
  const count = (why: CutReason) => connections.reduce((sum, { cuts }) => sum + cuts.filter((cut) => cut.why === why).length, 0);
  return { cwr: count("cwr"), recovery: count("recovery"), loss: count("loss") };
}

function cutSwitches(connections: ConnectionSamples[], hidden: Set<string>, redraw: () => void): HTMLElement[] {
  const counts = cutCounts(connections);
  return REASONS.filter(({ why }) => counts[why] > 0).map(({ why, label, path }) => {
    const button = el(
      "button",
      {
        type: "button",
        "aria-pressed": "true",
        "data-cut": why,
        onclick: () => {
          const show = hidden.delete(why);
          if (!show) {
            hidden.add(why);
          }
          button.setAttribute("aria-pressed", String(show));
          redraw();
        },
      },
      svg("svg", { viewBox: "-8 -8 16 16", width: 16, height: 16, class: "cut", "aria-hidden": "true" }, svg("path", { d: path })),
      `${label} ${counts[why]}`,
    );
    return button;
  });
}

/** A dashed line at each cut in its end's colour, and the reason's symbol on top. */
function drawCuts(plot: uPlot, connections: ConnectionSamples[], hidden: Set<string>): void {
  const { ctx, bbox } = plot;
  const { min = 0, max = 0 } = plot.scales["x"] ?? {};
  const inView = connections.flatMap(({ cuts }, place) =>
    cuts.filter((cut) => !hidden.has(cut.why) && cut.at_s >= (min ?? 0) && cut.at_s <= (max ?? 0)).map((cut) => ({ ...cut, place })),
  );
  ctx.save();
  ctx.lineWidth = 1.2 * devicePixelRatio;
  for (const { at_s, why, place } of inView) {
    const x = plot.valToPos(at_s, "x", true);
    const y = bbox.top + (9 + 13 * (place % 4)) * devicePixelRatio;
    ctx.strokeStyle = ctx.fillStyle = colour(lineStyle(place).colour);
    if (inView.length <= MOST_VERTICALS) {
      ctx.globalAlpha = 0.55;
      ctx.setLineDash([3 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(x, y);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.globalAlpha = 1;
    }
    const symbol = new Path2D(REASONS.find((reason) => reason.why === why)?.path ?? "");
    ctx.translate(x, y);
    ctx.scale(devicePixelRatio, devicePixelRatio);
    if (why === "loss") {
      ctx.lineWidth = 2.4;
      ctx.stroke(symbol);
      ctx.lineWidth = 1.2 * devicePixelRatio;
    } else {
      ctx.fill(symbol);
    }
    ctx.setTransform(1, 0, 0, 1, 0, 0);
  }
  ctx.restore();
}

function cutsTold({ connections }: CellReport): string {
  const { cwr, recovery, loss } = cutCounts(connections);
  const unseen = connections.reduce((sum, { cuts_left_out }) => sum + cuts_left_out, 0);
  if (cwr + recovery + loss === 0) {
    return " No window was reduced.";
  }
  return ` Symbols mark window reductions: without a loss (CWR), by fast recovery, or by a timeout (Loss).${unseen === 0 ? "" : ` ${formatFixed(unseen, 0)} more reductions are not drawn.`}`;
}

function retransmits(cell: CellReport): string {
  const sum = cell.connections.reduce((sum, connection) => sum + connection.retransmits, 0);
  return sum === 0 ? " No segment was retransmitted." : ` ${formatFixed(sum, 0)} segments were retransmitted.`;
}

function leftOut(cell: CellReport): string {
  const ends = cell.connections_left_out;
  return ends === 0 ? "" : ` Not shown: ${ends} ${ends === 1 ? "end that sends" : "ends that send"} little.`;
}
