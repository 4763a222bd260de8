/** The thread of `Jumper`: moves the clock by each number of milliseconds that it gets. */

import { parentPort, workerData } from 'node:worker_threads';
import { Control } from './control.js';
import type { Answer, ThreadData } from './jump.js';

const { address, done, port } = workerData as ThreadData;
const control = new Control(address);

async function jump(ms: number): Promise<Answer> {
  try {
    await control.call('PING');
    return { now: Number(await control.call('CLOCK', 'ADVANCE', String(ms))) };
  } catch (error) {
    return { error: (error as Error).message };
  }
}

parentPort?.on('message', async (ms: number) => {
  port.postMessage(await jump(ms));
  Atomics.store(done, 0, 1);
  Atomics.notify(done, 0);
});
