/** What the page is given. Generated from crates/insight/src by `WANSAN_UPDATE=1 cargo test -p wansan-insight`. */

import type { Advice, Advised, CauseUse, CellFacts, ClockAnchor, ClockFacts, ControlFacts, Example, FileFacts, Finding, Gain, HostFacts, Json, KnownNumber, Machine, Manifest, MeasuredPath, NodeFacts, Paper, PathFacts, Prediction, ShownPacket, StallUse, TunnelFacts, Verdict, WaitCause, WaitSum, WaitUse, WorkerFacts } from "../results";

export type { Advice, Advised, CauseUse, CellFacts, ClockAnchor, ClockFacts, ControlFacts, Example, FileFacts, Finding, Gain, HostFacts, Json, KnownNumber, Machine, Manifest, MeasuredPath, NodeFacts, Paper, PathFacts, Prediction, ShownPacket, StallUse, TunnelFacts, Verdict, WaitCause, WaitSum, WaitUse, WorkerFacts };

/** All that the page shows. */
export interface ReportData {
  /** The plan's name. */
  plan: string;
  /** The plan's title. */
  title: string;
  /** When it began, CLOCK_REALTIME since 1970. */
  started_ns: number | null;
  /** With which wansan it ran, and on what. */
  facts: Fact[];
  /** What failed, is missing or must be read with care, a sentence each. */
  problems: string[];
  /** What holds the system back. */
  finding: Finding | null;
  /** What the advised change brought. */
  advised: Advised | null;
  /** How the plan's expectations turned out. */
  expectations: Verdict[];
  /** Numbers that the rebuilt paper gives, beside ours. */
  paper: Paper | null;
  /** Whose throughput and latency a cell's own numbers are: of `initiators`, or of `streams` where there are no initiators. */
  load: string;
  /** The cells in the order in which they ran. */
  cells: CellReport[];
  /** The manifest as it is. */
  manifest: Manifest;
}

/** A fact of the page's heading. */
export interface Fact {
  /** Its name. */
  label: string;
  /** Its value. */
  text: string;
}

/** One cell of the sweep. A cell that failed has no numbers. */
export interface CellReport extends CellCharts {
  /** Its number. */
  cell: number;
  /** `planned` or `advised`. */
  phase: string;
  /** Which repetition of the sweep, from 0. */
  repeat: number;
  /** What the sweep has set, by dotted name. */
  parameters: Record<string, Json>;
  /** Why it failed, if it did. */
  failure: string | null;
  /** All its numbers, by their dotted names in the cell's results. */
  measures: Record<string, number>;
  /** What was changed of its paths while it ran, in order. */
  changes: ChangeMark[];
  /** Changes that are too many to be shown. */
  changes_left_out: number;
  /** What its I/Os waited for. */
  waits: WaitUse | null;
  /** Where they stood still and why. */
  stalls: StallUse | null;
}

/** What the records of one cell show. */
export interface CellCharts {
  /** How many sessions the layers' numbers are the sum of. */
  sessions: number;
  /** The recorded layers, top to bottom. */
  layers: LayerReport[];
  /** Records lost because a recorder was full, by kind; kinds that lost none are left out. */
  dropped: Record<string, number>;
  /** Crossings that are missing of I/Os whose beginning and end were recorded. */
  missing_crossings: number;
  /** Layers where Little's law does not hold between the numbers shown. */
  little_disagrees: string[];
  /** The time axis of all samples below. */
  time: TimeAxis | null;
  /** I/Os in flight at each recorded layer, of all sessions together. */
  in_flight: LayerSamples[];
  /** The time axis of the connections' samples. */
  tcp_time: TimeAxis | null;
  /** The connections' sending ends, busiest first. */
  connections: ConnectionSamples[];
  /** Sending ends that carried too little to be shown, or are too many. */
  connections_left_out: number;
  /** The paths' directions. */
  paths: PathSamples[];
  /** The packets of the first I/Os that were measured. */
  packets: PacketDiagram | null;
  /** How far apart data packets left the target. */
  packet_gaps: PacketGaps | null;
  /** The packets of the costliest stall of each cause. */
  stall_packets: StallPackets[];
}

/** How many I/Os one layer held, of all sessions together. */
export interface LayerReport {
  /** The layer's name. */
  layer: string;
  /** Mean number of I/Os in it. */
  in_flight_mean: number;
  /** Most I/Os in it at once; unknown from a sample of them. */
  in_flight_max: number | null;
}

/** Equal steps over the recorded time; 0 s is where measuring began. */
export interface TimeAxis {
  /** Where the first step begins. */
  from_s: number;
  /** How long each step is. */
  step_s: number;
  /** How many steps there are. */
  steps: number;
  /** Where measuring ended. */
  measured_s: number;
}

/** A layer's population over time. */
export interface LayerSamples {
  /** The layer's name. */
  layer: string;
  /** Mean number in flight in each step. */
  values: (number | null)[];
}

/** One sending end of a TCP connection over time. */
export interface ConnectionSamples {
  /** Which host sends to which. */
  name: string;
  /** The congestion window in segments. Where there are more samples than steps, the least and the greatest of two steps are in them, in their order; a value holds until the next. */
  cwnd_packets: (number | null)[];
  /** The slow-start threshold, in the same way; `None` while none is set. Empty for all but the busiest ends. */
  ssthresh_packets: (number | null)[];
  /** Segments sent and not acknowledged, in the same way; empty for all but the busiest ends. */
  in_flight_packets: (number | null)[];
  /** When its window was cut, in order. */
  cuts: CutMark[];
  /** Cuts that are too many to be shown. */
  cuts_left_out: number;
  /** Segments retransmitted while it was recorded. */
  retransmits: number;
}

/** A cut of a congestion window. */
export interface CutMark {
  /** When it was seen, in seconds since measuring began. */
  at_s: number;
  /** `cwr`, `recovery` or `loss`. */
  why: string;
}

/** One direction of a path over time. */
export interface PathSamples {
  /** The path and direction. */
  name: string;
  /** Most bytes seen waiting for the link in each step. */
  queue_bytes: (number | null)[];
  /** Share of each step for which the link was sending, 0 to 1. */
  utilisation: (number | null)[];
  /** Packets that the queue dropped while it was recorded. */
  queue_drops: number;
  /** Packets that the loss element took while it was recorded. */
  loss_drops: number;
}

/** Packets between the initiator's and the target's time line. */
export interface PacketDiagram {
  /** When it begins, in seconds since measuring began. */
  from_s: number;
  /** The flows whose packets are in it; packets name them by their place. */
  flows: PacketFlow[];
  /** What packets carry; packets name it by its place. */
  kinds: PacketKind[];
  /** When each packet came to the first emulated path, in µs since the beginning; ascending. */
  sent_us: number[];
  /** How long it took to the end of the last path, or until it was dropped. */
  transit_us: number[];
  /** 0 when it arrived, 1 when a queue dropped it, 2 when it was lost. */
  fate: number[];
  /** 1 when it comes from the target, 0 when from the initiator. */
  from_target: number[];
  /** Its place in `flows`. */
  flow: number[];
  /** Its place in `kinds`. */
  kind: number[];
  /** Bytes of TCP payload; of an encrypted packet all that follows its outer header. */
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
  /** Its row in `packet.parquet`, from 0. */
  packet: number[];
  /** Where PDUs begin in packets. */
  boundaries: Boundary[];
  /** I/Os whose packets are in it, and their waits. */
  ios: ShownIo[];
}

/** One flow of a diagram. */
export interface PacketFlow {
  /** Who speaks to whom. */
  name: string;
  /** Whether it is a tunnel, inside which nothing can be seen. */
  encrypted: boolean;
}

/** What a packet carries. */
export interface PacketKind {
  /** `pdu`; `data`: payload of which no PDU is known; `bare`: no payload; `encrypted`: nobody can see, but it is longer than an acknowledgement; `encrypted_short`: it is as short as one. */
  is: string;
  /** The PDU's name; empty of anything else. */
  name: string;
}

/** A PDU that begins in a packet. */
export interface Boundary {
  /** The packet's place in the diagram. */
  at: number;
  /** Bytes of the payload before it. */
  before_bytes: number;
  /** The PDU's place in `kinds`. */
  kind: number;
}

/** An I/O whose packets are shown. */
export interface ShownIo {
  /** Its session, as the names of flows begin. */
  session: string;
  /** Its Initiator Task Tag. */
  task: number;
  /** Its waits, which follow each other and cover its latency. */
  waits: ShownWait[];
}

/** A stretch of an I/O's latency with one cause. */
export interface ShownWait {
  /** The cause. */
  cause: string;
  /** The layer that had the I/O meanwhile. */
  layer: string;
  /** From when on, in µs since the diagram's beginning; below 0 before it. */
  from_us: number;
  /** Until when. */
  to_us: number;
  /** How much of it may belong to the waits beside it, in µs. */
  uncertain_us: number;
}

/** Gaps between data packets of a burst from the target. */
export interface PacketGaps {
  /** How many there are. */
  gaps: number;
  /** Their mean. */
  mean_ns: number;
  /** Half of them are at most this long. 0 where segmentation offload hands packets over together. */
  p50_ns: number;
  /** Nine in ten are at most this long. */
  p90_ns: number;
  /** The minimum and the maximum gap, and quantiles at equal steps between them. */
  quantiles_ns: number[];
}

/** The packets around the costliest stall of a cause. */
export interface StallPackets {
  /** The cause's name. */
  cause: string;
  /** Its session's packets, from before it began until it was over. */
  packets: PacketDiagram;
}

/** A change of a cell's paths, by the plan's timeline or by hand. */
export interface ChangeMark {
  /** The statement, such as `upper.delay = 32ms`. */
  statement: string;
  /** Whether it came by `wansan path set` and not from the plan. */
  by_hand: boolean;
  /** When it was made, in seconds since measuring began; `None` when it was not made, or nothing was measured. */
  at_s: number | null;
  /** Why it was not made. */
  refused: string | null;
}

/** Causes that a chart shows in one colour. */
export type Family = "path" | "queue" | "iscsi" | "tcp_window" | "acknowledgement" | "loss" | "program" | "store" | "unknown";

/** What a moment of an I/O's latency is spent on. */
export interface Cause {
  family: Family;
  /** The limit that it belongs to, as a finding names it. */
  limit: string;
  /** A clause about an I/O. */
  words: string;
}

export const CAUSES: Readonly<Record<string, Cause>> = {
  propagation: { family: "path", limit: "too_few_ios", words: "it crossed the path" },
  transmission: { family: "path", limit: "path_rate", words: "the link transmitted its bytes" },
  path_queue: { family: "queue", limit: "path_rate", words: "it was queued for a full link" },
  encryption: { family: "queue", limit: "encryption", words: "it was queued for a router's encryption" },
  command_window: { family: "iscsi", limit: "command_window", words: "the command window was closed" },
  r2t_wait: { family: "iscsi", limit: "r2t_round_trips", words: "the initiator waited for an R2T" },
  route_lockstep: { family: "iscsi", limit: "route_lockstep", words: "it waited for a command with a lower CmdSN on another connection" },
  congestion_window: { family: "tcp_window", limit: "congestion_window", words: "it waited for the congestion window" },
  extra_round_trips: { family: "tcp_window", limit: "stalls", words: "its data exceeded the congestion window and needed more round trips" },
  slow_start_after_idle: { family: "tcp_window", limit: "stalls", words: "an idle period had reduced the congestion window" },
  receive_window: { family: "tcp_window", limit: "receive_window", words: "the receiver's window was closed or too small" },
  send_buffer: { family: "tcp_window", limit: "send_buffer", words: "the send buffer was full" },
  nagle: { family: "acknowledgement", limit: "stalls", words: "Nagle's algorithm held a short segment for a round trip" },
  delayed_ack: { family: "acknowledgement", limit: "stalls", words: "the sender waited for a delayed acknowledgement" },
  nagle_against_delayed_ack: { family: "acknowledgement", limit: "stalls", words: "Nagle's algorithm held a short segment while the receiver delayed the acknowledgement that would have released it" },
  fast_retransmit: { family: "loss", limit: "stalls", words: "a lost segment was repaired by fast retransmit" },
  retransmission_timeout: { family: "loss", limit: "stalls", words: "a lost segment waited for the retransmission timer" },
  tail_loss: { family: "loss", limit: "stalls", words: "the last segment was lost, which only a timer could detect" },
  device_queue: { family: "queue", limit: "nothing", words: "it was in the queue of the sender's network device" },
  receive_buffer: { family: "program", limit: "nothing", words: "the receiving program had not read it yet" },
  processor: { family: "program", limit: "processor", words: "a program was CPU-bound" },
  initiator: { family: "program", limit: "nothing", words: "it was in the initiator's program" },
  target: { family: "program", limit: "nothing", words: "it was in the target's program" },
  store_service: { family: "store", limit: "too_few_ios", words: "the store served it" },
  store_queue: { family: "store", limit: "store", words: "it was queued for the store" },
  write_behind_limit: { family: "program", limit: "nothing", words: "early-acknowledged writes had reached their limit" },
  merge: { family: "program", limit: "nothing", words: "it waited for other writes to merge with, or for its turn" },
  backlog: { family: "program", limit: "nothing", words: "earlier writes had to reach the disk first" },
  journal: { family: "program", limit: "nothing", words: "the journal was being synced" },
  journal_room: { family: "program", limit: "nothing", words: "the journal was full" },
  unknown: { family: "unknown", limit: "nothing", words: "the records do not show why" },
};
