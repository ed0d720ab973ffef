/** The distribution of the gaps between packets, as a curve. */

import type { PacketGaps } from "../report/data";

/** The least gap that is drawn: a logarithmic axis has no zero, and clocks tell no less. */
const LEAST_NS = 100;

/** Per cent of the gaps up to each length in µs. */
export function gapCurve({ quantiles_ns }: PacketGaps): Map<number, number> {
  const last = Math.max(quantiles_ns.length - 1, 1);
  return new Map(quantiles_ns.map((length_ns, i) => [Math.max(length_ns, LEAST_NS) / 1e3, (100 * i) / last]));
}

/** 1, 2 and 5 times the powers of ten in the range of `lengths`, which ascend. */
export function lengthTicks(lengths: number[]): number[] {
  const [least, greatest] = [lengths[0] ?? 1, lengths[lengths.length - 1] ?? 1];
  const powers = Array.from({ length: 12 }, (_, i) => 10 ** (i - 3));
  return powers.flatMap((power) => [power, 2 * power, 5 * power]).filter((tick) => tick >= least / 1.15 && tick <= greatest * 1.15);
}
