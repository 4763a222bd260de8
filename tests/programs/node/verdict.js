// Prints the last line of a program, its verdict: `works`, or `fails: ` with the step and the error.
import assert from "node:assert";
import { once } from "node:events";
import { connect } from "node:net";

export const url = process.env.REDIS_URL;
export const host = process.env.REDIS_HOST;
export const port = Number(process.env.REDIS_PORT);
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const equal = assert.deepStrictEqual;

let current = "start";

// Prints the name of the next step.
export function step(name) {
  current = name;
  console.log(`- ${name}`);
}

// Waits until `condition()` is true, and returns its value.
export async function until(condition, seconds = 15) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not true within ${seconds} s: ${condition}`);
    await sleep(20);
  }
}

// Sends a command to the control port of scripts/cluster, and waits until it is done.
export async function control(command) {
  const to = connect(Number(process.env.CLUSTER_CONTROL), host);
  to.write(`${command}\n`);
  const [reply] = await once(to, "data");
  to.destroy();
  equal(String(reply), "ok\n");
}

// Writes keys to the slot of a tag and to other slots with `set(name, value)`, each until it is acknowledged.
export class Writer {
  constructor(tag, set) {
    this.acknowledged = [];
    this.stopped = false;
    this.ended = this.run(tag, set);
  }

  async run(tag, set) {
    while (!this.stopped) {
      const number = this.acknowledged.length;
      const name = number % 2 ? `{${tag}}:${number}` : `${tag}:${number}`;
      try {
        await set(name, String(number));
        this.acknowledged.push([name, String(number)]);
      } catch (error) {
        console.log(`again: ${error.message}`);
        await sleep(10);
      }
    }
  }

  async more(count) {
    const goal = this.acknowledged.length + count;
    await until(() => this.acknowledged.length >= goal);
  }

  async stop() {
    this.stopped = true;
    await this.ended;
    return this.acknowledged;
  }
}

// Moves a slot while a client writes, kills a primary while it writes, and reads the acknowledged writes.
export async function moveAndKill(set, get) {
  step("a slot moves");
  let writer = new Writer("moved", set);
  await writer.more(100);
  await control("move {moved} redirected");
  await writer.more(100);
  const written = await writer.stop();
  await control("replicated");
  step("a primary is killed");
  writer = new Writer("killed", set);
  await writer.more(100);
  await control("kill {moved}");
  await writer.more(100);
  await writer.stop();
  step("acknowledged writes");
  for (const [name, value] of written) equal(await get(name), value);
}

export function fail(error) {
  console.log(error);
  console.log(`fails: ${current}: ${String(error?.message ?? error).replace(/\s+/g, " ")}`);
  process.exit(1);
}

// Runs the program, prints the verdict and ends the process, even if the library has open connections.
export function report(program) {
  process.on("unhandledRejection", fail);
  process.on("uncaughtException", fail);
  program().then(() => {
    console.log("works");
    process.exit(0);
  }, fail);
}
