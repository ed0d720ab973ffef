/** Every cell's numbers in one table; a row's button chooses the cell. */

import type { CellReport } from "./data";
import { el } from "./dom";
import { layerName } from "./layers";
import { numberOf } from "./measures";
import type { Selection } from "./selection";
import { phases, shortNames, sweptParameters } from "./sweep";
import { formatFixed, formatValue } from "./units";

/** One column: its heading, its unit, and its text for a cell. */
interface Column {
  heading: string;
  unit: string;
  text: (cell: CellReport) => string;
}

export function cellTable(cells: CellReport[], selection: Selection): HTMLElement {
  const columns = tableColumns(cells);
  const rows = cells.map((cell) => {
    const button = el("button", { type: "button", class: "choose", onclick: () => selection.choose(cell.cell) }, String(cell.cell));
    button.setAttribute("aria-label", `Look at cell ${cell.cell}`);
    return {
      cell,
      row: el(
        "tr",
        cell.failure === null ? {} : { class: "failed" },
        el("th", { scope: "row" }, button),
        ...columns.map((column) => el("td", { class: "number", "data-heading": heading(column) }, column.text(cell))),
        el("td", { class: "remark", "data-heading": "remarks" }, remark(cell)),
      ),
    };
  });
  const mark = () => {
    for (const { cell, row } of rows) {
      row.setAttribute("aria-current", String(cell.cell === selection.cell));
    }
  };
  selection.onChange(mark);
  mark();
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "All cells" },
    el(
      "table",
      { class: "data cells" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("th", { scope: "col" }, "cell"),
          ...columns.map(({ heading, unit }) =>
            el("th", { scope: "col", class: "number" }, heading, unit === "" ? null : el("span", { class: "unit" }, unit)),
          ),
          el("th", { scope: "col" }, "remarks"),
        ),
      ),
      el("tbody", {}, ...rows.map(({ row }) => row)),
    ),
  );
}

/** A column's heading in one line, for windows too narrow for the table's head. */
function heading({ heading, unit }: Column): string {
  return unit === "" || unit === "in flight" ? heading : `${heading}, ${unit}`;
}

function tableColumns(cells: CellReport[]): Column[] {
  const layers = [...new Set(cells.flatMap((cell) => cell.layers.map(({ layer }) => layer)))];
  const repeated = new Set(cells.map((cell) => cell.repeat)).size > 1;
  return [
    ...(phases(cells).length > 1 ? [{ heading: "phase", unit: "", text: (cell: CellReport) => cell.phase }] : []),
    ...[...shortNames(sweptParameters(cells))].map(([name, heading]) => ({
      heading,
      unit: "",
      text: (cell: CellReport) => formatValue(cell.parameters[name]),
    })),
    ...(repeated ? [{ heading: "repeat", unit: "", text: (cell: CellReport) => String(cell.repeat + 1) }] : []),
    { heading: "IOPS", unit: "", text: (cell) => formatFixed(numberOf(cell, "iops"), 0) },
    { heading: "goodput", unit: "MB/s", text: (cell) => formatFixed(scaled(numberOf(cell, "bytes_per_s"), 1e-6), 1) },
    { heading: "p50", unit: "ms", text: (cell) => formatFixed(scaled(numberOf(cell, "latency_p50_ns"), 1e-6), 2) },
    { heading: "p99", unit: "ms", text: (cell) => formatFixed(scaled(numberOf(cell, "latency_p99_ns"), 1e-6), 2) },
    ...layers.map((layer) => ({
      heading: layerName(layer),
      unit: "in flight",
      text: (cell: CellReport) =>
        formatFixed(cell.layers.find((summary) => summary.layer === layer)?.in_flight_mean ?? null, 1),
    })),
  ];
}

function scaled(value: number | null, factor: number): number | null {
  return value === null ? null : value * factor;
}

/** What must be known of a cell's numbers: that it failed, or that records were lost. */
function remark(cell: CellReport): string {
  const lost = Object.entries(cell.dropped).filter(([, count]) => count > 0);
  return [
    ...(cell.failure === null ? [] : [cell.failure]),
    ...lost.map(([kind, count]) => `${formatFixed(count, 0)} ${kind} records dropped`),
  ].join("; ");
}
