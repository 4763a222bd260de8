// Measures and probes one of the test doubles, whose package is installed in this folder. Prints
// one line of JSON: node probe.mjs NAME
import { spawnSync } from 'node:child_process';
import { features } from './features.mjs';
import { peers } from './peers.mjs';

const STARTS = 20;
const PATIENCE_MS = 4_000;
const DEADLINES = 100;

const name = process.argv[2];
const peer = peers[name];

/** @param {number[]} numbers */
const median = (numbers) => numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

/** Returns the milliseconds from the start to the first PONG, the median of 20 starts. */
async function startTime() {
  const times = [];
  for (let round = 0; round < STARTS; round += 1) {
    const began = performance.now();
    const double = await peer.start();
    await double.client.ping();
    times.push(performance.now() - began);
    await double.stop();
  }
  return median(times);
}

/**
 * Returns how many milliseconds after their deadlines 100 keys that nobody reads are reported, with
 * the machine's clock: the median and the maximum. Undefined if an event does not come.
 */
async function lateness() {
  const double = await peer.start({ clock: 'real' });
  try {
    const events = double.newClient();
    await events.subscribe('__keyevent@0__:expired');
    const deadlines = new Map();
    const late = [];
    const all = new Promise((resolve) => {
      events.on('message', (_, key) => {
        late.push(performance.timeOrigin + performance.now() - deadlines.get(key));
        if (late.length === DEADLINES) resolve(true);
      });
    });
    const now = Date.now();
    for (let number = 0; number < DEADLINES; number += 1) {
      const deadline = now + 300 + number * 7;
      deadlines.set(`key:${number}`, deadline);
      double.client.set(`key:${number}`, 'x', 'PXAT', deadline).catch(() => {});
    }
    return (await Promise.race([all, patience()])) && [median(late), Math.max(...late)];
  } catch {
    return undefined;
  } finally {
    await double.stop();
  }
}

function patience() {
  return new Promise((resolve) => setTimeout(resolve, PATIENCE_MS, false));
}

/** Returns the names of the features that work. */
async function working() {
  const found = [];
  for (const [feature, probe] of Object.entries(features)) {
    const double = await peer.start();
    let reason = 'no answer in time';
    const works = probe(double).then(
      () => true,
      (error) => {
        reason = error.message.split('\n')[0];
        return false;
      },
    );
    if (await Promise.race([works, patience()])) found.push(feature);
    else console.error(`${name}: ${feature}: ${reason}`);
    await double.stop();
  }
  return found;
}

/** Runs a suite of 100 tests that each start a double. */
function suite() {
  const began = performance.now();
  const run = spawnSync(process.execPath, ['--test', 'suite.test.mjs'], {
    env: { ...process.env, PEER: name },
    encoding: 'utf8',
  });
  const suiteMs = performance.now() - began;
  const passed = Number(/^# pass (\d+)$/m.exec(run.stdout)?.[1]);
  const errors = run.stdout.split('\n').filter((line) => /^ *error:/.test(line));
  for (const error of errors) console.error(`${name}: suite: ${error.trim()}`);
  return { suiteMs, passed };
}

// Some libraries reject promises that nobody waits for when a double does not know a command.
process.on('unhandledRejection', () => {});
const result = {
  startMs: await startTime(),
  ...suite(),
  lateMs: await lateness(),
  works: await working(),
};
process.stdout.write(`${JSON.stringify(result)}\n`);
process.exit();
