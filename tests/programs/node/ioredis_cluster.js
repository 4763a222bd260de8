// ioredis's cluster mode: pipelines, transactions, blocking, sharded pub/sub, auto-pipelining, a slot that moves, a primary that
// is killed.
// Packages: ioredis
import { Cluster } from "ioredis";
import { equal, host, moveAndKill, port, report, step, until } from "./verdict.js";

report(async () => {
  const redis = new Cluster([{ host, port }]);
  redis.on("error", (error) => console.log(`cluster: ${error.message}`));
  const numbers = Array.from({ length: 300 }, (_, n) => n);
  step("keys of all slots");
  for (const n of numbers) await redis.set(`key:${n}`, n);
  for (const n of numbers) equal(await redis.get(`key:${n}`), String(n));
  const sizes = await Promise.all(redis.nodes("master").map((node) => node.dbsize()));
  equal(sizes.reduce((sum, size) => sum + size), 300);

  step("pipelines and transactions of one tag");
  await redis.mset({ "{tag}1": 1, "{tag}2": 2 });
  equal(await redis.mget("{tag}1", "{tag}2", "{tag}3"), ["1", "2", null]);
  equal(await redis.pipeline().incr("{tag}1").get("{tag}2").exec(), [[null, 2], [null, "2"]]);
  equal(await redis.multi().incr("{tag}1").incr("{tag}2").exec(), [[null, 3], [null, 3]]);
  equal((await redis.mget("a", "b").catch((error) => error.message)).split(" ")[0], "CROSSSLOT");
  redis.defineCommand("addTo", { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
  equal(await redis.addTo("{tag}1", 4), 7);

  step("blocking");
  const popped = redis.duplicate().blpop("{tag}queue", 10);
  await redis.rpush("{tag}queue", "job");
  equal(await popped, ["{tag}queue", "job"]);

  step("sharded pub/sub");
  const subscriber = new Cluster([{ host, port }], { shardedSubscribers: true });
  const heard = new Promise((resolve) => subscriber.on("smessage", (channel, message) => resolve([channel, message])));
  await until(() => subscriber.status === "ready");
  await subscriber.ssubscribe("{tag}news");
  equal(await redis.spublish("{tag}news", "hello"), 1);
  equal(await heard, ["{tag}news", "hello"]);
  subscriber.disconnect();

  step("auto-pipelining");
  const auto = new Cluster([{ host, port }], { enableAutoPipelining: true });
  equal(await Promise.all(numbers.map((n) => auto.get(`key:${n}`))), numbers.map(String));
  auto.disconnect();

  await moveAndKill((name, value) => redis.set(name, value), (name) => redis.get(name));
  equal(await redis.mget("{tag}1", "{tag}2"), ["7", "3"]);
});
