// express-rate-limit with rate-limit-redis: limits, headers, expiry of the window, reset of a key, with node-redis and ioredis.
// Packages: rate-limit-redis express-rate-limit express redis ioredis
import { once } from "node:events";
import express from "express";
import { rateLimit } from "express-rate-limit";
import { Redis } from "ioredis";
import { RedisStore } from "rate-limit-redis";
import { createClient } from "redis";
import { equal, report, step, until, url } from "./verdict.js";

async function tryAll(name, sendCommand) {
  step(name);
  const store = new RedisStore({ sendCommand, prefix: `${name}:` });
  const limiter = rateLimit({ windowMs: 1500, limit: 2, standardHeaders: true, keyGenerator: () => "us", store });
  const server = express().use(limiter).get("/", (_, response) => response.send("fine")).listen(0, "127.0.0.1");
  await once(server, "listening");
  const get = () => fetch(`http://127.0.0.1:${server.address().port}/`);
  const first = await get();
  equal([first.status, first.headers.get("ratelimit-remaining")], [200, "1"]);
  equal((await get()).status, 200);
  equal((await get()).status, 429);
  await until(async () => (await get()).status === 200, 5);
  await get();
  equal((await get()).status, 429);
  await store.resetKey("us");
  equal((await get()).status, 200);
  equal((await store.get("us")).totalHits, 1);
  await store.decrement("us");
  equal((await store.get("us")).totalHits, 0);
}

report(async () => {
  const client = await createClient({ url }).connect();
  await tryAll("node-redis", (...words) => client.sendCommand(words));
  const redis = new Redis(url);
  await tryAll("ioredis", (...words) => redis.call(...words));
});
