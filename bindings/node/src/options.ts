/** Options of `start`, and the command line that they become. */

import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import type { DirectiveName } from './directives.js';
import type { FakeTimers } from './timers.js';

/** A single word of a directive. `true` and `false` become `yes` and `no`. */
export type Word = string | number | boolean;

/**
 * The value of a directive: one word; an array for several words; or an array of arrays for a
 * directive that may occur several times, such as `user`.
 */
export type DirectiveValue = Word | readonly Word[] | readonly (readonly Word[])[];

/** Options that are not directives of redis.conf. */
export interface OwnOptions {
  /**
   * The server's program. Default: the environment variable `PUNCTUAL_BINARY`, otherwise the file
   * in the installed package of this platform.
   */
  binary?: string;
  /**
   * Fake timers that move together with the virtual clock: `vi`, `jest`, `mock.timers` of
   * `node:test`, or a clock of Sinon. They must be enabled before the server starts, and get the
   * server's time as their time.
   */
  timers?: FakeTimers;
  /** Maximum time of the start in milliseconds. Default: 10,000. */
  startTimeoutMs?: number;
}

/**
 * Options of {@link start}: {@link OwnOptions}, and the directives of redis.conf with their names
 * in camel case, such as `notifyKeyspaceEvents`.
 */
export type StartOptions = OwnOptions & { [name in DirectiveName]?: DirectiveValue };

/** The command line of a server, and files that it may write without being asked for a place. */
export interface Invocation {
  args: string[];
  ownFiles: string[];
}

const OWN: { [name in keyof Required<OwnOptions>]: true } = {
  binary: true,
  timers: true,
  startTimeoutMs: true,
};

/**
 * Returns the command line for the options. Without one of the options that name files, the server
 * neither loads nor saves files by itself, and its commands write to new names in the folder for
 * temporary files.
 */
export function toInvocation(options: StartOptions): Invocation {
  const directives: Record<string, DirectiveValue> = {
    supervised: 'parent',
    bind: '127.0.0.1',
    port: 0,
  };
  const ownFiles: string[] = [];
  if (!options.dir && !options.dbfilename && !options.appenddirname) {
    const name = `punctual-${randomBytes(8).toString('hex')}`;
    const dir = tmpdir();
    Object.assign(directives, {
      dir,
      dbfilename: `${name}.rdb`,
      appenddirname: name,
      save: '',
    });
    ownFiles.push(`${dir}/${name}.rdb`, `${dir}/${name}`);
  }
  for (const [name, value] of Object.entries(options)) {
    if (!(name in OWN) && value !== undefined) {
      directives[name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)] =
        value as DirectiveValue;
    }
  }
  const args = Object.entries(directives).flatMap(([name, value]) =>
    lines(value).map((words) => `--${name} ${words.map(quote).join(' ')}`),
  );
  return { args, ownFiles };
}

/** Returns the words of each line that the directive becomes. */
function lines(value: DirectiveValue): (readonly Word[])[] {
  if (!Array.isArray(value)) {
    return [[value as Word]];
  }
  const nested = value.filter((part): part is readonly Word[] => Array.isArray(part));
  return nested.length > 0 ? nested : [value as readonly Word[]];
}

/** Returns the word in the quotes of redis.conf. */
function quote(word: Word): string {
  const text = typeof word === 'boolean' ? (word ? 'yes' : 'no') : String(word);
  const escaped = text.replace(/["\\]/g, '\\$&').replace(/\n/g, '\\n').replace(/\r/g, '\\r');
  return `"${escaped}"`;
}
