/** The TCP and path view of one cell: congestion windows, queue depth and utilisation over time. */

import type uPlot from "uplot";
import { Chart, type AxisSpec, type ChartGroup, type LineSpec } from "../chart/chart";
import { Legend } from "../chart/legend";
import { lineStyle } from "../chart/theme";
import type { CellReport, TimeAxis } from "./data";
import { el, figure } from "./dom";
import { drawOver, type Shown, timeAxis, timesOf } from "./inflight";
import { formatFixed, formatNumber } from "./units";
import { windowFigure } from "./windows";

interface Named {
  name: string;
  values: (number | null)[];
}

export function networkFigures(cell: CellReport, group: ChartGroup): Shown {
  const { time } = cell;
  const charts: Chart[] = [];
  const root = el("div", { class: "network" });
  if (time === null || (cell.connections.length === 0 && cell.paths.length === 0)) {
    root.append(el("p", { class: "missing" }, "Neither TCP nor the paths were recorded for this cell."));
    return { root, destroy: () => undefined };
  }
  const add = (id: string, title: string, reading: string, y: AxisSpec, series: Named[]) => {
    if (series.length > 0) {
      const { chart, legend } = timeChart(title, y, series, cell, time, group);
      charts.push(chart);
      root.append(figure(id, title, reading, legend, chart.root));
    }
  };
  const windows = windowFigure(cell, group);
  if (windows !== null) {
    charts.push(windows.chart);
    root.append(windows.root);
  }
  add(
    "queue",
    "Path queues",
    `Bytes that wait for the link.${drops(cell)}`,
    { label: "queue (kB)", format: formatNumber },
    cell.paths.map(({ name, queue_bytes }) => ({ name, values: queue_bytes.map((bytes) => (bytes === null ? null : bytes / 1000)) })),
  );
  add(
    "utilisation",
    "Path utilisation",
    "Share of the time during which the link was sending.",
    { label: "utilisation (%)", format: (value) => formatFixed(value, 0), least: [0, 100] },
    cell.paths.map(({ name, utilisation }) => ({ name, values: utilisation.map((share) => (share === null ? null : share * 100)) })),
  );
  return { root, destroy: () => charts.forEach((chart) => chart.destroy()) };
}

function timeChart(title: string, y: AxisSpec, series: Named[], cell: CellReport, time: TimeAxis, group: ChartGroup) {
  const lines: LineSpec[] = series.map(({ name }, place) => ({ label: name, ...lineStyle(place) }));
  const chart = new Chart(
    {
      description: `${title} against time`,
      x: timeAxis(time),
      y,
      lines,
      height: 220,
      over: drawOver(cell, time),
      onCursor: (place) => legend.show(series.map(({ values }) => (place === null ? null : values[place]))),
    },
    [timesOf(time), ...series.map(({ values }) => values)] as uPlot.AlignedData,
    group,
  );
  const legend: Legend = new Legend(lines, y.format, (place, show) => chart.showLine(place, show));
  return { chart, legend: legend.root };
}

function drops(cell: CellReport): string {
  const queue = cell.paths.reduce((sum, path) => sum + path.queue_drops, 0);
  const loss = cell.paths.reduce((sum, path) => sum + path.loss_drops, 0);
  const told = [
    ...(queue > 0 ? [`${formatFixed(queue, 0)} packets dropped by full queues`] : []),
    ...(loss > 0 ? [`${formatFixed(loss, 0)} packets taken by the loss element`] : []),
  ];
  return told.length === 0 ? " No packet was dropped." : ` ${told.join(", ")}.`;
}
