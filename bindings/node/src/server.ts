/** `start`, and the server that it returns. */

import { rm } from 'node:fs/promises';
import { findBinary } from './binary.js';
import { Child } from './child.js';
import { type Address, Control } from './control.js';
import { Jumper } from './jump.js';
import { type DirectiveValue, type StartOptions, toInvocation } from './options.js';
import { advance, type FakeTimers, setTime } from './timers.js';

/**
 * A running server, which {@link start} returns. It is a child process, and ends at the latest with
 * this process. It does not keep Node running.
 */
export class PunctualServer {
  /** The host on which the server listens, for clients on this machine. */
  readonly host: string;
  /** The port on which the server listens. */
  readonly port: number;
  /** `redis://` URL with the host, the port and the password of `requirepass`. */
  readonly url: string;
  readonly #child: Child;
  readonly #control: Control;
  readonly #timers: FakeTimers | undefined;
  readonly #jumper: Jumper | undefined;
  readonly #ownFiles: string[];

  /** @internal */
  constructor(child: Child, port: number, options: StartOptions, ownFiles: string[]) {
    this.#child = child;
    this.#ownFiles = ownFiles;
    this.#timers = options.timers;
    this.host = hostOf(options.bind);
    this.port = port;
    const password = firstWord(options.requirepass);
    const address: Address = { host: this.host, port, ...(password !== undefined && { password }) };
    this.#control = new Control(address);
    this.#jumper = options.timers && new Jumper(address);
    const user = password === undefined ? '' : `:${encodeURIComponent(password)}@`;
    const host = this.host.includes(':') ? `[${this.host}]` : this.host;
    this.url = `redis://${user}${host}:${port}`;
  }

  /** ID of the server's process. */
  get pid(): number {
    return this.#child.pid;
  }

  /** The last 10,000 lines of the server's log. */
  get logs(): readonly string[] {
    return this.#child.logs;
  }

  /** Returns the time of the server's clock in Unix milliseconds. */
  async now(): Promise<number> {
    return Number(await this.#control.call('CLOCK', 'NOW'));
  }

  /**
   * Moves the virtual clock forward, and returns its new time in Unix milliseconds. Fake timers of
   * the option `timers` move at once with it, and this thread blocks until both have moved. When
   * `advance` returns, the server has expired all due keys in the order of their deadlines, and has
   * sent their events and the replies of blocking commands that timed out. This takes as long as
   * the due keys and timers take, and not `ms`.
   *
   * @param ms - Whole milliseconds, 0 or more.
   * @throws Error if the server does not have the option `clock: 'virtual'`, or has ended.
   */
  async advance(ms: number): Promise<number> {
    if (!Number.isSafeInteger(ms) || ms < 0) {
      throw new RangeError(`@punctual/server: cannot advance the clock by ${ms} ms`);
    }
    if (this.#timers === undefined || this.#jumper === undefined) {
      return Number(await this.#control.call('CLOCK', 'ADVANCE', String(ms)));
    }
    // No other code of this thread runs between the two moves.
    const now = this.#jumper.jump(ms);
    advance(this.#timers, ms);
    return now;
  }

  /**
   * Shuts the server down as SIGTERM does, and returns when its process has ended. Later calls do
   * nothing.
   */
  async stop(): Promise<void> {
    this.#control.close();
    await this.#jumper?.stop();
    await this.#child.stop();
    await Promise.all(this.#ownFiles.map((path) => rm(path, { recursive: true, force: true })));
  }

  /** Calls {@link stop}, at the end of a block with `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/**
 * Starts a server, and returns when it accepts connections: by default on 127.0.0.1 and a free
 * port, with the machine's clock, and without files.
 *
 * ```js
 * const server = await start({ clock: 'virtual', notifyKeyspaceEvents: 'Ex' });
 * const redis = new Redis(server.url);
 * await redis.set('session', 'alice', 'EX', 1800);
 * await server.advance(1_800_000);
 * await redis.get('session'); // null
 * await server.stop();
 * ```
 *
 * @throws Error if there is no program for this platform, or if the server refuses an option, or
 * is not ready in time. The message has the server's last lines.
 */
export async function start(options: StartOptions = {}): Promise<PunctualServer> {
  const { args, ownFiles } = toInvocation(options);
  const child = new Child(findBinary(options.binary), args);
  const port = await child.ready(options.startTimeoutMs ?? 10_000);
  const server = new PunctualServer(child, port, options, ownFiles);
  if (options.timers !== undefined) {
    setTime(options.timers, await server.now());
  }
  return server;
}

/** Returns the host by which clients on this machine reach the server. */
function hostOf(bind: DirectiveValue | undefined): string {
  const first = (firstWord(bind) ?? '127.0.0.1').split(' ')[0]?.replace(/^-/, '');
  return first === undefined || ['*', '0.0.0.0', '', '::*'].includes(first) ? '127.0.0.1' : first;
}

function firstWord(value: DirectiveValue | undefined): string | undefined {
  const [word] = [value].flat(2);
  return word === undefined || word === '' ? undefined : String(word);
}
