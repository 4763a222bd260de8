// node-redis's cluster mode: pipelines, MGET of several slots, transactions, blocking, sharded pub/sub, RESP2 and RESP3, a slot
// that moves, a primary that is killed.
// Packages: redis
import { createCluster } from "redis";
import { equal, moveAndKill, report, step, until, url } from "./verdict.js";

async function commands(RESP) {
  const redis = createCluster({ rootNodes: [{ url }], defaults: { RESP }, RESP });
  redis.on("error", (error) => console.log(`cluster: ${error.message}`));
  redis.on("node-error", (error) => console.log(`node: ${error.message}`));
  await redis.connect();
  const numbers = Array.from({ length: 300 }, (_, n) => n);
  step(`RESP${RESP}: keys of all slots`);
  for (const n of numbers) await redis.set(`key:${n}`, String(n));
  for (const n of numbers) equal(await redis.get(`key:${n}`), String(n));
  step(`RESP${RESP}: pipelines`);
  equal(await Promise.all(numbers.map((n) => redis.get(`key:${n}`))), numbers.map(String));

  step(`RESP${RESP}: one tag`);
  await redis.mSet({ "{tag}1": "1", "{tag}2": "2" });
  equal(await redis.mGet(["{tag}1", "{tag}2", "{tag}3"]), ["1", "2", null]);
  equal(await redis.multi().incr("{tag}1").incr("{tag}2").exec(), [2, 3]);
  equal(await redis.mGet(["key:1", "key:2"]), ["1", "2"]);

  step(`RESP${RESP}: blocking`);
  const other = redis.duplicate();
  other.on("error", () => {});
  await other.connect();
  const popped = other.blPop("{tag}queue", 10);
  await redis.rPush("{tag}queue", "job");
  equal({ ...(await popped) }, { key: "{tag}queue", element: "job" });
  other.destroy();

  step(`RESP${RESP}: sharded pub/sub`);
  const heard = [];
  await redis.sSubscribe("{tag}news", (message) => heard.push(message));
  await redis.sPublish("{tag}news", "hello");
  await until(() => heard.length);
  equal(heard, ["hello"]);
  await redis.sUnsubscribe("{tag}news");
  return redis;
}

report(async () => {
  (await commands(2)).destroy();
  const redis = await commands(3);
  await moveAndKill((name, value) => redis.set(name, value), (name) => redis.get(name));
  equal(await redis.mGet(["{tag}1", "{tag}2"]), ["2", "3"]);
});
