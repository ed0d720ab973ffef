/** The network of a run as a drawing, and in words for who cannot see it or has no room for it. */

import { svg } from "../diagram/svg";
import { el, figure } from "./dom";
import type { Network, NetworkNode, NetworkPath } from "./topology";

const WIDTH = 1120;
const NODE_WIDTH = 132;
const NODE_HEIGHT = 44;
/** A line of a label, and what is left free above and below a label's lines. */
const LINE_HEIGHT = 14;
const FREE = 50;
/** The width of a character of a label, about, and what is left free beside its longest line. */
const CHARACTER_WIDTH = 6.2;
const FREE_BESIDE = 12;

interface Place {
  x: number;
  y: number;
  /** How many nodes stand in its column. */
  company: number;
}

/** The room that paths have. */
interface Room {
  /** From one row of nodes to the next. */
  row: number;
  /** Most characters of a line of a label, between two columns. */
  line: number;
}

export function networkPicture(network: Network): HTMLElement {
  const { nodes, paths, routes } = network;
  const columns = Math.max(...nodes.map(({ column }) => column)) + 1;
  const rows = Math.max(...Array.from({ length: columns }, (_, column) => nodes.filter((node) => node.column === column).length));
  const parallel = Math.max(1, ...paths.map((path) => alike(path, paths).length));
  // From one node to the next below it, and between paths that join the same two nodes.
  const line = Math.floor((step(columns) - NODE_WIDTH - FREE_BESIDE) / CHARACTER_WIDTH);
  const row = Math.max(NODE_HEIGHT + 16, FREE + LINE_HEIGHT * Math.max(...paths.map((path) => labelLines(path, line).length)));
  const height = row * (rows - 1 + parallel);
  const places = new Map(nodes.map((node) => [node.name, place(node, nodes, columns, height)]));
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${height}`, class: "topology", "aria-hidden": "true" },
    ...paths.flatMap((path) => drawPath(path, paths, places, { row, line })),
    ...nodes.map((node) => drawNode(node, places.get(node.name) ?? { x: 0, y: 0, company: 1 })),
  );
  const words = [
    ...paths.map(({ name, ends, effects, tunnels }) => `path ${name}: ${ends.join(" – ")}, ${[...(effects.length === 0 ? ["a wire"] : effects), ...tunnels].join(", ")}`),
    ...routes.map(({ name, via, vpn }) => `route ${name}: via ${via.join(", ")}${vpn === null ? "" : `, ${vpn}`}`),
  ];
  return figure(
    "topology",
    "Hosts, routers and paths",
    "As in the plan; for swept values, the first and the last are given.",
    drawing,
    el("ul", { class: "topology-words" }, ...words.map((line) => el("li", {}, line))),
  );
}

/** The paths that join the same two nodes. */
function alike(path: NetworkPath, paths: NetworkPath[]): NetworkPath[] {
  return paths.filter(({ ends }) => ends.every((end) => path.ends.includes(end)));
}

/** From one column to the next. */
function step(columns: number): number {
  return columns === 1 ? 0 : (WIDTH - NODE_WIDTH - 4) / (columns - 1);
}

function place(node: NetworkNode, nodes: NetworkNode[], columns: number, height: number): Place {
  const same = nodes.filter(({ column }) => column === node.column);
  return { x: 2 + NODE_WIDTH / 2 + node.column * step(columns), y: (height * (same.indexOf(node) + 0.5)) / same.length, company: same.length };
}

function drawNode({ name, role, count }: NetworkNode, { x, y }: Place): SVGElement {
  const box = { x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2, width: NODE_WIDTH, height: NODE_HEIGHT, rx: role === "router" ? NODE_HEIGHT / 2 : 4 };
  return svg(
    "g",
    { class: `node ${role}` },
    svg("rect", box),
    svg("text", { x, y: y - 2, "text-anchor": "middle", class: "name" }, count > 1 ? `${name} × ${count}` : name),
    svg("text", { x, y: y + 14, "text-anchor": "middle" }, role),
  );
}

/**
 * A line with what it does to packets on it: level with the end that has more neighbours above and
 * below, where there is more room, and bent where several join the same nodes.
 */
function drawPath(path: NetworkPath, paths: NetworkPath[], places: Map<string, Place>, room: Room): SVGElement[] {
  const [from, to] = [places.get(path.ends[0]), places.get(path.ends[1])];
  if (from === undefined || to === undefined) {
    return [];
  }
  const same = alike(path, paths);
  const bend = (same.indexOf(path) - (same.length - 1) / 2) * room.row;
  const [x1, x2] = [from.x + NODE_WIDTH / 2, to.x - NODE_WIDTH / 2];
  const level = from.company === to.company ? (from.y + to.y) / 2 : from.company > to.company ? from.y : to.y;
  const middle = { x: (x1 + x2) / 2, y: level + bend };
  const quarter = (x2 - x1) / 4;
  const d = `M${x1} ${from.y}C${x1 + quarter} ${middle.y} ${x1 + quarter} ${middle.y} ${middle.x} ${middle.y}S${x2 - quarter} ${to.y} ${x2} ${to.y}`;
  const lines = labelLines(path, room.line);
  return [
    ...(path.tunnels.length === 0 ? [] : [svg("path", { d, class: "tunnel" })]),
    svg("path", { d, class: path.effects.length === 0 ? "path wire" : "path" }),
    svg(
      "g",
      { class: "path-label" },
      svg("text", { x: middle.x, y: middle.y - 7, "text-anchor": "middle", class: "name" }, path.name),
      ...lines.map((line, i) => svg("text", { x: middle.x, y: middle.y + 15 + LINE_HEIGHT * i, "text-anchor": "middle" }, line)),
    ),
  ];
}

/** Effects in as few lines as fit, each broken between words only when it is longer than a line; then the tunnels. */
function labelLines({ effects, tunnels }: NetworkPath, most: number): string[] {
  const lines: string[] = [];
  const add = (text: string, before: string) => {
    const last = lines[lines.length - 1];
    if (last !== undefined && last.length + before.length + text.length <= most) {
      lines[lines.length - 1] = `${last}${before}${text}`;
    } else {
      lines.push(text);
    }
  };
  for (const effect of effects) {
    const [first = "", ...words] = effect.length <= most ? [effect] : effect.split(" ");
    add(first, ", ");
    words.forEach((word) => add(word, " "));
  }
  return [...lines, ...tunnels.flatMap((tunnel) => (tunnel.length <= most ? [tunnel] : tunnel.split(" ")))];
}
