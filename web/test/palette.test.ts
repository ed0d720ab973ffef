import assert from "node:assert/strict";
import { test } from "node:test";
import palette from "../src/report/palette.css";

/** How eyes without one kind of cone see linear RGB (Machado, Oliveira and Fernandes 2009). */
const EYES: Record<string, number[]> = {
  all: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritanopia: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};

/** Least distance in OKLab that two colours side by side need to be told apart with ease. */
const NEIGHBOURS = 0.1;
/** The same for lines that also differ in where they run. */
const LINES = 0.05;
/** Least contrast of lines and text with what they stand on (WCAG 2.2, 1.4.11 and 1.4.3). */
const LINE_CONTRAST = 3;
const TEXT_CONTRAST = 4.5;

type Colours = Map<string, string>;

function themes(): [string, Colours][] {
  const [light = "", dark = ""] = palette.split("@media");
  const read = (css: string): Colours => new Map([...css.matchAll(/(--[\w-]+):\s*(#[0-9a-f]{6})/g)].map((m) => [m[1] ?? "", m[2] ?? ""]));
  return [["light", read(light)], ["dark", new Map([...read(light), ...read(dark)])]];
}

function linear(hex: string): number[] {
  return [1, 3, 5].map((at) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
}

function times(matrix: number[], [x = 0, y = 0, z = 0]: number[]): number[] {
  return [0, 3, 6].map((row) => (matrix[row] ?? 0) * x + (matrix[row + 1] ?? 0) * y + (matrix[row + 2] ?? 0) * z);
}

function oklab(rgb: number[]): number[] {
  const lms = times([0.4122214708, 0.5363325363, 0.0514459929, 0.2119034982, 0.6806995451, 0.1073969566, 0.0883024619, 0.2817188376, 0.6299787005], rgb);
  return times([0.2104542553, 0.793617785, -0.0040720468, 1.9779984951, -2.428592205, 0.4505937099, 0.0259040371, 0.7827717662, -0.808675766], lms.map((v) => Math.cbrt(Math.max(v, 0))));
}

function distance(a: string, b: string, eyes: number[]): number {
  const [p, q] = [a, b].map((hex) => oklab(times(eyes, linear(hex)).map((v) => Math.min(Math.max(v, 0), 1))));
  return Math.hypot(...(p ?? []).map((value, i) => value - (q?.[i] ?? 0)));
}

function contrast(a: string, b: string): number {
  const [p = 0, q = 0] = [a, b].map((hex) => times([0.2126, 0.7152, 0.0722, 0, 0, 0, 0, 0, 0], linear(hex))[0] ?? 0);
  return (Math.max(p, q) + 0.05) / (Math.min(p, q) + 0.05);
}

function of(colours: Colours, prefix: string): [string, string][] {
  return [...colours].filter(([name]) => name.startsWith(prefix));
}

for (const [theme, colours] of themes()) {
  const get = (name: string) => colours.get(name) ?? assert.fail(`${theme} has no ${name}`);

  test(`${theme}: layers next to each other differ for every eye`, () => {
    const layers = of(colours, "--layer-");
    assert.equal(layers.length, 11);
    for (const [place, [name, hex]] of layers.entries()) {
      // A run may have recorded no TCP layers: then the socket stands beside the target.
      const below = [layers[place + 1], ...(name === "--layer-socket" ? [layers[8]] : [])];
      for (const [other, otherHex] of below.filter((layer) => layer !== undefined)) {
        for (const [eyes, matrix] of Object.entries(EYES)) {
          const seen = distance(hex, otherHex, matrix);
          assert.ok(seen >= NEIGHBOURS, `${name} ${other} with ${eyes}: ${seen.toFixed(3)}`);
        }
      }
    }
  });

  test(`${theme}: series differ for every eye`, () => {
    const series = of(colours, "--series-");
    for (const [i, [name, hex]] of series.entries()) {
      for (const [other, otherHex] of series.slice(i + 1)) {
        for (const [eyes, matrix] of Object.entries(EYES)) {
          const seen = distance(hex, otherHex, matrix);
          assert.ok(seen >= LINES, `${name} ${other} with ${eyes}: ${seen.toFixed(3)}`);
        }
      }
    }
  });

  test(`${theme}: lines and text stand out`, () => {
    for (const [name, hex] of [...of(colours, "--series-"), ["--predicted", get("--predicted")] as const]) {
      assert.ok(contrast(hex, get("--surface")) >= LINE_CONTRAST, `${name}: ${contrast(hex, get("--surface")).toFixed(2)}`);
    }
    for (const name of ["--ink", "--ink-2", "--bind", "--good", "--bad", "--accent"]) {
      for (const ground of ["--paper", "--surface"]) {
        assert.ok(contrast(get(name), get(ground)) >= TEXT_CONTRAST, `${name} on ${ground}`);
      }
    }
  });
}
