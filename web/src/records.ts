/** Records as JSON has them. Generated from crates/trace/src/event by `WANSAN_UPDATE=1 cargo test -p wansan-trace`. */

export interface Tcp {
  time_ns: number;
  event: "sample" | "cwr" | "recovery" | "loss" | "retransmit" | "cwr_by_ece" | "cwr_by_device" | "undo" | "change" | "begin" | "end";
  congestion_state: "open" | "disorder" | "cwr" | "recovery" | "loss" | "unknown";
  cwnd_packets: number;
  ssthresh_packets: number | null;
  mss_bytes: number;
  in_flight_packets: number;
  srtt_ns: number;
  min_rtt_ns: number;
  rwnd_bytes: number;
  unsent_bytes: number;
  acked_bytes: number;
  pacing_bytes_per_s: number | null;
  delivery_bytes_per_s: number;
  busy_ns: number;
  rwnd_limited_ns: number;
  sndbuf_limited_ns: number;
  retransmits: number;
  delivered_ce: number;
  timeouts: number;
  unread_bytes: number;
  ece_signals: number;
  send_memory_bytes: number;
  send_buffer_bytes: number;
  ecn: "off" | "negotiated" | "seen";
  seen: "sampled" | "traced";
}
