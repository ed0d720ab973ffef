/** The live page: windows, thresholds, round trips and events of TCP connections, as they come. */

import type uPlot from "uplot";
import { lineStyle } from "../chart/theme";
import { el } from "../report/dom";
import type { Message } from "./messages";
import { type ColouredMark, FOLLOW, type Line, Plot, rangeShown, SYMBOLS } from "./plot";
import { type Connection, type Curve, Store } from "./store";
import { byRate, ConnectionTable } from "./table";

/** Connections that are drawn before the reader chooses. */
const DRAWN_AT_FIRST = 4;
/** The most that are drawn: more lines than these nobody tells apart. */
const MOST_DRAWN = 12;
/** Time between two tables. */
const TABLE_MS = 500;

class LivePage {
  readonly #store = new Store();
  /** What is drawn, each in a place of its own that says its colour; null until somebody chose. */
  #chosen: string[] | null = null;
  #drawn: string[] = [];
  #range = FOLLOW;
  #paused = false;
  #tabled_ms = Number.NEGATIVE_INFINITY;
  readonly #state = el("p", { class: "state", "aria-live": "polite" });
  readonly #unseen = el("span", { class: "lost" });
  readonly #pause = el("button", { type: "button", onclick: () => this.#togglePause() }, "pause");
  readonly #follow = el("button", { type: "button", hidden: true, onclick: () => this.#zoom(FOLLOW) }, "follow the present");
  readonly #windows = new Plot("segments", 320, () => this.#marks(), (range) => this.#zoom(range));
  readonly #roundTrips = new Plot("round trip, ms", 200, () => [], (range) => this.#zoom(range));
  readonly #table = new ConnectionTable((id) => this.#toggle(id), () => this.#showTable());

  constructor(root: HTMLElement) {
    this.#windows.root.id = "windows";
    this.#roundTrips.root.id = "round-trips";
    const symbols = Object.values(SYMBOLS).map(({ label, path }) => symbol(label, path));
    root.replaceChildren(
      el("h1", {}, "TCP connections"),
      this.#state,
      el("div", { class: "controls" }, this.#pause, this.#follow, this.#unseen),
      el("p", { class: "reading" }, "Window (line), slow-start threshold (dots) and round-trip time of the connections chosen below. Drag to zoom, double-click to follow the present again."),
      this.#windows.root,
      el("p", { class: "reading symbols" }, ...symbols),
      this.#roundTrips.root,
      this.#table.root,
    );
    this.#rebuild();
    const source = new EventSource("/events");
    source.onmessage = (event: MessageEvent<string>) => this.#take(JSON.parse(event.data) as Message);
    source.onerror = () => {
      this.#state.textContent = "The watch does not answer; trying again.";
    };
  }

  #take(message: Message): void {
    this.#store.take(message);
    if (message.kind === "frame" && !this.#paused) {
      requestAnimationFrame(() => this.#draw());
    } else if (message.kind !== "frame") {
      this.#tell();
    }
  }

  #tell(): void {
    const { way, unseen, over, deviceGone } = this.#store;
    const gone = deviceGone === null ? "" : ` Device ${deviceGone} has gone: its connections stall until there is another route.`;
    this.#state.textContent = over === null ? `${way} ${byRate(this.#store).length} connections.${gone}` : `The watch has ended: ${over}.`;
    this.#unseen.textContent = unseen;
  }

  #draw(): void {
    if (this.#paused) {
      return;
    }
    const wanted = this.#chosen ?? byRate(this.#store).slice(0, DRAWN_AT_FIRST).map(([id]) => id);
    const drawn = this.#chosen === null && this.#drawn.length >= Math.min(DRAWN_AT_FIRST, wanted.length) ? this.#drawn.filter((id) => this.#store.connections.has(id)) : wanted;
    if (drawn.join() !== this.#drawn.join()) {
      this.#drawn = drawn;
      this.#rebuild();
    }
    this.#redraw();
    const now_ms = performance.now();
    if (now_ms - this.#tabled_ms >= TABLE_MS) {
      this.#tabled_ms = now_ms;
      this.#showTable();
    }
  }

  #showTable(): void {
    this.#tell();
    this.#table.update(this.#store, new Map(this.#drawn.map((id, place) => [id, lineStyle(place).colour])));
  }

  /** The same lines in the present range. */
  #redraw(): void {
    const range = rangeShown(this.#range, this.#store.times);
    this.#windows.update(this.#data(["cwnd", "ssthresh"]), range);
    this.#roundTrips.update(this.#data(["srtt_ms"]), range);
    this.#follow.hidden = this.#range === FOLLOW;
  }

  #rebuild(): void {
    const lines = (kinds: Partial<Line>[]) =>
      this.#drawn.flatMap((id, place) => kinds.map((kind): Line => ({ label: id, colour: lineStyle(place).colour, ...kind })));
    this.#windows.rebuild(lines([{}, { dash: [2, 3], width: 1 }]), this.#data(["cwnd", "ssthresh"]));
    this.#roundTrips.rebuild(lines([{}]), this.#data(["srtt_ms"]));
  }

  #data(curves: ("cwnd" | "ssthresh" | "srtt_ms")[]): uPlot.AlignedData {
    const of = (connection: Connection | undefined): Curve[] => curves.map((curve) => connection?.[curve] ?? []);
    return [this.#store.times, ...this.#drawn.flatMap((id) => of(this.#store.connections.get(id)))] as uPlot.AlignedData;
  }

  #marks(): ColouredMark[] {
    const places = new Map(this.#drawn.map((id, place) => [id, place]));
    return this.#store.marks.flatMap((mark) => {
      const place = places.get(mark.connection);
      return place === undefined ? [] : [{ ...mark, colour: lineStyle(place).colour }];
    });
  }

  #toggle(id: string): void {
    const chosen = this.#chosen ?? this.#drawn;
    this.#chosen = chosen.includes(id) ? chosen.filter((other) => other !== id) : [...chosen, id].slice(-MOST_DRAWN);
    this.#drawn = this.#chosen;
    this.#rebuild();
    this.#redraw();
    this.#showTable();
  }

  #zoom(range: { min: number; max: number }): void {
    if (range.min < range.max) {
      this.#range = range;
      this.#redraw();
    }
  }

  #togglePause(): void {
    this.#paused = !this.#paused;
    this.#pause.textContent = this.#paused ? "go on" : "pause";
    this.#draw();
  }
}

function symbol(label: string, path: string): HTMLElement {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", "-8 -8 16 16");
  picture.setAttribute("width", "14");
  picture.setAttribute("height", "14");
  picture.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS(space, "path");
  shape.setAttribute("d", path);
  shape.setAttribute("fill", "currentColor");
  picture.append(shape);
  return el("span", {}, picture, ` ${label}  `);
}

const root = document.getElementById("live");
if (root !== null) {
  new LivePage(root);
}
