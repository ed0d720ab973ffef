/** Reads the plan in a run's manifest as a network: hosts, routers, the paths and routes between them. */

import type { CellReport, Json } from "./data";
import { formatValue } from "./units";

export interface NetworkNode {
  name: string;
  role: "initiator" | "router" | "target" | "host";
  /** How many there are of it. */
  count: number;
  /** From left to right: initiators stand in column 0, the target in the last. */
  column: number;
}

export interface NetworkPath {
  name: string;
  /** The nodes at its ends, the one further left first. */
  ends: [string, string];
  /** What it does to packets, such as "delay 8ms"; empty for a wire. */
  effects: string[];
  /** The tunnels that go over it, such as "ipsec (upper)". */
  tunnels: string[];
}

export interface NetworkRoute {
  name: string;
  /** From the initiator's side to the target's. */
  via: string[];
  vpn: string | null;
}

export interface Network {
  nodes: NetworkNode[];
  paths: NetworkPath[];
  routes: NetworkRoute[];
}

type Table = Record<string, Json>;

/** What of a path is no effect on packets. */
const NO_EFFECTS = ["name", "between", "forward", "back", "capture"];

/** The network of a run, or null when its manifest has no plan with paths. */
export function readNetwork(manifest: unknown, cells: CellReport[]): Network | null {
  const plan = table(table(manifest as Json)["document"]);
  const paths = tables(plan["path"]);
  const target = text(table(plan["target"])["host"]);
  if (paths.length === 0 || target === null) {
    return null;
  }
  const routers = tables(plan["router"]).map((router) => text(router["name"]));
  const initiators = tables(plan["initiator"]).map((initiator) => text(initiator["host"]));
  const named = [...tables(plan["host"]), ...tables(plan["router"])];
  const routes = tables(plan["route"]).map(readRoute);
  const ends = paths.map((path) => (Array.isArray(path["between"]) ? path["between"].map(String) : []));
  const names = [...new Set([...named.map((node) => text(node["name"]) ?? ""), ...ends.flat()])].filter((name) => name !== "");
  const columns = columnsOf(names, ends, initiators.filter((name) => name !== null), target);
  const nodes = names.map((name): NetworkNode => ({
    name,
    role: name === target ? "target" : routers.some((router) => isOne(name, router)) ? "router" : initiators.some((host) => isOne(name, host)) ? "initiator" : "host",
    count: Number(named.find((node) => node["name"] === name)?.["count"] ?? 1),
    column: columns.get(name) ?? 0,
  }));
  // A node of several stands for itself; where a path names one of them, the whole is left out.
  const joined = new Set(ends.flat());
  const shown = nodes.filter(({ name, count }) => joined.has(name) || (count === 1 && named.length === nodes.length));
  return { nodes: shown, paths: paths.map((path, i) => readPath(path, ends[i] ?? [], columns, routes, cells)), routes };
}

/** Whether a node is the named one, or one of several of that name. */
function isOne(name: string, of: string | null): boolean {
  return of !== null && (name === of || (name.startsWith(`${of}-`) && /^\d+$/.test(name.slice(of.length + 1))));
}

function readRoute(route: Table): NetworkRoute {
  const vpn = text(route["vpn"]);
  const cipher = text(route["cipher"]);
  return {
    name: text(route["name"]) ?? "",
    via: Array.isArray(route["via"]) ? route["via"].map(String) : [],
    vpn: vpn === null || vpn === "none" ? null : `${vpn}${cipher === null ? "" : ` ${cipher}`}`,
  };
}

function readPath(path: Table, between: string[], columns: Map<string, number>, routes: NetworkRoute[], cells: CellReport[]): NetworkPath {
  const name = text(path["name"]) ?? "";
  const own = effects(path, (key) => sweptValues(`path.${name}.${key}`, cells));
  // A queue is there only in front of a link with a rate, and no loss is no effect.
  const kept = own.filter((effect) => !(effect.startsWith("queue") && path["rate"] === undefined) && effect !== "loss 0%" && effect !== "loss 0");
  const oneWay = ["forward", "back"].flatMap((way) => effects(table(path[way]), (key) => sweptValues(`path.${name}.${way}.${key}`, cells)).map((effect) => `${way}: ${effect}`));
  const [one = "", other = ""] = between;
  const tunnels = routes.flatMap(({ name: route, via, vpn }) => {
    const [at, to] = [via.indexOf(one), via.indexOf(other)];
    return vpn !== null && at >= 0 && to >= 0 && Math.abs(at - to) === 1 ? [`${vpn} (${route})`] : [];
  });
  const turned = (columns.get(one) ?? 0) > (columns.get(other) ?? 0);
  return { name, ends: turned ? [other, one] : [one, other], effects: [...kept, ...oneWay], tunnels };
}

function effects(path: Table, swept: (key: string) => string | null): string[] {
  return Object.entries(path)
    .filter(([key, value]) => !NO_EFFECTS.includes(key) && value !== null)
    .map(([key, value]) => `${key} ${swept(key) ?? effectText(value)}`);
}

function effectText(value: Json): string {
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    return formatValue(value);
  }
  const { kind, ...rest } = value;
  return [...(typeof kind === "string" ? [kind] : []), ...Object.entries(rest).map(([key, part]) => `${key} ${effectText(part)}`)].join(" ");
}

/** The values that a sweep gave to a parameter, from the first to the last. */
function sweptValues(parameter: string, cells: CellReport[]): string | null {
  const values = cells.flatMap((cell) =>
    Object.entries(cell.parameters)
      .filter(([name]) => name.split(" + ").includes(parameter))
      .map(([, value]) => formatValue(value)),
  );
  const distinct = [...new Set(values)];
  const [first] = distinct;
  return first === undefined ? null : distinct.length === 1 ? first : `${first} … ${distinct[distinct.length - 1]}`;
}

/** How many paths each node is away from the initiators; the target stands right of all. */
function columnsOf(names: string[], paths: string[][], initiators: string[], target: string): Map<string, number> {
  const columns = new Map<string, number>(names.filter((name) => name !== target && initiators.some((host) => isOne(name, host))).map((name) => [name, 0]));
  for (let round = 0; round < names.length; round += 1) {
    for (const ends of paths) {
      for (const [from, to] of [[ends[0], ends[1]], [ends[1], ends[0]]]) {
        const before = columns.get(from ?? "");
        if (before === round && to !== undefined && !columns.has(to) && to !== target) {
          columns.set(to, round + 1);
        }
      }
    }
  }
  columns.set(target, Math.max(0, ...columns.values()) + 1);
  return columns;
}

function table(value: Json | undefined): Table {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
}

function tables(value: Json | undefined): Table[] {
  return Array.isArray(value) ? value.map(table) : [];
}

function text(value: Json | undefined): string | null {
  return typeof value === "string" ? value : null;
}
