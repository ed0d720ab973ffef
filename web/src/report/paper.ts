/** The numbers of the paper that a plan rebuilds: a table of them beside ours, and where they belong. */

import type { CellReport, Json, KnownNumber, Paper } from "./data";
import { el } from "./dom";
import { formatMeasure } from "./measures";
import { formatFixed, formatNumber, NOTHING } from "./units";

const CELLS = "cells.";

/** The paper's numbers of a measure that are no ratios. */
export function knownOf(paper: Paper | null, metric: string): KnownNumber[] {
  return (paper?.known ?? []).filter((known) => known.metric === `${CELLS}${metric}` && known.relative_to === null);
}

/** Whether a cell is one of those that the number is of. */
export function isOf(known: KnownNumber, cell: CellReport): boolean {
  return Object.entries(known.where).every(([name, value]) => same(cell.parameters[name], value));
}

function same(one: Json | undefined, other: Json): boolean {
  return JSON.stringify(one ?? null) === JSON.stringify(other);
}

function said(title: string, remarks: string[] | undefined): HTMLElement | null {
  return remarks === undefined || remarks.length === 0
    ? null
    : el("div", { class: "remarks" }, el("p", {}, title), el("ul", {}, ...remarks.map((remark) => el("li", {}, remark))));
}

export function paperTable(paper: Paper | null): HTMLElement | null {
  if (paper === null) {
    return null;
  }
  const title = `${paper.title}${paper.figure === null ? "" : `, ${paper.figure}`}`;
  const written = (known: KnownNumber, value: number | null) => {
    if (value === null) {
      return NOTHING;
    }
    return known.relative_to !== null ? formatNumber(value) : formatMeasure(known.metric.replace(CELLS, ""), value);
  };
  return el(
    "div",
    {},
    el("p", { class: "reading" }, `This plan reproduces an experiment of ${title}. Other hardware gives other numbers; the shapes should agree.`),
    said("The paper's qualitative results:", paper.remarks),
    said("Differences of this experiment:", paper.differs),
    paper.known.length === 0
      ? null
      : el(
          "div",
          { class: "scroll", tabindex: 0, role: "region", "aria-label": "The paper's numbers" },
          el(
            "table",
            { class: "data" },
            el(
              "thead",
              {},
              el("tr", {}, ...["quantity", "paper", "measured", "measured ÷ paper"].map((name, i) => el("th", { scope: "col", class: i === 0 ? "" : "number" }, name))),
            ),
            el(
              "tbody",
              {},
              ...paper.known.map((known) =>
                el(
                  "tr",
                  {},
                  el("th", { scope: "row" }, known.about),
                  el("td", { class: "number" }, written(known, known.value)),
                  el("td", { class: "number" }, written(known, known.ours)),
                  el("td", { class: "number" }, known.ratio === null ? NOTHING : formatFixed(known.ratio, 2)),
                ),
              ),
            ),
          ),
        ),
  );
}
