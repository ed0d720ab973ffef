/** All connections, those that send most first unless asked otherwise; which are drawn is chosen here. */

import { el } from "../report/dom";
import { formatFixed, formatShare } from "../report/units";
import type { Now } from "./messages";
import type { Connection, Store } from "./store";

/** What rows are sorted by: numbers the greatest first, words in the order of the alphabet. */
type Key = number | string;

interface Column {
  name: string;
  isNumber: boolean;
  key: (connection: Connection) => Key;
  text: (connection: Connection) => string;
}

function words(name: string, text: (connection: Connection) => string): Column {
  return { name, isNumber: false, key: text, text };
}

/** A number of the last frame, and how it is written; nothing where there is none. */
function number(name: string, value: (now: Now) => number | null | undefined, write: (value: number) => string = String): Column {
  const of = ({ now }: Connection) => (now === null ? null : (value(now) ?? null));
  const text = (connection: Connection) => {
    const found = of(connection);
    return found === null ? "" : write(found);
  };
  return { name, isNumber: true, key: (connection) => of(connection) ?? -1, text };
}

const ms = (ns: number) => formatFixed(ns / 1e6, 3);

const ENDS = words("connection", ({ begin }) => `${begin.local} > ${begin.remote}`);
const DELIVERY = number("delivery Mbit/s", (now) => now.delivery_bytes_per_s, (rate) => formatFixed((rate * 8) / 1e6, 1));
const COLUMNS: Column[] = [
  ENDS,
  words("control", ({ begin }) => begin.congestion_control),
  words("state", ({ now }) => now?.congestion_state ?? ""),
  number("cwnd", (now) => now.cwnd_packets),
  number("ssthresh", (now) => now.ssthresh_packets),
  number("in flight", (now) => now.in_flight_packets),
  number("srtt ms", (now) => now.srtt_ns, ms),
  number("min ms", (now) => now.min_rtt_ns, ms),
  DELIVERY,
  number("busy", (now) => now.shares?.[0], formatShare),
  number("rwnd", (now) => now.shares?.[1], formatShare),
  number("sndbuf", (now) => now.shares?.[2], formatShare),
  number("retransmits", (now) => now.retransmits),
  words("ECN", ({ now }) => now?.ecn ?? ""),
  { name: "cuts", isNumber: true, key: ({ cuts }) => cuts, text: ({ cuts }) => String(cuts) },
];

/** Digits stand below digits. */
const alignment = ({ isNumber }: Column) => (isNumber ? "number" : "");

interface Row {
  root: HTMLElement;
  button: HTMLButtonElement;
  swatch: HTMLElement;
  cells: HTMLElement[];
}

export class ConnectionTable {
  readonly root: HTMLElement;
  readonly #body: HTMLElement;
  readonly #headers: HTMLElement[];
  readonly #onToggle: (id: string) => void;
  readonly #onSort: () => void;
  readonly #rows = new Map<string, Row>();
  #sorted = DELIVERY;
  #reversed = false;

  constructor(onToggle: (id: string) => void, onSort: () => void) {
    this.#onToggle = onToggle;
    this.#onSort = onSort;
    this.#body = el("tbody");
    this.#headers = COLUMNS.map((column) =>
      el("th", { scope: "col", class: alignment(column) }, el("button", { type: "button", class: "sort", onclick: () => this.#sort(column) }, column.name)),
    );
    this.root = el("div", { class: "table" }, el("table", { class: "data" }, el("thead", {}, el("tr", {}, ...this.#headers)), this.#body));
    this.#tellOrder();
  }

  /** `colours` has the CSS variable of each connection that is drawn. */
  update(store: Store, colours: Map<string, string>): void {
    const present = new Map(inOrder(store, this.#sorted, this.#reversed));
    for (const [id, row] of this.#rows) {
      if (!present.has(id)) {
        row.root.remove();
        this.#rows.delete(id);
      }
    }
    for (const [id, connection] of present) {
      fill(this.#rows.get(id) ?? this.#add(id, connection), connection, colours.get(id));
    }
    // Nothing moves away from under a pointer.
    if (!this.#body.matches(":hover")) {
      this.#arrange([...present.keys()]);
    }
  }

  #arrange(ids: string[]): void {
    let place = this.#body.firstElementChild;
    for (const id of ids) {
      const root = this.#rows.get(id)?.root;
      // A row that stays where it is keeps the keyboard.
      if (root === place) {
        place = place?.nextElementSibling ?? null;
      } else if (root !== undefined) {
        this.#body.insertBefore(root, place);
      }
    }
  }

  #sort(column: Column): void {
    this.#reversed = this.#sorted === column && !this.#reversed;
    this.#sorted = column;
    this.#tellOrder();
    this.#onSort();
  }

  #tellOrder(): void {
    for (const [place, column] of COLUMNS.entries()) {
      const rises = column.isNumber === this.#reversed;
      this.#headers[place]?.setAttribute("aria-sort", column !== this.#sorted ? "none" : rises ? "ascending" : "descending");
    }
  }

  #add(id: string, connection: Connection): Row {
    const swatch = el("span", { class: "swatch" });
    const button = el("button", { type: "button", "data-connection": id, onclick: () => this.#onToggle(id) }, swatch, ENDS.text(connection));
    const cells = COLUMNS.slice(1).map((column) => el("td", { class: alignment(column) }));
    const row = { root: el("tr", {}, el("td", {}, button), ...cells), button, swatch, cells };
    this.#rows.set(id, row);
    this.#body.append(row.root);
    return row;
  }
}

function fill({ button, swatch, cells }: Row, connection: Connection, colour: string | undefined): void {
  button.setAttribute("aria-pressed", String(colour !== undefined));
  swatch.style.background = colour === undefined ? "transparent" : `var(${colour})`;
  for (const [place, cell] of cells.entries()) {
    const text = COLUMNS[place + 1]?.text(connection) ?? "";
    if (cell.textContent !== text) {
      cell.textContent = text;
    }
  }
}

function inOrder(store: Store, { key }: Column, reversed: boolean): [string, Connection][] {
  const keyed = [...store.connections].filter(([, connection]) => !connection.ended).map((entry) => ({ entry, key: key(entry[1]) }));
  keyed.sort((a, b) => compare(a.key, b.key) || compare(a.entry[0], b.entry[0]));
  const entries = keyed.map(({ entry }) => entry);
  return reversed ? entries.reverse() : entries;
}

function compare(a: Key, b: Key): number {
  return typeof a === "number" && typeof b === "number" ? b - a : a < b ? -1 : a > b ? 1 : 0;
}

/** Those that are there, the fastest first. */
export function byRate(store: Store): [string, Connection][] {
  return inOrder(store, DELIVERY, false);
}
