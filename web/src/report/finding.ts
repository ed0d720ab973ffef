/** The top of the page: what was run, what was found, what to change, and what that brought. */

import type { Advised, Fact, ReportData, Verdict } from "./data";
import { el, prose } from "./dom";
import { formatChange, formatFixed, formatValue } from "./units";

export function heading(data: ReportData): HTMLElement {
  return el(
    "header",
    {},
    el("p", { class: "kicker" }, data.plan === "" ? "wansan run" : `wansan run · ${data.plan}`),
    el("h1", {}, data.title || data.plan || "A run without a title"),
    el(
      "dl",
      { class: "facts" },
      ...[...started(data), ...data.facts].map(({ label, text }) => el("div", {}, el("dt", {}, label), el("dd", {}, text))),
    ),
  );
}

function started({ started_ns }: ReportData): Fact[] {
  if (started_ns === null) {
    return [];
  }
  const text = new Date(started_ns / 1e6).toISOString().slice(0, 19).replace("T", " ");
  return [{ label: "started", text: `${text} UTC` }];
}

/** What must be read with care stands before anything that it touches. */
export function problemList(problems: string[]): HTMLElement | null {
  if (problems.length === 0) {
    return null;
  }
  return el(
    "section",
    { class: "problems", "aria-label": "Caveats" },
    el("h2", {}, "Caveats"),
    el("ul", {}, ...problems.map((problem) => el("li", {}, prose(problem)))),
  );
}

export function findingBlock({ finding, advised }: ReportData): HTMLElement | null {
  if (finding === null) {
    return null;
  }
  return el(
    "section",
    { id: "finding", "aria-labelledby": "finding-heading" },
    el("h2", { id: "finding-heading", class: "kicker" }, "Finding"),
    el("p", { class: "sentence" }, prose(finding.sentence)),
    el(
      "div",
      { class: "columns" },
      finding.evidence.length === 0
        ? null
        : el("div", {}, el("h3", {}, "Evidence"), el("ul", {}, ...finding.evidence.map((text) => el("li", {}, prose(text))))),
      finding.advice === null
        ? null
        : el("div", {}, el("h3", {}, "What to change"), el("p", {}, prose(finding.advice.text))),
      advised === null ? null : el("div", {}, el("h3", {}, "Gain"), gainBars(advised)),
    ),
  );
}

/** Before, foretold and measured, as bars on one scale from zero. */
function gainBars(gain: Advised): HTMLElement {
  const rows: [string, string, number][] = [
    ["planned", "planned", gain.planned_iops],
    ["predicted", "predicted", gain.predicted_iops],
    ["measured", "advised", gain.measured_iops],
  ];
  const greatest = Math.max(...rows.map(([, , iops]) => iops), Number.MIN_VALUE);
  return el(
    "div",
    { class: "gain" },
    el("p", { class: "reading" }, `IOPS with ${gain.parameter} = ${formatValue(gain.value)}`),
    el(
      "table",
      {},
      el(
        "tbody",
        {},
        ...rows.map(([name, kind, iops]) => {
          const bar = el("span", { class: `bar ${kind}` });
          bar.style.inlineSize = `${(iops / greatest) * 100}%`;
          return el(
            "tr",
            {},
            el("th", { scope: "row" }, name),
            el("td", { class: "bar-cell" }, bar),
            el("td", { class: "number" }, formatFixed(iops, 0)),
            el(
              "td",
              { class: "number" },
              name === "planned" || gain.planned_iops <= 0 ? "" : formatChange(iops / gain.planned_iops),
            ),
          );
        }),
      ),
    ),
  );
}

/** What the plan expected; met and failed differ in word and sign, not in colour alone. */
export function expectationTable(expectations: Verdict[]): HTMLElement {
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Expectations" },
    el(
      "table",
      { class: "data" },
      el("thead", {}, el("tr", {}, ...["Verdict", "Expected", "Found"].map((name) => el("th", { scope: "col" }, name)))),
      el(
        "tbody",
        {},
        ...expectations.map((expectation) =>
          el(
            "tr",
            {},
            el("td", {}, verdict(expectation.met)),
            el("td", {}, expectation.expected),
            el("td", {}, expectation.found),
          ),
        ),
      ),
    ),
  );
}

function verdict(met: boolean): HTMLElement {
  const [kind, text] = met ? ["met", "✓ met"] : ["failed", "✗ failed"];
  return el("span", { class: `verdict ${kind}` }, text);
}
