/** Stalls on a packet transfer diagram: a band on the time line of who waited. */

import type { StallMark } from "../report/data";
import { micros } from "./packet";
import { svg } from "./svg";
import type { Span } from "./view";

/** How high a band is, and how wide it must be for its words. */
const BAND_PX = 9;
const WORDS_PX = 110;

/** Where a diagram has its time lines, and a time its place. */
export interface Ground {
  x: (time_us: number) => number;
  /** The y of the initiator's line and of the target's. */
  lines: [number, number];
}

/** The stalls of a span that are in view. */
export function stallsWithin(stalls: StallMark[], { from, to }: Span): StallMark[] {
  return stalls.filter((stall) => stall.from_us <= to && stall.to_us >= from);
}

/** What a stall was, in words. */
export function stallText(stall: StallMark): string {
  const task = stall.task === 0xffffffff ? "" : `ITT ${stall.task}: `;
  return `${task}${stall.text}, ${micros(stall.to_us - stall.from_us)}`;
}

/** What a packet, by its row among the records, has to do with stalls. */
export function stallsOfPacket(stalls: StallMark[], packet: number | null): string[] {
  return stalls.filter((stall) => packet !== null && stall.packets.includes(packet)).map((stall) => `stall: ${stallText(stall)}`);
}

export function drawStall(stall: StallMark, ground: Ground): SVGElement {
  const line = ground.lines[stall.from_target === 1 ? 1 : 0];
  const [x1, x2] = [ground.x(stall.from_us), ground.x(stall.to_us)];
  const inside = stall.from_target === 1 ? -BAND_PX : BAND_PX + 8;
  const group = svg(
    "g",
    { class: "stall" },
    svg("title", {}, stallText(stall)),
    svg("rect", { x: x1, y: line - BAND_PX / 2, width: Math.max(x2 - x1, 1), height: BAND_PX }),
  );
  if (x2 - x1 >= WORDS_PX) {
    group.append(svg("text", { x: (x1 + x2) / 2, y: line + inside, "text-anchor": "middle" }, stall.cause.replaceAll("_", " ")));
  }
  return group;
}
