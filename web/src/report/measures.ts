/** The numbers of cells, as a reader chooses among them: named, scaled to a unit, and written. */

import type { Cell, Load } from "./data";
import { formatNumber } from "./units";

/** A measure of cells in one unit. */
export interface MeasureSpec {
  /** Its name in results.json. */
  metric: string;
  /** What it is, with its unit. */
  label: string;
  unit: string;
  /** From the number in results.json to the unit. */
  factor: number;
  of: (cell: Cell) => number | null;
}

/** What a cell has one number of for all that loads the network. */
const OF_ALL = ["iops", "bytes_per_s", "latency_p50_ns", "latency_p99_ns"];

/** Whose numbers these are, as a sentence; nothing where the measure's name says it. */
export function subject(metric: string, load: Load): string {
  return OF_ALL.includes(metric) ? `All ${load} together.` : "";
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

/** The measures that any of the cells has, the usual ones first. */
export function measuresOf(cells: Cell[]): MeasureSpec[] {
  const found = new Set(cells.flatMap((cell) => OF_ALL.filter((name) => valueOf(cell, name) !== null)));
  for (const cell of cells) {
    cell.measures.forEach(({ metric }) => found.add(metric));
  }
  return [...found].map((metric) => measureSpec(metric, cells));
}

/** A measure in the unit that fits its greatest value in these cells. */
export function measureSpec(metric: string, cells: Cell[]): MeasureSpec {
  const greatest = Math.max(0, ...cells.map((cell) => valueOf(cell, metric) ?? 0));
  const [unit, factor] = unitOf(metric, greatest);
  return {
    metric,
    label: `${NAMES[metric] ?? words(metric)}${unit === "" ? "" : ` (${unit})`}`,
    unit,
    factor,
    of: (cell) => {
      const value = valueOf(cell, metric);
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

function unitOf(metric: string, greatest: number): [string, number] {
  if (/(^|[._])bytes_per_s$/.test(metric)) {
    return ["Mbit/s", 8e-6];
  }
  if (metric.endsWith("_ns")) {
    const [size, unit] = DURATIONS.find(([size]) => greatest >= size) ?? [1, "ns"];
    return [unit, 1 / size];
  }
  if (metric.endsWith("_s_per_gib")) {
    return ["s/GiB", 1];
  }
  if (metric.endsWith("_ns_per_byte")) {
    return ["ns/byte", 1];
  }
  if (metric.endsWith("_bytes")) {
    return ["MB", 1e-6];
  }
  return ["", 1];
}

function words(metric: string): string {
  return metric
    .replace(/^(router|stream|relay)s\.([^.]+)\./, "$1 $2: ")
    .replace(/_(ns|bytes|s_per_gib|ns_per_byte)$/, "")
    .replace(/bytes_per_s$/, "throughput")
    .replaceAll("_", " ")
    .replaceAll(".", " ");
}

function valueOf(cell: Cell, metric: string): number | null {
  switch (metric) {
    case "iops":
    case "bytes_per_s":
    case "latency_p50_ns":
    case "latency_p99_ns":
      return cell[metric];
    default:
      return cell.measures.find((measure) => measure.metric === metric)?.value ?? null;
  }
}
