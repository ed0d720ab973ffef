// What the page is built from. The lab's build script computes the same, and takes no page of other
// sources (crates/lab/build/page.rs).
import { createHash } from "node:crypto";
import { readFile, readdir, stat } from "node:fs/promises";

const SOURCES = ["build.mjs", "package-lock.json", "package.json", "sources.mjs", "src", "tsconfig.json"];

const sha256 = () => createHash("sha256");

async function filesUnder(name) {
  if (!(await stat(name)).isDirectory()) {
    return [name];
  }
  const inside = await readdir(name);
  return (await Promise.all(inside.map((entry) => filesUnder(`${name}/${entry}`)))).flat();
}

/** SHA-256 of the names and contents of all sources, in hexadecimal. */
export async function fingerprint() {
  const names = (await Promise.all(SOURCES.map(filesUnder))).flat();
  const all = sha256();
  for (const name of names.sort()) {
    all.update(name).update("\0").update(sha256().update(await readFile(name)).digest());
  }
  return all.digest("hex");
}
