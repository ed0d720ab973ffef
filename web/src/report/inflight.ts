/** One cell over time: how many I/Os each layer holds, and the ladder of layers beside it. */

import type uPlot from "uplot";
import { type AxisSpec, Chart, type ChartGroup, type LineSpec } from "../chart/chart";
import { colour } from "../chart/theme";
import { drawChanges } from "./changes";
import type { CellReport, Finding, LayerReport, TimeAxis } from "./data";
import { el, figure } from "./dom";
import { layerColour, layerEntered, layerName } from "./layers";
import type { Selection } from "./selection";
import { formatFixed, formatNs, formatNumber, formatShare } from "./units";
import { causeName, heldBy, type LayerSum } from "./waits";

/** A figure that can be taken down again, with the charts in it. */
export interface Shown {
  root: HTMLElement;
  destroy(): void;
}

/** The x values of a cell's samples, in seconds from where measuring began. */
export function timesOf({ from_s, step_s, steps }: TimeAxis): number[] {
  return Array.from({ length: steps }, (_, step) => from_s + step * step_s);
}

/** The axis of all charts of a cell over time; series may have steps of their own on it. */
export function timeAxis(time: TimeAxis): AxisSpec {
  const { from_s, step_s, steps } = time;
  return { label: "time since measuring began (s)", format: timeFormat(time), whole: { min: from_s, max: from_s + (steps - 1) * step_s } };
}

/** How times are written, as finely as the steps need. */
function timeFormat({ step_s }: TimeAxis): (value: number) => string {
  const decimals = Math.min(Math.max(Math.ceil(-Math.log10(step_s)), 1), 6);
  return (value) => formatFixed(value, decimals).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

/** What stands over every chart of a cell over time: what was not measured, and the paths' changes. */
export function drawOver({ changes }: CellReport, time: TimeAxis): (plot: uPlot) => void {
  return (plot) => {
    shadeUnmeasured(plot, time);
    drawChanges(plot, changes);
  };
}

/** Dims what was recorded before and after the measured time. */
function shadeUnmeasured(plot: uPlot, time: TimeAxis): void {
  const { ctx, bbox } = plot;
  const from = Math.min(Math.max(plot.valToPos(0, "x", true), bbox.left), bbox.left + bbox.width);
  const to = Math.min(Math.max(plot.valToPos(time.measured_s, "x", true), bbox.left), bbox.left + bbox.width);
  ctx.save();
  ctx.fillStyle = colour("--unmeasured");
  ctx.fillRect(bbox.left, bbox.top, from - bbox.left, bbox.height);
  ctx.fillRect(to, bbox.top, bbox.left + bbox.width - to, bbox.height);
  ctx.restore();
}

/** The figure, with a way to apply the layers' switches without building it anew. */
export function inFlightFigure(
  cell: CellReport,
  finding: Finding | null,
  selection: Selection,
  group: ChartGroup,
): Shown & { switchLayers(): void } {
  const { time } = cell;
  const divisor = selection.perSession ? Math.max(cell.sessions, 1) : 1;
  const ladder = new Ladder(cell, divisor, finding, selection);
  const populations = cell.in_flight.map(({ layer, values }) => ({
    layer,
    values: values.map((value) => (value === null ? null : value / divisor)),
  }));
  const body: Node[] = [];
  let chart: Chart | null = null;
  if (time !== null && populations.length > 0) {
    // Each layer's I/Os are among those of the layer above it, so it is painted over it; what
    // still shows of the upper layer's colour are the I/Os that have not come further down.
    const lines: LineSpec[] = populations.map(({ layer }) => ({
      label: layerName(layer),
      colour: layerColour(layer),
      filled: true,
      stepped: true,
    }));
    const drawn = new Chart(
      {
        description: "I/Os in flight per layer against time",
        x: timeAxis(time),
        y: { label: "I/Os in flight", format: formatNumber },
        lines,
        height: 404,
        over: drawOver(cell, time),
        onCursor: (place) =>
          ladder.read(
            place === null ? null : new Map(populations.map(({ layer, values }) => [layer, values[place] ?? null])),
          ),
      },
      [timesOf(time), ...populations.map(({ values }) => values)] as uPlot.AlignedData,
      group,
    );
    chart = drawn;
    body.push(drawn.root);
  } else {
    body.push(el("p", { class: "missing" }, "No layer crossings were recorded for this cell."));
  }
  const root = figure(
    "in-flight",
    "In flight per layer",
    "The number of I/Os in each layer. A band in a layer's colour shows the I/Os that are in it and not in the next layer: they wait there, or are in transit. The labels give how long an I/O stayed there, the share of the latency, and its main wait.",
    cell.sessions > 1 ? sessionChoice(cell.sessions, selection) : null,
    el("div", { class: "beside" }, ...body, cell.layers.length > 0 ? ladder.root : null),
  );
  const switchLayers = () => {
    cell.in_flight.forEach(({ layer }, place) => chart?.showLine(place, !selection.isHidden(layer)));
    ladder.press(selection);
  };
  switchLayers();
  return { root, switchLayers, destroy: () => chart?.destroy() };
}

/** One session as the sweep's parameters mean it, or all that the target has to serve. */
function sessionChoice(sessions: number, selection: Selection): HTMLElement {
  const choice = (text: string, perSession: boolean) =>
    el(
      "label",
      {},
      el("input", {
        type: "radio",
        name: "sessions",
        checked: perSession === selection.perSession,
        onchange: () => selection.countPerSession(perSession),
      }),
      text,
    );
  return el(
    "div",
    { class: "controls" },
    el(
      "fieldset",
      { class: "choice" },
      el("legend", { class: "spoken" }, "Whose I/Os are counted"),
      choice("mean of a session", true),
      choice(`all ${sessions} sessions`, false),
    ),
  );
}

/** The layers top to bottom, each with its numbers: the chart's legend, and its switches. */
class Ladder {
  readonly root: HTMLElement;
  readonly #now = new Map<string, HTMLElement>();
  readonly #means = new Map<string, string>();
  readonly #switches = new Map<string, HTMLElement>();
  readonly #heading: HTMLElement;

  constructor(cell: CellReport, divisor: number, finding: Finding | null, selection: Selection) {
    const deepest = Math.max(...cell.layers.map((layer) => layer.in_flight_mean), Number.MIN_VALUE);
    const held = cell.waits === null ? new Map<string, LayerSum>() : heldBy(cell.layers, cell.waits);
    const whole_ns = Math.max(cell.waits?.latency_ns ?? 0, 1);
    const binding = cell.cell === finding?.cell ? finding.layer : null;
    this.#heading = el("th", { scope: "col", class: "number" }, "mean");
    this.root = el(
      "div",
      { class: "scroll ladder" },
      el(
        "table",
        { class: "data" },
        el("caption", { class: "spoken" }, "The layers of this cell, top to bottom"),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col" }, "layer"),
            el("th", { scope: "col", "aria-hidden": "true" }, ""),
            this.#heading,
            el("th", { scope: "col", class: "number" }, "most"),
            el("th", { scope: "col", class: "number" }, "held"),
            el("th", { scope: "col", class: "number" }, "share"),
            el("th", { scope: "col" }, "mostly for"),
          ),
        ),
        el(
          "tbody",
          {},
          ...cell.layers.map((layer) => this.#row(layer, held.get(layer.layer), whole_ns, divisor, deepest, selection, layer.layer === binding)),
        ),
      ),
    );
  }

  /** Shows these numbers in place of the means; null brings the means back. */
  read(values: Map<string, number | null> | null): void {
    this.#heading.textContent = values === null ? "mean" : "at cursor";
    for (const [layer, element] of this.#now) {
      const value = values?.get(layer);
      element.textContent = values === null ? (this.#means.get(layer) ?? "") : formatFixed(value ?? null, 1);
    }
  }

  press(selection: Selection): void {
    for (const [layer, button] of this.#switches) {
      button.setAttribute("aria-pressed", String(!selection.isHidden(layer)));
    }
  }

  #row(
    layer: LayerReport,
    held: LayerSum | undefined,
    whole_ns: number,
    divisor: number,
    deepest: number,
    selection: Selection,
    binds: boolean,
  ): HTMLElement {
    const most = held?.causes.reduce((a, b) => (b.mean_ns > a.mean_ns ? b : a));
    const mean = formatFixed(layer.in_flight_mean / divisor, 1);
    const now = el("td", { class: "number" }, mean);
    this.#now.set(layer.layer, now);
    this.#means.set(layer.layer, mean);
    const swatch = el("span", { class: "swatch" });
    swatch.style.background = `var(${layerColour(layer.layer)})`;
    const bar = el("span", { class: "bar" });
    bar.style.inlineSize = `${(layer.in_flight_mean / deepest) * 100}%`;
    bar.style.background = `var(${layerColour(layer.layer)})`;
    const button = el(
      "button",
      {
        type: "button",
        class: "toggle",
        "data-layer": layer.layer,
        title: layerEntered(layer.layer),
        onclick: () => selection.toggle(layer.layer),
      },
      swatch,
      layerName(layer.layer),
    );
    this.#switches.set(layer.layer, button);
    return el(
      "tr",
      binds ? { class: "binds" } : {},
      el("th", { scope: "row" }, button, binds ? el("span", { class: "mark", title: "Here the finding's limit binds" }, " ◀ binds") : null),
      el("td", { class: "bar-cell", "aria-hidden": "true" }, bar),
      now,
      el("td", { class: "number" }, layer.in_flight_max === null ? "" : formatFixed(layer.in_flight_max / divisor, 0)),
      el("td", { class: "number" }, formatNs(held?.mean_ns ?? null)),
      el("td", { class: "number" }, held === undefined ? "" : formatShare(held.mean_ns / whole_ns)),
      el("td", {}, most === undefined ? "" : causeName(most.cause)),
    );
  }
}
