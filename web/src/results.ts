/** What a run's results.json and manifest.json hold. Generated from crates/schema/src by `WANSAN_UPDATE=1 cargo test -p wansan-schema`. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** The content of results.json. */
export interface Results {
  /** The plan's name. */
  plan: string;
  /** The plan's title. */
  title: string;
  /** Whether it was run in its quick form. */
  quick: boolean;
  /** The axes of the sweep in the order of the plan, first the one that varies slowest. */
  axes: string[];
  /** The cells in the order in which they ran. */
  cells: CellResult[];
  /** What holds the system back, in the planned phase; null when the run did not get that far, or had no I/Os. */
  finding: Finding | null;
  /** Whether a run without I/Os got as far as its expectations; false of any other. */
  is_judged_without_ios: boolean;
  /** What the advised change brought; null when there was none. */
  advised: Advised | null;
  /** How the plan's expectations turned out. */
  expectations: Verdict[];
  /** How many of them the quick form has no cells for. */
  expectations_unchecked: number;
  /** The numbers of the paper that the plan rebuilds, beside ours; null when it rebuilds none. */
  paper: Paper | null;
}

/** One cell of the sweep. One that failed has no numbers, but for what is known of its paths. */
export interface CellResult {
  /** Its number, from 0. */
  cell: number;
  /** `planned`, or `advised` when the finding's advice was applied. */
  phase: string;
  /** Which repetition of the sweep, from 0. */
  repeat: number;
  /** The value that each axis of the sweep had; the run's `advised` has what the advice has set. */
  parameters: Record<string, Json>;
  /** Why it failed, if it did. */
  failure: string | null;
  /** From when on all that loads it was measured, CLOCK_MONOTONIC; null when it failed. */
  measured_from_ns: number | null;
  /** Until when all of it was. */
  measured_to_ns: number | null;
  /** What each initiator measured. */
  initiators: BenchReport[];
  /** What each stream measured. */
  streams: Record<string, StreamResult>;
  /** What each relay did. */
  relays: Record<string, RelayResult>;
  /** Jain's index of fairness of the connections of all streams. */
  fairness: number | null;
  /** I/Os per second of all initiators together. */
  iops: number | null;
  /** Bytes of data per second of all initiators together; without any, of all streams. */
  bytes_per_s: number | null;
  /** Half of all I/Os took at most this long; without initiators, half of the marks of the stream whose marks took longest. */
  latency_p50_ns: number | null;
  /** All I/Os but one in a hundred took at most this long; without initiators, such marks. */
  latency_p99_ns: number | null;
  /** The mean gap between data packets of a burst from the target. */
  packet_gap_mean_ns: number | null;
  /** Half of these gaps are at most this long; 0 where segmentation offload hands packets over together. */
  packet_gap_p50_ns: number | null;
  /** Nine in ten of these gaps are. */
  packet_gap_p90_ns: number | null;
  /** Processor time that the busiest router's VPN took for each 2^30 bytes through its tunnels. */
  vpn_cpu_s_per_gib: number | null;
  /** What the tunnels of each router carried and cost meanwhile. */
  routers: RouterUsage[];
  /** What carried the packets over its paths: `user` or `netem`; null in runs from before there was a choice. */
  emulator: string | null;
  /** What netem says of each direction of each path, when it carried them; `paths` is empty then. */
  netem: NetemResult[];
  /** Programs on hosts and routers that other work on the computer kept from the processors: the cell is slower than it would be on a quiet one. */
  starved_programs: string[];
  /** Packets that the paths dropped, in all directions together. */
  path_dropped: number | null;
  /** Packets that they marked with CE. */
  path_marked: number | null;
  /** The most bytes that ever waited in one queue of theirs. */
  path_queue_high_water_bytes: number | null;
  /** What each direction of each emulated path did. */
  paths: PathResult[];
  /** What was changed of them meanwhile, in the order in which it was requested. */
  timeline: PathChange[];
  /** Mean number of I/Os in flight at each recorded layer, of all initiators together. */
  in_flight: Record<string, number>;
  /** What the congestion windows of the end that sends the data did. */
  cwnd: CwndUse | null;
  /** What its I/Os waited for: each moment of their latency, with its cause. */
  waits: WaitUse | null;
  /** Where its I/Os stood still and why. */
  stalls: StallUse | null;
  /** Where the latency goes below the socket. */
  below_socket: BelowSocket | null;
  /** What holds this cell back, judged by itself. */
  finding: CellFinding | null;
}

/** What `wansan bench` measured between warm-up and end. */
export interface BenchReport {
  /** The host that it ran on, in a world of the lab; empty of one started by hand. */
  host: string;
  /** I/Os completed. */
  ios: number;
  /** I/Os per second. */
  iops: number;
  /** Payload bytes per second. */
  bytes_per_s: number;
  /** I/Os that failed, over the whole load. */
  errors: number;
  /** What the first failed one said. */
  first_error: string | null;
  /** Pieces read whose content was compared. */
  verified: number;
  /** Pieces whose content was wrong. */
  corrupt: number;
  /** Seconds measured. */
  elapsed_s: number;
  /** Latencies, from submission to completion; null when no I/O was completed. */
  latency_ns: IoLatency | null;
  /** Start of what was measured, CLOCK_MONOTONIC. */
  measured_from_ns: number;
  /** End of what was measured, CLOCK_MONOTONIC. */
  measured_to_ns: number;
  /** Bytes per I/O. */
  block_bytes: number;
  /** I/Os kept in flight. */
  parallel: number;
  /** Sessions and connections that took the place of lost ones, over the whole load. */
  recoveries: number;
  /** Seconds without any connection, over the whole load. */
  lost_s: number;
  /** What each connection of the session did, from warm-up to end. */
  connections: ConnectionReport[];
  /** Record losses, when the load was recorded. */
  records_dropped: number;
}

/** Latencies of I/Os, in ns. */
export interface IoLatency {
  /** Arithmetic mean. */
  mean: number;
  /** Least. */
  min: number;
  /** Median. */
  p50: number;
  /** 90th percentile. */
  p90: number;
  /** 99th percentile. */
  p99: number;
  /** 99.9th percentile. */
  p99_9: number;
  /** Greatest. */
  max: number;
}

/** What one connection of the session did while the load was measured. */
export interface ConnectionReport {
  /** Its CID. */
  cid: number;
  /** The portal at its other end. */
  portal: string;
  /** Commands completed. */
  commands: number;
  /** Their payload, in bytes. */
  bytes: number;
  /** Commands under way on it, on average. */
  in_flight_mean: number;
  /** Of them, those that waited for its socket to take them, on average. */
  waiting_mean: number;
}

/** What one `[[stream]]` measured, of all its connections. */
export interface StreamResult {
  /** The host that sent. */
  host: string;
  /** The relay that it went through. */
  through: string | null;
  /** Bytes per second of all its connections together; null when one had fewer than two marks. */
  bytes_per_s: number | null;
  /** The mean of one. */
  flow_bytes_per_s: number | null;
  /** Jain's index of fairness of its connections. */
  fairness: number | null;
  /** From before a mark was offered to the socket until its echo was read: least. */
  latency_min_ns: number | null;
  /** From before a mark was offered to the socket until its echo was read: mean. */
  latency_mean_ns: number | null;
  /** From before a mark was offered to the socket until its echo was read: median. */
  latency_p50_ns: number | null;
  /** From before a mark was offered to the socket until its echo was read: 99th percentile. */
  latency_p99_ns: number | null;
  /** From before a mark was offered to the socket until its echo was read: greatest. */
  latency_max_ns: number | null;
  /** From before a mark was offered to the socket until the receiver had read it: mean. */
  one_way_mean_ns: number | null;
  /** From before a mark was offered to the socket until the receiver had read it: median. */
  one_way_p50_ns: number | null;
  /** From before a mark was offered to the socket until the receiver had read it: 99th percentile. */
  one_way_p99_ns: number | null;
  /** From before a mark was offered to the socket until the receiver had read it: greatest. */
  one_way_max_ns: number | null;
  /** Segments retransmitted. */
  retransmits: number;
  /** Times that a sender was seen in slow start again. */
  slow_start_returns: number;
  /** From when on it was measured, CLOCK_MONOTONIC. */
  measured_from_ns: number;
  /** Until when. */
  measured_to_ns: number;
  /** Each connection. */
  flows: FlowReport[];
}

/** What one stream measured. */
export interface FlowReport {
  /** Its number, from 0. */
  flow: number;
  /** The sender's end. */
  local: string;
  /** The other end of its connection: the receiver, or a relay. */
  peer: string;
  /** What the sender's kernel uses. */
  congestion_control: string;
  /** Bytes that the receiver read between the first and the last mark that came back while it was measured; between the last one and that before it when only one did. */
  bytes: number;
  /** These by the time between, of the receiver's clock; null when there were no two marks. */
  bytes_per_s: number | null;
  /** From the moment before a mark was offered to the sender's socket until its echo was read; null when none came back. */
  latency_ns: MarkLatency | null;
  /** From that moment until the receiver had read the mark; null when they have not one clock. */
  one_way_ns: MarkLatency | null;
  /** Segments that the sender retransmitted. */
  retransmits: number;
  /** Times that the sender was seen in slow start again, while it was measured, after it had left it (RFC 5681 §3.1). */
  slow_start_returns: number;
}

/** Latencies in ns. */
export interface MarkLatency {
  /** How many were measured. */
  count: number;
  /** Least. */
  min: number;
  /** Arithmetic mean. */
  mean: number;
  /** Median. */
  p50: number;
  /** 99th percentile. */
  p99: number;
  /** Greatest. */
  max: number;
}

/** What one `[[relay]]` did. What waited in it is of all flows together in their busier direction, in the samples while it was measured: receive queue, own memory, and what the send queue had not sent. */
export interface RelayResult {
  /** Its host. */
  host: string;
  /** Flows that ended with a FIN from both sides. */
  finished: number;
  /** Flows that were reset, or cut off at the end. */
  lost: number;
  /** Flows whose other end could not be reached. */
  not_connected: number;
  /** Bytes passed on to its target. */
  onward_bytes: number;
  /** Bytes passed back to clients. */
  back_bytes: number;
  /** By what it held flows' backlogs, as `wansan relay --law` names it; null in runs from before it was recorded. */
  law: string | null;
  /** Times that it began to signal ECE while it was measured. */
  ece_signals: number | null;
  /** Times, from its start to its end, that signals were of no use to a flow and the window alone held its backlog, by the reason. */
  fallbacks: Record<string, number>;
  /** Bytes that waited in it: mean of the samples. */
  backlog_mean_bytes: number | null;
  /** Bytes that waited in it: 99th percentile of the samples. */
  backlog_p99_bytes: number | null;
  /** Bytes that waited in it: greatest. */
  backlog_max_bytes: number | null;
  /** How long a byte waited there that came when a sample was taken, until it had been sent: mean of all flows' samples. */
  backlog_mean_ns: number | null;
  /** How long such a byte waited: 99th percentile of all flows' samples. */
  backlog_p99_ns: number | null;
  /** How long such a byte waited: greatest. */
  backlog_max_ns: number | null;
}

/** What the tunnels of one router carried and cost while its cell was measured. */
export interface RouterUsage {
  /** The router. */
  router: string;
  /** `wireguard` or `ipsec`. */
  vpn: string;
  /** How its tunnels encrypt. */
  ciphers: string[];
  /** Bytes of inner IP packets that went into the tunnels here. */
  sent_bytes: number;
  /** Bytes of inner IP packets that came out of the tunnels here. */
  received_bytes: number;
  /** Inner packets that found no room in the queues of its tunnels' devices, before they were encrypted. */
  dropped_packets: number;
  /** Outer packets that found no room in the buffers of its UDP sockets, before they were decrypted. */
  dropped_sealed_packets: number;
  /** Processor time of the router's VPN program, user and system. */
  cpu_ns: number;
  /** `cpu_ns` in seconds for each 2^30 bytes that were sent or received; null when none were. */
  cpu_s_per_gib: number | null;
}

/** What netem says of one direction of a path. Bytes are those of Ethernet frames without preamble, checksum and gap, and without the overhead that counts for the rate. */
export interface NetemResult {
  /** Its name, such as `upper:forward`. */
  name: string;
  /** The settings that netem was given. */
  setting: string;
  /** The packets that it holds at most, those on the delay line among them. */
  limit_packets: number;
  /** Where its random numbers began, which kernels say from Linux 6.7 on. */
  seed: number | null;
  /** Packets that left. */
  out_packets: number;
  /** Their bytes. */
  out_bytes: number;
  /** Packets that were lost, or found netem full: it counts them together. */
  dropped_packets: number;
  /** Packets that were waiting or on the delay line at the end. */
  held_packets: number;
  /** Their bytes. */
  held_bytes: number;
}

/** One direction of a path over a cell. Bytes are those of layer 2: the Ethernet frame without preamble, checksum and gap, and `overhead_bytes` for each packet. */
export interface PathResult {
  /** Its name, such as `upper:forward`. */
  name: string;
  /** Bytes of layer 2 that count for each packet beyond its Ethernet frame. */
  overhead_bytes: number;
  /** Whether it is down, or was at the end. */
  is_down: boolean;
  /** Packets that came in. */
  in_packets: number;
  /** Their bytes. */
  in_bytes: number;
  /** Packets that came out. */
  out_packets: number;
  /** Their bytes. */
  out_bytes: number;
  /** Packets that were dropped, whatever by. */
  dropped_packets: number;
  /** Those dropped by the queue, or by a full delay line. */
  queue_drops: number;
  /** Those taken by random or listed loss. */
  loss_drops: number;
  /** Those lost because the path was down. */
  outage_drops: number;
  /** Packets marked with CE. */
  marked_packets: number;
  /** Copies made. */
  duplicated_packets: number;
  /** Packets with a spoiled bit. */
  corrupted_packets: number;
  /** Packets held back so that others overtake them. */
  reordered_packets: number;
  /** Packets that wait for the link, or did at the end. */
  queue_packets: number;
  /** Their bytes. */
  queue_bytes: number;
  /** The most packets that ever waited. */
  queue_high_water_packets: number;
  /** The most bytes that ever waited. */
  queue_high_water_bytes: number;
  /** The delay that is requested, or was at the end. */
  delay_asked_ns: number;
  /** What half of the packets were to be delayed at most, as jitter drew it for each, since the delay was last changed; null when none has left since. */
  delay_asked_p50_ns: number | null;
  /** The same for 99 of 100 packets. */
  delay_asked_p99_ns: number | null;
  /** How long half of these packets were delayed at most until they were handed to the kernel. */
  delay_achieved_p50_ns: number | null;
  /** The same for 99 of 100 packets. */
  delay_achieved_p99_ns: number | null;
  /** The rate that is requested, or was at the end; null when it is unlimited. */
  rate_asked_bits_per_s: number | null;
  /** The most that came out in any half second since the rate was last changed; null when it did not last as long. */
  rate_achieved_bits_per_s: number | null;
  /** Its elements, the first one nearest the sender. */
  elements: ElementResult[];
}

/** One element of a direction. */
export interface ElementResult {
  /** Its name, such as `link`. */
  name: string;
  /** Packets that came in. */
  in_packets: number;
  /** Their bytes. */
  in_bytes: number;
  /** Packets that went on. */
  out_packets: number;
  /** Their bytes. */
  out_bytes: number;
  /** Packets that it dropped. */
  dropped_packets: number;
  /** Packets that it marked with CE. */
  marked_packets: number;
  /** Copies that it made. */
  duplicated_packets: number;
  /** Packets that it spoiled. */
  corrupted_packets: number;
  /** Packets that it held back so that others overtake them. */
  reordered_packets: number;
  /** Packets that it holds, or did at the end; for a link, those that wait. */
  depth_packets: number;
  /** Their bytes. */
  depth_bytes: number;
  /** The most packets that it ever held. */
  high_water_packets: number;
  /** The most bytes that it ever held. */
  high_water_bytes: number;
  /** Time for which a link was sending. */
  busy_ns: number;
}

/** A change of a path while a cell ran. */
export interface PathChange {
  /** The statement. */
  statement: string;
  /** `plan`, or `hand` when it came by `wansan path set`. */
  asked_by: string;
  /** When the plan wanted it, from the start of the initiators; null for what came by hand. */
  planned_ns: number | null;
  /** When it was made, from the start of the initiators; null when it was not. */
  made_after_ns: number | null;
  /** When it was made, CLOCK_MONOTONIC. */
  made_at_ns: number | null;
  /** Why it was not made. */
  refused: string | null;
}

/** What the congestion windows of the sending host did in the measured time: all its connections. */
export interface CwndUse {
  /** Connections. */
  connections: number;
  /** Greatest sum of all windows, in segments. */
  sum_max_packets: number;
  /** Mean of that sum, in segments; null in results of versions that did not say it. */
  sum_mean_packets: number | null;
  /** How far the window that moved least fell below its greatest, as a share of that: 0 is flat. */
  least_swing: number;
  /** The same of the window that moved most. */
  most_swing: number;
  /** Reductions of a window without a loss. */
  cwr_events: number;
  /** Fast recoveries. */
  recovery_events: number;
  /** Retransmission time-outs. */
  loss_events: number;
}

/** What the I/Os of a cell waited for. Times are means over the I/Os; they add up to the latency. */
export interface WaitUse {
  /** I/Os that were completed and of which all crossings were recorded. */
  ios: number;
  /** Their latency. */
  latency_ns: number;
  /** How much of it may belong to the waits beside those that it is counted to. */
  uncertain_ns: number;
  /** The waits by their causes. */
  causes: Record<string, WaitCause>;
  /** The same by layer, way and source, from the top layer down. */
  sums: WaitSum[];
}

/** The waits of one cause. */
export interface WaitCause {
  /** Their length. */
  mean_ns: number;
  /** Their share of the latency, 0 to 1. */
  share: number;
}

/** The waits of one cause at one layer. */
export interface WaitSum {
  /** The cause. */
  cause: string;
  /** The layer that had the I/Os meanwhile. */
  layer: string;
  /** Which way the bytes go that waited, `to_target` or `to_initiator`; null while a program or the store had them. */
  way: string | null;
  /** What it is derived from: `crossings`, `stamps`, `pdus`, `packets`, `tcp_info` or `resources`. */
  source: string;
  /** Their length. */
  mean_ns: number;
  /** How much of that may belong to the waits beside them. */
  uncertain_ns: number;
}

/** What stalls cost the I/Os of a cell. */
export interface StallUse {
  /** The cause that cost most, if that is a twentieth of the mean latency or more; else `none`. */
  cause: string;
  /** I/Os that were completed. */
  ios: number;
  /** What all stalls cost, as a mean over the I/Os. */
  cost_ns: number;
  /** Round trips that an I/O took, as a mean: one, and one for each stall that ended with an acknowledgement or an R2T. */
  round_trips: number;
  /** Each cause, the most costly first. */
  causes: CauseUse[];
}

/** What one cause cost. */
export interface CauseUse {
  /** The cause's name. */
  cause: string;
  /** Stalls. */
  stalls: number;
  /** I/Os that had one at least. */
  ios: number;
  /** Its cost, as a mean over all I/Os. */
  cost_ns: number;
  /** The stall that cost most, to be looked at. */
  example: Example;
}

/** One stall. */
export interface Example {
  /** The session of the I/O. */
  session: string;
  /** Its Initiator Task Tag. */
  task: number;
  /** From when on it could have gone on, CLOCK_MONOTONIC. */
  from_ns: number;
  /** When it went on. */
  to_ns: number;
  /** The packets that show it. */
  packets: ShownPacket[];
}

/** A packet that shows a stall. */
export interface ShownPacket {
  /** What it has to do with it. */
  role: string;
  /** Its row in `packet.parquet`, from 0. */
  packet: number;
  /** When it left its sender. */
  sent_ns: number;
}

/** Where the latency of a cell's I/Os goes, derived from the kernel's stamps. Times are means over the I/Os that were split; they add up to `latency_ns`. */
export interface BelowSocket {
  /** Whose records it is derived from: `both`, `initiator` or `target`. */
  recorded: string;
  /** I/Os that were split. */
  ios: number;
  /** Those that were not, by the reason. */
  untold: Record<string, number>;
  /** The latency of those that were split. */
  latency_ns: number;
  /** In the initiator's program. */
  initiator_ns: number;
  /** In the target's program. */
  target_ns: number;
  /** Beyond the only end that has recorded it. */
  beyond_ns: number;
  /** Both ways together. */
  both_ways: LegUse;
  /** On the way to the target. */
  to_target: LegUse;
  /** On the way to the initiator. */
  to_initiator: LegUse;
  /** Round trips of an I/O. */
  round_trips: number;
  /** How much may belong to a part beside the one that it is counted to. */
  uncertain_ns: number;
  /** The stamps that it is derived from. */
  stamps: StampCount;
}

/** Parts of the way from one program to the other, means over I/Os. */
export interface LegUse {
  /** With the sending program, until the send buffer had room. */
  no_room_ns: number;
  /** So much of that while all that the buffer has room for was in flight: it is too small for the path. */
  no_room_buffer_ns: number;
  /** So much of that while the buffer's own bytes waited for the congestion window. */
  no_room_cwnd_ns: number;
  /** So much of that while they waited for the receiver's window. */
  no_room_rwnd_ns: number;
  /** In the send buffer while the congestion window, or what paces it, let nothing out. */
  cwnd_ns: number;
  /** In the send buffer while the receiver's window let nothing out. */
  rwnd_ns: number;
  /** In the send buffer while Nagle's algorithm held a short segment. */
  nagle_ns: number;
  /** In the send buffer for none of these, or for what nobody can tell. */
  other_ns: number;
  /** In the device's queue: from the queueing discipline to the device. */
  device_queue_ns: number;
  /** On the path, until the receiving kernel had it; losses and their repair are part of it. */
  path_ns: number;
  /** In the receive buffer, until the program read it. */
  receive_buffer_ns: number;
}

/** How many calls the programs made on their sockets, and how many of them have no stamp. */
export interface StampCount {
  /** Calls that gave bytes. */
  sends: number;
  /** Those without a time at the device: the kernel gave the stamp to a later call whose bytes are in the same segment, or lost it. */
  sends_unstamped: number;
  /** Calls that took bytes. */
  receives: number;
  /** Those without a time of arrival. */
  receives_unstamped: number;
}

/** What holds one cell back. */
export interface CellFinding {
  /** What binds. */
  limit: string;
  /** The first layer that holds fewer than the one above, if one does. */
  layer: string | null;
  /** The layer above. */
  above: string | null;
  /** The share of the latency spent waiting for it, 0 to 1. */
  waiting_share: number;
  /** All that as a storage engineer would say it. */
  sentence: string;
}

/** What holds the system back. `wanted` and `got` are means per session in the cell that it speaks of: the first cell, by I/Os in flight, in which the limit binds. */
export interface Finding {
  /** What binds. */
  limit: string;
  /** The first layer that holds fewer than the one above, if one does. */
  layer: string | null;
  /** The layer above. */
  above: string | null;
  /** Mean number that had entered the layer above: how many asked to enter. */
  wanted: number;
  /** Mean number that had entered the layer: how many were admitted. */
  got: number;
  /** The share of the latency spent waiting for it, 0 to 1. */
  waiting_share: number;
  /** The cell that the numbers above are from. */
  cell: number;
  /** The cells in which the limit binds. */
  binds_in_cells: number[];
  /** Facts that the finding rests on, a line each. */
  evidence: string[];
  /** The finding as a storage engineer would say it. */
  sentence: string;
  /** What to change, if there is something. */
  advice: Advice | null;
  /** What each cell would do once the advice is followed; null when the gain cannot be predicted. */
  predicted: Prediction[] | null;
}

/** What to change. */
export interface Advice {
  /** In words. */
  text: string;
  /** The plan's parameter, when one number does it. */
  parameter: string | null;
  /** Its value as a plan writes it. */
  value: string | null;
  /** Other parameters without which it would bring nothing, with their values. */
  with: Record<string, string>;
}

/** What one cell would do once the advice is followed. */
export interface Prediction {
  /** The cell. */
  cell: number;
  /** The parameters of the sweep. */
  parameters: Record<string, Json>;
  /** Mean in flight per session at the top layer, as measured. */
  in_flight: number;
  /** I/Os per second as measured. */
  iops: number;
  /** I/Os per second predicted. */
  predicted_iops: number;
  /** `predicted_iops` ÷ `iops` − 1. */
  gain: number;
  /** What bounds the prediction. */
  bound: string;
  /** What it comes from: `simulation` of the recording with the change, or `bounds`, what the next limits let through at most. */
  source: string;
}

/** The advised change, and its gain as predicted and as measured. The single numbers are those of the point of the sweep where most was predicted. */
export interface Advised {
  /** The parameter that was changed. */
  parameter: string;
  /** What it was in the planned phase, if the plan has a value for it. */
  planned_value: Json | null;
  /** What it was changed to. */
  value: Json;
  /** The cell before the change. */
  planned_cell: number;
  /** The cell after it. */
  advised_cell: number;
  /** I/Os per second before the change. */
  planned_iops: number;
  /** I/Os per second that were predicted. */
  predicted_iops: number;
  /** I/Os per second after it. */
  measured_iops: number;
  /** `predicted_iops` ÷ `planned_iops` − 1. */
  predicted_gain: number;
  /** `measured_iops` ÷ `planned_iops` − 1. */
  measured_gain: number;
  /** `measured_iops` ÷ `predicted_iops`: 1 where the prediction is right. Null where none was predicted. */
  measured_of_predicted: number | null;
  /** Every point of the sweep. */
  gains: Gain[];
}

/** One point of a sweep before and after the advice was followed. Repeats are averaged. */
export interface Gain {
  /** The parameters of the sweep. */
  parameters: Record<string, Json>;
  /** I/Os per second as planned. */
  planned_iops: number;
  /** I/Os per second that were predicted for the advised run. */
  predicted_iops: number;
  /** I/Os per second of the advised run. */
  advised_iops: number;
  /** `predicted_iops` ÷ `planned_iops` − 1. */
  predicted_gain: number;
  /** `advised_iops` ÷ `planned_iops` − 1. */
  measured_gain: number;
}

/** How an expectation turned out. */
export interface Verdict {
  /** What was expected, in words. */
  expected: string;
  /** What was found, in words. */
  found: string;
  /** Whether that is so. */
  met: boolean;
}

/** A paper's numbers beside those of a run. */
export interface Paper {
  /** Authors, title and year. */
  title: string;
  /** Which of its figures or tables. */
  figure: string | null;
  /** What it says without a number that could stand beside ours. */
  remarks: string[];
  /** Where ours is different, and why. */
  differs: string[];
  /** Its numbers, as far as the run has cells for them. */
  known: KnownNumber[];
}

/** One number of a paper beside ours. */
export interface KnownNumber {
  /** What is compared, in words. */
  about: string;
  /** The metric's dotted name. */
  metric: string;
  /** The parameters of the cells that it is of. */
  where: Record<string, Json>;
  /** The parameters of the cells whose mean it is a ratio to; null when it is none. */
  relative_to: Record<string, Json> | null;
  /** The paper's number, in the unit of the metric. */
  value: number;
  /** Ours, the mean over those cells; null when there is none. */
  ours: number | null;
  /** Ours ÷ the paper's. */
  ratio: number | null;
}

/** The content of manifest.json. */
export interface Manifest {
  /** The plan's name. */
  plan: string;
  /** The file that it was read from. */
  plan_file: string;
  /** Whether that is its quick form. */
  quick: boolean;
  /** The plan with every default in it. */
  document: Json;
  /** The files that the plan names, by their names in it. */
  files: Record<string, FileFacts>;
  /** The parameters set over the plan in the advised phase. */
  advised: Record<string, string>;
  /** Where all randomness began. */
  seed: number | null;
  /** wansan's version. */
  wansan_version: string | null;
  /** The commit that it was built from, or `unknown`. */
  wansan_commit: string | null;
  /** How the lab got the right to make namespaces. */
  rights: string;
  /** The machine. */
  machine: Machine;
  /** Readings of both clocks, to convert between them: records are CLOCK_MONOTONIC. */
  clock_anchors: ClockAnchor[];
  /** Switched off on every link, by ethtool's names. */
  offloads_off: string[];
  /** The longest super-frame that a host leaves to its link to segment; the emulator cuts it into packets. As Linux has it, `gso_max_size`. By netem, hosts send packets one by one. */
  super_frame_max_bytes: number;
  /** What a byte on a path is. */
  path_bytes: string;
  /** The real computers that are its hosts; none in another world. */
  hosts: HostFacts[];
  /** What their paths were like before the first cell, measured in both directions. */
  measured_paths: MeasuredPath[];
  /** The workers of an engine that have run its cells; none where the lab has. */
  workers: WorkerFacts[];
  /** What was built and measured in each cell. */
  cells: CellFacts[];
}

/** A file that the plan names. */
export interface FileFacts {
  /** The SHA-256 of what is in it, in hexadecimal. */
  sha256: string;
  /** Where its copy is, from the run's folder. */
  copy: string;
}

/** What is known about the machine. What it does not tell is empty. */
export interface Machine {
  /** Kernel name, release and version, as uname(2) gives them. */
  kernel: string;
  /** Architecture. */
  architecture: string;
  /** The processor's name. */
  cpu: string;
  /** How many processors the lab may use. */
  cpus: number;
  /** Memory in bytes. */
  memory_bytes: number;
  /** The kernel's clock source. */
  clock_source: string;
  /** How often a second the kernel's scheduler ticks, where its configuration can be read, and what else is known about scheduling, by the names of the files that say it. */
  scheduling: Record<string, string>;
  /** Congestion controls that the kernel has (`net.ipv4.tcp_available_congestion_control`). */
  congestion_controls_available: string;
  /** Those that any process may choose (`net.ipv4.tcp_allowed_congestion_control`). */
  congestion_controls_allowed: string;
}

/** CLOCK_MONOTONIC and CLOCK_REALTIME at one moment. */
export interface ClockAnchor {
  /** CLOCK_MONOTONIC. */
  monotonic_ns: number;
  /** CLOCK_REALTIME, since 1970. */
  realtime_ns: number;
  /** How long reading both took: the anchor's uncertainty. */
  uncertainty_ns: number;
}

/** A real computer that is a host. */
export interface HostFacts {
  /** Its name in the plan. */
  host: string;
  /** What `ssh` calls it. */
  ssh: string;
  /** The user that programs ran as there, by number. */
  uid: number;
  /** The version of `wansan` there. */
  wansan_version: string;
  /** The commit that it was built from, or `unknown`. */
  wansan_commit: string;
  /** The SHA-256 of its program, in hexadecimal. */
  wansan_sha256: string;
  /** The computer. */
  machine: Machine;
}

/** What a path between two real hosts was like in one direction before the first cell: one TCP connection without any other load (`wansan stream send`). */
export interface MeasuredPath {
  /** Its name in the plan. */
  path: string;
  /** The host that sent. */
  from: string;
  /** The host that received. */
  to: string;
  /** The shortest round trip of a mark in the stream. */
  rtt_min_ns: number | null;
  /** The median of those, while the stream filled the path. */
  rtt_p50_ns: number | null;
  /** What the stream reached. */
  bytes_per_s: number | null;
  /** Segments that were sent again. */
  retransmits: number;
  /** Their share of all segments, each taken to be full (1,448 bytes): what was lost, about. */
  lost_share: number | null;
  /** For how long it sent, in seconds. */
  elapsed_s: number;
}

/** A worker of an engine. */
export interface WorkerFacts {
  /** Its address. */
  worker: string;
  /** The version of `wansan` there. */
  wansan_version: string;
  /** The commit that it was built from, or `unknown`. */
  wansan_commit: string;
  /** The SHA-256 of its program, in hexadecimal. */
  wansan_sha256: string;
  /** The computer. */
  machine: Machine;
  /** A reading of both its clocks: records of cells in its namespaces are of its CLOCK_MONOTONIC. */
  clock_anchor: ClockAnchor;
}

/** The world of one cell. */
export interface CellFacts {
  /** The cell's number. */
  cell: number;
  /** The worker of an engine that has run it; null where the lab has. */
  worker: string | null;
  /** The congestion control of its connections. */
  congestion_control: ControlFacts;
  /** Its hosts and routers. */
  nodes: NodeFacts[];
  /** The clocks of real hosts. */
  clocks: ClockFacts[];
  /** The command line of every program, by host. */
  programs: Record<string, string>;
  /** Its tunnels. */
  tunnels: TunnelFacts[];
  /** What the emulator achieved on each direction of each path. */
  paths: PathFacts[];
  /** How netem was set up in the wan's namespace, if it carried the packets. */
  netem_commands: string[];
  /** Frames lost because the emulator did not run for too long. */
  emulator_ring_drops: number;
  /** Frames that had nowhere to go. */
  emulator_strays: number;
  /** Frames of which no wire packets could be made, dropped. */
  emulator_offloaded: number;
  /** Frames that the kernel refused to send. */
  emulator_send_failures: number;
  /** Processor time of the emulator. */
  emulator_cpu_ns: number;
  /** How the emulator's thread was scheduled. */
  emulator_scheduling: string;
}

/** The congestion control of a cell's connections. */
export interface ControlFacts {
  /** Its name. */
  name: string;
  /** `lab`: one of ours, which the lab loaded for the run; `before`: one of ours that was loaded already; `simulator`: any of a simulated world; `kernel`: any other. */
  origin: string;
  /** What it was loaded with: null of the kernel's, and where that cannot be seen. */
  parameters: Json | null;
}

/** One host or router of a cell's world. */
export interface NodeFacts {
  /** Its name. */
  name: string;
  /** `host` or `router`. */
  role: string;
  /** The address that others reach it at. */
  address: string;
  /** All its addresses by interface. */
  addresses: Record<string, string[]>;
  /** Its routes to what lies behind its neighbours, as `ip route` has them. */
  routes: string[];
  /** Its rules, as `ip rule` has them. */
  rules: string[];
  /** The kernel settings in force in its namespace. */
  settings: Record<string, string>;
}

/** What the clock of a real host showed while a cell ran. Its records are converted by it. */
export interface ClockFacts {
  /** The host. */
  host: string;
  /** A moment of its CLOCK_MONOTONIC. */
  at_ns: number;
  /** By how much that was ahead of the lab's then. */
  ahead_ns: number;
  /** By how much it gained on the lab's, in ns for each second. */
  drift_ppb: number;
  /** What that is estimated from: `packets`, what two hosts saw of the same I/Os; or `exchanges` over ssh. */
  by: string;
  /** The other host that saw these, or `lab`. */
  relative_to: string;
  /** By how much the conversion to that one's clock may be wrong at most, as long as both clocks are even. */
  error_ns: number;
}

/** A tunnel that is up. */
export interface TunnelFacts {
  /** Its name. */
  name: string;
  /** `wireguard` or `ipsec`. */
  vpn: string;
  /** How IPsec encrypts; null of WireGuard. */
  cipher: string | null;
  /** What serves it at both ends. */
  program: string;
  /** The device at the near router; none in a simulated world. IPsec tunnels that end at one router share its device. */
  near_device: string;
  /** The device at the far router. */
  far_device: string;
  /** The longest packet that goes through it, so that no outer packet is fragmented. */
  mtu_bytes: number;
  /** By how much the longest packet grows. */
  overhead_bytes: number;
}

/** One direction of a path. */
export interface PathFacts {
  /** Its name. */
  name: string;
  /** The requested one-way delay. */
  delay_ns: number;
  /** How much later half of the frames left than they should have. */
  lateness_p50_ns: number;
  /** The same for 99 of 100 frames. */
  lateness_p99_ns: number;
  /** The same for all frames. */
  lateness_max_ns: number;
  /** Packets that came in. */
  in_packets: number;
  /** Packets that came out. */
  out_packets: number;
  /** Packets dropped by the queue. */
  queue_drops: number;
  /** Packets dropped by the loss element. */
  loss_drops: number;
}

/** A result by its name; "*" stands for any name, and those of cells have no "cells." before them. */
export interface Metric {
  name: string;
  /** What it is measured in. */
  unit: string;
  about: string;
}

export const METRICS: readonly Metric[] = [
  { name: "streams.*.bytes_per_s", unit: "bytes/s", about: "Bytes per second of all its connections together; null when one had fewer than two marks." },
  { name: "streams.*.flow_bytes_per_s", unit: "bytes/s", about: "The mean of one." },
  { name: "streams.*.fairness", unit: "ratio", about: "Jain's index of fairness of its connections." },
  { name: "streams.*.latency_min_ns", unit: "ns", about: "From before a mark was offered to the socket until its echo was read: least." },
  { name: "streams.*.latency_mean_ns", unit: "ns", about: "From before a mark was offered to the socket until its echo was read: mean." },
  { name: "streams.*.latency_p50_ns", unit: "ns", about: "From before a mark was offered to the socket until its echo was read: median." },
  { name: "streams.*.latency_p99_ns", unit: "ns", about: "From before a mark was offered to the socket until its echo was read: 99th percentile." },
  { name: "streams.*.latency_max_ns", unit: "ns", about: "From before a mark was offered to the socket until its echo was read: greatest." },
  { name: "streams.*.one_way_mean_ns", unit: "ns", about: "From before a mark was offered to the socket until the receiver had read it: mean." },
  { name: "streams.*.one_way_p50_ns", unit: "ns", about: "From before a mark was offered to the socket until the receiver had read it: median." },
  { name: "streams.*.one_way_p99_ns", unit: "ns", about: "From before a mark was offered to the socket until the receiver had read it: 99th percentile." },
  { name: "streams.*.one_way_max_ns", unit: "ns", about: "From before a mark was offered to the socket until the receiver had read it: greatest." },
  { name: "streams.*.retransmits", unit: "packets", about: "Segments retransmitted." },
  { name: "streams.*.slow_start_returns", unit: "", about: "Times that a sender was seen in slow start again." },
  { name: "relays.*.finished", unit: "", about: "Flows that ended with a FIN from both sides." },
  { name: "relays.*.lost", unit: "", about: "Flows that were reset, or cut off at the end." },
  { name: "relays.*.not_connected", unit: "", about: "Flows whose other end could not be reached." },
  { name: "relays.*.onward_bytes", unit: "bytes", about: "Bytes passed on to its target." },
  { name: "relays.*.back_bytes", unit: "bytes", about: "Bytes passed back to clients." },
  { name: "relays.*.law", unit: "", about: "By what it held flows' backlogs, as `wansan relay --law` names it; null in runs from before it was recorded." },
  { name: "relays.*.ece_signals", unit: "", about: "Times that it began to signal ECE while it was measured." },
  { name: "relays.*.fallbacks.*", unit: "", about: "Times, from its start to its end, that signals were of no use to a flow and the window alone held its backlog, by the reason." },
  { name: "relays.*.backlog_mean_bytes", unit: "bytes", about: "Bytes that waited in it: mean of the samples." },
  { name: "relays.*.backlog_p99_bytes", unit: "bytes", about: "Bytes that waited in it: 99th percentile of the samples." },
  { name: "relays.*.backlog_max_bytes", unit: "bytes", about: "Bytes that waited in it: greatest." },
  { name: "relays.*.backlog_mean_ns", unit: "ns", about: "How long a byte waited there that came when a sample was taken, until it had been sent: mean of all flows' samples." },
  { name: "relays.*.backlog_p99_ns", unit: "ns", about: "How long such a byte waited: 99th percentile of all flows' samples." },
  { name: "relays.*.backlog_max_ns", unit: "ns", about: "How long such a byte waited: greatest." },
  { name: "fairness", unit: "ratio", about: "Jain's index of fairness of the connections of all streams." },
  { name: "iops", unit: "1/s", about: "I/Os per second of all initiators together." },
  { name: "bytes_per_s", unit: "bytes/s", about: "Bytes of data per second of all initiators together; without any, of all streams." },
  { name: "latency_p50_ns", unit: "ns", about: "Half of all I/Os took at most this long; without initiators, half of the marks of the stream whose marks took longest." },
  { name: "latency_p99_ns", unit: "ns", about: "All I/Os but one in a hundred took at most this long; without initiators, such marks." },
  { name: "packet_gap_mean_ns", unit: "ns", about: "The mean gap between data packets of a burst from the target." },
  { name: "packet_gap_p50_ns", unit: "ns", about: "Half of these gaps are at most this long; 0 where segmentation offload hands packets over together." },
  { name: "packet_gap_p90_ns", unit: "ns", about: "Nine in ten of these gaps are." },
  { name: "vpn_cpu_s_per_gib", unit: "s/GiB", about: "Processor time that the busiest router's VPN took for each 2^30 bytes through its tunnels." },
  { name: "routers.*.sent_bytes", unit: "bytes", about: "Bytes of inner IP packets that went into the tunnels here." },
  { name: "routers.*.received_bytes", unit: "bytes", about: "Bytes of inner IP packets that came out of the tunnels here." },
  { name: "routers.*.dropped_packets", unit: "packets", about: "Inner packets that found no room in the queues of its tunnels' devices, before they were encrypted." },
  { name: "routers.*.dropped_sealed_packets", unit: "packets", about: "Outer packets that found no room in the buffers of its UDP sockets, before they were decrypted." },
  { name: "routers.*.cpu_ns", unit: "ns", about: "Processor time of the router's VPN program, user and system." },
  { name: "routers.*.cpu_s_per_gib", unit: "s/GiB", about: "`cpu_ns` in seconds for each 2^30 bytes that were sent or received; null when none were." },
  { name: "path_dropped", unit: "packets", about: "Packets that the paths dropped, in all directions together." },
  { name: "path_marked", unit: "packets", about: "Packets that they marked with CE." },
  { name: "path_queue_high_water_bytes", unit: "bytes", about: "The most bytes that ever waited in one queue of theirs." },
  { name: "in_flight.*", unit: "", about: "Mean number of I/Os in flight at each recorded layer, of all initiators together." },
  { name: "cwnd.connections", unit: "", about: "Connections." },
  { name: "cwnd.sum_max_packets", unit: "packets", about: "Greatest sum of all windows, in segments." },
  { name: "cwnd.sum_mean_packets", unit: "packets", about: "Mean of that sum, in segments; null in results of versions that did not say it." },
  { name: "cwnd.least_swing", unit: "ratio", about: "How far the window that moved least fell below its greatest, as a share of that: 0 is flat." },
  { name: "cwnd.most_swing", unit: "ratio", about: "The same of the window that moved most." },
  { name: "cwnd.cwr_events", unit: "", about: "Reductions of a window without a loss." },
  { name: "cwnd.recovery_events", unit: "", about: "Fast recoveries." },
  { name: "cwnd.loss_events", unit: "", about: "Retransmission time-outs." },
  { name: "waits.ios", unit: "", about: "I/Os that were completed and of which all crossings were recorded." },
  { name: "waits.latency_ns", unit: "ns", about: "Their latency." },
  { name: "waits.uncertain_ns", unit: "ns", about: "How much of it may belong to the waits beside those that it is counted to." },
  { name: "waits.causes.*.mean_ns", unit: "ns", about: "Their length." },
  { name: "waits.causes.*.share", unit: "ratio", about: "Their share of the latency, 0 to 1." },
  { name: "stalls.cause", unit: "", about: "The cause that cost most, if that is a twentieth of the mean latency or more; else `none`." },
  { name: "stalls.ios", unit: "", about: "I/Os that were completed." },
  { name: "stalls.cost_ns", unit: "ns", about: "What all stalls cost, as a mean over the I/Os." },
  { name: "stalls.round_trips", unit: "", about: "Round trips that an I/O took, as a mean: one, and one for each stall that ended with an acknowledgement or an R2T." },
  { name: "below_socket.ios", unit: "", about: "I/Os that were split." },
  { name: "below_socket.untold.*", unit: "", about: "Those that were not, by the reason." },
  { name: "below_socket.latency_ns", unit: "ns", about: "The latency of those that were split." },
  { name: "below_socket.initiator_ns", unit: "ns", about: "In the initiator's program." },
  { name: "below_socket.target_ns", unit: "ns", about: "In the target's program." },
  { name: "below_socket.beyond_ns", unit: "ns", about: "Beyond the only end that has recorded it." },
  { name: "below_socket.both_ways.no_room_ns", unit: "ns", about: "With the sending program, until the send buffer had room." },
  { name: "below_socket.both_ways.no_room_buffer_ns", unit: "ns", about: "So much of that while all that the buffer has room for was in flight: it is too small for the path." },
  { name: "below_socket.both_ways.no_room_cwnd_ns", unit: "ns", about: "So much of that while the buffer's own bytes waited for the congestion window." },
  { name: "below_socket.both_ways.no_room_rwnd_ns", unit: "ns", about: "So much of that while they waited for the receiver's window." },
  { name: "below_socket.both_ways.cwnd_ns", unit: "ns", about: "In the send buffer while the congestion window, or what paces it, let nothing out." },
  { name: "below_socket.both_ways.rwnd_ns", unit: "ns", about: "In the send buffer while the receiver's window let nothing out." },
  { name: "below_socket.both_ways.nagle_ns", unit: "ns", about: "In the send buffer while Nagle's algorithm held a short segment." },
  { name: "below_socket.both_ways.other_ns", unit: "ns", about: "In the send buffer for none of these, or for what nobody can tell." },
  { name: "below_socket.both_ways.device_queue_ns", unit: "ns", about: "In the device's queue: from the queueing discipline to the device." },
  { name: "below_socket.both_ways.path_ns", unit: "ns", about: "On the path, until the receiving kernel had it; losses and their repair are part of it." },
  { name: "below_socket.both_ways.receive_buffer_ns", unit: "ns", about: "In the receive buffer, until the program read it." },
  { name: "below_socket.to_target.no_room_ns", unit: "ns", about: "With the sending program, until the send buffer had room." },
  { name: "below_socket.to_target.no_room_buffer_ns", unit: "ns", about: "So much of that while all that the buffer has room for was in flight: it is too small for the path." },
  { name: "below_socket.to_target.no_room_cwnd_ns", unit: "ns", about: "So much of that while the buffer's own bytes waited for the congestion window." },
  { name: "below_socket.to_target.no_room_rwnd_ns", unit: "ns", about: "So much of that while they waited for the receiver's window." },
  { name: "below_socket.to_target.cwnd_ns", unit: "ns", about: "In the send buffer while the congestion window, or what paces it, let nothing out." },
  { name: "below_socket.to_target.rwnd_ns", unit: "ns", about: "In the send buffer while the receiver's window let nothing out." },
  { name: "below_socket.to_target.nagle_ns", unit: "ns", about: "In the send buffer while Nagle's algorithm held a short segment." },
  { name: "below_socket.to_target.other_ns", unit: "ns", about: "In the send buffer for none of these, or for what nobody can tell." },
  { name: "below_socket.to_target.device_queue_ns", unit: "ns", about: "In the device's queue: from the queueing discipline to the device." },
  { name: "below_socket.to_target.path_ns", unit: "ns", about: "On the path, until the receiving kernel had it; losses and their repair are part of it." },
  { name: "below_socket.to_target.receive_buffer_ns", unit: "ns", about: "In the receive buffer, until the program read it." },
  { name: "below_socket.to_initiator.no_room_ns", unit: "ns", about: "With the sending program, until the send buffer had room." },
  { name: "below_socket.to_initiator.no_room_buffer_ns", unit: "ns", about: "So much of that while all that the buffer has room for was in flight: it is too small for the path." },
  { name: "below_socket.to_initiator.no_room_cwnd_ns", unit: "ns", about: "So much of that while the buffer's own bytes waited for the congestion window." },
  { name: "below_socket.to_initiator.no_room_rwnd_ns", unit: "ns", about: "So much of that while they waited for the receiver's window." },
  { name: "below_socket.to_initiator.cwnd_ns", unit: "ns", about: "In the send buffer while the congestion window, or what paces it, let nothing out." },
  { name: "below_socket.to_initiator.rwnd_ns", unit: "ns", about: "In the send buffer while the receiver's window let nothing out." },
  { name: "below_socket.to_initiator.nagle_ns", unit: "ns", about: "In the send buffer while Nagle's algorithm held a short segment." },
  { name: "below_socket.to_initiator.other_ns", unit: "ns", about: "In the send buffer for none of these, or for what nobody can tell." },
  { name: "below_socket.to_initiator.device_queue_ns", unit: "ns", about: "In the device's queue: from the queueing discipline to the device." },
  { name: "below_socket.to_initiator.path_ns", unit: "ns", about: "On the path, until the receiving kernel had it; losses and their repair are part of it." },
  { name: "below_socket.to_initiator.receive_buffer_ns", unit: "ns", about: "In the receive buffer, until the program read it." },
  { name: "below_socket.round_trips", unit: "", about: "Round trips of an I/O." },
  { name: "below_socket.uncertain_ns", unit: "ns", about: "How much may belong to a part beside the one that it is counted to." },
  { name: "below_socket.stamps.sends", unit: "", about: "Calls that gave bytes." },
  { name: "below_socket.stamps.sends_unstamped", unit: "", about: "Those without a time at the device: the kernel gave the stamp to a later call whose bytes are in the same segment, or lost it." },
  { name: "below_socket.stamps.receives", unit: "", about: "Calls that took bytes." },
  { name: "below_socket.stamps.receives_unstamped", unit: "", about: "Those without a time of arrival." },
  { name: "finding.limit", unit: "", about: "What binds." },
  { name: "finding.layer", unit: "", about: "The first layer that holds fewer than the one above, if one does." },
  { name: "finding.above", unit: "", about: "The layer above." },
  { name: "finding.waiting_share", unit: "ratio", about: "The share of the latency spent waiting for it, 0 to 1." },
  { name: "finding.sentence", unit: "", about: "All that as a storage engineer would say it." },
  { name: "finding.limit", unit: "", about: "What binds." },
  { name: "finding.layer", unit: "", about: "The first layer that holds fewer than the one above, if one does." },
  { name: "finding.above", unit: "", about: "The layer above." },
  { name: "finding.wanted", unit: "", about: "Mean number that had entered the layer above: how many asked to enter." },
  { name: "finding.got", unit: "", about: "Mean number that had entered the layer: how many were admitted." },
  { name: "finding.waiting_share", unit: "ratio", about: "The share of the latency spent waiting for it, 0 to 1." },
  { name: "finding.cell", unit: "", about: "The cell that the numbers above are from." },
  { name: "finding.sentence", unit: "", about: "The finding as a storage engineer would say it." },
  { name: "finding.advice.text", unit: "", about: "In words." },
  { name: "finding.advice.parameter", unit: "", about: "The plan's parameter, when one number does it." },
  { name: "finding.advice.value", unit: "", about: "Its value as a plan writes it." },
  { name: "advised.parameter", unit: "", about: "The parameter that was changed." },
  { name: "advised.planned_value", unit: "", about: "What it was in the planned phase, if the plan has a value for it." },
  { name: "advised.value", unit: "", about: "What it was changed to." },
  { name: "advised.planned_cell", unit: "", about: "The cell before the change." },
  { name: "advised.advised_cell", unit: "", about: "The cell after it." },
  { name: "advised.planned_iops", unit: "1/s", about: "I/Os per second before the change." },
  { name: "advised.predicted_iops", unit: "1/s", about: "I/Os per second that were predicted." },
  { name: "advised.measured_iops", unit: "1/s", about: "I/Os per second after it." },
  { name: "advised.predicted_gain", unit: "ratio", about: "`predicted_iops` ÷ `planned_iops` − 1." },
  { name: "advised.measured_gain", unit: "ratio", about: "`measured_iops` ÷ `planned_iops` − 1." },
  { name: "advised.measured_of_predicted", unit: "ratio", about: "`measured_iops` ÷ `predicted_iops`: 1 where the prediction is right. Null where none was predicted." },
];
