// Prints the licences of everything that is linked or built into the binary, each text once below the names of
// those that come with it: most licences ask for that where a binary is handed on.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const host = execFileSync('rustc', ['-vV'], { encoding: 'utf8' }).match(/^host: (.*)$/m)[1];
const { packages, resolve } = JSON.parse(execFileSync('cargo', [
  'metadata', '--format-version=1', '--locked', '--filter-platform', host,
  '--manifest-path', join(root, 'crates/wansan/Cargo.toml'), '--features=ebpf',
], { encoding: 'utf8', maxBuffer: 1 << 28 }));

// What only builds or tests ask for is not in the binary.
const nodes = new Map(resolve.nodes.map((node) => [node.id, node]));
const linked = new Set();
(function walk(id) {
  if (linked.has(id)) return;
  linked.add(id);
  for (const { pkg, dep_kinds: kinds } of nodes.get(id).deps) {
    if (kinds.some(({ kind }) => kind === null)) walk(pkg);
  }
})(resolve.root);

const parts = packages
  .filter(({ id, source }) => linked.has(id) && source)
  .map(({ name, version, license, manifest_path: manifest }) => ({ name, version, license, folder: dirname(manifest) }));
// What of npm's packages is in the pages.
for (const name of ['uplot']) {
  const folder = join(root, 'web/node_modules', name);
  parts.push({ ...JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')), folder });
}

const texts = new Map();
for (const { name, version, license, folder } of parts) {
  const title = `${name} ${version} (${license})`;
  // libbpf itself stands in a folder of the crate that binds it.
  const folders = [folder, join(folder, 'libbpf')].filter(existsSync);
  const files = folders.flatMap((each) => readdirSync(each)
    .filter((file) => /^(licen[cs]e|copying|copyright|notice)/i.test(file))
    .map((file) => join(each, file)));
  const found = files.map((file) => readFileSync(file, 'utf8').trim());
  for (const text of found.length > 0 ? found : ['(The package has no text of its licence.)']) {
    texts.set(text, [...(texts.get(text) ?? []), title]);
  }
}
for (const [text, titles] of texts) {
  console.log(`${'='.repeat(78)}\n${[...new Set(titles)].sort().join('\n')}\n\n${text}\n`);
}
