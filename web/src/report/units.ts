/**
 * Quantities as people read and write them. Mbit/s and MB are powers of ten, MiB powers of two.
 */

import type { Json } from "./data";

/** What a number measures, so that its unit can be chosen to fit. */
export type Dimension = "plain" | "seconds" | "bytes" | "bits per second";

export interface Quantity {
  value: number;
  dimension: Dimension;
}

/** What stands where there is no number. */
export const NOTHING = "–";

const SUFFIXES: Record<string, [Dimension, number]> = {
  ns: ["seconds", 1e-9],
  us: ["seconds", 1e-6],
  "µs": ["seconds", 1e-6],
  ms: ["seconds", 1e-3],
  s: ["seconds", 1],
  min: ["seconds", 60],
  h: ["seconds", 3600],
  B: ["bytes", 1],
  KiB: ["bytes", 2 ** 10],
  MiB: ["bytes", 2 ** 20],
  GiB: ["bytes", 2 ** 30],
  TiB: ["bytes", 2 ** 40],
  kB: ["bytes", 1e3],
  MB: ["bytes", 1e6],
  GB: ["bytes", 1e9],
  TB: ["bytes", 1e12],
  "bit/s": ["bits per second", 1],
  "kbit/s": ["bits per second", 1e3],
  "Mbit/s": ["bits per second", 1e6],
  "Gbit/s": ["bits per second", 1e9],
};

/** The quantity that a plan's value stands for, or null when it is no quantity. */
export function parseQuantity(value: Json | undefined): Quantity | null {
  if (typeof value === "number" && Number.isFinite(value)) {
    return { value, dimension: "plain" };
  }
  if (typeof value !== "string") {
    return null;
  }
  const match = /^(-?\d+(?:\.\d+)?)\s*([A-Za-zµ/]*)$/.exec(value.trim());
  if (match === null) {
    return null;
  }
  const number = Number(match[1]);
  const suffix = match[2] ?? "";
  if (suffix === "") {
    return { value: number, dimension: "plain" };
  }
  const unit = Object.hasOwn(SUFFIXES, suffix) ? SUFFIXES[suffix] : undefined;
  return unit === undefined ? null : { value: number * unit[1], dimension: unit[0] };
}

/** A number with at least `digits` significant digits, thousands grouped, no trailing zeros. */
export function formatNumber(value: number, digits = 3): string {
  if (!Number.isFinite(value)) {
    return NOTHING;
  }
  const magnitude = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)));
  const decimals = Math.min(Math.max(digits - 1 - magnitude, 0), 12);
  return value.toLocaleString("en-US", { maximumFractionDigits: decimals }).replace(/^-/, "−");
}

/** A number with exactly that many decimals, for columns; "–" for none. */
export function formatFixed(value: number | null, decimals: number): string {
  return value === null || !Number.isFinite(value)
    ? NOTHING
    : value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/** `quantity` in the unit that leaves the fewest digits. */
export function formatQuantity({ value, dimension }: Quantity): string {
  switch (dimension) {
    case "plain":
      return formatNumber(value);
    case "seconds":
      return scaled(value, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]);
    case "bytes":
      return scaled(value, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]);
    case "bits per second":
      return scaled(value, [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]]);
  }
}

function scaled(value: number, units: [number, string][]): string {
  const smallest = units[units.length - 1] ?? [1, ""];
  // A hair below the unit still counts as the unit: 0.9999999 ms is 1 ms in binary fractions.
  const [size, name] = units.find(([size]) => Math.abs(value) >= size * (1 - 1e-9)) ?? smallest;
  return `${formatNumber(value / size)} ${name}`;
}

/** A duration given in nanoseconds. */
export function formatNs(value_ns: number | null): string {
  return value_ns === null ? NOTHING : formatQuantity({ value: value_ns * 1e-9, dimension: "seconds" });
}

/** A share of one as per cent; what is there but under half a per cent says so. */
export function formatShare(share: number | null): string {
  if (share === null || !Number.isFinite(share)) {
    return NOTHING;
  }
  return share > 0 && share < 0.005 ? "< 1 %" : `${formatFixed(share * 100, 0)} %`;
}

/** A ratio as the change that it is: 1.18 is "+18 %". */
export function formatChange(ratio: number): string {
  const change = (ratio - 1) * 100;
  const sign = change > 0 ? "+" : change < 0 ? "−" : "±";
  return `${sign}${formatNumber(Math.abs(change), 2)} %`;
}

/** A plan's value as text. */
export function formatValue(value: Json | undefined): string {
  if (value === undefined || value === null) {
    return NOTHING;
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
