/** The layers of one I/O, from the top down: what they are called, and their colours. */

interface LayerFacts {
  name: string;
  /** When a request enters the layer, for the reader who does not know its name. */
  entered: string;
}

const LAYERS: Record<string, LayerFacts> = {
  cache: { name: "cache", entered: "a program's request reaches an attached disk" },
  app: { name: "application", entered: "the caller submits the I/O" },
  scsi: { name: "SCSI", entered: "the CDB is built" },
  queue: { name: "iSCSI queue", entered: "it joins the session's queue" },
  window: { name: "command window", entered: "it gets a CmdSN inside MaxCmdSN" },
  socket: { name: "socket", entered: "the socket has accepted its command PDU" },
  tcp_initiator: { name: "TCP, initiator", entered: "the initiator's kernel hands it to the device" },
  wire: { name: "wire", entered: "it passes the observation point" },
  tcp_target: { name: "TCP, target", entered: "the target's kernel receives it" },
  target: { name: "target", entered: "the target has parsed its PDU" },
  device: { name: "SCSI device", entered: "the command goes to the device server" },
  store: { name: "store", entered: "the operation goes to the backing store" },
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

/** Whether an I/O enters this layer before the other one. */
export function isAbove(layer: string, other: string): boolean {
  const depth = Object.keys(LAYERS);
  return depth.indexOf(layer) < depth.indexOf(other);
}
