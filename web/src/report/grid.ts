/** Reads a run's cells as grids: two swept quantities across each other, one grid for each rest. */

import type { CellReport } from "./data";
import { phases, quantityAxes, readSweep, shortNames, type SweepAxis } from "./sweep";

export interface Grid {
  /** What its cells have in common beyond the axes; empty when there is one grid only. */
  label: string;
  x: SweepAxis;
  y: SweepAxis;
  /** What the axes are called, each as short as tells them apart. */
  names: { x: string; y: string };
  /** The cells at each place, rows of y first: one per repeat, none where none ran. */
  rows: CellReport[][][];
}

/** The grids, or none when fewer than two quantities were swept. */
export function readGrids(cells: CellReport[]): Grid[] {
  const axes = quantityAxes(cells);
  const [y, x] = axes;
  if (x === undefined || y === undefined || x.positions.length < 2 || y.positions.length < 2) {
    return [];
  }
  // What remains beside the two axes is what tells the lines of a sweep over both apart.
  const { series } = readSweep(cells, x.parameter ?? "", [y.parameter ?? ""]);
  const short = shortNames([x.parameter ?? "", y.parameter ?? ""]);
  const names = { x: short.get(x.parameter ?? "") ?? "", y: short.get(y.parameter ?? "") ?? "" };
  const several = series.length > 1 || phases(cells).length > 1;
  return series.map(({ label, cells: columns }) => ({
    label: several ? label : "",
    x,
    y,
    names,
    rows: y.positions.map((position) => columns.map((here) => here.filter((cell) => y.positionOf(cell) === position))),
  }));
}
