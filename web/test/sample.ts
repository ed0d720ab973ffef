/**
 * A run as the lab would hand it to the page, made up from a queueing picture of the command
 * window: N submitted, at most the window in flight, one round trip of 32 ms each way of it.
 * It stands for no measurement; the same seed gives the same run.
 */

import type { CellReport, Manifest, PacketDiagram, ReportData, WaitUse } from "../src/report/data";

const ROUND_TRIP_S = 0.0325;
const STEPS = 300;
const STEP_S = 0.01;
const WARM_UP_S = 0.4;
const INITIATORS = 4;

/** Numbers from 0 to 1 that look random: a 32-bit xorshift. */
function random(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 2 ** 32;
  };
}

const LAYERS = ["app", "scsi", "queue", "window", "socket", "tcp_initiator", "wire", "tcp_target", "target", "device", "store"];

/** Share of what the window admits that each layer below it holds. */
const BELOW_WINDOW = [0.985, 0.975, 0.52, 0.022, 0.014, 0.009, 0.006];

function sampleCell(number: number, phase: string, parallel: number, window: number): CellReport {
  const next = random(number + 11);
  const inside = Math.min(parallel, window);
  const means = LAYERS.map((_, depth) =>
    INITIATORS * (depth < 3 ? parallel : depth === 3 ? inside : inside * (BELOW_WINDOW[depth - 4] ?? 0)),
  );
  const iops = (INITIATORS * inside) / ROUND_TRIP_S * (1 - 0.0007 * inside);
  const sojourn_ns = means.map((mean) => (mean / iops) * 1e9);
  const ramp = (step: number) => Math.min(1, (step + 1) / 6) * Math.min(1, (STEPS - step) / 3);
  const wobble = (mean: number, depth: number): (number | null)[] =>
    Array.from({ length: STEPS }, (_, step) =>
      depth < 4
        ? Math.round(mean * ramp(step))
        : Math.round(mean * ramp(step) * (1 - 0.12 * next() ** 2) * 10) / 10,
    );
  return {
    cell: number,
    phase,
    repeat: 0,
    parameters: { "workload.parallel": parallel, "target.command_window": window },
    failure: null,
    measures: {
      iops,
      bytes_per_s: iops * 4096,
      latency_p50_ns: (sojourn_ns[0] ?? 0) * 0.99,
      latency_p99_ns: (sojourn_ns[0] ?? 0) * 1.18,
      packet_gap_p50_ns: 12_000,
      "routers.far.cpu_s_per_gib": 2 + number / 10,
      "stalls.cost_ns": 8.2e6,
    },
    changes: [],
    changes_left_out: 0,
    sessions: INITIATORS,
    waits: sampleWaits(sojourn_ns),
    layers: LAYERS.map((layer, depth) => ({ layer, in_flight_mean: means[depth] ?? 0, in_flight_max: Math.ceil(means[depth] ?? 0) })),
    dropped: {},
    missing_crossings: 0,
    little_disagrees: [],
    time: { from_s: -WARM_UP_S, step_s: STEP_S, steps: STEPS, measured_s: STEPS * STEP_S - WARM_UP_S - 0.05 },
    in_flight: LAYERS.map((layer, depth) => ({ layer, values: wobble(means[depth] ?? 0, depth) })),
    tcp_time: { from_s: -WARM_UP_S, step_s: STEP_S, steps: STEPS, measured_s: STEPS * STEP_S - WARM_UP_S - 0.05 },
    connections: Array.from({ length: INITIATORS }, (_, i) => {
      const cwnd_packets = sawTooth(next, 90 + 20 * i);
      return {
        name: `target to initiator-${i + 1}`,
        cwnd_packets,
        ssthresh_packets: cwnd_packets.map((_, step) => (step < 30 ? null : 60 + 10 * i)),
        in_flight_packets: cwnd_packets.map((cwnd) => (cwnd === null ? null : Math.round(cwnd * 0.9))),
        cuts: fallsOf(cwnd_packets).map((step, n) => ({ at_s: step * STEP_S - WARM_UP_S, why: i === 2 && n === 0 ? "loss" : i === 2 ? "recovery" : "cwr" })),
        cuts_left_out: i === 3 ? 2 : 0,
        retransmits: i === 2 ? 3 : 0,
      };
    }),
    connections_left_out: INITIATORS,
    paths: ["to target", "to initiators"].map((name, way) => ({
      name,
      queue_bytes: Array.from({ length: STEPS }, () => Math.round(next() ** 3 * (way === 0 ? 4000 : 180000))),
      utilisation: Array.from({ length: STEPS }, (_, step) =>
        Math.round(Math.min(1, ((iops * (way === 0 ? 114 : 4400) * 8) / 1e9) * ramp(step) * (1 + 0.1 * (next() - 0.5))) * 1e3) / 1e3,
      ),
      queue_drops: way === 0 ? 0 : 3,
      loss_drops: 0,
    })),
    packets: samplePackets(8, 12),
    stalls: {
      cause: "nagle",
      ios: 100,
      cost_ns: 8.2e6,
      round_trips: 1.98,
      causes: [{ cause: "nagle", stalls: 98, ios: 98, cost_ns: 8.2e6, example: { session: "800000000001/1", task: 1, from_ns: 1_000_000, to_ns: 9_400_000, packets: [{ role: "held", packet: 7, sent_ns: 9_400_000 }] } }],
    },
    stall_packets: [{ cause: "nagle", packets: samplePackets(3, 12) }],
    packet_gaps: { gaps: 1000, mean_ns: 11_000, p50_ns: 12_000, p90_ns: 19_000, quantiles_ns: Array.from({ length: 51 }, (_, i) => 2_000 + 350 * i) },
  };
}

/** What each layer holds an I/O for, and what part of that TCP_INFO may have told wrong. */
const CAUSES = ["initiator", "initiator", "command_window", "unknown", "congestion_window", "propagation", "propagation", "receive_buffer", "target", "store_queue", "store_service"];

/** The time that passes in each layer and not below it, all by one cause. */
function sampleWaits(sojourn_ns: number[]): WaitUse {
  const sums = CAUSES.map((cause, depth) => {
    const mean_ns = (sojourn_ns[depth] ?? 0) - (sojourn_ns[depth + 1] ?? 0);
    const told = cause === "congestion_window";
    return { cause, layer: LAYERS[depth] ?? "", way: null, source: told ? "tcp_info" : "crossings", mean_ns, uncertain_ns: told ? mean_ns / 4 : 0 };
  });
  return { ios: 1000, latency_ns: sojourn_ns[0] ?? 0, latency_uncertain_ns: 0, uncertain_ns: 0, causes: {}, sums };
}

/**
 * Reads of 4 KiB on two connections in turn, data packets `gap_us` apart; one is lost, one dropped.
 * Inside a tunnel nothing but lengths is seen.
 */
export function samplePackets(reads: number, gap_us: number, tunnel = false): PacketDiagram {
  const diagram: PacketDiagram = {
    from_s: 0.001,
    flows: tunnel
      ? [{ name: "tunnel 192.0.2.1:51820 – 192.0.2.2:51820", encrypted: true }]
      : [0, 1].map((cid) => ({ name: `initiator-1, connection ${cid}`, encrypted: false })),
    kinds: tunnel ? [{ is: "encrypted", name: "" }, { is: "encrypted_short", name: "" }] : [{ is: "pdu", name: "SCSI Command" }, { is: "pdu", name: "SCSI Data-In" }, { is: "bare", name: "" }],
    sent_us: [],
    transit_us: [],
    fate: [],
    from_target: [],
    flow: [],
    kind: [],
    payload_bytes: [],
    place: [],
    acked: [],
    flags: [],
    task: [],
    pdus: [],
    packet: [],
    boundaries: [],
    ios: tunnel ? [] : Array.from({ length: reads }, (_, read) => sampleIo(read)),
  };
  const packets = Array.from({ length: reads }, (_, read) => {
    const at = read * 200;
    const packet = (sent_us: number, kind: number, payload_bytes: number, place: number, fate = 0) => ({ sent_us, kind, payload_bytes, place, fate, read });
    return [
      packet(at, 0, 48, read * 48),
      ...[1448, 1448, 1248].map((bytes, i) => packet(at + 1010 + gap_us * i, 1, bytes, read * 4144 + i * 1448, read === 2 && i === 1 ? 2 : read === 3 && i === 2 ? 1 : 0)),
      packet(at + 2100, 2, 0, read * 48 + 48),
    ];
  }).flat().sort((a, b) => a.sent_us - b.sent_us);
  for (const { sent_us, kind, payload_bytes, place, fate, read } of packets) {
    diagram.sent_us.push(sent_us);
    diagram.transit_us.push(fate === 0 ? 1000 : 0);
    diagram.fate.push(fate);
    diagram.from_target.push(kind === 1 ? 1 : 0);
    diagram.flow.push(tunnel ? 0 : read % 2);
    diagram.kind.push(tunnel ? (kind === 2 ? 1 : 0) : kind);
    diagram.payload_bytes.push(payload_bytes + (tunnel ? 96 : 0));
    diagram.place.push(tunnel ? null : place);
    diagram.acked.push(tunnel ? null : read * 48);
    diagram.flags.push(tunnel ? 0 : kind === 2 ? 0x10 : 0x18);
    diagram.task.push(tunnel || kind === 2 ? null : read);
    diagram.pdus.push(tunnel || kind === 2 ? 0 : 1);
    diagram.packet.push(diagram.packet.length);
    if (!tunnel && (kind === 0 || (kind === 1 && payload_bytes === 1248))) {
      // The last segment of an answer has the status in a PDU of its own.
      diagram.boundaries.push({ at: diagram.packet.length - 1, before_bytes: kind === 0 ? 0 : 1200, kind });
    }
  }
  return diagram;
}

/** A read whose answer Nagle's algorithm held for a round trip, in its second half. */
function sampleIo(read: number): PacketDiagram["ios"][number] {
  const times = [-20, 0, 1000, 1010, 1210, 2300, 3300].map((time) => time + read * 200);
  const held = [["initiator", "app"], ["propagation", "wire"], ["store_service", "store"], ["unknown", "target"], ["nagle", "target"], ["propagation", "wire"]];
  return {
    session: "initiator-1",
    task: read,
    waits: held.map(([cause = "", layer = ""], i) => ({ cause, layer, from_us: times[i] ?? 0, to_us: times[i + 1] ?? 0, uncertain_us: cause === "unknown" ? 12 : 0 })),
  };
}

function sawTooth(next: () => number, ceiling: number): (number | null)[] {
  let cwnd = 10;
  return Array.from({ length: STEPS }, (_, step) => {
    cwnd = step < 20 ? Math.min(cwnd * 1.18, ceiling) : cwnd > ceiling + 40 * next() ? cwnd * 0.7 : cwnd + 0.5;
    return Math.round(cwnd);
  });
}

/** The steps in which a window is less than before. */
function fallsOf(cwnd: (number | null)[]): number[] {
  return cwnd.flatMap((value, step) => ((value ?? 0) < (cwnd[step - 1] ?? 0) ? [step] : []));
}

/** A sweep of two parameters, neither of them a number in the first place. */
export function twoParameterRun(): ReportData {
  const run = emptyRun();
  run.cells = ["reno", "cubic"].flatMap((control, i) =>
    ["2ms", "16ms", "64ms"].flatMap((delay, j) =>
      [0, 1].map((repeat) => {
        const cell = sampleCell(i * 6 + j * 2 + repeat, "planned", 32 + 16 * i - 8 * j + repeat, 100);
        return { ...cell, repeat, parameters: { "tcp.congestion_control": control, "path.wan.delay": delay } };
      }),
    ),
  );
  return run;
}

/** Two delays across each other in two cases, with numbers of a paper. */
export function gridRun(): ReportData {
  const run = emptyRun();
  const delays = ["0ms", "2ms", "8ms"];
  run.cells = ["none", "ipsec"].flatMap((name, i) =>
    delays.flatMap((upper, j) =>
      delays.map((lower, k) => ({
        ...sampleCell(i * 9 + j * 3 + k, "planned", 64 - 16 * i - 8 * j - 6 * k, 100),
        packets: samplePackets(8, 12 + 20 * i, i === 1),
        parameters: { case: name, "path.upper.delay": upper, "path.lower.delay + path.third.delay": lower },
      })),
    ),
  );
  // One place was not measured.
  run.cells.splice(4, 1);
  run.manifest = asManifest({
    document: {
      host: [{ name: "client", count: 2 }, { name: "storage", count: 1 }],
      router: [{ name: "near", count: 2 }, { name: "far", count: 1 }],
      path: [
        { name: "lan-1", between: ["client", "near-1"], queue: "256KiB", loss: "0%" },
        { name: "lan-2", between: ["client", "near-2"] },
        { name: "upper", between: ["far", "near-1"], delay: "0ms", rate: "330Mbit/s", queue: "64KiB", loss: { kind: "gilbert-elliott", p: "1%" }, back: { delay: "3ms" } },
        { name: "lower", between: ["near-2", "far"], delay: "1ms" },
        { name: "lan", between: ["far", "storage"] },
      ],
      route: [
        { name: "upper", via: ["near-1", "far"], vpn: "ipsec", cipher: "3des" },
        { name: "lower", via: ["near-2", "far"], vpn: "none" },
      ],
      target: { host: "storage" },
      initiator: [{ host: "client", routes: ["upper", "lower"] }],
    },
  });
  run.paper = {
    title: "A. Author: A paper, 2008",
    figure: "Fig. 16",
    remarks: ["16-4 is slower than 4-16 <as well>."],
    differs: ["With us it is faster: its router serves the first route first."],
    known: [
      {
        about: "cells.bytes_per_s where case = none",
        metric: "cells.bytes_per_s",
        where: { case: "none", "path.upper.delay": "2ms", "path.lower.delay + path.third.delay": "8ms" },
        relative_to: null,
        value: 15.375e6,
        ours: 12e6,
        ratio: 0.78,
      },
      { about: "cells.bytes_per_s where case = ipsec, relative to case = none", metric: "cells.bytes_per_s", where: { case: "ipsec" }, relative_to: { case: "none" }, value: 0.8, ours: null, ratio: null },
    ],
  };
  return run;
}

/** One cell that ended early, and one that has numbers but no records. */
export function failedRun(): ReportData {
  const run = emptyRun();
  const cell = sampleCell(0, "planned", 16, 100);
  const bare = { sessions: 0, layers: [], in_flight: [], connections: [], paths: [], time: null, tcp_time: null, dropped: {}, packets: null, packet_gaps: null, stalls: null, waits: null };
  run.problems = ["Cell 0 failed: the target ended with status 2."];
  run.cells = [
    { ...cell, ...bare, failure: "the target ended with status 2", measures: {} },
    { ...cell, ...bare, cell: 1, parameters: { ...cell.parameters, "workload.parallel": 32 } },
  ];
  run.expectations = [{ expected: 'finding.limit equals "command_window"', found: "nothing", met: false }];
  return run;
}

/** A run with one cell and no sweep. */
export function singleCellRun(): ReportData {
  const run = emptyRun();
  run.cells = [{ ...sampleCell(0, "planned", 32, 100), parameters: {}, sessions: 1 }];
  return run;
}

/** A run whose paths were changed before and while it was measured; one change was refused. */
export function changedRun(): ReportData {
  const run = singleCellRun();
  const change = (at_s: number | null, statement: string, by_hand = false) => ({ at_s, statement, by_hand, refused: at_s === null ? "it has no queue" : null });
  for (const cell of run.cells) {
    cell.changes = [
      change(-0.2, "upper.loss = 1%"),
      change(0.8, "upper.delay = 32ms"),
      change(0.8, "upper.back.rate = 50Mbit/s"),
      change(null, "lower.queue.limit = 1MiB"),
      change(1.6, "upper down", true),
    ];
    cell.changes_left_out = 7;
  }
  return run;
}

/** As much of a manifest as a test needs. */
function asManifest(part: Record<string, unknown>): Manifest {
  return part as unknown as Manifest;
}

/** A run that measured nothing. */
export function emptyRun(): ReportData {
  return {
    plan: "sample",
    title: "A sample",
    started_ns: null,
    facts: [],
    problems: [],
    finding: null,
    advised: null,
    expectations: [],
    paper: null,
    load: "initiators",
    cells: [],
    manifest: asManifest({ seed: 7 }),
  };
}

/** The paper's sweep, as planned and again with the advised window. */
export function sampleRun(): ReportData {
  const sweep = Array.from({ length: 11 }, (_, i) => 16 * (i + 1));
  const planned = sweep.map((parallel, i) => sampleCell(i, "planned", parallel, 100));
  const advised = sweep.map((parallel, i) => sampleCell(sweep.length + i, "advised", parallel, 176));
  const told = planned[6]?.cell ?? 0;
  const before = planned[10]?.measures["iops"] ?? 1;
  const after = advised[10]?.measures["iops"] ?? 1;
  const lossy = planned[9];
  if (lossy !== undefined) {
    lossy.dropped = { io: 1234 };
  }
  return {
    plan: "p2-command-window",
    title: "Many parallel reads over 16 ms, and the command window that holds them back",
    started_ns: 1_763_721_972_000_000_000,
    facts: [
      { label: "wansan", text: "0.1.0 (9fe86b1)" },
      { label: "kernel", text: "Linux 6.18.1" },
      { label: "seed", text: "7" },
    ],
    problems: ["Cell 9: 1234 io records were lost because a recorder was full; what is drawn from them ends early."],
    finding: {
      limit: "command_window",
      sentence:
        "The command window limits throughput: the queue depth is 112 per session, the window 100; 11 % of the 36.0 ms latency is spent waiting for a CmdSN slot.",
      evidence: [
        "The iSCSI queue holds 112.0 I/Os of a session on average, the command window 100.0: it is the first layer with fewer than the one above.",
        "MaxCmdSN − ExpCmdSN + 1 was 0 for 96 % of the measured time in all four sessions.",
        "Little's law agrees within 0.3 % at every layer.",
      ],
      layer: "window",
      above: "queue",
      wanted: 112,
      got: 100,
      waiting_share: 0.11,
      waiting_share_uncertain: 0,
      binds_in_cells: [told],
      predicted: null,
      advice: { text: "raise the target's command window (`--command-window`) to 176", parameter: "target.command_window", value: "176", with: {} },
      cell: told,
    },
    advised: {
      parameter: "target.command_window",
      value: "176",
      planned_value: 100,
      predicted_gain: 0.76,
      measured_gain: after / before - 1,
      measured_of_predicted: after / (before * 1.76),
      gains: [],
      planned_cell: 10,
      advised_cell: 21,
      planned_iops: before,
      predicted_iops: before * 1.76,
      measured_iops: after,
    },
    expectations: [
      { expected: 'finding.limit equals "command_window"', found: '"command_window"', met: true },
      { expected: "advised.gain is at least 1.15", found: (after / before).toFixed(3), met: true },
      { expected: "cells.latency_p99_ns where workload.parallel = 16 is at most 30000000", found: "38779000", met: false },
    ],
    paper: null,
    cells: [...planned, ...advised],
    load: "initiators",
    manifest: asManifest({
      plan: { title: "Many parallel reads", world: { kind: "netns" }, target: { command_window: 100, lun: ["memory:1GiB"] } },
      host: { kernel: "6.18.1", cpus: 2, sysctls: { "net.ipv4.tcp_congestion_control": "cubic", "net.ipv4.tcp_ecn": 2 } },
      seed: 7,
      hostile: "</script><img src=x onerror=alert(1)>",
    }),
  };
}
