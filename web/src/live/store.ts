/** All that has come, as far back as is kept, on one time axis. */

import type { Begin, Message, Now } from "./messages";

/** Frames that are kept: five minutes of ten a second. */
export const MOST_FRAMES = 3000;
/** Events that are kept. */
const MOST_MARKS = 5000;

/** Values at the times of the frames; null where there is none. */
export type Curve = (number | null)[];

export interface Connection {
  begin: Begin;
  now: Now | null;
  ended: boolean;
  cuts: number;
  cwnd: Curve;
  ssthresh: Curve;
  in_flight: Curve;
  srtt_ms: Curve;
}

/** An event of a connection. */
export interface Mark {
  at_s: number;
  connection: string;
  event: string;
  seen: string;
}

const CURVES = ["cwnd", "ssthresh", "in_flight", "srtt_ms"] as const;

export class Store {
  /** Seconds since the first message with a time. */
  readonly times: number[] = [];
  readonly connections = new Map<string, Connection>();
  readonly marks: Mark[] = [];
  way = "";
  unseen = "";
  /** The network device that went away last. */
  deviceGone: string | null = null;
  over: string | null = null;
  #first_ns: number | null = null;

  take(message: Message): void {
    switch (message.kind) {
      case "watch":
        // Another watch, or the same again after a break: its own lines follow.
        this.way = message.way === "traced" ? "Every change is traced." : `Sampled every ${message.interval_ns / 1e6} ms: ${message.why}`;
        this.over = null;
        break;
      case "begin":
        this.#begin(message);
        break;
      case "frame":
        this.#frame(message.time_ns, message.connections);
        break;
      case "event":
        this.#event(message);
        break;
      case "end": {
        const connection = this.connections.get(message.connection);
        if (connection !== undefined) {
          connection.ended = true;
        }
        break;
      }
      case "device_gone":
        this.deviceGone = message.device;
        break;
      case "unseen":
        this.unseen = unseenInWords(message);
        break;
      case "over":
        this.over = message.why;
        break;
    }
  }

  #seconds(time_ns: number): number {
    this.#first_ns ??= time_ns;
    return (time_ns - this.#first_ns) / 1e9;
  }

  #begin(begin: Begin): void {
    const known = this.connections.get(begin.connection);
    if (known !== undefined) {
      known.ended = false;
      return;
    }
    const blank = (): Curve => new Array<number | null>(this.times.length).fill(null);
    this.connections.set(begin.connection, {
      begin,
      now: null,
      ended: false,
      cuts: 0,
      cwnd: blank(),
      ssthresh: blank(),
      in_flight: blank(),
      srtt_ms: blank(),
    });
  }

  #event(message: Message & { kind: "event" }): void {
    const cut = message.event !== "retransmit";
    const connection = this.connections.get(message.connection);
    if (connection === undefined || !cut) {
      return;
    }
    if (message.event !== "undo") {
      connection.cuts += 1;
    }
    this.marks.push({ at_s: this.#seconds(message.time_ns), connection: message.connection, event: message.event, seen: message.seen });
    if (this.marks.length > MOST_MARKS) {
      this.marks.splice(0, MOST_MARKS / 10);
    }
  }

  #frame(time_ns: number, present: Now[]): void {
    const at_s = this.#seconds(time_ns);
    const last = this.times.at(-1);
    if (last !== undefined && at_s <= last) {
      return;
    }
    this.times.push(at_s);
    const states = new Map(present.map((now) => [now.connection, now]));
    for (const [id, connection] of this.connections) {
      const now = states.get(id) ?? null;
      connection.now = now ?? connection.now;
      connection.cwnd.push(now?.cwnd_packets ?? null);
      connection.ssthresh.push(now?.ssthresh_packets ?? null);
      connection.in_flight.push(now?.in_flight_packets ?? null);
      connection.srtt_ms.push(now === null ? null : now.srtt_ns / 1e6);
    }
    if (this.times.length > MOST_FRAMES) {
      this.#forget(MOST_FRAMES / 10);
    }
  }

  /** Lets go of the oldest frames, and of connections that are in none of the others. */
  #forget(frames: number): void {
    this.times.splice(0, frames);
    for (const [id, connection] of this.connections) {
      for (const curve of CURVES) {
        connection[curve].splice(0, frames);
      }
      if (connection.ended && connection.cwnd.every((value) => value === null)) {
        this.connections.delete(id);
      }
    }
  }
}

function unseenInWords(unseen: Message & { kind: "unseen" }): string {
  const parts: [number, string][] = [
    [unseen.events, "events lost"],
    [unseen.records, "records lost"],
    [unseen.samples, "samples missed"],
    [unseen.connections, "connections left out"],
  ];
  return parts
    .filter(([count]) => count > 0)
    .map(([count, what]) => `${count.toLocaleString("en-US")} ${what}`)
    .join(", ");
}
