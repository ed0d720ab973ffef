/** The legend of a packet transfer diagram. */

import { kindColour, kindName } from "../diagram/packet";
import type { TransferDiagram } from "../diagram/transfer";
import type { PacketDiagram } from "./data";
import { el } from "./dom";
import { causeKey } from "./waits";

/** What the colours and line styles of packets mean, each a switch, and those of waits. */
export function packetLegend(diagram: TransferDiagram, { kinds, flows, ios }: PacketDiagram): HTMLElement {
  const count = (of: "kind" | "flow", place: number) => diagram.packets.filter((packet) => packet[of] === place).length;
  const entry = (what: "kinds" | "flows", place: number, text: string, sample: HTMLElement | null) => {
    const button = el(
      "button",
      {
        type: "button",
        "aria-pressed": "true",
        onclick: () => {
          const show = button.getAttribute("aria-pressed") !== "true";
          button.setAttribute("aria-pressed", String(show));
          diagram.toggle(what, place, show);
        },
      },
      sample,
      text,
    );
    return button;
  };
  const swatch = (variable: string) => {
    const swatch = el("span", { class: "swatch" });
    swatch.style.background = `var(${variable})`;
    return swatch;
  };
  const packets = el(
    "div",
    { class: "legend", role: "group", "aria-label": "Kinds of packets" },
    ...kinds.map((kind, place) => entry("kinds", place, `${kindName(kind)} ${count("kind", place)}`, swatch(kindColour(kind)))),
    ...(flows.length < 2 ? [] : flows.map((flow, place) => entry("flows", place, `${flow.name} ${count("flow", place)}`, el("span", { class: `dash dash-${place % 4}` })))),
  );
  return el("div", {}, packets, ios.length === 0 ? null : causeKey(ios.flatMap(({ waits }) => waits.map(({ cause }) => cause))));
}
