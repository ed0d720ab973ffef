/** What `wansan watch --web` sends on /events; docs/reference/watch.md has the lines in full. */

import type { Tcp } from "../records";

/** The present state of one connection, in a frame. */
export interface Now extends Tcp {
  connection: string;
  /** Shares of time: busy, stopped by the peer's window, stopped by a full send buffer. */
  shares: [number, number, number] | null;
}

export interface Begin {
  kind: "begin";
  time_ns: number;
  connection: string;
  local: string;
  remote: string;
  congestion_control: string;
}

export type Message =
  | { kind: "watch"; way: string; why: string; interval_ns: number }
  | { kind: "frame"; time_ns: number; connections: Now[] }
  | Begin
  | { kind: "event"; event: string; seen: string; time_ns: number; connection: string; local: string; remote: string }
  | { kind: "end"; time_ns: number; connection: string }
  | { kind: "device_gone"; time_ns: number; device: string }
  | { kind: "unseen"; time_ns: number; connections: number; samples: number; events: number; records: number }
  | { kind: "over"; why: string };
