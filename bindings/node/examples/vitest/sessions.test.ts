import { serverFixture } from '@punctual/server/vitest';
import { Redis } from 'ioredis';
import { test as base, expect } from 'vitest';

const test = base.extend({ punctual: serverFixture() });

test('a session ends after half an hour', async ({ punctual }) => {
  const redis = new Redis(punctual.url);
  await redis.set('session', 'alice', 'EX', 1800);
  await punctual.advance(1_799_999);
  expect(await redis.get('session')).toBe('alice');
  await punctual.advance(1);
  expect(await redis.get('session')).toBeNull();
  await redis.quit();
});
