/**
 * Building elements. Text only ever becomes text nodes and attribute values, so nothing that comes
 * from a run can turn into markup.
 */

type Child = Node | string | null;
type Attributes = Record<string, string | number | boolean | ((event: Event) => void)>;

/** An element; `on…` attributes are listeners, `true` sets a bare attribute, `false` none. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false) {
      element.setAttribute(name, String(value));
    }
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Sentences in which `names` stand between backquotes, as wansan writes them everywhere. */
export function prose(text: string): DocumentFragment {
  const pieces = text.split("`");
  const whole = pieces.length % 2 === 1;
  const fragment = document.createDocumentFragment();
  fragment.append(...(whole ? pieces.map((piece, i) => (i % 2 === 1 ? el("code", {}, piece) : piece)) : [text]));
  return fragment;
}

/** A figure: what it shows, how to read it, and the thing itself. */
export function figure(id: string, title: string, reading: string, ...body: Child[]): HTMLElement {
  return el(
    "figure",
    { id, "aria-labelledby": `${id}-title` },
    el("figcaption", {}, el("h3", { id: `${id}-title` }, title), el("p", { class: "reading" }, reading)),
    ...body,
  );
}

/** A section of the page. */
export function section(id: string, title: string, ...body: Child[]): HTMLElement {
  return el("section", { id, "aria-labelledby": `${id}-heading` }, el("h2", { id: `${id}-heading` }, title), ...body);
}
