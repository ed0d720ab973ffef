/** A chart that grows: it follows the present until the reader zooms in, and draws events as marks. */

import uPlot from "uplot";
import { colour, font, onThemeChange } from "../chart/theme";
import { type Zoomable, zoomByKeys, zoomByPinch, zoomByWheel } from "../chart/zoom";
import { el } from "../report/dom";
import { formatNumber } from "../report/units";
import type { Mark } from "./store";

export interface Line {
  label: string;
  /** The CSS variable of its colour. */
  colour: string;
  dash?: number[];
  width?: number;
}

/** A mark and the colour of its connection. */
export type ColouredMark = Mark & { colour: string };

/** The symbol of each event, around the origin. */
export const SYMBOLS: Record<string, { label: string; path: string }> = {
  cwr: { label: "CWR", path: "M-5 -4H5L0 5Z" },
  cwr_by_ece: { label: "CWR by ECE", path: "M-5 -5H5V5H-5Z" },
  cwr_by_device: { label: "CWR by device", path: "M-6 4H6L0 -6Z" },
  recovery: { label: "Recovery", path: "M0 -6L5 0L0 6L-5 0Z" },
  loss: { label: "Loss (timeout)", path: "M-6 -4L-4 -6L0 -2L4 -6L6 -4L2 0L6 4L4 6L0 2L-4 6L-6 4L-2 0Z" },
  undo: { label: "Undo", path: "M-1 -6H1V-1H6V1H1V6H-1V1H-6V-1H-1Z" },
};

/** So much of the present is shown while following it. */
const FOLLOWED_S = 30;
/** Marks in view that are drawn. */
const MOST_MARKS = 400;

export class Plot implements Zoomable {
  readonly root: HTMLElement;
  readonly #label: string;
  readonly #height: number;
  readonly #marks: () => ColouredMark[];
  readonly #onZoom: (range: { min: number; max: number }) => void;
  #plot: uPlot | null = null;

  constructor(label: string, height: number, marks: () => ColouredMark[], onZoom: (range: { min: number; max: number }) => void) {
    this.#label = label;
    this.#height = height;
    this.#marks = marks;
    this.#onZoom = onZoom;
    this.root = el("div", {
      class: "plot",
      tabindex: 0,
      role: "group",
      "aria-label": `${label} against time. Plus and minus zoom, Shift and arrows move, zero follows the present.`,
    });
    new ResizeObserver(() => this.#fit()).observe(this.root);
    onThemeChange(() => this.#plot?.redraw());
  }

  get over(): HTMLElement {
    return this.#plot?.over ?? this.root;
  }

  /** Other lines than before. */
  rebuild(lines: Line[], data: uPlot.AlignedData): void {
    const before = this.#plot?.scales["x"];
    this.#plot?.destroy();
    const plot = new uPlot(this.#options(lines), data, (plot, init) => {
      this.root.append(plot.root);
      init();
    });
    this.#plot = plot;
    if (typeof before?.min === "number" && typeof before.max === "number") {
      plot.setScale("x", { min: before.min, max: before.max });
    }
    zoomByWheel(this, this.root);
    zoomByPinch(this);
    if (before === undefined) {
      zoomByKeys(this, this.root, () => undefined);
    }
  }

  /** More of the same lines, in this range of time. */
  update(data: uPlot.AlignedData, range: { min: number; max: number }): void {
    this.#plot?.setData(data, false);
    this.#plot?.setScale("x", range);
  }

  show(leftPx: number, rightPx: number): void {
    if (this.#plot !== null) {
      this.#onZoom({ min: this.#plot.posToVal(leftPx, "x"), max: this.#plot.posToVal(rightPx, "x") });
    }
  }

  reset(): void {
    this.#onZoom(FOLLOW);
  }

  isZoomed(): boolean {
    return true;
  }

  #fit(): void {
    const width = this.root.clientWidth;
    if (this.#plot !== null && width > 0 && width !== this.#plot.width) {
      this.#plot.setSize({ width, height: this.#height });
    }
  }

  #options(lines: Line[]): uPlot.Options {
    const axis = (label: string, format: (value: number) => string): uPlot.Axis => ({
      label,
      labelSize: 20,
      font: font(),
      labelFont: font(),
      stroke: () => colour("--ink-2"),
      grid: { stroke: () => colour("--grid"), width: 1 },
      ticks: { stroke: () => colour("--grid"), width: 1, size: 4 },
      values: (_plot, values) => values.map((value) => (value === null ? "" : format(value))),
    });
    return {
      width: Math.max(this.root.clientWidth, 300),
      height: this.#height,
      legend: { show: false },
      scales: {
        x: { time: false },
        y: { range: (_plot, _min, max) => [0, max === null || max <= 0 ? 1 : max * 1.08] },
      },
      series: [
        {},
        ...lines.map(
          (line): uPlot.Series => ({
            label: line.label,
            stroke: () => colour(line.colour),
            width: line.width ?? 1.5,
            points: { show: false },
            ...(line.dash === undefined ? {} : { dash: line.dash }),
          }),
        ),
      ],
      axes: [axis("seconds", (s) => formatNumber(s, 4)), { ...axis(this.#label, (value) => formatNumber(value)), size: 64 }],
      cursor: {
        y: false,
        drag: { x: true, y: false, dist: 6, setScale: false },
        bind: { dblclick: () => () => (this.reset(), null) },
      },
      hooks: {
        draw: [(plot) => this.#drawMarks(plot)],
        setSelect: [
          (plot) => {
            const { left, width } = plot.select;
            if (width > 0) {
              this.show(left, left + width);
              plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            }
          },
        ],
      },
    };
  }

  #drawMarks(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const { min = 0, max = 0 } = plot.scales["x"] ?? {};
    const inView = this.#marks().filter(({ at_s }) => at_s >= (min ?? 0) && at_s <= (max ?? 0));
    ctx.save();
    for (const mark of inView.slice(-MOST_MARKS)) {
      const x = plot.valToPos(mark.at_s, "x", true);
      ctx.fillStyle = colour(mark.colour);
      ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, x, bbox.top + 10 * devicePixelRatio);
      ctx.fill(new Path2D(SYMBOLS[mark.event]?.path ?? ""));
    }
    ctx.restore();
  }
}

/** The range that means: follow the present. */
export const FOLLOW = { min: Number.NEGATIVE_INFINITY, max: Number.POSITIVE_INFINITY };

/** The range that is shown of `times`, as wanted or as the present has it. */
export function rangeShown(wanted: { min: number; max: number }, times: number[]): { min: number; max: number } {
  const last = times.at(-1) ?? 0;
  if (wanted.max === Number.POSITIVE_INFINITY) {
    return { min: Math.max(last - FOLLOWED_S, times[0] ?? 0), max: Math.max(last, (times[0] ?? 0) + 1) };
  }
  return wanted;
}
