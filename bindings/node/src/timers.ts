/**
 * Fake timers of test frameworks, which move together with a server's virtual clock.
 *
 * Both clocks jump at once; `jump.ts` says why.
 */

/** `vi` of Vitest, `jest` of Jest, `mock.timers` of `node:test`, or a clock of Sinon. */
export type FakeTimers =
  | { advanceTimersByTime(ms: number): unknown; setSystemTime(unixMs: number): unknown }
  | { tick(ms: number): unknown; setSystemTime(unixMs: number): unknown }
  | { tick(ms: number): unknown; setTime(unixMs: number): unknown };

/** Sets the fake date, and fires no timer. */
export function setTime(timers: FakeTimers, unixMs: number): void {
  if ('setTime' in timers) {
    timers.setTime(unixMs);
  } else {
    timers.setSystemTime(unixMs);
  }
}

/** Moves the fake date, and fires the timers that are due. */
export function advance(timers: FakeTimers, ms: number): void {
  if ('advanceTimersByTime' in timers) {
    timers.advanceTimersByTime(ms);
  } else {
    timers.tick(ms);
  }
}
