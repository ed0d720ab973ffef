/**
 * What the page is given: the mirror of `ReportData` in crates/insight/src/report.rs. What of it stands in
 * results.json has its types from there.
 *
 * Every part may be missing: a run can fail half-way, record fewer kinds, or have one cell only.
 */

import type { Advised, Finding, Json, KnownNumber, Paper, StallUse, Verdict } from "../results";

export type { Advised, Finding, Json, KnownNumber, Paper, StallUse, Verdict };

/** A series on its cell's time axis; null where nothing was recorded in that step. */
export type Samples = (number | null)[];

export interface ReportData {
  plan: string;
  title: string;
  /** When it began, in nanoseconds since 1970. */
  started_ns: number | null;
  /** With which wansan it ran, and on what. */
  facts: Fact[];
  /** What failed, is missing or must be read with care, a sentence each. */
  problems: string[];
  finding: Finding | null;
  /** What the advised change brought. */
  advised: Advised | null;
  expectations: Verdict[];
  /** Numbers that the rebuilt paper gives, beside ours. */
  paper: Paper | null;
  /** Whose throughput and latency a cell's own numbers are. */
  load: Load;
  cells: Cell[];
  manifest: Json;
}

export type Load = "initiators" | "streams";

export interface Fact {
  label: string;
  text: string;
}

export interface Cell {
  cell: number;
  phase: string;
  repeat: number;
  parameters: Record<string, Json>;
  failure: string | null;
  /** Its numbers, by their dotted names in results.json. */
  measures: Record<string, number>;
  /** What was changed of its paths while it ran, in order, and how many changes are too many to be shown. */
  changes: ChangeMark[];
  changes_left_out: number;
  /** How many sessions the layers' numbers are the sum of. */
  sessions: number;
  /** The recorded layers, top to bottom. */
  layers: LayerSummary[];
  /** Records lost because a recorder was full, by kind. */
  dropped: Record<string, number>;
  /** Crossings that are missing of I/Os whose beginning and end were recorded. */
  missing_crossings: number;
  /** Layers where Little's law does not hold between the numbers shown. */
  little_disagrees: string[];
  time: TimeAxis | null;
  in_flight: LayerSamples[];
  /** The time axis of the connections' samples. */
  tcp_time: TimeAxis | null;
  connections: ConnectionSamples[];
  /** Sending ends that carried too little to be shown. */
  connections_left_out: number;
  paths: PathSamples[];
  /** The packets of the first I/Os that were measured. */
  packets: PacketDiagram | null;
  /** How far apart data packets left the target. */
  packet_gaps: PacketGaps | null;
  /** What stalls cost its I/Os. */
  stalls: StallUse | null;
  /** The packets of the costliest stall of each cause. */
  stall_packets: StallPackets[];
}

/** The packets around one stall, from before it began until it was over. */
export interface StallPackets {
  cause: string;
  packets: PacketDiagram;
}

/** A change of a cell's paths, by the plan's timeline or by hand. */
export interface ChangeMark {
  /** Such as `upper.delay = 32ms`. */
  statement: string;
  /** Whether it came by `wansan path set` and not from the plan. */
  by_hand: boolean;
  /** In seconds since measuring began; null when it was not made. */
  at_s: number | null;
  /** Why it was not made. */
  refused: string | null;
}

/**
 * One layer's part in a mean I/O. Over all layers, ways in, ways out and service add up to the
 * mean latency; each one's excess is its part above the least seen: waiting.
 */
export interface LayerSummary {
  layer: string;
  in_flight_mean: number;
  in_flight_max: number;
  /** From entering the layer above to entering this one; 0 at the top. */
  way_in_ns: number;
  way_in_excess_ns: number;
  /** From leaving this layer to leaving the one above; 0 at the top. */
  way_out_ns: number;
  way_out_excess_ns: number;
  /** Inside this layer, for I/Os that went no deeper. */
  service_ns: number;
  service_excess_ns: number;
}

/** Step i stands for the time from from_s + i·step_s on, step_s long; 0 s is where measuring began. */
export interface TimeAxis {
  from_s: number;
  step_s: number;
  steps: number;
  /** Where measuring ended. */
  measured_s: number;
}

export interface LayerSamples {
  layer: string;
  values: Samples;
}

export interface ConnectionSamples {
  name: string;
  /** The congestion window in segments. */
  cwnd_packets: Samples;
  /** The slow-start threshold, and what is sent and not acknowledged; empty where too many are shown. */
  ssthresh_packets: Samples;
  in_flight_packets: Samples;
  /** When its window was cut, in order, and how many cuts are too many to be shown. */
  cuts: CutMark[];
  cuts_left_out: number;
  retransmits: number;
}

/** A cut of a congestion window: without a loss, by fast recovery, or by a time-out. */
export interface CutMark {
  /** In seconds since measuring began. */
  at_s: number;
  why: CutReason;
}

export type CutReason = "cwr" | "recovery" | "loss";

export interface PathSamples {
  name: string;
  queue_bytes: Samples;
  /** Share of each step for which the link was sending, 0 to 1. */
  utilisation: Samples;
  queue_drops: number;
  loss_drops: number;
}

/** A stretch of packets, a column for each property; all columns are equally long. */
export interface PacketDiagram {
  /** When it begins, in seconds since measuring began. */
  from_s: number;
  flows: PacketFlow[];
  kinds: PacketKind[];
  /** When each packet came to the first emulated path, since the beginning; ascending. */
  sent_us: number[];
  /** How long it took to the end of the last path, or until it was dropped. */
  transit_us: number[];
  /** 0: it arrived; 1: a queue dropped it; 2: it was lost. */
  fate: number[];
  /** 1: from the target; 0: from the initiator. */
  from_target: number[];
  /** Places in `flows` and in `kinds`. */
  flow: number[];
  kind: number[];
  /** TCP payload; of an encrypted packet all that follows its outer header. */
  payload_bytes: number[];
  /** Where its payload begins in its direction's stream, from 0. */
  place: (number | null)[];
  /** Up to where it acknowledges the other direction's stream. */
  acked: (number | null)[];
  /** The TCP flags; 0 when it is encrypted. */
  flags: number[];
  /** The Initiator Task Tag of the PDU that fills most of it. */
  task: (number | null)[];
  /** PDUs that are in it, wholly or in part. */
  pdus: number[];
  /** Its row in packet.parquet. */
  packet: number[];
  /** Where PDUs begin in packets. */
  boundaries: Boundary[];
  /** Where I/Os stalled meanwhile. */
  stalls: StallMark[];
}

/** A PDU that begins in a packet: the packet's place, the payload before it, its place in `kinds`. */
export interface Boundary {
  at: number;
  before_bytes: number;
  kind: number;
}

/** A stall at the time line of who waited. */
export interface StallMark {
  cause: string;
  /** The cause in words. */
  text: string;
  /** The I/O's Initiator Task Tag. */
  task: number;
  from_us: number;
  to_us: number;
  /** 1: the target waited; 0: the initiator. */
  from_target: number;
  /** The packets that show it, by their rows in packet.parquet. */
  packets: number[];
}

export interface PacketFlow {
  name: string;
  encrypted: boolean;
}

/** What a packet carries: a PDU, payload of no known PDU, nothing, or nobody can see what. */
export type PacketKind = { is: "pdu"; name: string } | { is: "data" | "bare" | "encrypted" | "encrypted_short" };

/** Gaps between data packets of a burst from the target. */
export interface PacketGaps {
  gaps: number;
  mean_ns: number;
  p50_ns: number;
  p90_ns: number;
  /** The least, the greatest, and what lies between at equal shares. */
  quantiles_ns: number[];
}

/** The data that the lab placed in the page, every absent part filled with "nothing". */
export function readData(text: string): ReportData {
  const given = JSON.parse(text) as Partial<ReportData>;
  return {
    plan: given.plan ?? "",
    title: given.title ?? "",
    started_ns: given.started_ns ?? null,
    facts: given.facts ?? [],
    problems: given.problems ?? [],
    finding: given.finding ?? null,
    advised: given.advised ?? null,
    expectations: given.expectations ?? [],
    paper: given.paper ?? null,
    load: given.load ?? "initiators",
    cells: (given.cells ?? []).map(readCell),
    manifest: given.manifest ?? null,
  };
}

function readDiagram(diagram: PacketDiagram | null): PacketDiagram | null {
  return diagram === null ? null : { ...diagram, packet: diagram.packet ?? [], boundaries: diagram.boundaries ?? [], stalls: diagram.stalls ?? [] };
}

/** A cell of an older run lacks what was not recorded then. */
function readCell(cell: Cell): Cell {
  return {
    ...cell,
    measures: cell.measures ?? {},
    changes: cell.changes ?? [],
    changes_left_out: cell.changes_left_out ?? 0,
    tcp_time: cell.tcp_time ?? cell.time,
    connections: cell.connections.map((connection) => ({
      ...connection,
      ssthresh_packets: connection.ssthresh_packets ?? [],
      in_flight_packets: connection.in_flight_packets ?? [],
      cuts: connection.cuts ?? [],
      cuts_left_out: connection.cuts_left_out ?? 0,
    })),
    packets: readDiagram(cell.packets ?? null),
    packet_gaps: cell.packet_gaps ?? null,
    stalls: cell.stalls ?? null,
    stall_packets: cell.stall_packets ?? [],
  };
}
