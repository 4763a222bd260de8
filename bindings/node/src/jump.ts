/**
 * A jump of the server's clock during which this thread stands still.
 *
 * With fake timers, no command may be on its way during a jump: one with the new date of Node that
 * the server handles before the jump, or one with the old date that it handles afterwards. BullMQ
 * would lock a job whose lock the jump ends, or wait ten more seconds of a clock that stands still.
 * So this thread waits, and another thread has the connection. Its PING comes after all commands
 * that this thread has sent, so the server has handled those before the jump.
 */

import { join } from 'node:path';
import {
  MessageChannel,
  type MessagePort,
  receiveMessageOnPort,
  Worker,
} from 'node:worker_threads';
import type { Address } from './control.js';

/** What the thread gets when it starts. */
export interface ThreadData {
  address: Address;
  /** 1 when the thread has sent its answer to `port`. */
  done: Int32Array;
  port: MessagePort;
}

/** The thread's answer. */
export type Answer = { now: number } | { error: string };

/** A thread that moves the clock of one server. It does not keep Node running. */
export class Jumper {
  readonly #done = new Int32Array(new SharedArrayBuffer(4));
  readonly #port: MessagePort;
  readonly #thread: Worker;

  constructor(address: Address) {
    const { port1, port2 } = new MessageChannel();
    const workerData: ThreadData = { address, done: this.#done, port: port2 };
    this.#thread = new Worker(join(__dirname, 'jump_thread.js'), {
      workerData,
      transferList: [port2],
    });
    this.#thread.unref();
    this.#port = port1;
    this.#port.unref();
  }

  /**
   * Moves the clock forward and returns its new time. Blocks this thread until the server has moved
   * its clock.
   *
   * @throws Error with the server's message.
   */
  jump(ms: number): number {
    Atomics.store(this.#done, 0, 0);
    this.#thread.postMessage(ms);
    Atomics.wait(this.#done, 0, 0);
    const answer = receiveMessageOnPort(this.#port)?.message as Answer;
    if ('error' in answer) {
      throw new Error(answer.error);
    }
    return answer.now;
  }

  /** Ends the thread. */
  async stop(): Promise<void> {
    await this.#thread.terminate();
  }
}
