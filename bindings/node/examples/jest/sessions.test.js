const { useServer } = require('@punctual/server/jest');
const { Redis } = require('ioredis');

const server = useServer({ notifyKeyspaceEvents: 'Ex' });

test('a session ends after half an hour', async () => {
  const redis = new Redis(server.url);
  await redis.set('session', 'alice', 'EX', 1800);
  await server.advance(1_799_999);
  expect(await redis.get('session')).toBe('alice');
  await server.advance(1);
  expect(await redis.get('session')).toBeNull();
  await redis.quit();
});
