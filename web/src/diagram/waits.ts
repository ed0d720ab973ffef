/** The I/Os of a packet transfer diagram: a lane for each, in which its waits follow each other. */

import type { ShownIo, ShownWait } from "../report/data";
import { layerName } from "../report/layers";
import { causeColour, causeName, causeOf } from "../report/waits";
import { micros } from "./packet";
import { svg } from "./svg";
import type { Span } from "./view";

/** How high a lane is, with the space to the next. */
export const LANE_PX = 16;
const BAND_PX = 12;
/** How wide a letter is, on average. */
const LETTER_PX = 6;

/** The lanes' place: the time lines' ends, and where the first lane begins. */
export interface Lanes {
  x: (time_us: number) => number;
  left: number;
  right: number;
  top: number;
}

/** A wait with the name of the I/O that it is of. */
export interface WaitOfIo {
  io: string;
  wait: ShownWait;
}

/** What each I/O is called: by its task tag, after its session where there are several. */
export function ioNames(ios: ShownIo[]): string[] {
  const ofOne = new Set(ios.map(({ session }) => session)).size < 2;
  return ios.map(({ session, task }) => (ofOne ? `ITT ${task}` : `${session}, ITT ${task}`));
}

/** The wait at a time in the lane at that place. */
export function waitAt(ios: ShownIo[], lane: number, time_us: number): WaitOfIo | null {
  const io = ioNames(ios)[lane];
  const wait = ios[lane]?.waits.find(({ from_us, to_us }) => from_us <= time_us && time_us < to_us);
  return io === undefined || wait === undefined ? null : { io, wait };
}

/** What is known of a wait, a line each; the first says what it is. */
export function describeWait({ io, wait }: WaitOfIo): string[] {
  const length = micros(wait.to_us - wait.from_us);
  const uncertain = wait.uncertain_us === 0 ? "" : `, of which ${micros(wait.uncertain_us)} may belong to adjacent waits`;
  return [causeName(wait.cause), causeOf(wait.cause).words, `${io}, held by ${layerName(wait.layer)} for ${length}${uncertain}`];
}

/** The bands of the waits in view. */
export function drawWaits(ios: ShownIo[], { from, to }: Span, lanes: Lanes): SVGElement[] {
  return ios.flatMap(({ waits }, lane) =>
    waits.filter((wait) => wait.from_us <= to && wait.to_us >= from).map((wait) => drawWait(wait, lanes.top + lane * LANE_PX, lanes)),
  );
}

function drawWait(wait: ShownWait, y: number, { x, left, right }: Lanes): SVGElement {
  const [x1, x2] = [Math.max(x(wait.from_us), left), Math.min(x(wait.to_us), right)];
  const width = Math.max(x2 - x1 - 0.5, 0.5);
  const band = svg("g", { class: `wait wait-${causeOf(wait.cause).family}` }, svg("rect", { x: x1, y, width, height: BAND_PX }));
  band.style.color = `var(${causeColour(wait.cause)})`;
  const name = causeName(wait.cause);
  if (width >= (name.length + 2) * LETTER_PX) {
    band.append(svg("text", { x: x1 + width / 2, y: y + BAND_PX - 2.5, "text-anchor": "middle" }, name));
  }
  return band;
}
