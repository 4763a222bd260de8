// Prints the last line of a program, its verdict: `works`, or `fails: ` with the step and the error.
import assert from "node:assert";

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
