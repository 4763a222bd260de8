// rate-limiter-flexible: fixed windows, bursts, blocks, rewards and penalties, queues, with ioredis and node-redis.
// Packages: rate-limiter-flexible ioredis redis
import { Redis } from "ioredis";
import { BurstyRateLimiter, RateLimiterQueue, RateLimiterRedis } from "rate-limiter-flexible";
import { createClient } from "redis";
import { equal, report, step, until, url } from "./verdict.js";

const refused = (promise) =>
  promise.then(() => "allowed", (reply) => (reply instanceof Error ? Promise.reject(reply) : "refused"));

async function tryAll(name, client) {
  step(`${name}: points of a window`);
  const limiter = new RateLimiterRedis({ ...client, keyPrefix: name, points: 3, duration: 1 });
  equal((await limiter.consume("a")).remainingPoints, 2);
  equal((await limiter.consume("a", 2)).remainingPoints, 0);
  equal(await refused(limiter.consume("a")), "refused");
  equal((await limiter.get("a")).consumedPoints, 4);
  await until(() => limiter.consume("a").then(() => true, () => false), 5);
  step(`${name}: penalties and rewards`);
  equal((await limiter.penalty("b", 2)).consumedPoints, 2);
  equal((await limiter.reward("b", 1)).consumedPoints, 1);
  equal(await limiter.delete("b"), true);
  step(`${name}: blocks`);
  const blocking = new RateLimiterRedis({ ...client, keyPrefix: `${name}-block`, points: 1, duration: 1, blockDuration: 60 });
  await blocking.consume("c");
  equal(await refused(blocking.consume("c")), "refused");
  equal((await blocking.get("c")).msBeforeNext > 50000, true);
  await blocking.block("d", 30);
  equal(await refused(blocking.consume("d")), "refused");
  step(`${name}: bursts`);
  const burst = new RateLimiterRedis({ ...client, keyPrefix: `${name}-burst`, points: 2, duration: 60 });
  const bursty = new BurstyRateLimiter(
    new RateLimiterRedis({ ...client, keyPrefix: `${name}-slow`, points: 1, duration: 60 }), burst);
  for (let n = 0; n < 3; n++) await bursty.consume("e");
  equal(await refused(bursty.consume("e")), "refused");
  step(`${name}: queue`);
  const queue = new RateLimiterQueue(new RateLimiterRedis({ ...client, keyPrefix: `${name}-queue`, points: 2, duration: 1 }));
  const begun = Date.now();
  for (let n = 0; n < 3; n++) await queue.removeTokens(1);
  equal(Date.now() - begun > 300, true);
}

report(async () => {
  await tryAll("ioredis", { storeClient: new Redis(url) });
  await tryAll("node-redis", { storeClient: await createClient({ url }).connect(), useRedisPackage: true });
});
