/** Reads a run's cells as a sweep: what was swept, what goes along x, and which series that makes. */

import type { CellReport, Json } from "./data";
import { type Dimension, formatQuantity, formatValue, parseQuantity } from "./units";

/** What runs along the x axis of the sweep's charts. */
export interface SweepAxis {
  /** The swept parameter, or null when nothing was swept. */
  parameter: string | null;
  /** Its positions, ascending: quantities, or 0, 1, 2 … when its values have no number. */
  positions: number[];
  /** What is written at each position. */
  labels: string[];
  /** Evenly spaced by factors rather than by differences. */
  logarithmic: boolean;
  /** Whether what lies between two positions means anything: not between cases, say. */
  continuous: boolean;
  positionOf(cell: CellReport): number | null;
}

/** Cells that differ in nothing but the x axis and the repeat. */
export interface SweepSeries {
  label: string;
  /** The label without what the phase changed, for where it is said already. */
  short: string;
  phase: string;
  /** The cells at each of the axis' positions: one per repeat, none where none ran. */
  cells: CellReport[][];
}

export interface Sweep {
  axis: SweepAxis;
  series: SweepSeries[];
}

const key = (value: Json | undefined): string => JSON.stringify(value ?? null);

function distinct(cells: CellReport[], parameter: string): Json[] {
  const seen = new Map<string, Json>();
  for (const cell of cells) {
    const value = cell.parameters[parameter];
    seen.set(key(value), value ?? null);
  }
  return [...seen.values()];
}

/** The phases in the order in which they ran. */
export function phases(cells: CellReport[]): string[] {
  return [...new Set(cells.map((cell) => cell.phase))];
}

function parameterNames(cells: CellReport[]): string[] {
  return [...new Set(cells.flatMap((cell) => Object.keys(cell.parameters)))];
}

/**
 * The parameters with several values inside one phase, in the plan's order. One that changes only
 * from phase to phase is the advised change: it belongs to the phase's name.
 */
export function sweptParameters(cells: CellReport[]): string[] {
  const inPhases = phases(cells).map((phase) => cells.filter((cell) => cell.phase === phase));
  return parameterNames(cells).filter((name) => inPhases.some((inPhase) => distinct(inPhase, name).length > 1));
}

/** The parameters that differ between phases but not inside one. */
function changedParameters(cells: CellReport[]): string[] {
  const swept = sweptParameters(cells);
  return parameterNames(cells).filter((name) => !swept.includes(name) && distinct(cells, name).length > 1);
}

/**
 * The cells as a sweep along one parameter: the given one, or the first whose values are quantities
 * of one kind. The other swept parameters make the series, but for those that are `apart`.
 */
export function readSweep(cells: CellReport[], along?: string, apart: string[] = []): Sweep {
  const swept = sweptParameters(cells);
  const usual = swept.find((name) => dimensionOf(distinct(cells, name)) !== null) ?? swept[0] ?? null;
  const parameter = swept.find((name) => name === along) ?? usual;
  const axis = parameter === null ? pointAxis() : sweepAxis(cells, parameter);
  const rest = swept.filter((name) => name !== parameter && !apart.includes(name));
  return { axis, series: readSeries(cells, axis, rest) };
}

/** The swept parameters whose values are quantities, each as an axis. */
export function quantityAxes(cells: CellReport[]): SweepAxis[] {
  const swept = sweptParameters(cells);
  return swept.filter((name) => dimensionOf(distinct(cells, name)) !== null).map((name) => sweepAxis(cells, name));
}

/** The one dimension that all values have as quantities, or null. */
function dimensionOf(values: Json[]): Dimension | null {
  const dimensions = new Set(values.map((value) => parseQuantity(value)?.dimension ?? null));
  const [only] = dimensions;
  return dimensions.size === 1 && only !== undefined ? only : null;
}

function pointAxis(): SweepAxis {
  return { parameter: null, positions: [0], labels: ["this run"], logarithmic: false, continuous: false, positionOf: () => 0 };
}

/** From this ratio of greatest to smallest value on, equal factors are given equal room. */
const LOGARITHMIC_FROM = 50;

function sweepAxis(cells: CellReport[], parameter: string): SweepAxis {
  const values = distinct(cells, parameter);
  if (dimensionOf(values) === null) {
    const keys = values.map(key);
    return {
      parameter,
      positions: values.map((_, place) => place),
      labels: values.map(formatValue),
      logarithmic: false,
      continuous: false,
      positionOf: (cell) => keys.indexOf(key(cell.parameters[parameter])),
    };
  }
  const quantities = values
    .map((value) => parseQuantity(value))
    .filter((quantity) => quantity !== null)
    .sort((a, b) => a.value - b.value);
  const positions = [...new Set(quantities.map((quantity) => quantity.value))];
  const dimension = quantities[0]?.dimension ?? "plain";
  const least = positions[0] ?? 0;
  const greatest = positions[positions.length - 1] ?? 0;
  return {
    parameter,
    positions,
    labels: positions.map((value) => (value === 0 ? "0" : formatQuantity({ value, dimension }))),
    logarithmic: least > 0 && greatest / least >= LOGARITHMIC_FROM,
    continuous: true,
    positionOf: (cell) => parseQuantity(cell.parameters[parameter])?.value ?? null,
  };
}

function readSeries(cells: CellReport[], axis: SweepAxis, rest: string[]): SweepSeries[] {
  const several = phases(cells).length > 1;
  const names = shortNames(sweptParameters(cells));
  const changed = changedParameters(cells);
  const groups = new Map<string, SweepSeries>();
  for (const cell of cells) {
    const values = rest.map((name) => `${names.get(name)} ${formatValue(cell.parameters[name])}`);
    const named = (phase: string) => [...(several || rest.length === 0 ? [phase] : []), ...values].join(", ");
    const label = named(phaseLabel(cell, changed));
    const group = groups.get(label) ?? { label, short: named(phaseLabel(cell, [])), phase: cell.phase, cells: axis.positions.map(() => []) };
    groups.set(label, group);
    const position = axis.positionOf(cell);
    if (position !== null) {
      group.cells[axis.positions.indexOf(position)]?.push(cell);
    }
  }
  return [...groups.values()];
}

function phaseLabel(cell: CellReport, changed: string[]): string {
  const values = changed
    .filter((name) => cell.parameters[name] !== undefined)
    .map((name) => `${lastParts(name, 1)} ${formatValue(cell.parameters[name])}`);
  return `${cell.phase || "measured"}${values.length === 0 ? "" : ` (${values.join(", ")})`}`;
}

/** The last so many words of a dotted name; of joint parameters of each, the same words once. */
function lastParts(parameter: string, count: number): string {
  const names = parameter.split(" + ").map((name) => name.split(".").slice(-count).join(" ").replaceAll("_", " "));
  return [...new Set(names)].join(" + ");
}

/** Dotted parameters in words, each as short as tells it from the others. */
export function shortNames(parameters: string[]): Map<string, string> {
  const names = new Map<string, string>();
  for (const parameter of parameters) {
    const parts = Math.max(...parameter.split(" + ").map((name) => name.split(".").length));
    let count = 1;
    while (count < parts && parameters.filter((other) => lastParts(other, count) === lastParts(parameter, count)).length > 1) {
      count += 1;
    }
    names.set(parameter, lastParts(parameter, count));
  }
  return names;
}

/** What a swept parameter is called where there is room for it. */
export function longName(parameter: string): string {
  return parameter === "workload.parallel" ? "parallel I/Os per initiator" : lastParts(parameter, 1);
}

/** A cell in one line: the swept values, and its phase and repeat where there are several. */
export function cellLabel(cell: CellReport, cells: CellReport[]): string {
  const names = shortNames(sweptParameters(cells));
  const values = [...names].map(([name, short]) => `${short} ${formatValue(cell.parameters[name])}`);
  const repeated = cells.some((other) => other.repeat !== cell.repeat);
  return [
    ...(phases(cells).length > 1 ? [cell.phase] : []),
    ...values,
    ...(repeated ? [`repeat ${cell.repeat + 1}`] : []),
    ...(cell.failure === null ? [] : ["failed"]),
  ].join(" · ") || `cell ${cell.cell}`;
}

/**
 * The cells that differ from this one in a single parameter whose values are no quantities, such as
 * the case: what it is to be compared with.
 */
export function siblings(cell: CellReport, cells: CellReport[]): CellReport[] {
  const swept = sweptParameters(cells);
  const kinds = swept.filter((name) => dimensionOf(distinct(cells, name)) === null);
  return cells.filter((other) => {
    const differs = swept.filter((name) => key(other.parameters[name]) !== key(cell.parameters[name]));
    return other.phase === cell.phase && other.repeat === cell.repeat && differs.length === 1 && kinds.includes(differs[0] ?? "");
  });
}

/** A measure's mean over the repeats, with its least and greatest value; null where none has it. */
export interface Spread {
  mean: number;
  least: number;
  greatest: number;
}

export function spread(cells: CellReport[], measure: (cell: CellReport) => number | null): Spread | null {
  const values = cells.map(measure).filter((value) => value !== null);
  if (values.length === 0) {
    return null;
  }
  return {
    mean: values.reduce((sum, value) => sum + value, 0) / values.length,
    least: Math.min(...values),
    greatest: Math.max(...values),
  };
}
