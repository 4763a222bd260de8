// The examples of README.md: programs print what their comments say, and tests are the files in
// examples/, which `scripts/release --try npm` runs.
import { deepEqual, equal, ok } from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const root = join(import.meta.dirname, '..');
const readme = await readFile(join(root, 'README.md'), 'utf8');
const blocks = [...readme.matchAll(/(?:<!-- (\S+) -->\n)?```[jt]s\n(.*?)```/gs)];

test('README has examples', () => {
  equal(blocks.length, 5);
});

for (const [, file, code = ''] of blocks) {
  const title = code.split('\n').at(-2);
  test(`README: ${file ?? title}`, async (t) => {
    if (file !== undefined) {
      equal(code, await readFile(join(root, file), 'utf8'));
      return;
    }
    ok(title);
    const expected = [...code.matchAll(/(?:;|\)) \/\/ (.*)/g)].map((found) => found[1]);
    const program = join(
      import.meta.dirname,
      `.readme-${blocks.findIndex((b) => b[2] === code)}.mjs`,
    );
    await writeFile(program, code);
    t.after(() => rm(program));
    const { stdout } = await promisify(execFile)(process.execPath, [program]);
    deepEqual(stdout.trim().split('\n'), expected);
  });
}
