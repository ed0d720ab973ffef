// Builds dist/report.html, dist/live.html and dist/diagnosis.html (script and style inlined, nothing left to load), and
// with --tests the tests too, as plain scripts for node's own test runner.
import { build } from "esbuild";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { fingerprint } from "./sources.mjs";

const target = ["es2022", "chrome109", "firefox115", "safari16.4"];

async function bundle(entry) {
  const result = await build({
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    target,
    format: "iife",
    legalComments: "inline",
    charset: "utf8",
    logLevel: "warning",
  });
  return result.outputFiles[0].text.trim();
}

/** A page of src/page.html; `connect` is what its script may load from (Content-Security-Policy). */
async function buildPage(name, { title, connect }, sources) {
  const folder = `src/${name}`;
  const [template, body, style, script] = await Promise.all([
    readFile("src/page.html", "utf8"),
    readFile(`${folder}/body.html`, "utf8"),
    bundle(`${folder}/${name}.css`),
    bundle(`${folder}/main.ts`),
  ]);
  // What ends a raw-text element must not stand inside it; in script and style alike "<\/" means
  // the same as "</".
  const html = template
    .replace("CONNECT", connect)
    .replace("SOURCES", sources)
    .replace("TITLE", title)
    .replace("<!--BODY-->", () => body.trim())
    .replace("/*STYLE*/", () => style.replaceAll("</", "<\\/"))
    .replace("/*SCRIPT*/", () => script.replaceAll("</", "<\\/"));
  await mkdir("dist", { recursive: true });
  await writeFile(`dist/${name}.html`, html);
  console.log(`dist/${name}.html: ${(Buffer.byteLength(html) / 1000).toFixed(0)} kB`);
}

async function buildTests() {
  const folders = ["test", "test/browser"];
  const names = await Promise.all(folders.map(async (folder) => (await readdir(folder)).map((name) => `${folder}/${name}`)));
  await build({
    entryPoints: names.flat().filter((name) => name.endsWith(".test.ts")),
    outdir: "dist/test",
    outbase: "test",
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node18",
    external: ["playwright-core"],
    loader: { ".css": "text" },
    logLevel: "warning",
  });
}

// Taken first: what changes while the pages are built makes them some of other sources.
const sources = await fingerprint();
await buildPage("report", { title: "wansan report", connect: "'none'" }, sources);
await buildPage("live", { title: "wansan watch", connect: "'self'" }, sources);
await buildPage("diagnosis", { title: "wansan diagnose", connect: "'self'" }, sources);
if (process.argv.includes("--tests")) {
  await buildTests();
}
