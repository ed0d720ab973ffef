// Runs every test, shows what the runners print, and closes with one line that counts them all and says
// why any did not run.
//
// What measures mostly waits, so two of its binaries run beside each other, but none that would take the
// processors from them; what needs the machine to itself runs alone; the others run three at a time.
// (cargo-nextest can do this too, but its 460 crates take longer to build on a new machine than all of ours, and
// each test would ask anew what the machine allows.)
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

process.chdir(fileURLToPath(new URL('..', import.meta.url)));

/** Test binaries that measure, by crate and name; the longest first. */
const MEASURING = [
  'wansan limits', 'wansan relay', 'wansan path', 'wansan stalls', 'wansan below_socket',
  'wansan tcpdump', 'wansan diagnose', 'lab emulator',
];

/** Loads congestion controls with options of its own. Their names are the whole machine's, so a plan that another
 * binary runs would get these options, or hold the name. */
const ALONE = ['wansan congestion'];

// Files beside a `tests/main.rs` run as its modules, or as tests of their own that Cargo.toml names; what is
// neither would not run, and nobody would be told.
for (const crate of readdirSync('crates')) {
  const folder = join('crates', crate, 'tests');
  if (!existsSync(join(folder, 'main.rs'))) continue;
  const named = [join(folder, 'main.rs'), join('crates', crate, 'Cargo.toml')].map((file) => readFileSync(file, 'utf8')).join('');
  for (const file of readdirSync(folder)) {
    const name = file.endsWith('.rs') ? file.slice(0, -3) : file;
    const isTest = name !== file || existsSync(join(folder, file, 'main.rs'));
    if (!isTest || name === 'main' || named.includes(`mod ${name};`) || named.includes(`name = "${name}"`)) continue;
    console.error(`${join(folder, file)} does not run: name it in ${join(folder, 'main.rs')}`);
    process.exit(1);
  }
}

const ebpf = execFileSync('setup/ebpf', { encoding: 'utf8' }).split(/\s+/).filter(Boolean);
const printed = [];
let status = 0;

function print(text) {
  printed.push(text);
  process.stdout.write(text);
}

/** Builds tests with cargo; resolves to a job for each binary, whose name ends in `kind`. */
async function build(kind, ...options) {
  const cargo = spawn('cargo', ['test', '--locked', '--no-run', '--message-format=json-render-diagnostics', ...options],
    { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => cargo.on('close', resolve));
  const jobs = [];
  for await (const line of createInterface({ input: cargo.stdout })) {
    const { executable, manifest_path: manifest, profile, target } = JSON.parse(line);
    if (!executable || !profile.test) continue;
    const folder = dirname(manifest);
    const tests = target.kind.includes('test') ? target.name : 'unit tests';
    jobs.push({ name: `${basename(folder)} ${tests}${kind}`, command: [executable], folder });
  }
  if (await ended !== 0) fail(await ended);
  return jobs;
}

function fail(code) {
  status = code || 1;
}

/** Runs a job and prints all that it printed, when it has ended: jobs side by side would mix their lines. */
async function run({ name, command, folder }) {
  const began = performance.now();
  const child = spawn(command[0], command.slice(1), { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  const pieces = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => pieces.push(piece));
  const code = await new Promise((resolve) => child.on('error', () => resolve(1)).on('close', resolve));
  if (code !== 0) fail(code);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  print(`\n     Ran ${name} in ${seconds} s\n${Buffer.concat(pieces)}`);
}

async function runAll(jobs, atOnce) {
  const queue = [...jobs];
  await Promise.all(Array.from({ length: atOnce }, async () => {
    for (let job = queue.shift(); job; job = queue.shift()) await run(job);
  }));
}

const jobs = [
  ...['test', 'test:browser'].map((script) => (
    { name: `web ${script}`, command: ['npm', '--prefix', 'web', 'run', '--silent', script] })),
  ...await build('', '--workspace', '--exclude', 'wansan-consistency', '--exclude', 'wansan-sim', ...ebpf),
  // The pure machines as users get them, too: compilers have had faults that only show there.
  ...await build(', optimized', '--profile', 'release-test', ...['consistency', 'iscsi', 'path', 'sim']
    .flatMap((name) => ['--package', `wansan-${name}`])),
];
const began = performance.now();
const named = (names) => names.map((name) => jobs.find((job) => job.name === name)).filter(Boolean);
const [measuring, alone] = [named(MEASURING), named(ALONE)];
await runAll(jobs.filter((job) => !measuring.includes(job) && !alone.includes(job)), 3);
await runAll(measuring, 2);
await runAll(alone, 1);

const folder = mkdtempSync(join(tmpdir(), 'wansan-tests-'));
const log = join(folder, 'log');
writeFileSync(log, printed.join(''));
process.stdout.write(`\nall tests ran in ${Math.round((performance.now() - began) / 1000)} s, not counting compilation\n`);
process.stdout.write(execFileSync('awk', ['-v', `status=${status}`, '-f', 'setup/count-tests.awk', log]));
rmSync(folder, { recursive: true });
process.exitCode = status;
