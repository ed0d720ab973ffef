/** A chart's legend: a button per line that shows and hides it, with its value at the cursor. */

import { el } from "../report/dom";
import type { Format, LineSpec } from "./chart";

export class Legend {
  readonly root: HTMLElement;
  readonly #values: HTMLElement[] = [];
  readonly #format: Format;

  constructor(lines: LineSpec[], format: Format, onToggle: (place: number, show: boolean) => void) {
    this.#format = format;
    this.root = el("div", { class: "legend", role: "group", "aria-label": "Lines of the chart" });
    for (const [place, line] of lines.entries()) {
      const value = el("span", { class: "legend-value" });
      const button = el(
        "button",
        {
          type: "button",
          "aria-pressed": line.hidden === true ? "false" : "true",
          onclick: () => {
            const show = button.getAttribute("aria-pressed") !== "true";
            button.setAttribute("aria-pressed", String(show));
            onToggle(place, show);
          },
        },
        lineSample(line),
        line.label,
        value,
      );
      this.#values.push(value);
      this.root.append(button);
    }
  }

  /** Shows these values, one per line; null clears one. */
  show(values: (number | null | undefined)[]): void {
    for (const [place, element] of this.#values.entries()) {
      const value = values[place];
      element.textContent = value === null || value === undefined ? "" : this.#format(value);
    }
  }
}

const SVG = "http://www.w3.org/2000/svg";

/** A short piece of the line as the chart draws it. */
export function lineSample(line: Pick<LineSpec, "colour" | "dash" | "marks" | "pointsOnly">): SVGElement {
  const sample = document.createElementNS(SVG, "svg");
  sample.setAttribute("viewBox", "0 0 28 12");
  sample.setAttribute("class", "sample");
  sample.setAttribute("aria-hidden", "true");
  sample.style.color = `var(${line.colour})`;
  if (line.pointsOnly !== true) {
    const stroke = document.createElementNS(SVG, "line");
    stroke.setAttribute("x1", "0");
    stroke.setAttribute("x2", "28");
    stroke.setAttribute("y1", "6");
    stroke.setAttribute("y2", "6");
    stroke.setAttribute("stroke-dasharray", (line.dash ?? []).join(" "));
    sample.append(stroke);
  }
  if (line.marks !== undefined) {
    const mark = document.createElementNS(SVG, "circle");
    mark.setAttribute("cx", "14");
    mark.setAttribute("cy", "6");
    mark.setAttribute("r", "4");
    mark.setAttribute("class", line.marks);
    sample.append(mark);
  }
  return sample;
}
