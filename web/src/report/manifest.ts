/** The whole manifest as a tree that can be searched and copied. */

import type { Json, Manifest } from "./data";
import { el } from "./dom";
import { formatValue } from "./units";

/** Children shown of one node; the copy always has all of them. */
const MOST_CHILDREN = 500;

interface Node_ {
  element: HTMLElement;
  /** Lower-case text of its own line. */
  text: string;
  children: Node_[];
}

export function manifestView(manifest: Manifest): HTMLElement {
  const roots = childrenOf(manifest as unknown as Json);
  const count = el("span", { class: "reading", "aria-live": "polite" });
  const search = el("input", {
    type: "search",
    placeholder: "search, such as congestion",
    "aria-label": "Search the manifest",
    oninput: () => {
      const wanted = search.value.trim().toLowerCase();
      const found = roots.reduce((sum, root) => sum + filter(root, wanted, false), 0);
      count.textContent = wanted === "" ? "" : found === 1 ? "1 match" : `${found} matches`;
    },
  });
  const copy = el("button", { type: "button", onclick: () => void copyText(JSON.stringify(manifest, null, 2), copy) }, "copy as JSON");
  const all = (open: boolean) => () => roots.forEach((root) => setOpen(root, open));
  return el(
    "div",
    { class: "manifest" },
    el(
      "div",
      { class: "controls" },
      search,
      count,
      el("button", { type: "button", onclick: all(true) }, "open all"),
      el("button", { type: "button", onclick: all(false) }, "close all"),
      copy,
    ),
    el("div", { class: "tree" }, ...roots.map((root) => root.element)),
  );
}

function childrenOf(value: Json): Node_[] {
  const entries: [string, Json][] = Array.isArray(value)
    ? value.map((item, place) => [String(place), item])
    : value !== null && typeof value === "object"
      ? Object.entries(value)
      : [["", value]];
  const shown = entries.slice(0, MOST_CHILDREN).map(([name, child]) => node(name, child));
  if (entries.length > MOST_CHILDREN) {
    const rest = `… and ${entries.length - MOST_CHILDREN} more (the copy has them)`;
    shown.push({ element: el("p", { class: "leaf" }, rest), text: "", children: [] });
  }
  return shown;
}

function node(name: string, value: Json): Node_ {
  if (value === null || typeof value !== "object" || Object.keys(value).length === 0) {
    const text = value === null ? "null" : formatValue(value);
    return {
      element: el("p", { class: "leaf" }, el("span", { class: "name" }, name), " ", el("span", { class: "value" }, text)),
      text: `${name} ${text}`.toLowerCase(),
      children: [],
    };
  }
  const children = childrenOf(value);
  const size = Array.isArray(value) ? `${value.length} ${value.length === 1 ? "item" : "items"}` : "";
  return {
    element: el(
      "details",
      {},
      el("summary", {}, el("span", { class: "name" }, name), " ", el("span", { class: "size" }, size)),
      ...children.map((child) => child.element),
    ),
    text: name.toLowerCase(),
    children,
  };
}

/** Hides what does not match and opens the way to what does; returns the number of matches. */
function filter(node: Node_, wanted: string, above: boolean): number {
  const own = wanted !== "" && node.text.includes(wanted);
  const below = node.children.reduce((sum, child) => sum + filter(child, wanted, above || own), 0);
  node.element.hidden = wanted !== "" && !own && below === 0 && !above;
  if (node.element instanceof HTMLDetailsElement) {
    node.element.open = wanted !== "" && below > 0;
  }
  return below + (own ? 1 : 0);
}

function setOpen(node: Node_, open: boolean): void {
  if (node.element instanceof HTMLDetailsElement) {
    node.element.open = open;
  }
  node.children.forEach((child) => setOpen(child, open));
}

/** Copies through the clipboard, or where a page from disk may not use it, through a selection. */
async function copyText(text: string, button: HTMLButtonElement): Promise<void> {
  const label = button.textContent;
  let copied = false;
  try {
    await navigator.clipboard.writeText(text);
    copied = true;
  } catch {
    const area = el("textarea", { class: "spoken", readonly: true }, text);
    document.body.append(area);
    area.select();
    copied = document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = copied ? "copied" : "copying was refused";
  setTimeout(() => (button.textContent = label), 2000);
}
