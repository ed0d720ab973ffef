// Builds dist/report.html (script and style inlined, nothing left to load), and with --tests the
// tests too, as plain scripts for node's own test runner.
import { build } from "esbuild";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";

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

async function buildReport() {
  const [template, style, script] = await Promise.all([
    readFile("src/report/template.html", "utf8"),
    bundle("src/report/report.css"),
    bundle("src/report/main.ts"),
  ]);
  // What ends a raw-text element must not stand inside it; in script and style alike "<\/" means
  // the same as "</".
  const html = template
    .replace("/*STYLE*/", () => style.replaceAll("</", "<\\/"))
    .replace("/*SCRIPT*/", () => script.replaceAll("</", "<\\/"));
  await mkdir("dist", { recursive: true });
  await writeFile("dist/report.html", html);
  console.log(`dist/report.html: ${(Buffer.byteLength(html) / 1000).toFixed(0)} kB`);
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

await buildReport();
if (process.argv.includes("--tests")) {
  await buildTests();
}
