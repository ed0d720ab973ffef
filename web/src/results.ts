/** What a run's results.json and manifest.json hold. Generated from crates/schema/src by `WANSAN_UPDATE=1 cargo test -p wansan-schema`. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** The content of results.json. */
export interface Results {
  /** The plan's name. */
  plan: string;
  /** The plan's title. */
  title: string;
  /** Whether the quick form was run. */
  quick: boolean;
  /** The axes of the sweep in the order of the plan, the slowest-varying first. */
  axes: string[];
  /** The cells in the order in which they ran. */
  cells: CellResult[];
  /** The limit of the system in the planned phase; null if the run ended before, or had no I/Os. */
  finding: Finding | null;
  /** Whether a run without I/Os reached its expectations; false for any other run. */
  is_judged_without_ios: boolean;
  /** The gain of the advised change; null if there was none. */
  advised: Advised | null;
  /** The outcome of the plan's expectations. */
  expectations: Verdict[];
  /** Number of expectations without cells in the quick form. */
  expectations_unchecked: number;
  /** The numbers of the paper that the plan reproduces, beside the measured ones; null without a paper. */
  paper: Paper | null;
}

/** One cell of the sweep. A failed one has no numbers except those of its paths. */
export interface CellResult {
  /** Its number, from 0. */
  cell: number;
  /** `planned`, or `advised` when the finding's advice was applied. */
  phase: string;
  /** Which repetition of the sweep, from 0. */
  repeat: number;
  /** The value of each axis of the sweep; the run's `advised` has the value that the advice set. */
  parameters: Record<string, Json>;
  /** Why it failed, if it did. */
  failure: string | null;
  /** Start of the measured interval, common to all load, CLOCK_MONOTONIC; null if the cell failed. */
  measured_from_ns: number | null;
  /** End of the measured interval. */
  measured_to_ns: number | null;
  /** Results of each initiator. */
  initiators: BenchReport[];
  /** Results of each stream. */
  streams: Record<string, StreamResult>;
  /** Results of each relay. */
  relays: Record<string, RelayResult>;
  /** Jain's index of fairness of the connections of all streams. */
  fairness: number | null;
  /** I/Os per second of all initiators together. */
  iops: number | null;
  /** Bytes of data per second of all initiators together; without any, of all streams. */
  bytes_per_s: number | null;
  /** Median latency of all I/Os; without initiators, of the marks of the stream with the slowest marks. */
  latency_p50_ns: number | null;
  /** 99th percentile of the latency of all I/Os; without initiators, of these marks. */
  latency_p99_ns: number | null;
  /** The mean gap between data packets of a burst from the target. */
  packet_gap_mean_ns: number | null;
  /** Median of these gaps; 0 if segmentation offload delivers packets together. */
  packet_gap_p50_ns: number | null;
  /** 90th percentile of these gaps. */
  packet_gap_p90_ns: number | null;
  /** CPU time of the busiest router's VPN per 2^30 bytes through its tunnels. */
  vpn_cpu_s_per_gib: number | null;
  /** Traffic and cost of each router's tunnels. */
  routers: RouterUsage[];
  /** The emulator of its paths: `user` or `netem`; null in runs of versions without the choice. */
  emulator: string | null;
  /** netem's counters for each direction of each path, if it emulated them; `paths` is empty then. */
  netem: NetemResult[];
  /** Programs on hosts and routers that lacked CPU time because of other work on the computer: the cell is slower than on an idle one. */
  starved_programs: string[];
  /** Packets that the paths dropped, in all directions together. */
  path_dropped: number | null;
  /** Packets that they marked with CE. */
  path_marked: number | null;
  /** The maximum backlog of any of their queues. */
  path_queue_high_water_bytes: number | null;
  /** Counters of each direction of each emulated path. */
  paths: PathResult[];
  /** Changes to the paths during the cell, in the order of the requests. */
  timeline: PathChange[];
  /** Mean number of I/Os in flight at each recorded layer, of all initiators together. */
  in_flight: Record<string, number>;
  /** The congestion windows of the end that sends the data. */
  cwnd: CwndUse | null;
  /** The waits of its I/Os: each moment of their latency, with its cause. */
  waits: WaitUse | null;
  /** The stalls of its I/Os and their causes. */
  stalls: StallUse | null;
  /** The breakdown of the latency below the socket. */
  below_socket: BelowSocket | null;
  /** The limit of this cell, judged by itself. */
  finding: CellFinding | null;
}

/** Results of `wansan bench` between warm-up and end. */
export interface BenchReport {
  /** Its host in a world of the lab; empty if started by hand. */
  host: string;
  /** I/Os completed. */
  ios: number;
  /** I/Os per second. */
  iops: number;
  /** Payload bytes per second. */
  bytes_per_s: number;
  /** Failed I/Os, over the whole load. */
  errors: number;
  /** The error of the first failed one. */
  first_error: string | null;
  /** Pieces read and compared. */
  verified: number;
  /** Pieces with wrong content. */
  corrupt: number;
  /** Length of the measured interval, in seconds. */
  elapsed_s: number;
  /** Latencies, from submission to completion; null when no I/O was completed. */
  latency_ns: IoLatency | null;
  /** Start of the measured interval, CLOCK_MONOTONIC. */
  measured_from_ns: number;
  /** End of the measured interval, CLOCK_MONOTONIC. */
  measured_to_ns: number;
  /** Bytes per I/O. */
  block_bytes: number;
  /** I/Os kept in flight. */
  parallel: number;
  /** Sessions and connections that replaced lost ones, over the whole load. */
  recoveries: number;
  /** Seconds without any connection, over the whole load. */
  lost_s: number;
  /** Results of each connection of the session, from warm-up to end. */
  connections: ConnectionReport[];
  /** Dropped records, if the load was recorded. */
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

/** Results of one connection of the session in the measured interval. */
export interface ConnectionReport {
  /** Its CID. */
  cid: number;
  /** The portal at its other end. */
  portal: string;
  /** Commands completed. */
  commands: number;
  /** Their payload, in bytes. */
  bytes: number;
  /** Mean number of commands in flight on it. */
  in_flight_mean: number;
  /** Mean number of those that waited for its socket. */
  waiting_mean: number;
}

/** Results of one `[[stream]]`, over all its connections. */
export interface StreamResult {
  /** The host that sent. */
  host: string;
  /** Its relay, if any. */
  through: string | null;
  /** Bytes per second of all its connections together; null if one had fewer than two marks. */
  bytes_per_s: number | null;
  /** The mean per connection. */
  flow_bytes_per_s: number | null;
  /** Jain's index of fairness of its connections. */
  fairness: number | null;
  /** Round-trip latency of a mark, from before it was passed to the socket until its echo was read: minimum. */
  latency_min_ns: number | null;
  /** Round-trip latency of a mark: mean. */
  latency_mean_ns: number | null;
  /** Round-trip latency of a mark: median. */
  latency_p50_ns: number | null;
  /** Round-trip latency of a mark: 99th percentile. */
  latency_p99_ns: number | null;
  /** Round-trip latency of a mark: maximum. */
  latency_max_ns: number | null;
  /** One-way latency of a mark, from before it was passed to the socket until the receiver had read it: mean. */
  one_way_mean_ns: number | null;
  /** One-way latency of a mark: median. */
  one_way_p50_ns: number | null;
  /** One-way latency of a mark: 99th percentile. */
  one_way_p99_ns: number | null;
  /** One-way latency of a mark: maximum. */
  one_way_max_ns: number | null;
  /** Retransmitted segments. */
  retransmits: number;
  /** Number of returns of a sender to slow start, as sampled. */
  slow_start_returns: number;
  /** Start of the measured interval, CLOCK_MONOTONIC. */
  measured_from_ns: number;
  /** End of the measured interval. */
  measured_to_ns: number;
  /** Each connection. */
  flows: FlowReport[];
}

/** Results of one stream. */
export interface FlowReport {
  /** Its number, from 0. */
  flow: number;
  /** The sender's address. */
  local: string;
  /** The peer's address: the receiver, or a relay. */
  peer: string;
  /** The sender's congestion control. */
  congestion_control: string;
  /** Bytes that the receiver read between the first and the last mark echoed in the measured interval; if only one was, between that one and the previous one. */
  bytes: number;
  /** These divided by the time between them on the receiver's clock; null with fewer than two marks. */
  bytes_per_s: number | null;
  /** Round-trip latency of a mark, from before it was passed to the sender's socket until its echo was read; null if no echo arrived. */
  latency_ns: MarkLatency | null;
  /** One-way latency, from the same moment until the receiver had read the mark; null if they do not share a clock. */
  one_way_ns: MarkLatency | null;
  /** Segments retransmitted by the sender. */
  retransmits: number;
  /** Number of returns of the sender to slow start in the measured interval, as sampled (RFC 5681 §3.1). */
  slow_start_returns: number;
}

/** Latencies in ns. */
export interface MarkLatency {
  /** Number of measurements. */
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

/** Results of one `[[relay]]`. Its backlog is the sum over all flows in their busier direction, from samples during the measured interval: receive queue, own memory, and unsent data in the send queue. */
export interface RelayResult {
  /** Its host. */
  host: string;
  /** Flows that ended with a FIN from both sides. */
  finished: number;
  /** Flows that were reset, or aborted at the end. */
  lost: number;
  /** Flows whose other end could not be reached. */
  not_connected: number;
  /** Bytes forwarded to its target. */
  onward_bytes: number;
  /** Bytes forwarded to clients. */
  back_bytes: number;
  /** The control law for flows' backlogs, as in `wansan relay --law`; null in runs of versions that did not record it. */
  law: string | null;
  /** Number of times that it began to signal ECE during the measured interval. */
  ece_signals: number | null;
  /** Number of times, from its start to its end, that ECE had no effect on a flow and the window alone limited its backlog, by reason. */
  fallbacks: Record<string, number>;
  /** Backlog in bytes: mean of the samples. */
  backlog_mean_bytes: number | null;
  /** Backlog in bytes: 99th percentile of the samples. */
  backlog_p99_bytes: number | null;
  /** Backlog in bytes: maximum. */
  backlog_max_bytes: number | null;
  /** Queueing delay of a byte that arrived at a sample, until it was sent: mean of all flows' samples. */
  backlog_mean_ns: number | null;
  /** Queueing delay: 99th percentile of all flows' samples. */
  backlog_p99_ns: number | null;
  /** Queueing delay: maximum. */
  backlog_max_ns: number | null;
}

/** Traffic and cost of one router's tunnels during the measured interval. */
export interface RouterUsage {
  /** The router. */
  router: string;
  /** `wireguard` or `ipsec`. */
  vpn: string;
  /** The ciphers of its tunnels. */
  ciphers: string[];
  /** Bytes of inner IP packets that entered the tunnels here. */
  sent_bytes: number;
  /** Bytes of inner IP packets that came out of the tunnels here. */
  received_bytes: number;
  /** Inner packets dropped before encryption because a tunnel device's queue was full. */
  dropped_packets: number;
  /** Outer packets dropped before decryption because a UDP socket's buffer was full. */
  dropped_sealed_packets: number;
  /** CPU time of the router's VPN program, user and system. */
  cpu_ns: number;
  /** `cpu_ns` in seconds per 2^30 bytes sent or received; null if there were none. */
  cpu_s_per_gib: number | null;
}

/** netem's counters for one direction of a path. Bytes are those of Ethernet frames without preamble, checksum and gap, and without the overhead that counts for the rate. */
export interface NetemResult {
  /** Its name, such as `upper:forward`. */
  name: string;
  /** netem's settings. */
  setting: string;
  /** Its limit in packets, including those on the delay line. */
  limit_packets: number;
  /** Its random seed, reported by Linux 6.7 and later. */
  seed: number | null;
  /** Packets that left. */
  out_packets: number;
  /** Their bytes. */
  out_bytes: number;
  /** Packets that were lost, or dropped because netem was full: it counts them together. */
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
  /** Layer 2 overhead per packet in addition to its Ethernet frame, in bytes. */
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
  /** Packets dropped for any reason. */
  dropped_packets: number;
  /** Those dropped by the queue, or by a full delay line. */
  queue_drops: number;
  /** Those dropped by random or listed loss. */
  loss_drops: number;
  /** Those lost because the path was down. */
  outage_drops: number;
  /** Packets marked with CE. */
  marked_packets: number;
  /** Copies made. */
  duplicated_packets: number;
  /** Packets with a flipped bit. */
  corrupted_packets: number;
  /** Packets held back so that others overtake them. */
  reordered_packets: number;
  /** Packets that wait for the link, or did at the end. */
  queue_packets: number;
  /** Their bytes. */
  queue_bytes: number;
  /** Maximum number of packets that waited. */
  queue_high_water_packets: number;
  /** Maximum number of bytes that waited. */
  queue_high_water_bytes: number;
  /** The delay that is requested, or was at the end. */
  delay_asked_ns: number;
  /** Intended delay, with each packet's jitter, since the delay was last changed: median; null if no packet has left since. */
  delay_asked_p50_ns: number | null;
  /** The same: 99th percentile. */
  delay_asked_p99_ns: number | null;
  /** Actual delay of these packets until they were passed to the kernel: median. */
  delay_achieved_p50_ns: number | null;
  /** The same: 99th percentile. */
  delay_achieved_p99_ns: number | null;
  /** The rate that is requested, or was at the end; null when it is unlimited. */
  rate_asked_bits_per_s: number | null;
  /** Maximum output in any half second since the rate was last changed; null if that is less than half a second ago. */
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
  /** Packets that came out. */
  out_packets: number;
  /** Their bytes. */
  out_bytes: number;
  /** Packets that it dropped. */
  dropped_packets: number;
  /** Packets that it marked with CE. */
  marked_packets: number;
  /** Copies that it made. */
  duplicated_packets: number;
  /** Packets that it corrupted. */
  corrupted_packets: number;
  /** Packets that it held back so that others overtake them. */
  reordered_packets: number;
  /** Packets that it holds, or did at the end; for a link, those that wait. */
  depth_packets: number;
  /** Their bytes. */
  depth_bytes: number;
  /** Maximum number of packets that it held. */
  high_water_packets: number;
  /** Maximum number of bytes that it held. */
  high_water_bytes: number;
  /** Time during which a link was sending. */
  busy_ns: number;
}

/** A change of a path while a cell ran. */
export interface PathChange {
  /** The statement. */
  statement: string;
  /** `plan`, or `hand` for a change by `wansan path set`. */
  asked_by: string;
  /** The time set by the plan, from the start of the initiators; null for changes by hand. */
  planned_ns: number | null;
  /** When it was applied, from the start of the initiators; null if it was not. */
  made_after_ns: number | null;
  /** When it was applied, CLOCK_MONOTONIC. */
  made_at_ns: number | null;
  /** Why it was not applied. */
  refused: string | null;
}

/** The congestion windows of all connections of the sending host in the measured interval. */
export interface CwndUse {
  /** Connections. */
  connections: number;
  /** Maximum sum of all windows, in segments. */
  sum_max_packets: number;
  /** Mean of that sum, in segments; null in results of versions without it. */
  sum_mean_packets: number | null;
  /** The drop of the steadiest window from its maximum, as a share of the maximum: 0 is flat. */
  least_swing: number;
  /** The same for the window that varied most. */
  most_swing: number;
  /** Window reductions without a loss. */
  cwr_events: number;
  /** Fast recoveries. */
  recovery_events: number;
  /** Retransmission timeouts. */
  loss_events: number;
}

/** The waits of a cell's I/Os. Times are means over the I/Os; they add up to the latency. */
export interface WaitUse {
  /** Completed I/Os with all crossings recorded. */
  ios: number;
  /** Their latency. */
  latency_ns: number;
  /** Half of the 95 % confidence interval of its mean, if a sample of the I/Os was recorded; 0 if all were. */
  latency_uncertain_ns: number;
  /** The part of it that may belong to a wait adjacent to the one that it is assigned to. */
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
  /** Half of the 95 % confidence interval of that share, if a sample of the I/Os was recorded; 0 if all were. */
  share_uncertain: number;
}

/** The waits of one cause at one layer. */
export interface WaitSum {
  /** The cause. */
  cause: string;
  /** The layer that held the I/Os during it. */
  layer: string;
  /** The direction of the waiting bytes, `to_target` or `to_initiator`; null if a program or the store held them. */
  way: string | null;
  /** Its source: `crossings`, `stamps`, `pdus`, `packets`, `tcp_info` or `resources`. */
  source: string;
  /** Their length. */
  mean_ns: number;
  /** The part of that which may belong to adjacent waits. */
  uncertain_ns: number;
}

/** The cost of stalls to a cell's I/Os. */
export interface StallUse {
  /** The most costly cause, if it costs 5 % of the mean latency or more; else `none`. */
  cause: string;
  /** Completed I/Os. */
  ios: number;
  /** The cost of all stalls, as a mean over the I/Os. */
  cost_ns: number;
  /** Mean number of round trips per I/O: one, plus one for each stall that ended with an acknowledgement or an R2T. */
  round_trips: number;
  /** Each cause, the most costly first. */
  causes: CauseUse[];
}

/** The cost of one cause. */
export interface CauseUse {
  /** The cause's name. */
  cause: string;
  /** Stalls. */
  stalls: number;
  /** I/Os with at least one. */
  ios: number;
  /** Its cost, as a mean over all I/Os. */
  cost_ns: number;
  /** The most costly stall, as an example. */
  example: Example;
}

/** One stall. */
export interface Example {
  /** The session of the I/O. */
  session: string;
  /** Its Initiator Task Tag. */
  task: number;
  /** When it could have continued, CLOCK_MONOTONIC. */
  from_ns: number;
  /** When it ended. */
  to_ns: number;
  /** The packets that show it. */
  packets: ShownPacket[];
}

/** A packet that shows a stall. */
export interface ShownPacket {
  /** Its role in the stall. */
  role: string;
  /** Its row in `packet.parquet`, from 0. */
  packet: number;
  /** When it left its sender. */
  sent_ns: number;
}

/** The breakdown of the latency of a cell's I/Os, from the kernel's time stamps. Times are means over the I/Os that were split; they add up to `latency_ns`. */
export interface BelowSocket {
  /** The end whose records it is derived from: `both`, `initiator` or `target`. */
  recorded: string;
  /** I/Os that were split. */
  ios: number;
  /** Those that were not, by reason. */
  untold: Record<string, number>;
  /** The latency of those that were split. */
  latency_ns: number;
  /** In the initiator's program. */
  initiator_ns: number;
  /** In the target's program. */
  target_ns: number;
  /** Beyond the only end that recorded it. */
  beyond_ns: number;
  /** Both directions together. */
  both_ways: LegUse;
  /** In the direction to the target. */
  to_target: LegUse;
  /** In the direction to the initiator. */
  to_initiator: LegUse;
  /** Round trips of an I/O. */
  round_trips: number;
  /** The part that may belong to an adjacent one. */
  uncertain_ns: number;
  /** The time stamps that it is derived from. */
  stamps: StampCount;
}

/** Stages of one direction, from one program to the other; means over I/Os. */
export interface LegUse {
  /** In the sending program, until the send buffer had room. */
  no_room_ns: number;
  /** The part of that during which the whole buffer was in flight: it is too small for the path. */
  no_room_buffer_ns: number;
  /** The part of that during which the buffer's bytes waited for the congestion window. */
  no_room_cwnd_ns: number;
  /** The part of that during which they waited for the receiver's window. */
  no_room_rwnd_ns: number;
  /** In the send buffer while the congestion window, or pacing, blocked sending. */
  cwnd_ns: number;
  /** In the send buffer while the receiver's window blocked sending. */
  rwnd_ns: number;
  /** In the send buffer while Nagle's algorithm held a short segment. */
  nagle_ns: number;
  /** In the send buffer for another or an unknown reason. */
  other_ns: number;
  /** In the device's queue: from the queueing discipline to the device. */
  device_queue_ns: number;
  /** On the path, until the receiving kernel had it; losses and their repair are part of it. */
  path_ns: number;
  /** In the receive buffer, until the program read it. */
  receive_buffer_ns: number;
}

/** The number of the programs' socket calls, and of those without a time stamp. */
export interface StampCount {
  /** Write calls. */
  sends: number;
  /** Those without a time at the device: the kernel assigned the time stamp to a later call with bytes in the same segment, or lost it. */
  sends_unstamped: number;
  /** Read calls. */
  receives: number;
  /** Those without an arrival time. */
  receives_unstamped: number;
}

/** The limit of one cell. */
export interface CellFinding {
  /** What binds. */
  limit: string;
  /** The first layer that holds fewer than the one above, if one does. */
  layer: string | null;
  /** The layer above. */
  above: string | null;
  /** The share of the latency spent waiting for it, 0 to 1. */
  waiting_share: number;
  /** Half of that share's 95 % confidence interval, or more, if a sample of the I/Os was recorded; 0 if all were. */
  waiting_share_uncertain: number;
  /** The same as a sentence. */
  sentence: string;
}

/** The limit of the system. `wanted` and `got` are means per session in the cell that it describes: the one with the fewest I/Os in flight among those in which the limit binds. */
export interface Finding {
  /** What binds. */
  limit: string;
  /** The first layer that holds fewer than the one above, if one does. */
  layer: string | null;
  /** The layer above. */
  above: string | null;
  /** Mean number of I/Os in the layer above: the demand. */
  wanted: number;
  /** Mean number of I/Os in the layer: those admitted. */
  got: number;
  /** The share of the latency spent waiting for it, 0 to 1. */
  waiting_share: number;
  /** Half of that share's 95 % confidence interval, or more, if a sample of the I/Os was recorded; 0 if all were. */
  waiting_share_uncertain: number;
  /** The cell that the numbers above are from. */
  cell: number;
  /** The cells in which the limit binds. */
  binds_in_cells: number[];
  /** The evidence for the finding, one fact per line. */
  evidence: string[];
  /** The finding as a sentence. */
  sentence: string;
  /** What to change, if anything. */
  advice: Advice | null;
  /** The prediction for each cell with the advice applied; null if the gain cannot be predicted. */
  predicted: Prediction[] | null;
}

/** What to change. */
export interface Advice {
  /** In words. */
  text: string;
  /** The plan's parameter, if the advice is a single value. */
  parameter: string | null;
  /** Its value in the syntax of plans. */
  value: string | null;
  /** Other parameters that it needs to have an effect, with their values. */
  with: Record<string, string>;
}

/** The prediction for one cell with the advice applied. */
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
  /** The limit of the prediction. */
  bound: string;
  /** The method: `simulation` of the recording with the change, or `bounds`, the maximum that the next limits allow. */
  source: string;
}

/** The advised change, and its predicted and measured gain. The single numbers are those of the point of the sweep with the largest predicted gain. */
export interface Advised {
  /** The parameter that was changed. */
  parameter: string;
  /** Its value in the planned phase, if the plan sets it. */
  planned_value: Json | null;
  /** Its advised value. */
  value: Json;
  /** The cell before the change. */
  planned_cell: number;
  /** The cell after it. */
  advised_cell: number;
  /** I/Os per second before the change. */
  planned_iops: number;
  /** Predicted I/Os per second. */
  predicted_iops: number;
  /** I/Os per second after it. */
  measured_iops: number;
  /** `predicted_iops` ÷ `planned_iops` − 1. */
  predicted_gain: number;
  /** `measured_iops` ÷ `planned_iops` − 1. */
  measured_gain: number;
  /** `measured_iops` ÷ `predicted_iops`: 1 for an exact prediction. Null without a prediction. */
  measured_of_predicted: number | null;
  /** Every point of the sweep. */
  gains: Gain[];
}

/** One point of a sweep before and after the advised change. Repeats are averaged. */
export interface Gain {
  /** The parameters of the sweep. */
  parameters: Record<string, Json>;
  /** I/Os per second as planned. */
  planned_iops: number;
  /** Predicted I/Os per second of the advised run. */
  predicted_iops: number;
  /** I/Os per second of the advised run. */
  advised_iops: number;
  /** `predicted_iops` ÷ `planned_iops` − 1. */
  predicted_gain: number;
  /** `advised_iops` ÷ `planned_iops` − 1. */
  measured_gain: number;
}

/** The outcome of an expectation. */
export interface Verdict {
  /** The expected result, in words. */
  expected: string;
  /** The actual result, in words. */
  found: string;
  /** Whether the expectation is met. */
  met: boolean;
}

/** A paper's numbers beside those of a run. */
export interface Paper {
  /** Authors, title and year. */
  title: string;
  /** The figures or tables. */
  figure: string | null;
  /** Its qualitative results. */
  remarks: string[];
  /** Where this experiment differs, and why. */
  differs: string[];
  /** Its numbers for which the run has cells. */
  known: KnownNumber[];
}

/** One published number beside the measured one. */
export interface KnownNumber {
  /** The compared quantity, in words. */
  about: string;
  /** The metric's dotted name. */
  metric: string;
  /** The parameters of the cells that it applies to. */
  where: Record<string, Json>;
  /** The parameters of the cells whose mean it is divided by; null if it is not a ratio. */
  relative_to: Record<string, Json> | null;
  /** The paper's number, in the unit of the metric. */
  value: number;
  /** The measured number, the mean over those cells; null if there is none. */
  ours: number | null;
  /** The measured number ÷ the paper's. */
  ratio: number | null;
}

/** The content of manifest.json. */
export interface Manifest {
  /** The plan's name. */
  plan: string;
  /** The plan's file. */
  plan_file: string;
  /** Whether that is its quick form. */
  quick: boolean;
  /** The plan with every default in it. */
  document: Json;
  /** The files that the plan names, by their names in it. */
  files: Record<string, FileFacts>;
  /** The parameters set over the plan in the advised phase. */
  advised: Record<string, string>;
  /** The random seed. */
  seed: number | null;
  /** wansan's version. */
  wansan_version: string | null;
  /** The commit that it was built from, or `unknown`. */
  wansan_commit: string | null;
  /** How the lab got the privilege to create namespaces. */
  rights: string;
  /** The machine. */
  machine: Machine;
  /** Readings of both clocks, to convert between them: records are CLOCK_MONOTONIC. */
  clock_anchors: ClockAnchor[];
  /** Offloads disabled on every link, by ethtool's names. */
  offloads_off: string[];
  /** The largest super-frame that a host leaves to its link to segment (Linux: `gso_max_size`); the emulator segments it. With netem, hosts send packets one by one. */
  super_frame_max_bytes: number;
  /** The definition of a byte on a path. */
  path_bytes: string;
  /** The real computers that serve as hosts; none in other worlds. */
  hosts: HostFacts[];
  /** Measurements of their paths before the first cell, in both directions. */
  measured_paths: MeasuredPath[];
  /** The workers of a cluster that ran its cells; none if the lab ran them itself. */
  workers: WorkerFacts[];
  /** The world of each cell. */
  cells: CellFacts[];
}

/** A file that the plan names. */
export interface FileFacts {
  /** The SHA-256 of its content, in hexadecimal. */
  sha256: string;
  /** The path of its copy, relative to the run's folder. */
  copy: string;
}

/** Facts about the machine. Unknown ones are empty. */
export interface Machine {
  /** Kernel name, release and version, as uname(2) gives them. */
  kernel: string;
  /** Architecture. */
  architecture: string;
  /** The CPU model. */
  cpu: string;
  /** The number of CPUs available to the lab. */
  cpus: number;
  /** Memory in bytes. */
  memory_bytes: number;
  /** The kernel's clock source. */
  clock_source: string;
  /** The kernel's scheduler tick rate, if its configuration can be read, and other scheduling settings, by the names of their files. */
  scheduling: Record<string, string>;
  /** Available congestion controls (`net.ipv4.tcp_available_congestion_control`). */
  congestion_controls_available: string;
  /** Those that unprivileged processes may use (`net.ipv4.tcp_allowed_congestion_control`). */
  congestion_controls_allowed: string;
}

/** CLOCK_MONOTONIC and CLOCK_REALTIME read together. */
export interface ClockAnchor {
  /** CLOCK_MONOTONIC. */
  monotonic_ns: number;
  /** CLOCK_REALTIME, since 1970. */
  realtime_ns: number;
  /** The time to read both: the anchor's uncertainty. */
  uncertainty_ns: number;
}

/** A real computer that serves as a host. */
export interface HostFacts {
  /** Its name in the plan. */
  host: string;
  /** Its destination for `ssh`. */
  ssh: string;
  /** The numeric user ID of the programs there. */
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

/** Measurement of a path between two real hosts in one direction before the first cell: one TCP connection without other load (`wansan stream send`). */
export interface MeasuredPath {
  /** Its name in the plan. */
  path: string;
  /** The host that sent. */
  from: string;
  /** The host that received. */
  to: string;
  /** The minimum RTT of a mark in the stream. */
  rtt_min_ns: number | null;
  /** The median RTT, while the stream filled the path. */
  rtt_p50_ns: number | null;
  /** The throughput of the stream. */
  bytes_per_s: number | null;
  /** Retransmitted segments. */
  retransmits: number;
  /** Their share of all segments, assumed to be full (1,448 bytes): approximately the loss rate. */
  lost_share: number | null;
  /** The duration of the stream, in seconds. */
  elapsed_s: number;
}

/** A worker of a cluster. */
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
  /** A reading of both its clocks: records of cells in its namespaces use its CLOCK_MONOTONIC. */
  clock_anchor: ClockAnchor;
}

/** The world of one cell. */
export interface CellFacts {
  /** The cell's number. */
  cell: number;
  /** The worker that ran it; null if the lab did. */
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
  /** The emulator's accuracy in each direction of each path. */
  paths: PathFacts[];
  /** netem's configuration in the WAN's namespace, if it emulated the paths. */
  netem_commands: string[];
  /** Frames lost because the emulator was not scheduled in time. */
  emulator_ring_drops: number;
  /** Frames without a destination. */
  emulator_strays: number;
  /** Frames dropped because they could not be segmented into wire packets. */
  emulator_offloaded: number;
  /** Frames that the kernel refused to send. */
  emulator_send_failures: number;
  /** CPU time of the emulator. */
  emulator_cpu_ns: number;
  /** The scheduling policy of the emulator's thread. */
  emulator_scheduling: string;
}

/** The congestion control of a cell's connections. */
export interface ControlFacts {
  /** Its name. */
  name: string;
  /** `lab`: wansan's, loaded by the lab for the run; `before`: wansan's, already loaded; `simulator`: any in a simulated world; `kernel`: any other. */
  origin: string;
  /** Its parameters: null for the kernel's, and if they cannot be read. */
  parameters: Json | null;
}

/** One host or router of a cell's world. */
export interface NodeFacts {
  /** Its name. */
  name: string;
  /** `host` or `router`. */
  role: string;
  /** Its address for other hosts. */
  address: string;
  /** All its addresses by interface. */
  addresses: Record<string, string[]>;
  /** Its routes beyond its neighbours, in the syntax of `ip route`. */
  routes: string[];
  /** Its rules, in the syntax of `ip rule`. */
  rules: string[];
  /** The kernel settings in force in its namespace. */
  settings: Record<string, string>;
}

/** The clock of a real host during a cell, by which its records are converted. */
export interface ClockFacts {
  /** The host. */
  host: string;
  /** A reference time of its CLOCK_MONOTONIC. */
  at_ns: number;
  /** Its offset from the lab's clock at that time; positive if it is ahead. */
  ahead_ns: number;
  /** Its drift against the lab's clock, in ns per second. */
  drift_ppb: number;
  /** The method: `packets`, from I/Os that two hosts observed; or `exchanges` over ssh. */
  by: string;
  /** The other host, or `lab`. */
  relative_to: string;
  /** The maximum error of the conversion to that host's clock, if both clocks run evenly. */
  error_ns: number;
}

/** An established tunnel. */
export interface TunnelFacts {
  /** Its name. */
  name: string;
  /** `wireguard` or `ipsec`. */
  vpn: string;
  /** The cipher of IPsec; null for WireGuard. */
  cipher: string | null;
  /** The program at both ends. */
  program: string;
  /** The device at the near router; none in a simulated world. IPsec tunnels that end at one router share its device. */
  near_device: string;
  /** The device at the far router. */
  far_device: string;
  /** The longest packet that fits through it without fragmentation of the outer packet. */
  mtu_bytes: number;
  /** The encapsulation overhead of the longest packet. */
  overhead_bytes: number;
}

/** One direction of a path. */
export interface PathFacts {
  /** Its name. */
  name: string;
  /** The requested one-way delay. */
  delay_ns: number;
  /** Lateness of frames: median. */
  lateness_p50_ns: number;
  /** Lateness of frames: 99th percentile. */
  lateness_p99_ns: number;
  /** Lateness of frames: maximum. */
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
  { name: "streams.*.bytes_per_s", unit: "bytes/s", about: "Bytes per second of all its connections together; null if one had fewer than two marks." },
  { name: "streams.*.flow_bytes_per_s", unit: "bytes/s", about: "The mean per connection." },
  { name: "streams.*.fairness", unit: "ratio", about: "Jain's index of fairness of its connections." },
  { name: "streams.*.latency_min_ns", unit: "ns", about: "Round-trip latency of a mark, from before it was passed to the socket until its echo was read: minimum." },
  { name: "streams.*.latency_mean_ns", unit: "ns", about: "Round-trip latency of a mark: mean." },
  { name: "streams.*.latency_p50_ns", unit: "ns", about: "Round-trip latency of a mark: median." },
  { name: "streams.*.latency_p99_ns", unit: "ns", about: "Round-trip latency of a mark: 99th percentile." },
  { name: "streams.*.latency_max_ns", unit: "ns", about: "Round-trip latency of a mark: maximum." },
  { name: "streams.*.one_way_mean_ns", unit: "ns", about: "One-way latency of a mark, from before it was passed to the socket until the receiver had read it: mean." },
  { name: "streams.*.one_way_p50_ns", unit: "ns", about: "One-way latency of a mark: median." },
  { name: "streams.*.one_way_p99_ns", unit: "ns", about: "One-way latency of a mark: 99th percentile." },
  { name: "streams.*.one_way_max_ns", unit: "ns", about: "One-way latency of a mark: maximum." },
  { name: "streams.*.retransmits", unit: "packets", about: "Retransmitted segments." },
  { name: "streams.*.slow_start_returns", unit: "", about: "Number of returns of a sender to slow start, as sampled." },
  { name: "relays.*.finished", unit: "", about: "Flows that ended with a FIN from both sides." },
  { name: "relays.*.lost", unit: "", about: "Flows that were reset, or aborted at the end." },
  { name: "relays.*.not_connected", unit: "", about: "Flows whose other end could not be reached." },
  { name: "relays.*.onward_bytes", unit: "bytes", about: "Bytes forwarded to its target." },
  { name: "relays.*.back_bytes", unit: "bytes", about: "Bytes forwarded to clients." },
  { name: "relays.*.law", unit: "", about: "The control law for flows' backlogs, as in `wansan relay --law`; null in runs of versions that did not record it." },
  { name: "relays.*.ece_signals", unit: "", about: "Number of times that it began to signal ECE during the measured interval." },
  { name: "relays.*.fallbacks.*", unit: "", about: "Number of times, from its start to its end, that ECE had no effect on a flow and the window alone limited its backlog, by reason." },
  { name: "relays.*.backlog_mean_bytes", unit: "bytes", about: "Backlog in bytes: mean of the samples." },
  { name: "relays.*.backlog_p99_bytes", unit: "bytes", about: "Backlog in bytes: 99th percentile of the samples." },
  { name: "relays.*.backlog_max_bytes", unit: "bytes", about: "Backlog in bytes: maximum." },
  { name: "relays.*.backlog_mean_ns", unit: "ns", about: "Queueing delay of a byte that arrived at a sample, until it was sent: mean of all flows' samples." },
  { name: "relays.*.backlog_p99_ns", unit: "ns", about: "Queueing delay: 99th percentile of all flows' samples." },
  { name: "relays.*.backlog_max_ns", unit: "ns", about: "Queueing delay: maximum." },
  { name: "fairness", unit: "ratio", about: "Jain's index of fairness of the connections of all streams." },
  { name: "iops", unit: "1/s", about: "I/Os per second of all initiators together." },
  { name: "bytes_per_s", unit: "bytes/s", about: "Bytes of data per second of all initiators together; without any, of all streams." },
  { name: "latency_p50_ns", unit: "ns", about: "Median latency of all I/Os; without initiators, of the marks of the stream with the slowest marks." },
  { name: "latency_p99_ns", unit: "ns", about: "99th percentile of the latency of all I/Os; without initiators, of these marks." },
  { name: "packet_gap_mean_ns", unit: "ns", about: "The mean gap between data packets of a burst from the target." },
  { name: "packet_gap_p50_ns", unit: "ns", about: "Median of these gaps; 0 if segmentation offload delivers packets together." },
  { name: "packet_gap_p90_ns", unit: "ns", about: "90th percentile of these gaps." },
  { name: "vpn_cpu_s_per_gib", unit: "s/GiB", about: "CPU time of the busiest router's VPN per 2^30 bytes through its tunnels." },
  { name: "routers.*.sent_bytes", unit: "bytes", about: "Bytes of inner IP packets that entered the tunnels here." },
  { name: "routers.*.received_bytes", unit: "bytes", about: "Bytes of inner IP packets that came out of the tunnels here." },
  { name: "routers.*.dropped_packets", unit: "packets", about: "Inner packets dropped before encryption because a tunnel device's queue was full." },
  { name: "routers.*.dropped_sealed_packets", unit: "packets", about: "Outer packets dropped before decryption because a UDP socket's buffer was full." },
  { name: "routers.*.cpu_ns", unit: "ns", about: "CPU time of the router's VPN program, user and system." },
  { name: "routers.*.cpu_s_per_gib", unit: "s/GiB", about: "`cpu_ns` in seconds per 2^30 bytes sent or received; null if there were none." },
  { name: "path_dropped", unit: "packets", about: "Packets that the paths dropped, in all directions together." },
  { name: "path_marked", unit: "packets", about: "Packets that they marked with CE." },
  { name: "path_queue_high_water_bytes", unit: "bytes", about: "The maximum backlog of any of their queues." },
  { name: "in_flight.*", unit: "", about: "Mean number of I/Os in flight at each recorded layer, of all initiators together." },
  { name: "cwnd.connections", unit: "", about: "Connections." },
  { name: "cwnd.sum_max_packets", unit: "packets", about: "Maximum sum of all windows, in segments." },
  { name: "cwnd.sum_mean_packets", unit: "packets", about: "Mean of that sum, in segments; null in results of versions without it." },
  { name: "cwnd.least_swing", unit: "ratio", about: "The drop of the steadiest window from its maximum, as a share of the maximum: 0 is flat." },
  { name: "cwnd.most_swing", unit: "ratio", about: "The same for the window that varied most." },
  { name: "cwnd.cwr_events", unit: "", about: "Window reductions without a loss." },
  { name: "cwnd.recovery_events", unit: "", about: "Fast recoveries." },
  { name: "cwnd.loss_events", unit: "", about: "Retransmission timeouts." },
  { name: "waits.ios", unit: "", about: "Completed I/Os with all crossings recorded." },
  { name: "waits.latency_ns", unit: "ns", about: "Their latency." },
  { name: "waits.latency_uncertain_ns", unit: "ns", about: "Half of the 95 % confidence interval of its mean, if a sample of the I/Os was recorded; 0 if all were." },
  { name: "waits.uncertain_ns", unit: "ns", about: "The part of it that may belong to a wait adjacent to the one that it is assigned to." },
  { name: "waits.causes.*.mean_ns", unit: "ns", about: "Their length." },
  { name: "waits.causes.*.share", unit: "ratio", about: "Their share of the latency, 0 to 1." },
  { name: "waits.causes.*.share_uncertain", unit: "ratio", about: "Half of the 95 % confidence interval of that share, if a sample of the I/Os was recorded; 0 if all were." },
  { name: "stalls.cause", unit: "", about: "The most costly cause, if it costs 5 % of the mean latency or more; else `none`." },
  { name: "stalls.ios", unit: "", about: "Completed I/Os." },
  { name: "stalls.cost_ns", unit: "ns", about: "The cost of all stalls, as a mean over the I/Os." },
  { name: "stalls.round_trips", unit: "", about: "Mean number of round trips per I/O: one, plus one for each stall that ended with an acknowledgement or an R2T." },
  { name: "below_socket.ios", unit: "", about: "I/Os that were split." },
  { name: "below_socket.untold.*", unit: "", about: "Those that were not, by reason." },
  { name: "below_socket.latency_ns", unit: "ns", about: "The latency of those that were split." },
  { name: "below_socket.initiator_ns", unit: "ns", about: "In the initiator's program." },
  { name: "below_socket.target_ns", unit: "ns", about: "In the target's program." },
  { name: "below_socket.beyond_ns", unit: "ns", about: "Beyond the only end that recorded it." },
  { name: "below_socket.both_ways.no_room_ns", unit: "ns", about: "In the sending program, until the send buffer had room." },
  { name: "below_socket.both_ways.no_room_buffer_ns", unit: "ns", about: "The part of that during which the whole buffer was in flight: it is too small for the path." },
  { name: "below_socket.both_ways.no_room_cwnd_ns", unit: "ns", about: "The part of that during which the buffer's bytes waited for the congestion window." },
  { name: "below_socket.both_ways.no_room_rwnd_ns", unit: "ns", about: "The part of that during which they waited for the receiver's window." },
  { name: "below_socket.both_ways.cwnd_ns", unit: "ns", about: "In the send buffer while the congestion window, or pacing, blocked sending." },
  { name: "below_socket.both_ways.rwnd_ns", unit: "ns", about: "In the send buffer while the receiver's window blocked sending." },
  { name: "below_socket.both_ways.nagle_ns", unit: "ns", about: "In the send buffer while Nagle's algorithm held a short segment." },
  { name: "below_socket.both_ways.other_ns", unit: "ns", about: "In the send buffer for another or an unknown reason." },
  { name: "below_socket.both_ways.device_queue_ns", unit: "ns", about: "In the device's queue: from the queueing discipline to the device." },
  { name: "below_socket.both_ways.path_ns", unit: "ns", about: "On the path, until the receiving kernel had it; losses and their repair are part of it." },
  { name: "below_socket.both_ways.receive_buffer_ns", unit: "ns", about: "In the receive buffer, until the program read it." },
  { name: "below_socket.to_target.no_room_ns", unit: "ns", about: "In the sending program, until the send buffer had room." },
  { name: "below_socket.to_target.no_room_buffer_ns", unit: "ns", about: "The part of that during which the whole buffer was in flight: it is too small for the path." },
  { name: "below_socket.to_target.no_room_cwnd_ns", unit: "ns", about: "The part of that during which the buffer's bytes waited for the congestion window." },
  { name: "below_socket.to_target.no_room_rwnd_ns", unit: "ns", about: "The part of that during which they waited for the receiver's window." },
  { name: "below_socket.to_target.cwnd_ns", unit: "ns", about: "In the send buffer while the congestion window, or pacing, blocked sending." },
  { name: "below_socket.to_target.rwnd_ns", unit: "ns", about: "In the send buffer while the receiver's window blocked sending." },
  { name: "below_socket.to_target.nagle_ns", unit: "ns", about: "In the send buffer while Nagle's algorithm held a short segment." },
  { name: "below_socket.to_target.other_ns", unit: "ns", about: "In the send buffer for another or an unknown reason." },
  { name: "below_socket.to_target.device_queue_ns", unit: "ns", about: "In the device's queue: from the queueing discipline to the device." },
  { name: "below_socket.to_target.path_ns", unit: "ns", about: "On the path, until the receiving kernel had it; losses and their repair are part of it." },
  { name: "below_socket.to_target.receive_buffer_ns", unit: "ns", about: "In the receive buffer, until the program read it." },
  { name: "below_socket.to_initiator.no_room_ns", unit: "ns", about: "In the sending program, until the send buffer had room." },
  { name: "below_socket.to_initiator.no_room_buffer_ns", unit: "ns", about: "The part of that during which the whole buffer was in flight: it is too small for the path." },
  { name: "below_socket.to_initiator.no_room_cwnd_ns", unit: "ns", about: "The part of that during which the buffer's bytes waited for the congestion window." },
  { name: "below_socket.to_initiator.no_room_rwnd_ns", unit: "ns", about: "The part of that during which they waited for the receiver's window." },
  { name: "below_socket.to_initiator.cwnd_ns", unit: "ns", about: "In the send buffer while the congestion window, or pacing, blocked sending." },
  { name: "below_socket.to_initiator.rwnd_ns", unit: "ns", about: "In the send buffer while the receiver's window blocked sending." },
  { name: "below_socket.to_initiator.nagle_ns", unit: "ns", about: "In the send buffer while Nagle's algorithm held a short segment." },
  { name: "below_socket.to_initiator.other_ns", unit: "ns", about: "In the send buffer for another or an unknown reason." },
  { name: "below_socket.to_initiator.device_queue_ns", unit: "ns", about: "In the device's queue: from the queueing discipline to the device." },
  { name: "below_socket.to_initiator.path_ns", unit: "ns", about: "On the path, until the receiving kernel had it; losses and their repair are part of it." },
  { name: "below_socket.to_initiator.receive_buffer_ns", unit: "ns", about: "In the receive buffer, until the program read it." },
  { name: "below_socket.round_trips", unit: "", about: "Round trips of an I/O." },
  { name: "below_socket.uncertain_ns", unit: "ns", about: "The part that may belong to an adjacent one." },
  { name: "below_socket.stamps.sends", unit: "", about: "Write calls." },
  { name: "below_socket.stamps.sends_unstamped", unit: "", about: "Those without a time at the device: the kernel assigned the time stamp to a later call with bytes in the same segment, or lost it." },
  { name: "below_socket.stamps.receives", unit: "", about: "Read calls." },
  { name: "below_socket.stamps.receives_unstamped", unit: "", about: "Those without an arrival time." },
  { name: "finding.limit", unit: "", about: "What binds." },
  { name: "finding.layer", unit: "", about: "The first layer that holds fewer than the one above, if one does." },
  { name: "finding.above", unit: "", about: "The layer above." },
  { name: "finding.waiting_share", unit: "ratio", about: "The share of the latency spent waiting for it, 0 to 1." },
  { name: "finding.waiting_share_uncertain", unit: "ratio", about: "Half of that share's 95 % confidence interval, or more, if a sample of the I/Os was recorded; 0 if all were." },
  { name: "finding.sentence", unit: "", about: "The same as a sentence." },
  { name: "finding.limit", unit: "", about: "What binds." },
  { name: "finding.layer", unit: "", about: "The first layer that holds fewer than the one above, if one does." },
  { name: "finding.above", unit: "", about: "The layer above." },
  { name: "finding.wanted", unit: "", about: "Mean number of I/Os in the layer above: the demand." },
  { name: "finding.got", unit: "", about: "Mean number of I/Os in the layer: those admitted." },
  { name: "finding.waiting_share", unit: "ratio", about: "The share of the latency spent waiting for it, 0 to 1." },
  { name: "finding.waiting_share_uncertain", unit: "ratio", about: "Half of that share's 95 % confidence interval, or more, if a sample of the I/Os was recorded; 0 if all were." },
  { name: "finding.cell", unit: "", about: "The cell that the numbers above are from." },
  { name: "finding.sentence", unit: "", about: "The finding as a sentence." },
  { name: "finding.advice.text", unit: "", about: "In words." },
  { name: "finding.advice.parameter", unit: "", about: "The plan's parameter, if the advice is a single value." },
  { name: "finding.advice.value", unit: "", about: "Its value in the syntax of plans." },
  { name: "advised.parameter", unit: "", about: "The parameter that was changed." },
  { name: "advised.planned_value", unit: "", about: "Its value in the planned phase, if the plan sets it." },
  { name: "advised.value", unit: "", about: "Its advised value." },
  { name: "advised.planned_cell", unit: "", about: "The cell before the change." },
  { name: "advised.advised_cell", unit: "", about: "The cell after it." },
  { name: "advised.planned_iops", unit: "1/s", about: "I/Os per second before the change." },
  { name: "advised.predicted_iops", unit: "1/s", about: "Predicted I/Os per second." },
  { name: "advised.measured_iops", unit: "1/s", about: "I/Os per second after it." },
  { name: "advised.predicted_gain", unit: "ratio", about: "`predicted_iops` ÷ `planned_iops` − 1." },
  { name: "advised.measured_gain", unit: "ratio", about: "`measured_iops` ÷ `planned_iops` − 1." },
  { name: "advised.measured_of_predicted", unit: "ratio", about: "`measured_iops` ÷ `predicted_iops`: 1 for an exact prediction. Null without a prediction." },
];
