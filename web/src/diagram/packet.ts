/** Packets one by one, out of the columns that the page was given, and in words. */

import type { PacketDiagram, PacketKind } from "../report/data";
import { formatFixed, formatQuantity } from "../report/units";

export type Fate = "arrived" | "dropped" | "lost";

export interface Packet {
  /** When it was sent and when its way ended, in µs since the diagram's beginning. */
  sent_us: number;
  ended_us: number;
  fate: Fate;
  fromTarget: boolean;
  flow: number;
  kind: number;
  payload_bytes: number;
  place: number | null;
  acked: number | null;
  flags: number;
  task: number | null;
  pdus: number;
  /** Its row among the records. */
  packet: number | null;
  /** The PDUs that begin in it: the share of its payload before each, and their kinds. */
  begins: { share: number; kind: number }[];
}

const FATES: Fate[] = ["arrived", "dropped", "lost"];

export function readPackets(diagram: PacketDiagram): Packet[] {
  const { sent_us, transit_us, fate, from_target, flow, kind, payload_bytes, place, acked, flags, task, pdus, packet } = diagram;
  const begins = beginsOf(diagram);
  return sent_us.map((sent, i) => ({
    sent_us: sent,
    ended_us: sent + (transit_us[i] ?? 0),
    fate: FATES[fate[i] ?? 0] ?? "arrived",
    fromTarget: from_target[i] === 1,
    flow: flow[i] ?? 0,
    kind: kind[i] ?? 0,
    payload_bytes: payload_bytes[i] ?? 0,
    place: place[i] ?? null,
    acked: acked[i] ?? null,
    flags: flags[i] ?? 0,
    task: task[i] ?? null,
    pdus: pdus[i] ?? 0,
    packet: packet[i] ?? null,
    begins: begins.get(i) ?? [],
  }));
}

/** The PDUs that begin in each packet. */
function beginsOf({ boundaries, payload_bytes }: PacketDiagram): Map<number, Packet["begins"]> {
  const begins = new Map<number, Packet["begins"]>();
  for (const { at, before_bytes, kind } of boundaries) {
    const of = begins.get(at) ?? [];
    begins.set(at, [...of, { share: before_bytes / Math.max(payload_bytes[at] ?? 0, 1), kind }]);
  }
  return begins;
}

export function kindName(kind: PacketKind | undefined): string {
  switch (kind?.is) {
    case "pdu":
      return kind.name;
    case "bare":
      return "no payload (ACK)";
    case "encrypted":
      return "encrypted";
    case "encrypted_short":
      return "encrypted, as short as an ACK";
    default:
      return "payload, PDU unknown";
  }
}

const PDU_COLOURS: Record<string, string> = {
  "SCSI Command": "--series-1",
  "SCSI Data-In": "--series-2",
  "SCSI Response": "--series-3",
  "SCSI Data-Out": "--series-4",
  R2T: "--series-5",
};

/** The CSS variable of a kind's colour. */
export function kindColour(kind: PacketKind | undefined): string {
  switch (kind?.is) {
    case "pdu":
      return PDU_COLOURS[kind.name] ?? "--series-6";
    case "bare":
    case "encrypted_short":
      return "--ink-3";
    default:
      return "--series-7";
  }
}

/** TCP's flags by bit, the lowest first (RFC 9293 §3.1). */
const FLAGS = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];

export function flagNames(flags: number): string {
  return FLAGS.filter((_, bit) => (flags & (1 << bit)) !== 0).join(" ");
}

/** What is known of a packet, a line each; the first says what it is. */
export function describe(packet: Packet, diagram: PacketDiagram): string[] {
  const kind = diagram.kinds[packet.kind];
  const flow = diagram.flows[packet.flow];
  const others = packet.pdus > 1 ? `, part of ${packet.pdus} PDUs` : "";
  const task = packet.task === null || packet.task === 0xffffffff ? "" : `, ITT ${packet.task}`;
  const from = packet.fromTarget ? "target to initiator" : "initiator to target";
  const transit = micros(packet.ended_us - packet.sent_us);
  const end = { arrived: `arrived after ${transit}`, dropped: "dropped by a queue", lost: "lost on the path" }[packet.fate];
  const stream = [
    ...(packet.payload_bytes === 0 ? [] : [`length ${formatFixed(packet.payload_bytes, 0)} B`]),
    ...(packet.place === null ? [] : [`seq ${formatFixed(packet.place, 0)}`]),
    ...(packet.acked === null ? [] : [`ack ${formatFixed(packet.acked, 0)}`]),
    ...(packet.flags === 0 ? [] : [flagNames(packet.flags)]),
  ];
  return [
    `${kindName(kind)}${task}${others}`,
    `${from}, sent at ${micros(packet.sent_us)}, ${end}`,
    ...(stream.length === 0 ? [] : [stream.join(", ")]),
    ...(flow === undefined || diagram.flows.length < 2 ? [] : [flow.name]),
    ...(packet.packet === null || flow?.encrypted === true ? [] : [`packet ${packet.packet} of the records`]),
  ];
}

/** A time given in microseconds. */
export function micros(time_us: number): string {
  return time_us === 0 ? "0" : formatQuantity({ value: time_us * 1e-6, dimension: "seconds" });
}

/** A time in microseconds on an axis whose times are `step` apart: with as many digits as tell them apart. */
export function tickText(time_us: number, step_us: number): string {
  if (time_us === 0) {
    return "0";
  }
  const [unit, unit_us] = time_us >= 1e6 ? (["s", 1e6] as const) : time_us >= 1e3 ? (["ms", 1e3] as const) : (["µs", 1] as const);
  const digits = Math.max(0, Math.ceil(-Math.log10(step_us / unit_us) - 1e-9));
  return `${formatFixed(time_us / unit_us, digits)} ${unit}`;
}

/** The middle of how long the packets of that way took that arrived; where a lost one was going. */
export function usualTransit(packets: Packet[], fromTarget: boolean): number {
  const times = packets
    .filter((packet) => packet.fate === "arrived" && packet.fromTarget === fromTarget)
    .map((packet) => packet.ended_us - packet.sent_us)
    .sort((a, b) => a - b);
  return times[Math.floor(times.length / 2)] ?? 0;
}
