/**
 * A packet transfer diagram: the initiator's and the target's time line, time from left to right,
 * and an arrow for every packet from when it was sent until it arrived; below, what I/Os waited for.
 */

import { type Zoomable, zoomByKeys, zoomByPinch, zoomByWheel } from "../chart/zoom";
import type { PacketDiagram } from "../report/data";
import { el } from "../report/dom";
import { describe, kindColour, type Packet, readPackets, tickText, usualTransit } from "./packet";
import { svg } from "./svg";
import { roundTicks, type TimeView } from "./view";
import { describeWait, drawWaits, ioNames, LANE_PX, waitAt, type WaitOfIo } from "./waits";

const INITIATOR_Y = 26;
const TARGET_Y = 256;
/** Where the lanes of I/Os begin, and what stands below them. */
const LANES_Y = TARGET_Y + 32;
const BELOW_PX = 22;
/** What stands to the left of the lines takes at least so much. */
const LEAST_LEFT = 70;
/** The space between a name and its line, and how wide a letter of it is at most, on average. */
const NAME_GAP = 8;
const LETTER_PX = 7;
const RIGHT = 14;
/** How far a packet that did not arrive is drawn. */
const LOST_SHARE = 0.45;
/** Half the length of the mark where a PDU begins. */
const BEGIN_PX = 5;
/** How near the pointer must come to an arrow to mean it. */
const NEAR_PX = 9;
/** Line styles of flows, in order. */
const DASHES = ["", "7 4", "2 3", "10 3 2 3"];

/** An arrow's ends, in pixels. */
interface Arrow {
  x1: number;
  y1: number;
  x2: number;
  y2: number;
}

export class TransferDiagram implements Zoomable {
  readonly root: HTMLElement;
  readonly over: HTMLElement;
  readonly packets: Packet[];
  readonly #diagram: PacketDiagram;
  /** The I/Os' names, and where the lines begin to the right of them. */
  readonly #names: string[];
  readonly #left: number;
  readonly #view: TimeView;
  readonly #since: string;
  readonly #drawing: SVGSVGElement;
  readonly #tip: HTMLElement;
  readonly #spoken: HTMLElement;
  readonly #reset: HTMLButtonElement;
  readonly #resize: ResizeObserver;
  readonly #transit: { up: number; down: number };
  readonly #hidden = { kinds: new Set<number>(), flows: new Set<number>() };
  #width = 600;
  #chosen: Packet | null = null;
  #pointed: WaitOfIo | null = null;

  constructor(diagram: PacketDiagram, title: string, view: TimeView, since = "the first command shown") {
    this.#diagram = diagram;
    this.#names = ioNames(diagram.ios);
    this.#left = Math.max(LEAST_LEFT, NAME_GAP + LETTER_PX * Math.max(0, ...this.#names.map((name) => name.length)));
    this.#view = view;
    this.#since = since;
    this.packets = readPackets(diagram);
    this.#transit = { up: usualTransit(this.packets, false), down: usualTransit(this.packets, true) };
    this.#drawing = svg("svg", { height: this.#height(), "aria-hidden": "true" });
    this.#tip = el("div", { class: "tip", hidden: true });
    this.#spoken = el("p", { class: "spoken", "aria-live": "polite" });
    this.#reset = el("button", { type: "button", class: "reset", onclick: () => this.reset() }, "show all");
    this.over = el("div", { class: "over" });
    this.over.style.insetInline = `${this.#left}px ${RIGHT}px`;
    this.root = el(
      "div",
      {
        class: "chart transfer",
        tabindex: 0,
        role: "group",
        "aria-label": `Packet transfer diagram: ${title}. Arrow keys go from packet to packet, plus and minus zoom, Shift and arrow keys move, zero shows all.`,
      },
      this.#tip,
      this.#reset,
      this.#spoken,
    );
    this.root.prepend(this.#drawing, this.over);
    view.onChange(() => this.#draw());
    zoomByWheel(this, this.root);
    zoomByPinch(this);
    zoomByKeys(this, this.root, (by) => this.#step(by));
    this.#takePointer();
    this.#resize = new ResizeObserver(() => this.#fit());
    this.#resize.observe(this.root);
    this.#draw();
  }

  destroy(): void {
    this.#resize.disconnect();
    this.root.remove();
  }

  /** Shows or hides the packets of a kind or of a flow. */
  toggle(what: "kinds" | "flows", place: number, show: boolean): void {
    if (show) {
      this.#hidden[what].delete(place);
    } else {
      this.#hidden[what].add(place);
    }
    this.#draw();
  }

  show(leftPx: number, rightPx: number): void {
    this.#view.show({ from: this.#time(leftPx), to: this.#time(rightPx) });
  }

  reset(): void {
    this.#view.show(this.#view.whole);
  }

  isZoomed(): boolean {
    return !this.#view.isWhole();
  }

  #fit(): void {
    const width = this.root.clientWidth;
    if (width > 0 && width !== this.#width) {
      this.#width = width;
      this.#draw();
    }
  }

  /** The time at a position between the time lines' ends. */
  #time(px: number): number {
    const { from, to } = this.#view.shown;
    return from + (px / this.#plotWidth()) * (to - from);
  }

  #x(time_us: number): number {
    const { from, to } = this.#view.shown;
    return this.#left + ((time_us - from) / (to - from)) * this.#plotWidth();
  }

  #height(): number {
    return LANES_Y + this.#diagram.ios.length * LANE_PX + BELOW_PX;
  }

  #plotWidth(): number {
    return Math.max(this.#width - this.#left - RIGHT, 50);
  }

  #isShown(packet: Packet): boolean {
    const { from, to } = this.#view.shown;
    const visible = packet.sent_us <= to && Math.max(packet.ended_us, packet.sent_us) >= from;
    return visible && !this.#hidden.kinds.has(packet.kind) && !this.#hidden.flows.has(packet.flow);
  }

  #arrow(packet: Packet): Arrow {
    const [y1, y2] = packet.fromTarget ? [TARGET_Y, INITIATOR_Y] : [INITIATOR_Y, TARGET_Y];
    const x1 = this.#x(packet.sent_us);
    if (packet.fate === "arrived") {
      return { x1, y1, x2: this.#x(packet.ended_us), y2 };
    }
    const usual = this.#x(packet.sent_us + (packet.fromTarget ? this.#transit.down : this.#transit.up));
    return { x1, y1, x2: x1 + (usual - x1) * LOST_SHARE, y2: y1 + (y2 - y1) * LOST_SHARE };
  }

  #draw(): void {
    const drawing = this.#drawing;
    drawing.setAttribute("width", String(this.#width));
    this.#reset.hidden = this.#view.isWhole();
    const right = this.#width - RIGHT;
    const times = roundTicks(this.#view.shown, Math.max(Math.floor(this.#plotWidth() / 90), 2));
    const step = (times[1] ?? 1) - (times[0] ?? 0);
    const ticks = times.map((time) => {
      const x = this.#x(time);
      return svg("g", { class: "tick" }, svg("line", { x1: x, x2: x, y1: INITIATOR_Y, y2: TARGET_Y + 5 }), svg("text", { x, y: TARGET_Y + 20, "text-anchor": "middle" }, tickText(time, step)));
    });
    const lines = ([["initiator", INITIATOR_Y], ["target", TARGET_Y]] as const).map(([name, y]) =>
      svg("g", { class: "time-line" }, svg("line", { x1: this.#left, x2: right, y1: y, y2: y }), svg("text", { x: this.#left - NAME_GAP, y: y + 4, "text-anchor": "end" }, name)),
    );
    const clip = svg("svg", { x: this.#left, y: 0, width: this.#plotWidth(), height: this.#height(), viewBox: `${this.#left} 0 ${this.#plotWidth()} ${this.#height()}`, class: "packets" });
    clip.append(...this.packets.filter((packet) => this.#isShown(packet)).map((packet) => this.#drawArrow(packet)));
    clip.append(...drawWaits(this.#diagram.ios, this.#view.shown, { x: (time) => this.#x(time), left: this.#left, right, top: LANES_Y }));
    const names = this.#names.map((name, lane) => svg("text", { x: this.#left - NAME_GAP, y: LANES_Y + lane * LANE_PX + 10, "text-anchor": "end" }, name));
    drawing.replaceChildren(...ticks, ...lines, ...names, clip, svg("text", { class: "axis", x: this.#left + this.#plotWidth() / 2, y: this.#height() - 6, "text-anchor": "middle" }, `time since ${this.#since}`));
    this.#showTip();
  }

  #drawArrow(packet: Packet): SVGElement {
    const { x1, y1, x2, y2 } = this.#arrow(packet);
    const kind = this.#diagram.kinds[packet.kind];
    const thin = kind?.is === "bare" || kind?.is === "encrypted_short";
    const chosen = packet === this.#chosen;
    const group = svg("g", { class: `packet ${packet.fate}${thin ? " thin" : ""}${chosen ? " chosen" : ""}` });
    group.style.color = `var(${kindColour(kind)})`;
    const line = svg("line", { x1, y1, x2, y2 });
    const dash = DASHES[packet.flow % DASHES.length] ?? "";
    if (dash !== "") {
      line.setAttribute("stroke-dasharray", dash);
    }
    const begins = packet.begins.map(({ share, kind }) => this.#drawBegin({ x1, y1, x2, y2 }, share, kind));
    group.append(line, ...begins, packet.fate === "arrived" ? arrowHead(x1, y1, x2, y2, thin ? 4 : 6) : cross(x2, y2));
    return group;
  }

  /** A PDU's beginning inside a packet: a mark across the arrow, as far along as bytes are before it. */
  #drawBegin({ x1, y1, x2, y2 }: Arrow, share: number, kind: number): SVGElement {
    // The ends are the time lines: the payload lies between.
    const along = 0.12 + 0.76 * share;
    const [x, y] = [x1 + along * (x2 - x1), y1 + along * (y2 - y1)];
    const length = Math.hypot(x2 - x1, y2 - y1) || 1;
    const [dx, dy] = [(-(y2 - y1) / length) * BEGIN_PX, ((x2 - x1) / length) * BEGIN_PX];
    const mark = svg("line", { class: "begin", x1: x - dx, y1: y - dy, x2: x + dx, y2: y + dy });
    mark.style.color = `var(${kindColour(this.#diagram.kinds[kind])})`;
    return mark;
  }

  /** Drags move the view; hovering tells of the nearest packet. */
  #takePointer(): void {
    let lastPx: number | null = null;
    this.over.addEventListener("pointerdown", (event) => {
      this.root.focus({ preventScroll: true });
      if (event.pointerType !== "touch" && event.button === 0) {
        lastPx = event.clientX;
        this.over.setPointerCapture(event.pointerId);
      }
    });
    this.over.addEventListener("pointermove", (event) => {
      if (lastPx !== null) {
        const { from, to } = this.#view.shown;
        this.#view.move(((lastPx - event.clientX) / this.#plotWidth()) * (to - from));
        lastPx = event.clientX;
        return;
      }
      const box = this.over.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const wait = waitAt(this.#diagram.ios, Math.floor((y - LANES_Y) / LANE_PX), this.#time(x));
      this.#choose(wait === null ? this.#nearest(this.#left + x, y) : null, wait);
    });
    const end = () => (lastPx = null);
    this.over.addEventListener("pointerup", end);
    this.over.addEventListener("pointercancel", end);
    this.over.addEventListener("pointerleave", () => lastPx === null && this.#choose(null));
    this.over.addEventListener("dblclick", () => this.reset());
  }

  #nearest(x: number, y: number): Packet | null {
    let best: Packet | null = null;
    let bestPx = NEAR_PX;
    for (const packet of this.packets) {
      if (this.#isShown(packet)) {
        const px = distanceTo(this.#arrow(packet), x, y);
        if (px < bestPx) {
          [best, bestPx] = [packet, px];
        }
      }
    }
    return best;
  }

  /** Goes on to the next (1) or previous (−1) packet that is not hidden. */
  #step(by: number): void {
    const open = this.packets.filter((packet) => !this.#hidden.kinds.has(packet.kind) && !this.#hidden.flows.has(packet.flow));
    const at = this.#chosen === null ? open.findIndex((packet) => packet.sent_us >= this.#view.shown.from) - (by > 0 ? 1 : 0) : open.indexOf(this.#chosen);
    const next = open[Math.min(Math.max(at + by, 0), open.length - 1)];
    if (next !== undefined) {
      this.#choose(next);
      this.#view.reveal({ from: next.sent_us, to: next.ended_us });
      this.#spoken.textContent = describe(next, this.#diagram).join("; ");
    }
  }

  #choose(packet: Packet | null, wait: WaitOfIo | null = null): void {
    if (packet !== this.#chosen || wait?.wait !== this.#pointed?.wait) {
      this.#chosen = packet;
      this.#pointed = wait;
      this.#draw();
    }
  }

  #showTip(): void {
    const [packet, wait] = [this.#chosen, this.#pointed];
    this.#tip.hidden = packet === null && wait === null;
    let lines: string[] = [];
    let ends = { from: 0, to: 0 };
    if (packet !== null) {
      lines = describe(packet, this.#diagram);
      const { x1, x2 } = this.#arrow(packet);
      ends = { from: x1, to: x2 };
    } else if (wait !== null) {
      lines = describeWait(wait);
      ends = { from: this.#x(wait.wait.from_us), to: this.#x(wait.wait.to_us) };
    }
    this.#tip.replaceChildren(...lines.map((line, i) => (i === 0 ? el("strong", {}, line) : el("span", {}, line))));
    const inside = (x: number) => Math.min(Math.max(x, this.#left), this.#width - RIGHT);
    const middle = (inside(ends.from) + inside(ends.to)) / 2;
    const onTheLeft = middle > this.#width / 2;
    this.#tip.style.insetInlineStart = onTheLeft ? "auto" : `${middle + 16}px`;
    this.#tip.style.insetInlineEnd = onTheLeft ? `${this.#width - middle + 16}px` : "auto";
  }
}

function arrowHead(x1: number, y1: number, x2: number, y2: number, size: number): SVGElement {
  const angle = Math.atan2(y2 - y1, x2 - x1);
  const side = (turn: number) => `${(x2 - size * Math.cos(angle + turn)).toFixed(1)} ${(y2 - size * Math.sin(angle + turn)).toFixed(1)}`;
  return svg("path", { class: "head", d: `M${side(0.4)}L${x2.toFixed(1)} ${y2.toFixed(1)}L${side(-0.4)}Z` });
}

function cross(x: number, y: number): SVGElement {
  return svg("path", { class: "cross", d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8` });
}

/** How far a point is from an arrow. */
export function distanceTo({ x1, y1, x2, y2 }: Arrow, x: number, y: number): number {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const length = dx * dx + dy * dy;
  const share = length === 0 ? 0 : Math.min(Math.max(((x - x1) * dx + (y - y1) * dy) / length, 0), 1);
  return Math.hypot(x - x1 - share * dx, y - y1 - share * dy);
}
