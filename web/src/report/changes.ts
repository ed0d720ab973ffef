/** What was changed of a cell's paths while it ran: listed by number, and marked so on its charts over time. */

import type uPlot from "uplot";
import { colour, font } from "../chart/theme";
import type { CellReport, ChangeMark } from "./data";
import { el, figure } from "./dom";
import { formatFixed } from "./units";

/** Room for a number, in pixels. */
const LABEL_PX = 18;

/** The list; null when nothing was changed. */
export function changesFigure({ changes, changes_left_out }: CellReport): HTMLElement | null {
  if (changes.length === 0) {
    return null;
  }
  const more = changes_left_out === 0 ? "" : ` ${formatFixed(changes_left_out, 0)} more changes are not shown.`;
  return figure(
    "changes",
    "Changes of the paths",
    `Path changes during the cell, by the plan or by hand, in seconds since the start of the measurement. The charts below have a numbered line at each applied change.${more}`,
    el("ol", { class: "changes" }, ...changes.map((change) => el("li", change.at_s === null ? { class: "unmade" } : {}, el("code", {}, change.statement), told(change)))),
  );
}

function told({ at_s, by_hand, refused }: ChangeMark): string {
  const by = by_hand ? ", by hand" : "";
  return at_s === null ? `${by}, not applied${refused === null ? "" : `: ${refused}`}` : ` at ${formatFixed(at_s, 3)} s${by}`;
}

/** Those made at one moment share a mark, which has the numbers of all. */
export function marksOf(changes: ChangeMark[]): { at_s: number; label: string }[] {
  const at = new Map<number, number[]>();
  for (const [place, { at_s }] of changes.entries()) {
    if (at_s !== null) {
      at.set(at_s, [...(at.get(at_s) ?? []), place + 1]);
    }
  }
  return [...at].sort(([a], [b]) => a - b).map(([at_s, numbers]) => ({ at_s, label: span(numbers) }));
}

/** Several numbers, in the room of two. */
function span(numbers: number[]): string {
  const [first, last] = [numbers[0], numbers[numbers.length - 1]];
  return first === last ? `${first}` : `${first}–${last}`;
}

/** A line at each change in view, from top to bottom, with its number at the bottom where there is room for it. */
export function drawChanges(plot: uPlot, changes: ChangeMark[]): void {
  const { ctx, bbox } = plot;
  const { min, max } = plot.scales["x"] ?? {};
  const bottom = bbox.top + bbox.height;
  let freeFrom = bbox.left;
  ctx.save();
  ctx.font = font().replace("12px", `${12 * devicePixelRatio}px`);
  ctx.textAlign = "left";
  ctx.textBaseline = "bottom";
  ctx.fillStyle = colour("--ink");
  ctx.setLineDash([]);
  for (const { at_s, label } of marksOf(changes)) {
    if (typeof min !== "number" || typeof max !== "number" || at_s < min || at_s > max) {
      continue;
    }
    const x = plot.valToPos(at_s, "x", true);
    ctx.strokeStyle = colour("--ink");
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bottom);
    ctx.stroke();
    if (x >= freeFrom) {
      const at = [x + 3 * devicePixelRatio, bottom - 2 * devicePixelRatio] as const;
      // Lines of the chart pass below it.
      ctx.strokeStyle = colour("--surface");
      ctx.lineWidth = 3 * devicePixelRatio;
      ctx.strokeText(label, ...at);
      ctx.fillText(label, ...at);
      freeFrom = x + Math.max(LABEL_PX * devicePixelRatio, ctx.measureText(label).width + 6 * devicePixelRatio);
    }
  }
  ctx.restore();
}
