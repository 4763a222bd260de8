// `start` and the server's process.
import { deepEqual, equal, match, notEqual, ok, rejects } from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { start } from '@punctual/server';
import { Redis } from 'ioredis';

/**
 * Starts a server for a test.
 *
 * @param {import('node:test').TestContext} t
 * @param {import('@punctual/server').StartOptions} [options]
 */
async function started(t, options) {
  const server = await start(options);
  t.after(() => server[Symbol.asyncDispose]());
  return server;
}

/** @param {import('@punctual/server').PunctualServer} server */
const client = (server) => new Redis(server.url, { retryStrategy: null });

test('a server has a free port, answers, and stops', async () => {
  const [one, other] = await Promise.all([start(), start()]);
  equal(one.host, '127.0.0.1');
  notEqual(one.port, other.port);
  equal(one.url, `redis://127.0.0.1:${one.port}`);
  const redis = client(one);
  await redis.set('key', 'value');
  equal(await redis.get('key'), 'value');
  const socket = createConnection(other.port, other.host);
  await once(socket, 'connect');
  await redis.quit();
  await Promise.all([one.stop(), other.stop(), once(socket.resume(), 'close')]);
  await one.stop();
  await rejects(once(createConnection(one.port, one.host), 'connect'), { code: 'ECONNREFUSED' });
  await rejects(one.now(), /no reply from 127.0.0.1:\d+: .*ECONNREFUSED/);
});

test('a virtual clock moves only by advance', async (t) => {
  const before = Date.now();
  const server = await started(t, { clock: 'virtual' });
  const began = await server.now();
  ok(began >= before && began <= Date.now());
  const redis = client(server);
  await redis.set('session', 'alice', 'PX', 1_800_000);
  equal(await server.advance(1_799_999), began + 1_799_999);
  equal(await redis.pttl('session'), 1);
  await server.advance(1);
  equal(await redis.get('session'), null);
  equal(await server.advance(0), began + 1_800_000);
  for (const wrong of [-1, 0.5, Number.NaN]) {
    await rejects(server.advance(wrong), RangeError);
  }
  await redis.quit();
});

test('a real clock cannot be advanced', async (t) => {
  const server = await started(t);
  await rejects(server.advance(1), /start the server with --clock virtual/);
  // The connection still works after an error.
  ok(Math.abs((await server.now()) - Date.now()) < 60_000);
});

test('options become directives', async (t) => {
  const server = await started(t, {
    requirepass: 'sp ace"\\é',
    notifyKeyspaceEvents: 'Ex',
    appendonly: false,
    maxmemory: 100_000_000,
    save: [60, 1],
    bind: ['*', '-::*'],
    user: [
      ['alice', 'on', '>pw', '~a:*', '+@all'],
      ['bob', 'on', 'nopass', '+ping'],
    ],
    clock: 'virtual',
  });
  equal(server.host, '127.0.0.1');
  const redis = client(server);
  /** @param {string} name */
  const value = async (name) => /** @type {string[]} */ (await redis.config('GET', name))[1];
  equal(await value('requirepass'), 'sp ace"\\é');
  equal(await value('notify-keyspace-events'), 'xE');
  equal(await value('appendonly'), 'no');
  equal(await value('maxmemory'), '100000000');
  equal(await value('save'), '60 1');
  deepEqual(await redis.acl('USERS'), ['alice', 'bob', 'default']);
  await server.advance(1);
  await redis.quit();
});

test('a wrong option is an error with the message of the server', async () => {
  const wrong = /** @type {any} */ ({ maxmemori: 1 });
  await rejects(start(wrong), (/** @type {Error} */ error) => {
    match(error.message, /did not start: exit status 1\n/);
    match(error.message, /maxmemori/);
    return true;
  });
  await rejects(start({ clock: 'lunar' }), /real.*virtual/s);
});

test('a port in use is an error', async (t) => {
  const server = await started(t);
  await rejects(start({ port: server.port }), /in use/);
});

test('a server that is not ready in time is killed', async () => {
  await rejects(start({ startTimeoutMs: 0 }), /not ready after 0 ms/);
});

test('a missing program is an error that says what to do', async () => {
  await rejects(start({ binary: '/nowhere/punctual' }), /no file \/nowhere\/punctual.*'binary'/);
  await rejects(start({ binary: tmpdir() }), /did not start: .*EACCES/);
  // Without the variable, the program is looked for in the package of this platform.
  const lone = `import('@punctual/server').then(({ start }) => start()).then(
    () => console.log('it is installed'), (error) => console.log(error.message))`;
  const { PUNCTUAL_BINARY: _, ...env } = process.env;
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', lone], {
    cwd: import.meta.dirname,
    env,
  });
  match(stdout, /the package @punctual\/server-\w+-\w+ is not installed.*PUNCTUAL_BINARY/);
});

test('the log is kept', async () => {
  const server = await start({ loglevel: 'verbose' });
  await server.stop();
  const log = server.logs.join('\n');
  match(log, /Punctual version=/);
  match(log, /ready to exit, bye bye/);
  ok(!log.includes('ready port='));
});

test('files are written only to a folder that is given', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'punctual-test-'));
  const first = await start({ dir, appendonly: true });
  let redis = client(first);
  await redis.set('kept', 'yes');
  await redis.quit();
  await first.stop();
  const second = await start({ dir, appendonly: true });
  redis = client(second);
  equal(await redis.get('kept'), 'yes');
  await redis.quit();
  await second.stop();
  ok((await readdir(dir)).includes('appendonlydir'));
  await rm(dir, { recursive: true });

  const third = await start({ appendonly: true });
  redis = client(third);
  await redis.set('gone', 'soon');
  await redis.save();
  const [, folder] = /** @type {string[]} */ (await redis.config('GET', 'dir'));
  const [, file] = /** @type {string[]} */ (await redis.config('GET', 'dbfilename'));
  await redis.quit();
  const snapshot = join(folder ?? '', file ?? '');
  ok(existsSync(snapshot));
  await third.stop();
  ok(!existsSync(snapshot));
});

/**
 * Runs a program that starts a server, and returns the program and a connection to the server.
 *
 * @param {string} then - What the program does after it has printed the port.
 */
async function programWithServer(then) {
  const code = `import('@punctual/server').then(async ({ start }) => {
    const server = await start({ clock: 'virtual' });
    console.log(server.port);
    ${then}
  })`;
  const program = spawn(process.execPath, ['-e', code], {
    cwd: import.meta.dirname,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const [port] = await once(program.stdout, 'data');
  const socket = createConnection(Number(port), '127.0.0.1');
  await once(socket, 'connect');
  const closed = once(socket.resume(), 'close');
  return { program, closed };
}

test('the server ends with a killed process', async () => {
  const { program, closed } = await programWithServer('process.stdin.resume()');
  program.kill('SIGKILL');
  await closed;
});

test('the server does not keep Node running', async () => {
  const { program, closed } = await programWithServer(
    'process.stdin.once("data", () => process.stdin.destroy())',
  );
  // The program has nothing left to do once it has read this.
  program.stdin.write('end');
  const [[code]] = await Promise.all([once(program, 'exit'), closed]);
  equal(code, 0);
});

test('the control connection opens again', async (t) => {
  const server = await started(t, { clock: 'virtual' });
  const began = await server.now();
  const redis = client(server);
  match(String(await redis.client('LIST')), /name=punctual-control/);
  await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  // The first call may still use the connection that the server has closed.
  const moved = await server.advance(5).catch(() => server.advance(5));
  equal(moved, began + 5);
  await redis.quit();
});

test('ESM and CommonJS have the same module', async () => {
  const require = createRequire(import.meta.url);
  equal(require('@punctual/server').start, start);
  equal(
    require('@punctual/server/jest').useServer,
    (await import('@punctual/server/jest')).useServer,
  );
});

test('the list of directives is the list of the program', async () => {
  const { findBinary } = createRequire(import.meta.url)('../dist/binary.js');
  const { stdout } = await promisify(execFile)(findBinary(), ['--directives']);
  const names = stdout.trim().split('\n');
  // A name with an underscore cannot be written in camel case; these have no effect.
  const camel = names
    .filter((name) => !name.includes('_'))
    .map((name) => name.replace(/-([a-z])/g, (_, letter) => letter.toUpperCase()));
  const source = join(import.meta.dirname, '../src/directives.ts');
  const text = await readFile(source, 'utf8');
  const listed = [...text.matchAll(/^ {2}\| '(.*)'/gm)].map((found) => found[1]);
  deepEqual(listed.slice(3), camel);
});
