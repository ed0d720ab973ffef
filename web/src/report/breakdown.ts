/** Where the latency goes: a bar per cell, cut into waits by layer and cause. */

import type { CellReport, Finding, WaitUse } from "./data";
import { el, figure } from "./dom";
import { layerColour, layerName } from "./layers";
import { cellLabel } from "./sweep";
import type { Selection } from "./selection";
import { formatFixed, formatNs, formatShare } from "./units";
import { causeColour, causeKey, causeName, causeOf, isOfLimit, type CauseSum, type LayerSum, layerSums } from "./waits";

/** A cell of whose I/Os it is known what they waited for. */
type Explained = CellReport & { waits: WaitUse };

/** The figure, or null when of no cell it is known what its I/Os waited for. */
export function breakdownFigure(cells: CellReport[], finding: Finding | null, selection: Selection): HTMLElement | null {
  const explained = cells.filter((cell): cell is Explained => cell.waits !== null);
  if (explained.length === 0) {
    return null;
  }
  const greatest_ns = Math.max(...explained.map(({ waits }) => waits.latency_ns));
  const rows = explained.map((cell) => new Bar(cell, cells, cell.cell === finding?.cell ? finding.limit : null, greatest_ns, selection));
  const list = el("ol", { class: "bars" }, ...rows.map((row) => row.root));
  const scale = (shares: boolean) => rows.forEach((row) => row.scale(shares));
  scale(false);
  const mark = () => rows.forEach((row) => row.mark(selection.cell));
  selection.onChange(mark);
  mark();
  const causes = explained.flatMap(({ waits }) => waits.sums.map(({ cause }) => cause));
  return figure(
    "breakdown",
    "Where the latency goes",
    "The waits of a mean I/O, from the application down; each moment of its latency counts once. Each part has the colour of its cause, and the line below a group has the colour of the layer that held the I/O. The parts that belong to the finding's limit are outlined.",
    el("div", { class: "controls" }, scaleChoice(scale), causeKey(causes)),
    layerKey(explained),
    list,
  );
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

/** Which line is which layer. */
function layerKey(cells: Explained[]): HTMLElement {
  const layers = [...new Set(cells.flatMap(({ waits }) => waits.sums.map(({ layer }) => layer)))];
  return el(
    "ul",
    { class: "key", "aria-label": "Layers" },
    ...layers.map((layer) => {
      const line = el("span", { class: "held-by" });
      line.style.background = `var(${layerColour(layer)})`;
      return el("li", {}, line, layerName(layer));
    }),
  );
}

class Bar {
  readonly root: HTMLElement;
  readonly #cell: Explained;
  readonly #greatest_ns: number;
  readonly #button: HTMLElement;
  readonly #strip: HTMLElement;

  constructor(cell: Explained, cells: CellReport[], limit: string | null, greatest_ns: number, selection: Selection) {
    this.#cell = cell;
    this.#greatest_ns = greatest_ns;
    const whole_ns = Math.max(cell.waits.latency_ns, 1);
    const layers = layerSums(cell.waits);
    this.#strip = el("span", { class: "strip" }, ...layers.map((layer) => groupOfBar(layer, whole_ns, limit)));
    this.#button = el(
      "button",
      { type: "button", onclick: () => selection.choose(cell.cell) },
      el("span", { class: "bar-label" }, cellLabel(cell, cells)),
      el("span", { class: "track" }, this.#strip),
      el("span", { class: "number" }, `${formatFixed(cell.waits.latency_ns / 1e6, decimals(greatest_ns))} ms`),
      el(
        "span",
        { class: "spoken" },
        layers
          .flatMap(({ layer, causes }) => causes.filter(({ mean_ns }) => mean_ns / whole_ns >= 0.01).map((sum) => describe(sum, layer, whole_ns)))
          .join("; "),
      ),
    );
    this.root = el("li", {}, this.#button);
  }

  scale(shares: boolean): void {
    this.#strip.style.inlineSize = `${shares ? 100 : (this.#cell.waits.latency_ns / this.#greatest_ns) * 100}%`;
  }

  mark(chosen: number | null): void {
    this.#button.setAttribute("aria-current", String(chosen === this.#cell.cell));
  }
}

/** The waits at one layer, over the line in its colour. */
function groupOfBar({ layer, mean_ns, causes }: LayerSum, whole_ns: number, limit: string | null): HTMLElement {
  const line = el("span", { class: "held-by" });
  line.style.background = `var(${layerColour(layer)})`;
  const parts = causes.map((sum) => {
    const { family } = causeOf(sum.cause);
    const part = el("span", { class: `part wait-${family}${isOfLimit(sum.cause, limit) ? " binds" : ""}`, title: describe(sum, layer, whole_ns) });
    part.style.flexGrow = String(sum.mean_ns);
    part.style.setProperty("--part", `var(${causeColour(sum.cause)})`);
    return part;
  });
  const group = el("span", { class: "group" }, el("span", { class: "parts" }, ...parts), line);
  group.style.flexGrow = String(mean_ns);
  return group;
}

function describe({ cause, mean_ns, uncertain_ns }: CauseSum, layer: string, whole_ns: number): string {
  const uncertain = uncertain_ns < 1 ? "" : `, of which ${formatNs(uncertain_ns)} may belong to adjacent waits`;
  return `${layerName(layer)}, ${causeName(cause)}: ${formatNs(mean_ns)} (${formatShare(mean_ns / whole_ns)})${uncertain}; ${causeOf(cause).words}`;
}
