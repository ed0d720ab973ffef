/** The stalls of a cell's I/Os: a table of causes with the cost of each, and the packets of each. */

import { TransferDiagram } from "../diagram/transfer";
import { TimeView } from "../diagram/view";
import type { CauseUse } from "../results";
import type { CellReport, PacketDiagram } from "./data";
import { el } from "./dom";
import type { Shown } from "./inflight";
import { packetLegend } from "./legend";
import { formatFixed, formatNs } from "./units";
import { causeName } from "./waits";

export function stallFigures(cell: CellReport): Shown | null {
  const stalls = cell.stalls;
  if (stalls === null) {
    return null;
  }
  const example = new Example(cell);
  const share = (ios: number) => (stalls.ios === 0 ? 0 : (100 * ios) / stalls.ios);
  const rows = stalls.causes.map((of) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, causeName(of.cause)),
      el("td", { class: "number" }, formatNs(of.cost_ns)),
      el("td", { class: "number" }, `${formatFixed(share(of.ios), 0)} %`),
      el("td", { class: "number" }, formatNs(of.example.to_ns - of.example.from_ns)),
      el("td", {}, ...packetsOf(of), example.button(of.cause)),
    ),
  );
  example.showFirst();
  const trips = `An I/O took ${formatFixed(stalls.round_trips, 2)} round trips on average.`;
  const root = el(
    "section",
    { id: "stalls" },
    el("h3", {}, "Stalls"),
    el("p", { class: "reading" }, rows.length === 0 ? `No I/O stalled. ${trips}` : `The causes of stalls, and their mean cost per I/O. ${trips}`),
    rows.length === 0
      ? null
      : el(
          "div",
          { class: "scroll", tabindex: 0, role: "region", "aria-label": "Stalls by cause" },
          el(
            "table",
            { class: "data" },
            el("thead", {}, el("tr", {}, ...["cause", "per I/O", "I/Os", "longest", "its packets"].map((name, i) => el("th", { scope: "col", class: i === 0 || i === 4 ? "" : "number" }, name)))),
            el("tbody", {}, ...rows),
          ),
        ),
    example.root,
  );
  return { root, destroy: () => example.destroy() };
}

function packetsOf({ example }: CauseUse): string[] {
  const packets = example.packets.map(({ packet }) => packet).join(", ");
  return [packets === "" ? "derived from PDUs" : `${packets} `];
}

/** The packets of the costliest stall of one cause, of whichever is asked for. */
class Example {
  readonly root = el("div", { class: "stall-example" });
  readonly #diagrams: Map<string, PacketDiagram>;
  readonly #buttons = new Map<string, HTMLButtonElement>();
  #shown: TransferDiagram | null = null;

  constructor(cell: CellReport) {
    this.#diagrams = new Map(cell.stall_packets.map(({ cause, packets }) => [cause, packets]));
  }

  destroy(): void {
    this.#shown?.destroy();
  }

  /** Shows the packets of a cause; none where its stalls are derived from PDUs alone. */
  button(cause: string): HTMLElement | null {
    if (!this.#diagrams.has(cause)) {
      return null;
    }
    const button = el("button", { type: "button", "aria-pressed": "false", "aria-label": `Show the packets: ${causeName(cause)}`, onclick: () => this.#show(cause) }, "show");
    this.#buttons.set(cause, button);
    return button;
  }

  showFirst(): void {
    const first = [...this.#buttons.keys()][0];
    if (first !== undefined) {
      this.#show(first);
    }
  }

  #show(cause: string): void {
    const diagram = this.#diagrams.get(cause);
    if (diagram === undefined) {
      return;
    }
    this.destroy();
    this.#buttons.forEach((button, of) => button.setAttribute("aria-pressed", String(of === cause)));
    const ends = diagram.sent_us.map((sent, i) => sent + (diagram.transit_us[i] ?? 0));
    const whole = { from: 0, to: Math.max(1, ...ends) };
    const title = `the costliest stall by ${causeName(cause)}`;
    this.#shown = new TransferDiagram(diagram, title, new TimeView(whole, whole), "the start of the diagram");
    this.root.replaceChildren(el("h4", {}, `${title[0]?.toUpperCase()}${title.slice(1)}`), packetLegend(this.#shown, diagram), this.#shown.root);
  }
}
