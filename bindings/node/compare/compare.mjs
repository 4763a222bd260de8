// Prints the table of README.md: this package beside other test doubles. Each is installed in a
// folder of its own, with an empty cache of npm.
//
//   node compare.mjs FOLDER PACKAGE-FILE...     the files of this package
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { features } from './features.mjs';
import { peers } from './peers.mjs';

const CLIENTS = ['redis@6.3.1', 'bullmq@6.7.0'];
const [root, ...files] = process.argv.slice(2);

/** Runs npm in a folder, and returns the seconds that it took. */
function install(cwd, packages, more = []) {
  const began = performance.now();
  const flags = ['--package-lock=false', '--no-audit', '--no-fund', '--loglevel=error', ...more];
  execFileSync('npm', ['install', ...flags, ...packages], { cwd, stdio: ['ignore', 2, 2] });
  return (performance.now() - began) / 1000;
}

const results = {};
for (const [name, { packages, clients }] of Object.entries(peers)) {
  const folder = join(root, name.replace(/\W+/g, '-'));
  mkdirSync(folder, { recursive: true });
  cpSync(import.meta.dirname, folder, { recursive: true });
  const own = packages.length > 0 ? packages : files;
  const seconds = install(folder, own, ['--cache', join(folder, 'cache')]);
  const size = execFileSync('du', ['-sm', join(folder, 'node_modules')], { encoding: 'utf8' });
  install(folder, [...clients, ...CLIENTS], ['--no-save', '--ignore-scripts']);
  const line = execFileSync(process.execPath, ['probe.mjs', name], {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 2],
  });
  results[name] = { seconds, size: Number.parseInt(size, 10), ...JSON.parse(line) };
}

const row = (title, cell) =>
  console.log(`| ${title} | ${Object.values(results).map(cell).join(' | ')} |`);
console.log(`| | ${Object.keys(results).join(' | ')} |`);
console.log(`|---|${'---|'.repeat(Object.keys(results).length)}`);
row('installation', ({ seconds }) => `${seconds.toFixed(1)} s`);
row('size of node_modules', ({ size }) => `${size} MB`);
row('start to the first PONG, median of 20', ({ startMs }) => `${startMs.toFixed(1)} ms`);
row('100 tests that each start one', ({ suiteMs, passed }) => {
  const failed = passed === 100 ? '' : `, ${100 - passed} failed`;
  return `${(suiteMs / 1000).toFixed(1)} s${failed}`;
});
row('lateness of `expired` events: median, maximum', ({ lateMs }) =>
  lateMs ? lateMs.map((ms) => `${ms.toFixed(1)} ms`).join(', ') : 'no events',
);
for (const feature of Object.keys(features)) {
  row(feature, ({ works }) => (works.includes(feature) ? 'yes' : 'no'));
}
