/** The numbers of cells, as a reader chooses among them: named, scaled to a unit, and written. */

import { METRICS, type Metric } from "../results";
import type { CellReport } from "./data";
import { formatNumber } from "./units";

/** A measure of cells in one unit. */
export interface MeasureSpec {
  /** Its name in results.json. */
  metric: string;
  /** What it is, with its unit. */
  label: string;
  /** What it is, in a sentence. */
  about: string;
  unit: string;
  /** From the number in results.json to the unit. */
  factor: number;
  of: (cell: CellReport) => number | null;
}

const NAMES: Record<string, string> = {
  iops: "I/Os per second",
  bytes_per_s: "throughput",
  latency_p50_ns: "latency, median",
  latency_p99_ns: "latency, 99th percentile",
  packet_gap_mean_ns: "gap between data packets, mean",
  packet_gap_p50_ns: "gap between data packets, median",
  packet_gap_p90_ns: "gap between data packets, 90th percentile",
};

/** The units of durations, from nanoseconds. */
const DURATIONS: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];

/** The metric that a name stands for: "*" in a metric's own name is any one part. */
function metricOf(name: string): Metric | undefined {
  const parts = name.split(".");
  return METRICS.find((metric) => {
    const own = metric.name.split(".");
    return own.length === parts.length && own.every((part, i) => part === "*" || part === parts[i]);
  });
}

/** The measures that any of the cells has: those of the whole cell first, then what has parts, as results.json has them. */
export function measuresOf(cells: CellReport[]): MeasureSpec[] {
  const all = [...new Set(cells.flatMap((cell) => Object.keys(cell.measures)))];
  // Most causes of waits are those of no I/O.
  const names = all.filter((name) => !name.startsWith("waits.causes.") || cells.some((cell) => (numberOf(cell, name) ?? 0) > 0));
  const place = (name: string) => METRICS.indexOf(metricOf(name) as Metric);
  const parts = (name: string) => (name.includes(".") ? 1 : 0);
  names.sort((one, other) => parts(one) - parts(other) || place(one) - place(other) || one.localeCompare(other));
  return names.map((metric) => measureSpec(metric, cells));
}

/** A measure in the unit that fits its greatest value in these cells. */
export function measureSpec(metric: string, cells: CellReport[]): MeasureSpec {
  const greatest = Math.max(0, ...cells.map((cell) => numberOf(cell, metric) ?? 0));
  const [unit, factor] = unitOf(metric, greatest);
  return {
    metric,
    label: `${NAMES[metric] ?? words(metric)}${unit === "" ? "" : ` (${unit})`}`,
    about: metricOf(metric)?.about ?? "",
    unit,
    factor,
    of: (cell) => {
      const value = numberOf(cell, metric);
      return value === null ? null : value * factor;
    },
  };
}

/** A number as it stands in results.json, in words. */
export function formatMeasure(metric: string, value: number | null): string {
  if (value === null) {
    return "–";
  }
  const [unit, factor] = unitOf(metric, Math.abs(value));
  return `${formatNumber(value * factor)}${unit === "" ? "" : ` ${unit}`}`;
}

/** A number of a cell; null where it has none. */
export function numberOf(cell: CellReport, metric: string): number | null {
  return cell.measures[metric] ?? null;
}

function unitOf(metric: string, greatest: number): [string, number] {
  switch (metricOf(metric)?.unit) {
    case "bytes/s":
      return ["Mbit/s", 8e-6];
    case "ns": {
      const [size, unit] = DURATIONS.find(([size]) => greatest >= size) ?? [1, "ns"];
      return [unit, 1 / size];
    }
    case "s/GiB":
      return ["s/GiB", 1];
    case "bytes":
      return ["MB", 1e-6];
    default:
      return ["", 1];
  }
}

function words(metric: string): string {
  return metric
    .replace(/^(router|stream|relay)s\.([^.]+)\./, "$1 $2: ")
    .replace(/_(ns|bytes|s_per_gib)$/, "")
    .replace(/bytes_per_s$/, "throughput")
    .replaceAll("_", " ")
    .replaceAll(".", " ");
}
