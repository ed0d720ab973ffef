/** A grid of two swept quantities as a heat map: a table whose cells are coloured by their value. */

import type { CellReport, KnownNumber } from "./data";
import { el } from "./dom";
import type { Grid } from "./grid";
import type { MeasureSpec } from "./measures";
import { isOf } from "./paper";
import { inkOn, scaleColour } from "./scale";
import type { Selection } from "./selection";
import { cellLabel, spread } from "./sweep";
import { formatNumber } from "./units";

/** The grids of a measure, all on one scale, with its key. */
export function heatMaps(grids: Grid[], measure: MeasureSpec, known: KnownNumber[], cells: CellReport[], selection: Selection): HTMLElement {
  const means = grids.flatMap(({ rows }) => rows.flat().map((here) => spread(here, measure.of)?.mean ?? null)).filter((mean) => mean !== null);
  const least = Math.min(...means);
  const greatest = Math.max(...means);
  const share = (value: number) => (greatest > least ? (value - least) / (greatest - least) : 0.5);
  return el(
    "div",
    { class: "heat-maps" },
    means.length === 0 ? el("p", { class: "missing" }, `No cell has this number.`) : scaleKey(least, greatest, measure),
    el("div", { class: "maps" }, ...grids.map((grid) => heatMap(grid, measure, known, cells, share, selection))),
  );
}

function scaleKey(least: number, greatest: number, measure: MeasureSpec): HTMLElement {
  const bar = el("span", { class: "scale-bar" });
  bar.style.background = `linear-gradient(to right, ${Array.from({ length: 10 }, (_, i) => scaleColour(i / 9)).join(", ")})`;
  return el("p", { class: "scale-key" }, formatNumber(least), bar, `${formatNumber(greatest)} ${measure.unit}`);
}

function heatMap(grid: Grid, measure: MeasureSpec, known: KnownNumber[], cells: CellReport[], share: (value: number) => number, selection: Selection): HTMLElement {
  const { x, y, names, rows } = grid;
  const places: { button: HTMLElement; here: CellReport[] }[] = [];
  const place = (here: CellReport[]): HTMLElement => {
    const range = spread(here, measure.of);
    const [first] = here;
    if (range === null || first === undefined) {
      return el("td", { class: "nothing" }, "–");
    }
    const value = formatNumber(range.mean);
    const repeats = range.least === range.greatest ? "" : `, ${formatNumber(range.least)} to ${formatNumber(range.greatest)} over repeats`;
    const paper = known.find((number) => isOf(number, first));
    const button = el(
      "button",
      {
        type: "button",
        title: `${cellLabel(first, cells)}: ${value} ${measure.unit}${repeats}`,
        "aria-label": `${cellLabel(first, cells)}: ${value} ${measure.unit}${repeats}. Look at this cell`,
        onclick: () => selection.choose(first.cell),
      },
      value,
      paper === undefined ? null : el("span", { class: "papers" }, `◇ ${formatNumber(paper.value * measure.factor)}`),
    );
    const background = scaleColour(share(range.mean));
    button.style.background = background;
    button.style.color = inkOn(background);
    places.push({ button, here });
    return el("td", {}, button);
  };
  const table = el(
    "table",
    { class: "heat-map" },
    el("caption", {}, grid.label),
    el(
      "thead",
      {},
      el("tr", {}, el("th", {}, ""), el("th", { scope: "colgroup", colspan: x.positions.length, class: "axis" }, names.x)),
      el("tr", {}, el("th", { scope: "col", class: "axis" }, names.y), ...x.labels.map((label) => el("th", { scope: "col" }, label))),
    ),
    el("tbody", {}, ...rows.map((row, i) => el("tr", {}, el("th", { scope: "row" }, y.labels[i] ?? ""), ...row.map(place)))),
  );
  const mark = () => {
    for (const { button, here } of places) {
      button.setAttribute("aria-current", String(here.some((cell) => cell.cell === selection.cell)));
    }
  };
  selection.onChange(mark);
  mark();
  return el("div", { class: "scroll" }, table);
}
