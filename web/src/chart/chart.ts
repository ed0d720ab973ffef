/** A line chart on uPlot: themed, fitted to its box, zoomable, and read by mouse, finger or key. */

import uPlot from "uplot";
import { el } from "../report/dom";
import { colour, cover, font, onThemeChange } from "./theme";
import { type Zoomable, zoomByKeys, zoomByPinch, zoomByWheel } from "./zoom";

export type Format = (value: number) => string;

export interface Range {
  min: number;
  max: number;
}

export interface AxisSpec {
  /** What it shows, with its unit. */
  label: string;
  format: Format;
  /** Where its ticks stand; uPlot chooses round values otherwise. */
  ticks?: number[];
  logarithmic?: boolean;
  /** The least range that is shown, for axes with natural bounds. */
  least?: [number, number];
  /** The full range along x, where the data's own is not meant. */
  whole?: Range;
}

export interface LineSpec {
  label: string;
  /** The CSS variable of its colour. */
  colour: string;
  dash?: number[];
  /** Covers the area down to zero. */
  filled?: boolean;
  /** Marks on the data points: full or hollow circles. */
  marks?: "full" | "hollow";
  /** Marks only, no line between them. */
  pointsOnly?: boolean;
  /** Drawn like stairs: a value holds for its whole step. */
  stepped?: boolean;
  /** Drawn on over places without a value. */
  spansGaps?: boolean;
  /** In pixels. */
  width?: number;
  /** Not shown before the reader asks for it. */
  hidden?: boolean;
}

export interface ChartSpec {
  /** What a screen reader says the chart is. */
  description: string;
  x: AxisSpec;
  y: AxisSpec;
  /** A scale of its own on the right, from 0 to `top`, for what `over` draws on it. */
  right?: { label: string; format: Format; top: number };
  lines: LineSpec[];
  height: number;
  /** Draws behind the lines or over them. */
  under?: (plot: uPlot) => void;
  over?: (plot: uPlot) => void;
  /** Told the place in the data under the cursor, null when it has left. */
  onCursor?: (place: number | null) => void;
  /** Told the place in the data that was clicked. */
  onPick?: (place: number) => void;
}


/** The name of the scale on the right. */
export const RIGHT = "right";

/** Charts over the same x axis: they zoom together and share one cursor. */
export class ChartGroup {
  readonly charts = new Set<Chart>();
  readonly key: string;

  constructor(key: string) {
    this.key = key;
  }
}

const every = new Set<Chart>();
onThemeChange(() => every.forEach((chart) => chart.plot.redraw()));

export class Chart implements Zoomable {
  readonly root: HTMLElement;
  readonly plot: uPlot;
  readonly #spec: ChartSpec;
  readonly #group: ChartGroup;
  readonly #whole: Range;
  readonly #reset: HTMLButtonElement;
  readonly #spoken: HTMLElement;
  readonly #resize: ResizeObserver;

  constructor(spec: ChartSpec, data: uPlot.AlignedData, group: ChartGroup) {
    this.#spec = spec;
    this.#group = group;
    this.#whole = spec.x.whole ?? wholeRange(data[0] as number[], spec.x.logarithmic ?? false);
    this.#reset = el("button", { type: "button", class: "reset", hidden: true, onclick: () => this.reset() }, "show all");
    this.#spoken = el("p", { class: "spoken", "aria-live": "polite" });
    this.root = el(
      "div",
      {
        class: "chart",
        tabindex: 0,
        role: "group",
        "aria-label": `Chart: ${spec.description}. Arrow keys move the cursor, plus and minus zoom, zero shows all.`,
      },
      this.#reset,
      this.#spoken,
    );
    this.plot = new uPlot(this.#options(), data, (plot, init) => {
      this.root.prepend(plot.root);
      init();
    });
    this.reset();
    group.charts.add(this);
    every.add(this);
    zoomByWheel(this, this.root);
    zoomByPinch(this);
    zoomByKeys(this, this.root, (by) => this.#moveCursor(by));
    this.#takeClicks();
    this.#resize = new ResizeObserver(() => this.#fit());
    this.#resize.observe(this.root);
  }

  get over(): HTMLElement {
    return this.plot.over;
  }

  destroy(): void {
    this.#resize.disconnect();
    this.#group.charts.delete(this);
    every.delete(this);
    this.plot.destroy();
    this.root.remove();
  }

  show(leftPx: number, rightPx: number): void {
    const whole = this.#whole;
    const min = Math.max(this.plot.posToVal(leftPx, "x"), whole.min);
    const max = Math.min(this.plot.posToVal(rightPx, "x"), whole.max);
    if (min < max) {
      this.plot.setScale("x", { min, max });
    }
  }

  reset(): void {
    this.plot.setScale("x", { ...this.#whole });
  }

  isZoomed(): boolean {
    const { min, max } = this.plot.scales["x"] ?? {};
    return min !== this.#whole.min || max !== this.#whole.max;
  }

  showLine(place: number, show: boolean): void {
    this.plot.setSeries(place + 1, { show });
  }

  #fit(): void {
    const width = this.root.clientWidth;
    if (width > 0 && width !== this.plot.width) {
      this.plot.setSize({ width, height: this.#spec.height });
    }
  }

  /** A press gives the chart the keyboard and the wheel; a click that was no drag picks a point. */
  #takeClicks(): void {
    let pressedPx = 0;
    this.plot.over.addEventListener("mousedown", (event) => {
      pressedPx = event.clientX;
      this.root.focus({ preventScroll: true });
    });
    this.plot.over.addEventListener("click", (event) => {
      const place = this.plot.cursor.idx;
      if (Math.abs(event.clientX - pressedPx) < 4 && typeof place === "number") {
        this.#spec.onPick?.(place);
      }
    });
  }

  #moveCursor(by: number): void {
    const count = this.plot.data[0].length;
    const from = this.plot.cursor.idx ?? (by > 0 ? -1 : count);
    const place = Math.min(Math.max(from + by, 0), count - 1);
    const x = this.plot.data[0][place];
    if (x === undefined) {
      return;
    }
    this.plot.setCursor({ left: this.plot.valToPos(x, "x"), top: this.plot.over.clientHeight / 2 });
    const read = this.#spec.lines.map((line, i) => {
      const value = this.plot.data[i + 1]?.[place];
      return value === null || value === undefined ? null : `${line.label} ${this.#spec.y.format(value)}`;
    });
    this.#spoken.textContent = [this.#spec.x.format(x), ...read.filter((text) => text !== null)].join(", ");
  }

  /** Lets the rest of the group follow this chart's x scale. */
  #scaled(): void {
    if (!every.has(this)) {
      return;
    }
    const { min, max } = this.plot.scales["x"] ?? {};
    this.#reset.hidden = !this.isZoomed();
    if (typeof min !== "number" || typeof max !== "number") {
      return;
    }
    for (const other of this.#group.charts) {
      const scale = other.plot.scales["x"];
      if (other !== this && (scale?.min !== min || scale.max !== max)) {
        other.plot.setScale("x", { min, max });
      }
    }
  }

  #options(): uPlot.Options {
    const spec = this.#spec;
    const xScale: uPlot.Scale = {
      time: false,
      // As given: uPlot would round a logarithmic scale to whole powers.
      ...(spec.x.logarithmic === true ? { distr: 3, log: 2, range: (_plot, min, max) => [min, max] } : {}),
    };
    const [leastMin, leastMax] = spec.y.least ?? [0, 0];
    return {
      width: 600,
      height: spec.height,
      legend: { show: false },
      padding: [8, (plot) => this.#roomForLastLabel(plot), 0, 0],
      scales: {
        x: xScale,
        y: { range: (_plot, min, max) => [Math.min(min ?? 0, leastMin), topOf(Math.max(max ?? 0, leastMax))] },
        ...(spec.right === undefined ? {} : { [RIGHT]: { auto: false, min: 0, max: topOf(spec.right.top) } }),
      },
      series: [{}, ...spec.lines.map(uplotSeries)],
      axes: [this.#xAxis(), this.#yAxis(spec.y), ...(spec.right === undefined ? [] : [this.#rightAxis(spec.right)])],
      cursor: {
        y: false,
        drag: { x: true, y: false, dist: 6 },
        focus: { prox: -1 },
        points: { size: 7 },
        sync: {
          key: this.#group.key,
          scales: ["x", null],
          // Zooming is shared through the scale, whatever caused it; only the cursor goes this way.
          filters: { pub: (type) => type === "mousemove" || type === "mouseleave", sub: () => true },
        },
        // uPlot's own reset goes to the data's range, without the room at the ends.
        bind: { dblclick: () => () => (this.reset(), null) },
      },
      hooks: {
        drawAxes: spec.under === undefined ? [] : [spec.under],
        draw: spec.over === undefined ? [] : [spec.over],
        setScale: [(_plot, scale) => (scale === "x" ? this.#scaled() : undefined)],
        setCursor: [(plot) => spec.onCursor?.(plot.cursor.left !== undefined && plot.cursor.left >= 0 ? (plot.cursor.idx ?? null) : null)],
      },
    };
  }

  #xAxis(): uPlot.Axis {
    const { label, format, ticks } = this.#spec.x;
    const lines = Math.max(1, ...(ticks ?? []).map((tick) => wrapped(format(tick)).length));
    return {
      ...axisStyle(label),
      labelSize: 20,
      size: 34 + LINE_HEIGHT * (lines - 1),
      values: (_plot, values) => values.map((value) => (value === null ? "" : wrapped(format(value)).join("\n"))),
      ...(ticks === undefined
        ? { space: 64 }
        : {
            splits: (plot) => sparse(plot, ticks, (tick) => labelWidth(plot, format(tick))),
            filter: (_plot, splits) => splits,
          }),
    };
  }

  #rightAxis(right: { label: string; format: Format }): uPlot.Axis {
    return { ...this.#yAxis(right), scale: RIGHT, side: 1, grid: { show: false } };
  }

  /** The last label along x stands in the middle below its tick, and must not be cut on the right. */
  #roomForLastLabel(plot: uPlot): number {
    const { ticks, format } = this.#spec.x;
    const last = ticks?.[ticks.length - 1];
    return this.#spec.right !== undefined || last === undefined ? 14 : Math.max(14, labelWidth(plot, format(last)) / 2);
  }

  #yAxis({ label, format }: { label: string; format: Format }): uPlot.Axis {
    return {
      ...axisStyle(label),
      labelSize: 20,
      space: 34,
      size: (_plot, values) => 16 + 7 * Math.max(2, ...(values ?? []).map((value) => value.length)),
      values: (_plot, values) => values.map((value) => (value === null ? "" : format(value))),
    };
  }
}

/** The x range with room at the ends for marks when there are few points. */
function wholeRange(xs: number[], logarithmic: boolean): Range {
  const min = xs[0] ?? 0;
  const max = xs[xs.length - 1] ?? 1;
  if (logarithmic) {
    return { min: min / 1.15, max: max * 1.15 };
  }
  const room = min === max ? 1 : xs.length > 60 ? 0 : (max - min) * 0.03;
  return { min: min - room, max: max + room };
}

/** A little air above the highest line. */
function topOf(max: number): number {
  return max > 0 ? max * 1.06 : 1;
}

/** Most characters of a line of a label along x, unless a word is longer. */
const LINE = 12;
const LINE_HEIGHT = 14;

/** A label in lines, broken between words. */
function wrapped(label: string): string[] {
  const lines: string[] = [];
  for (const word of label.split(" ")) {
    const last = lines[lines.length - 1];
    if (last !== undefined && last.length + 1 + word.length <= LINE) {
      lines[lines.length - 1] = `${last} ${word}`;
    } else {
      lines.push(word);
    }
  }
  return lines;
}

/** In CSS pixels. */
function labelWidth({ ctx }: uPlot, label: string): number {
  ctx.save();
  ctx.font = font();
  const width = Math.max(...wrapped(label).map((line) => ctx.measureText(line).width));
  ctx.restore();
  return width;
}

/** Those of `ticks` that are in view and far enough apart for their labels to be read. */
function sparse(plot: uPlot, ticks: number[], width: (tick: number) => number): number[] {
  const { min, max } = plot.scales["x"] ?? {};
  const kept: number[] = [];
  let lastPx = Number.NEGATIVE_INFINITY;
  let last = 0;
  for (const tick of ticks) {
    if (typeof min !== "number" || typeof max !== "number" || tick < min || tick > max) {
      continue;
    }
    const px = plot.valToPos(tick, "x");
    const here = width(tick);
    if (px - lastPx >= Math.max(44, (here + last) / 2 + 8)) {
      kept.push(tick);
      lastPx = px;
      last = here;
    }
  }
  return kept;
}

function axisStyle(label: string): uPlot.Axis {
  return {
    label,
    font: font(),
    labelFont: font(),
    stroke: () => colour("--ink-2"),
    grid: { stroke: () => colour("--grid"), width: 1 },
    ticks: { stroke: () => colour("--grid"), width: 1, size: 4 },
    gap: 4,
  };
}

function uplotSeries(line: LineSpec): uPlot.Series {
  const stroke = () => colour(line.colour);
  const paths = uPlot.paths;
  return {
    label: line.label,
    stroke,
    show: line.hidden !== true,
    width: line.pointsOnly === true ? 0 : (line.width ?? (line.filled === true ? 1.25 : 2)),
    ...(line.dash === undefined ? {} : { dash: line.dash }),
    ...(line.filled === true ? { fill: () => cover(line.colour) } : {}),
    ...(line.stepped === true && paths.stepped !== undefined ? { paths: paths.stepped({ align: 1 }) } : {}),
    ...(line.pointsOnly === true && paths.points !== undefined ? { paths: () => null } : {}),
    points:
      line.marks === undefined
        ? { show: false }
        : { show: true, size: 8, width: 2, stroke, fill: () => (line.marks === "full" ? stroke() : colour("--surface")) },
    spanGaps: line.spansGaps ?? line.marks !== undefined,
  };
}
