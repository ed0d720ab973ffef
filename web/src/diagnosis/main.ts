/** The live page of a diagnosis: what the I/Os of each session wait for, slice by slice. */

import type uPlot from "uplot";
import { lineStyle } from "../chart/theme";
import { FOLLOW, Plot, rangeShown } from "../live/plot";
import { el } from "../report/dom";
import { formatFixed, formatShare } from "../report/units";
import type { Diagnosis, Message, Session } from "./messages";

/** Slices that are drawn. */
const MOST_SLICES = 1800;
/** Sessions that are shown: the busiest, as they come. */
const MOST_SESSIONS = 16;
/** A wait that is drawn has had this share of the latency in some slice. */
const LEAST_SHARE = 0.01;

const ms = (ns: number | null) => (ns === null ? "" : formatFixed(ns / 1e6, 2));

/** I/Os that wait so at a moment, by Little's law. */
function inFlight(session: Session, wait: string): number {
  const share = session.shares.find((share) => share.wait === wait);
  return share === undefined ? 0 : (session.iops * share.mean_ns) / 1e9;
}

/** A table whose columns but for the first `words` are numbers. */
function table(head: string[], words: number, rows: (string | Node)[][]): HTMLElement {
  const cells = (tag: "th" | "td", row: (string | Node)[]) => el("tr", {}, ...row.map((cell, place) => el(tag, { class: place < words ? "" : "number" }, cell)));
  return el("div", { class: "table" }, el("table", {}, el("thead", {}, cells("th", head)), el("tbody", {}, ...rows.map((row) => cells("td", row)))));
}

/** One session. */
class SessionView {
  readonly root = el("section", {});
  readonly #title = el("h2", {});
  readonly #numbers = el("p", { class: "state" });
  readonly #finding = el("p", {});
  readonly #waits = el("div", {});
  readonly #luns = el("div", {});
  readonly #plot = new Plot("I/Os waiting", 260, () => [], (range) => this.#zoom(range));
  #range = FOLLOW;
  #drawn: string[] = [];
  #times: number[] = [];
  #slices: Session[] = [];

  constructor() {
    const reading = el("p", { class: "reading" }, "The mean number of I/Os that wait for each cause, per time slice. Drag to zoom, double-click to follow the present again.");
    this.root.append(this.#title, this.#numbers, this.#finding, reading, this.#plot.root, this.#waits, this.#luns);
  }

  take(at_s: number, session: Session): void {
    this.#times = [...this.#times, at_s].slice(-MOST_SLICES);
    this.#slices = [...this.#slices, session].slice(-MOST_SLICES);
    const named = session.target_name ?? "a target";
    this.#title.textContent = `${named}, ${session.connections.map((ends) => ends.join(" to ")).join(", ")}`;
    this.#numbers.textContent = `${formatFixed(session.iops, 0)} IOPS, latency ${ms(session.judgement.latency_ns)} ms, ${formatFixed(session.outstanding, 1)} commands outstanding`;
    this.#finding.textContent = session.finding;
    const told = session.shares.filter((share) => share.share >= LEAST_SHARE).map((share) => share.wait);
    const drawn = [...this.#drawn, ...told.filter((wait) => !this.#drawn.includes(wait))];
    if (drawn.length !== this.#drawn.length || this.#times.length === 1) {
      this.#drawn = drawn;
      const lines = drawn.map((wait, place) => ({ label: wait, ...lineStyle(place) }));
      this.#plot.rebuild(lines, this.#data());
    }
    this.#draw();
    this.#waits.replaceChildren(
      table(
        ["I/Os wait, as", "known from", "in flight", "mean ms", "share"],
        2,
        session.shares
          .filter((share) => this.#drawn.includes(share.wait))
          .map((share) => [this.#named(share.wait, share.why), share.source, formatFixed(inFlight(session, share.wait), 1), ms(share.mean_ns), formatShare(share.share)]),
      ),
    );
    const disks = session.disks.map((disk) => [
      disk.disk,
      String(disk.lun),
      String(disk.ios),
      ms(disk.latency_ns),
      ms(disk.queued_ns),
      ms(disk.wire_ns),
      formatFixed(disk.outstanding, 1),
      disk.queue_depth === null ? "" : String(disk.queue_depth),
      formatShare(disk.full_share),
    ]);
    const stores = session.stores.map((store) => [`store of LUN ${store.lun}`, String(store.lun), String(store.commands), ms(store.latency_ns), "", "", "", "", ""]);
    const luns = [...disks, ...stores];
    const head = ["disk", "LUN", "I/Os", "latency ms", "in queues ms", "on the wire ms", "outstanding", "queue depth", "full"];
    this.#luns.replaceChildren(...(luns.length > 0 ? [table(head, 1, luns)] : []));
  }

  #named(wait: string, why: string): HTMLElement {
    const swatch = el("span", { class: "swatch" });
    swatch.style.background = `var(${lineStyle(this.#drawn.indexOf(wait)).colour})`;
    return el("span", {}, swatch, why);
  }

  #data(): uPlot.AlignedData {
    return [this.#times, ...this.#drawn.map((wait) => this.#slices.map((session) => inFlight(session, wait)))] as uPlot.AlignedData;
  }

  #draw(): void {
    this.#plot.update(this.#data(), rangeShown(this.#range, this.#times));
  }

  #zoom(range: { min: number; max: number }): void {
    if (range.min < range.max) {
      this.#range = range;
      this.#draw();
    }
  }
}

class DiagnosisPage {
  readonly #state = el("p", { class: "state", "aria-live": "polite" }, "Waiting for the first time slice.");
  readonly #sources = el("ul", {});
  readonly #sessions = el("div", {});
  readonly #views = new Map<string, SessionView>();

  constructor(root: HTMLElement) {
    root.replaceChildren(el("h1", {}, "iSCSI disks of this host"), this.#state, this.#sessions, el("h2", {}, "Known from"), this.#sources);
    const source = new EventSource("/events");
    source.onmessage = (event: MessageEvent<string>) => this.#take(JSON.parse(event.data) as Message);
    source.onerror = () => {
      this.#state.textContent = "The diagnosis does not answer; trying again.";
    };
  }

  #take(message: Message): void {
    if (message.kind === "over") {
      this.#state.textContent = "The diagnosis has ended.";
      return;
    }
    const { at_s, diagnosis } = message;
    const others = [
      { text: "I/Os seen in part only", connections: diagnosis.unfinished },
      { text: "Without I/Os", connections: diagnosis.quiet },
    ].filter(({ connections }) => connections.length > 0);
    const state = [`${formatFixed(at_s, 0)} s; ${diagnosis.sessions.length} sessions with I/Os`, ...others.map(({ text, connections }) => `${text}: ${connections.join(", ")}`)];
    this.#state.textContent = `${state.join(". ")}.`;
    this.#sources.replaceChildren(...diagnosis.sources.map(({ name, what }) => el("li", {}, `${name}: ${what}`)));
    this.#show(at_s, diagnosis);
  }

  #show(at_s: number, diagnosis: Diagnosis): void {
    for (const session of diagnosis.sessions) {
      const key = session.connections.map((ends) => ends.join()).sort().join(" ");
      let view = this.#views.get(key);
      if (view === undefined && this.#views.size < MOST_SESSIONS) {
        view = new SessionView();
        this.#views.set(key, view);
        this.#sessions.append(view.root);
      }
      view?.take(at_s, session);
    }
  }
}

const root = document.getElementById("diagnosis");
if (root !== null) {
  new DiagnosisPage(root);
}
