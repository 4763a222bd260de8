/**
 * The server as a child process.
 *
 * The server runs with `supervised parent`: it writes `ready port=N` when it accepts connections,
 * and ends when its standard input ends. The system closes that pipe when this process ends in any
 * way, also by SIGKILL, so no server stays behind.
 */

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';

// Fake timers replace the global functions later, and must not stop these.
const { setTimeout, clearTimeout } = globalThis;

/** Maximum number of kept lines of the log. */
const LINES_MAX = 10_000;
/** Time in milliseconds until a server that does not stop is killed. A server with replicas waits
 * up to 10 s for them (`shutdown-timeout`). */
const STOP_TIMEOUT_MS = 12_000;

/** A server's process. */
export class Child {
  /** The last lines of the server's standard output and standard error, without the ready line. */
  readonly logs: string[] = [];
  /** Resolves when the process has ended, with its exit status or signal. */
  readonly ended: Promise<string>;
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #ready: Promise<number>;

  constructor(binary: string, args: string[]) {
    this.#process = spawn(binary, args, { stdio: 'pipe', windowsHide: true });
    const { stdin, stdout, stderr } = this.#process;
    this.#ready = new Promise((resolve) => {
      for (const output of [stdout, stderr]) {
        createInterface({ input: output }).on('line', (line) => {
          const port = /^ready port=(\d+)$/.exec(line)?.[1];
          if (port !== undefined) {
            resolve(Number(port));
          } else if (this.logs.push(line) > LINES_MAX) {
            this.logs.shift();
          }
        });
      }
    });
    // Writing to a server that has ended fails; `ended` reports the end.
    stdin.on('error', () => {});
    this.ended = new Promise((resolve) => {
      this.#process.on('error', (error) => resolve(error.message));
      this.#process.on('close', (code, signal) => resolve(signal ?? `exit status ${code}`));
    });
  }

  /** Process ID. */
  get pid(): number {
    return this.#process.pid ?? 0;
  }

  /**
   * Returns the server's port when the server accepts connections. From then on, the process does
   * not keep Node running.
   *
   * @throws Error with the server's last lines if it ends, or is not ready in time.
   */
  async ready(timeoutMs: number): Promise<number> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<string>((resolve) => {
      timer = setTimeout(resolve, timeoutMs, `not ready after ${timeoutMs} ms`);
    });
    const port = await Promise.race([this.#ready, this.ended, late]);
    clearTimeout(timer);
    if (typeof port !== 'number') {
      this.#process.kill('SIGKILL');
      const lines = this.logs.slice(-8).map((line) => `\n  ${line}`);
      throw new Error(`@punctual/server: the server did not start: ${port}${lines.join('')}`);
    }
    this.#keepNodeRunning(false);
    return port;
  }

  /** Shuts the server down, and returns when its process has ended. */
  async stop(): Promise<void> {
    this.#keepNodeRunning(true);
    const timer = setTimeout(() => this.#process.kill('SIGKILL'), STOP_TIMEOUT_MS);
    this.#process.stdin.end();
    await this.ended;
    clearTimeout(timer);
  }

  #keepNodeRunning(yes: boolean): void {
    // The pipes are sockets, which the types of Node do not say.
    const { stdin, stdout, stderr } = this.#process as unknown as Record<string, Socket>;
    for (const part of [this.#process, stdin, stdout, stderr]) {
      yes ? part?.ref() : part?.unref();
    }
  }
}
