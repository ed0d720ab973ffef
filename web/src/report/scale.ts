/**
 * A colour scale from dark blue to yellow on which equal steps look equal, to every eye: cividis
 * (Nuñez, Anderton and Renslow 2018), by its colours at tenths.
 */

const ANCHORS = ["#00224e", "#083370", "#35456c", "#4f576c", "#666970", "#7d7c78", "#948e77", "#aea371", "#c8b866", "#e5cf52", "#fee838"];

type Colour = [number, number, number];

function channels(hex: string): Colour {
  const at = (place: number) => Number.parseInt(hex.slice(place, place + 2), 16);
  return [at(1), at(3), at(5)];
}

/** The colour at a share of the scale, as #rrggbb; outside 0 to 1 that of the nearer end. */
export function scaleColour(share: number): string {
  const place = Math.min(Math.max(Number.isFinite(share) ? share : 0, 0), 1) * (ANCHORS.length - 1);
  const below = Math.min(Math.floor(place), ANCHORS.length - 2);
  const [from, to] = [channels(ANCHORS[below] ?? "#000000"), channels(ANCHORS[below + 1] ?? "#000000")];
  const part = place - below;
  return `#${from.map((value, i) => Math.round(value + ((to[i] ?? 0) - value) * part).toString(16).padStart(2, "0")).join("")}`;
}

/** Black or white, whichever stands out more on a colour (WCAG 2.2, contrast ratio). */
export function inkOn(hex: string): "#000000" | "#ffffff" {
  const [r = 0, g = 0, b = 0] = channels(hex).map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) ? "#000000" : "#ffffff";
}
