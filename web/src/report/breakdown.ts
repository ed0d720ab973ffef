/** Where the latency goes: a bar per cell, cut into waiting, service and the way back. */

import type { Cell, Finding } from "./data";
import { el, figure } from "./dom";
import { latency, latencyParts, type LatencyPart, layerColour, layerName } from "./layers";
import { cellLabel } from "./sweep";
import type { Selection } from "./selection";
import { formatFixed, formatNs, formatShare } from "./units";

/** The figure, or null when no cell has layers to tell apart. */
export function breakdownFigure(cells: Cell[], finding: Finding | null, selection: Selection): HTMLElement | null {
  const broken = cells.filter((cell) => cell.layers.length > 0);
  if (broken.length === 0) {
    return null;
  }
  const greatest_ns = Math.max(...broken.map(total));
  const rows = broken.map((cell) => new Bar(cell, cells, finding, greatest_ns, selection));
  const list = el("ol", { class: "bars" }, ...rows.map((row) => row.root));
  const scale = (shares: boolean) => rows.forEach((row) => row.scale(shares));
  scale(false);
  const mark = () => rows.forEach((row) => row.mark(selection.cell));
  selection.onChange(mark);
  mark();
  return figure(
    "breakdown",
    "Where the latency goes",
    "A mean I/O from left to right: down through the layers, inside the deepest one, and up again (striped). Each part has the colour of the layer that holds the I/O meanwhile: full where it waits, pale for what the part took at the least, as it does when nobody is in the way.",
    el("div", { class: "controls" }, scaleChoice(scale), key(broken)),
    list,
  );
}

function total(cell: Cell): number {
  return latency(cell.layers);
}

/** Decimals of milliseconds that give the longest bar three digits, so that the column aligns. */
function decimals(greatest_ns: number): number {
  return Math.min(Math.max(2 - Math.floor(Math.log10(Math.max(greatest_ns, 1) / 1e6)), 0), 6);
}

function scaleChoice(scale: (shares: boolean) => void): HTMLElement {
  const choice = (text: string, shares: boolean) =>
    el(
      "label",
      {},
      el("input", { type: "radio", name: "breakdown-scale", checked: !shares, onchange: () => scale(shares) }),
      text,
    );
  return el("fieldset", { class: "choice" }, el("legend", { class: "spoken" }, "Scale of the bars"), choice("time", false), choice("share", true));
}

/** Which colour is which layer. */
function key(cells: Cell[]): HTMLElement {
  const layers = [...new Set(cells.flatMap((cell) => cell.layers.map(({ layer }) => layer)))];
  return el(
    "ul",
    { class: "key" },
    ...layers.map((layer) => {
      const swatch = el("span", { class: "swatch" });
      swatch.style.background = `var(${layerColour(layer)})`;
      return el("li", {}, swatch, layerName(layer));
    }),
  );
}

class Bar {
  readonly root: HTMLElement;
  readonly #cell: Cell;
  readonly #greatest_ns: number;
  readonly #button: HTMLElement;
  readonly #strip: HTMLElement;

  constructor(cell: Cell, cells: Cell[], finding: Finding | null, greatest_ns: number, selection: Selection) {
    this.#cell = cell;
    this.#greatest_ns = greatest_ns;
    const parts = latencyParts(cell.layers);
    const whole_ns = Math.max(total(cell), 1);
    this.#strip = el(
      "span",
      { class: "strip" },
      ...parts.map((part) => partOfBar(part, whole_ns, cell.cell === finding?.cell && part.way === "down" && part.towards === finding.layer)),
    );
    this.#button = el(
      "button",
      { type: "button", onclick: () => selection.choose(cell.cell) },
      el("span", { class: "bar-label" }, cellLabel(cell, cells)),
      el("span", { class: "track" }, this.#strip),
      el("span", { class: "number" }, `${formatFixed(total(cell) / 1e6, decimals(greatest_ns))} ms`),
      el(
        "span",
        { class: "spoken" },
        parts.filter((part) => part.mean_ns / whole_ns >= 0.01).map((part) => describe(part, whole_ns)).join("; "),
      ),
    );
    this.root = el("li", {}, this.#button);
  }

  scale(shares: boolean): void {
    this.#strip.style.inlineSize = `${shares ? 100 : (total(this.#cell) / this.#greatest_ns) * 100}%`;
  }

  mark(chosen: number | null): void {
    this.#button.setAttribute("aria-current", String(chosen === this.#cell.cell));
  }
}

/** A part as long as it took, of which the waiting has the full colour. */
function partOfBar(part: LatencyPart, whole_ns: number, binds: boolean): HTMLElement {
  const element = el("span", { class: `part ${part.way}${binds ? " binds" : ""}`, title: describe(part, whole_ns) });
  element.style.flexGrow = String(part.mean_ns);
  element.style.setProperty("--part", `var(${layerColour(part.layer)})`);
  const waiting = el("span", { class: "waiting" });
  waiting.style.inlineSize = `${(part.waiting_ns / Math.max(part.mean_ns, 1)) * 100}%`;
  element.append(waiting);
  return element;
}

function describe(part: LatencyPart, whole_ns: number): string {
  const share = formatShare(part.mean_ns / whole_ns);
  return `${part.label}: ${formatNs(part.mean_ns)} (${share}), of it waiting ${formatNs(part.waiting_ns)}`;
}
