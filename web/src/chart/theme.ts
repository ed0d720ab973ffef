/** Colours for the canvas, read from the page's style sheet so that charts and text agree. */

const known = new Map<string, string>();

/** The present value of a CSS variable of the page. */
export function colour(variable: string): string {
  let value = known.get(variable);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
    known.set(variable, value);
  }
  return value;
}

/** Share of a line's colour in the area that it covers. */
const COVER = 0.6;

/**
 * The colour of the area under a line: mixed into the surface instead of see-through, so that what
 * is painted over it hides it whole. Both colours are written #rrggbb in the style sheet.
 */
export function cover(variable: string): string {
  const line = channels(colour(variable));
  const surface = channels(colour("--surface"));
  const mixed = line.map((value, i) => Math.round(value * COVER + (surface[i] ?? 255) * (1 - COVER)));
  return `rgb(${mixed.join(" ")})`;
}

function channels(hex: string): number[] {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
}

/** The font of axes and labels. */
export function font(): string {
  return `12px ${colour("--sans")}`;
}

/** Calls `redraw` whenever the colours may have changed: light, dark, and paper. */
export function onThemeChange(redraw: () => void): void {
  const forget = () => {
    known.clear();
    redraw();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forget);
  matchMedia("print").addEventListener("change", forget);
}

/** The colours of series that have no meaning of their own, in order; see palette.css. */
const SERIES_COLOURS = 7;
/** Line styles that follow once the colours are used up, and that help where colours fail. */
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

export interface LineStyle {
  colour: string;
  dash: number[];
}

/** A style for the series at that place; no two of the first 28 are alike. */
export function lineStyle(place: number): LineStyle {
  return {
    colour: `--series-${(place % SERIES_COLOURS) + 1}`,
    dash: DASHES[Math.floor(place / SERIES_COLOURS) % DASHES.length] ?? [],
  };
}
