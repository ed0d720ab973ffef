/** What the sweep gave: the chosen measure as heat maps and as curves, and the latency. */

import { ChartGroup } from "../chart/chart";
import { capital, latencyFigure, measureFigure } from "./curves";
import type { ReportData } from "./data";
import { el, figure } from "./dom";
import { readGrids } from "./grid";
import { heatMaps } from "./heatmap";
import type { Shown } from "./inflight";
import { measureSpec, measuresOf, type MeasureSpec } from "./measures";
import { knownOf } from "./paper";
import type { Selection } from "./selection";
import { quantityAxes, readSweep } from "./sweep";

/** What is shown before the reader chooses: the paper's measure, or what the plan expects something of. */
function usualMeasure(measures: MeasureSpec[], data: ReportData): MeasureSpec | undefined {
  const expected = data.expectations.map(({ expected }) => measures.find(({ metric }) => expected.startsWith(`cells.${metric} `)));
  return (
    measures.find(({ metric }) => knownOf(data.paper, metric).length > 0) ??
    expected.find((measure) => measure !== undefined) ??
    measures.find(({ metric }) => metric === "iops") ??
    measures[0]
  );
}

/** The charts, or null when the run swept nothing. */
export function sweptCharts(data: ReportData, selection: Selection): HTMLElement | null {
  const { cells } = data;
  const first = readSweep(cells).axis;
  if (first.parameter === null || first.positions.length < 2) {
    return null;
  }
  const measures = measuresOf(cells);
  const axes = quantityAxes(cells);
  const grids = readGrids(cells);
  const usual = usualMeasure(measures, data) ?? measureSpec("iops", cells);
  const place = el("div", {});
  let shown: Shown[] = [];
  const draw = () => {
    shown.forEach((part) => part.destroy());
    const measure = measures.find(({ metric }) => metric === measureMenu.value) ?? usual;
    const sweep = readSweep(cells, axisMenu.value);
    const group = new ChartGroup("sweep");
    shown = [measureFigure(sweep, measure, data, selection, group), latencyFigure(sweep, selection, group)];
    const [grid] = grids;
    const map =
      grid === undefined
        ? null
        : figure(
            "grid",
            `${capital(measure.label)} over ${grid.names.y} and ${grid.names.x}`,
            "Brighter is higher. Click a point to see its cell below.",
            heatMaps(grids, measure, knownOf(data.paper, measure.metric), cells, selection),
          );
    place.replaceChildren(...(map === null ? [] : [map]), el("div", { class: "pair" }, ...shown.map(({ root }) => root)));
  };
  const measureMenu = el(
    "select",
    { id: "measure-menu", onchange: draw },
    ...measures.map((measure) => el("option", { value: measure.metric, selected: measure === usual }, measure.label)),
  );
  const axisMenu = el(
    "select",
    { id: "axis-menu", onchange: draw },
    ...axes.map(({ parameter }) => el("option", { value: parameter ?? "", selected: parameter === first.parameter }, parameter ?? "")),
  );
  draw();
  return el(
    "div",
    {},
    el(
      "div",
      { class: "controls" },
      el("label", { for: "measure-menu" }, "Measure"),
      measureMenu,
      ...(axes.length < 2 ? [] : [el("label", { for: "axis-menu" }, "against"), axisMenu]),
    ),
    place,
  );
}
