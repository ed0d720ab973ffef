/** What `wansan diagnose --web` sends on /events, a message for each slice of time: what `--json` prints, as far as it is shown. */

/** A stretch of an I/O's latency. */
export interface Share {
  wait: string;
  why: string;
  mean_ns: number;
  share: number;
  source: string;
}

/** How the I/Os of a disk passed the host. */
export interface DiskUse {
  disk: string;
  lun: number;
  ios: number;
  latency_ns: number;
  queued_ns: number;
  wire_ns: number | null;
  outstanding: number;
  queue_depth: number | null;
  full_share: number;
}

/** What the store of a LUN took. */
export interface StoreUse {
  lun: number;
  commands: number;
  latency_ns: number;
}

export interface Session {
  connections: [string, string][];
  target_name: string | null;
  iops: number;
  outstanding: number;
  shares: Share[];
  disks: DiskUse[];
  stores: StoreUse[];
  judgement: { limit: string; latency_ns: number };
  finding: string;
}

export interface Diagnosis {
  sources: { name: string; what: string; is_used: boolean }[];
  sessions: Session[];
  unfinished: string[];
  quiet: string[];
}

export type Message = { kind: "slice"; at_s: number; diagnosis: Diagnosis } | { kind: "over" };
