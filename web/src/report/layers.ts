/** The layers of one I/O: what they are called, and the parts that its latency falls into. */

import type { LayerSummary } from "./data";

interface LayerFacts {
  name: string;
  /** When a request enters the layer, for the reader who does not know its name. */
  entered: string;
}

const LAYERS: Record<string, LayerFacts> = {
  app: { name: "application", entered: "the caller submits the I/O" },
  scsi: { name: "SCSI", entered: "the CDB is built" },
  queue: { name: "iSCSI queue", entered: "it is put on the session's queue" },
  window: { name: "command window", entered: "it gets a CmdSN inside MaxCmdSN" },
  socket: { name: "socket", entered: "the socket has accepted its command PDU" },
  tcp_initiator: { name: "TCP, initiator", entered: "the initiator's kernel hands it to the device" },
  wire: { name: "wire", entered: "it passes the observation point" },
  tcp_target: { name: "TCP, target", entered: "the target's kernel receives it" },
  target: { name: "target", entered: "the target has parsed its PDU" },
  device: { name: "SCSI device", entered: "the command goes to the device server" },
  store: { name: "store", entered: "the backing store is asked" },
};

export function layerName(layer: string): string {
  return LAYERS[layer]?.name ?? layer;
}

export function layerEntered(layer: string): string {
  const facts = LAYERS[layer];
  return facts === undefined ? "" : `entered when ${facts.entered}`;
}

/** The CSS variable that holds a layer's colour. */
export function layerColour(layer: string): string {
  return layer in LAYERS ? `--layer-${layer.replaceAll("_", "-")}` : "--ink-3";
}

/** One part of a mean I/O's time. */
export interface LatencyPart {
  label: string;
  /** The layer whose colour it has: the one that holds the I/O meanwhile. */
  layer: string;
  way: "down" | "inside" | "up";
  /** The layer it waits to enter, on the way down. */
  towards: string | null;
  mean_ns: number;
  /** What of it is above the least seen: waiting. */
  waiting_ns: number;
}

/**
 * The parts of a mean I/O in the order it lives through them: down from layer to layer, inside
 * where it goes no deeper, and up again. They add up to its latency.
 */
export function latencyParts(layers: LayerSummary[]): LatencyPart[] {
  const down: LatencyPart[] = [];
  const up: LatencyPart[] = [];
  for (const [place, below] of layers.entries()) {
    const above = layers[place - 1];
    if (above !== undefined) {
      down.push({
        label: `${layerName(above.layer)} → ${layerName(below.layer)}`,
        layer: above.layer,
        way: "down",
        towards: below.layer,
        mean_ns: below.way_in_ns,
        waiting_ns: below.way_in_excess_ns,
      });
      up.unshift({
        label: `${layerName(below.layer)} → ${layerName(above.layer)}, answer`,
        layer: above.layer,
        way: "up",
        towards: null,
        mean_ns: below.way_out_ns,
        waiting_ns: below.way_out_excess_ns,
      });
    }
    if (below.service_ns > 0) {
      down.push({
        label: `inside ${layerName(below.layer)}`,
        layer: below.layer,
        way: "inside",
        towards: null,
        mean_ns: below.service_ns,
        waiting_ns: below.service_excess_ns,
      });
    }
  }
  return [...down, ...up];
}

/** The mean latency that the layers' parts add up to. */
export function latency(layers: LayerSummary[]): number {
  return latencyParts(layers).reduce((sum, part) => sum + part.mean_ns, 0);
}
