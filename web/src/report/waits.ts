/** What I/Os waited for: the colours and words of causes, and a cell's sums by layer. */

import { CAUSES, type Cause, type Family, type LayerReport, type WaitUse } from "./data";
import { el } from "./dom";
import { isAbove } from "./layers";

const FAMILIES: Record<Family, { name: string; colour: string }> = {
  path: { name: "crossing the path", colour: "--wait-path" },
  queue: { name: "queues of links and other resources", colour: "--series-3" },
  iscsi: { name: "iSCSI: command window, R2Ts, order", colour: "--series-1" },
  tcp_window: { name: "TCP's windows and buffers", colour: "--series-2" },
  acknowledgement: { name: "late acknowledgements", colour: "--series-5" },
  loss: { name: "losses and their repair", colour: "--series-4" },
  program: { name: "programs", colour: "--series-6" },
  store: { name: "store", colour: "--series-7" },
  unknown: { name: "unknown", colour: "--wait-unknown" },
};

const UNKNOWN: Cause = { family: "unknown", limit: "nothing", words: "" };

export function causeOf(name: string): Cause {
  return CAUSES[name] ?? UNKNOWN;
}

/** Whether waits for a cause are what a finding's limit takes. Where nothing binds, none are. */
export function isOfLimit(cause: string, limit: string | null): boolean {
  return limit !== "nothing" && causeOf(cause).limit === limit;
}

/** The CSS variable of a cause's colour. */
export function causeColour(name: string): string {
  return FAMILIES[causeOf(name).family].colour;
}

export function causeName(name: string): string {
  return name.replaceAll("_", " ");
}

/** Which colours the families of these causes have. */
export function causeKey(causes: string[]): HTMLElement {
  const there = new Set(causes.map((cause) => causeOf(cause).family));
  const families = (Object.keys(FAMILIES) as Family[]).filter((family) => there.has(family));
  return el(
    "ul",
    { class: "key", "aria-label": "Causes" },
    ...families.map((family) => {
      const swatch = el("span", { class: `swatch wait-${family}` });
      swatch.style.setProperty("--part", `var(${FAMILIES[family].colour})`);
      return el("li", {}, swatch, FAMILIES[family].name);
    }),
  );
}

/** The waits of one cause at one layer, as means over the I/Os. */
export interface CauseSum {
  cause: string;
  mean_ns: number;
  uncertain_ns: number;
}

/** What a layer held I/Os for. */
export interface LayerSum {
  layer: string;
  mean_ns: number;
  causes: CauseSum[];
}

/** A cell's waits by layer from the top down, and there by cause: those of both directions and of all sources together. */
export function layerSums({ sums }: WaitUse): LayerSum[] {
  const layers: LayerSum[] = [];
  for (const { layer, cause, mean_ns, uncertain_ns } of sums) {
    let at = layers.find((other) => other.layer === layer);
    if (at === undefined) {
      at = { layer, mean_ns: 0, causes: [] };
      layers.push(at);
    }
    at.mean_ns += mean_ns;
    const same = at.causes.find((other) => other.cause === cause);
    if (same === undefined) {
      at.causes.push({ cause, mean_ns, uncertain_ns });
    } else {
      same.mean_ns += mean_ns;
      same.uncertain_ns += uncertain_ns;
    }
  }
  return layers;
}

/** What each recorded layer held I/Os for: what lies below it and above the next belongs to it. */
export function heldBy(layers: LayerReport[], waits: WaitUse): Map<string, LayerSum> {
  const sums = waits.sums.map((sum) => {
    const holder = layers.filter(({ layer }) => !isAbove(sum.layer, layer)).at(-1);
    return { ...sum, layer: holder?.layer ?? sum.layer };
  });
  return new Map(layerSums({ ...waits, sums }).map((sum) => [sum.layer, sum]));
}
