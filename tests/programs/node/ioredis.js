// ioredis: types, pipelines, transactions, custom commands of Lua, EVAL, EVALSHA, FCALL, pub/sub, scans, blocking, keyspace
// events, auto-pipelining.
// Packages: ioredis
import { Redis } from "ioredis";
import { equal, report, step, url } from "./verdict.js";

report(async () => {
  const redis = new Redis(url);
  step("types");
  await redis.set("s", "1", "PX", 60000);
  equal(await redis.incrby("s", 4), 5);
  equal(await redis.hset("h", { a: 1, b: "two" }), 2);
  equal(await redis.hgetall("h"), { a: "1", b: "two" });
  await redis.zadd("z", 2, "b", 1, "a");
  equal(await redis.zrange("z", 0, -1, "WITHSCORES"), ["a", "1", "b", "2"]);
  equal(await redis.getBuffer("s"), Buffer.from("5"));
  await redis.sadd("set", "x", "y");
  equal((await redis.smembers("set")).sort(), ["x", "y"]);

  step("pipelines and transactions");
  const replies = await redis.pipeline().set("p", 1).incr("p").get("p").hget("p", "x").exec();
  equal(replies.map(([error, reply]) => error?.message ?? reply),
    ["OK", 2, "2", "WRONGTYPE Operation against a key holding the wrong kind of value"]);
  equal(await redis.multi().incr("m").incr("m").exec(), [[null, 1], [null, 2]]);
  const other = redis.duplicate();
  await redis.watch("m");
  await other.set("m", "changed");
  equal(await redis.multi().set("m", "lost").exec(), null);
  equal(await redis.get("m"), "changed");

  step("EVAL and EVALSHA");
  equal(await redis.eval("return {KEYS[1], ARGV[1], 3, false, {'x'}}", 1, "k", "v"), ["k", "v", 3, null, ["x"]]);
  const sha = await redis.script("LOAD", "return redis.call('GET', KEYS[1])");
  equal(await redis.evalsha(sha, 1, "s"), "5");
  equal(await redis.script("EXISTS", sha, "0".repeat(40)), [1, 0]);
  const message = (promise) => promise.catch((error) => error.message);
  equal(await message(redis.evalsha("0".repeat(40), 0)), "NOSCRIPT No matching script. Please use EVAL.");
  equal((await message(redis.eval("return redis.call('INCR', KEYS[1])", 1, "h"))).split(" ")[0], "WRONGTYPE");
  equal(await redis.eval_ro("return redis.call('GET', KEYS[1])", 1, "s"), "5");
  step("custom commands");
  redis.defineCommand("addTo", { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
  equal(await redis.addTo("s", 10), 15);
  await redis.script("FLUSH");
  equal(await redis.addTo("s", 10), 25);
  equal(await redis.pipeline().addTo("s", 1).addTo("s", 1).exec(), [[null, 26], [null, 27]]);
  step("FCALL");
  const library = "#!lua name=ours\nredis.register_function('put', function(k, a) return redis.call('SET', k[1], a[1]) end)";
  equal(await redis.function("LOAD", library), "ours");
  equal(await redis.fcall("put", 1, "f", "v"), "OK");
  equal(await redis.get("f"), "v");

  step("pub/sub");
  const subscriber = new Redis(url);
  const heard = new Promise((resolve) => subscriber.on("message", (channel, message) => resolve([channel, message])));
  await subscriber.subscribe("news");
  equal(await redis.publish("news", "hello"), 1);
  equal(await heard, ["news", "hello"]);
  step("keyspace events");
  await redis.config("SET", "notify-keyspace-events", "Ex");
  const expired = new Promise((resolve) => subscriber.on("pmessage", (_, __, key) => resolve(key)));
  await subscriber.psubscribe("__keyevent@0__:expired");
  await redis.set("short", 1, "PX", 50);
  equal(await expired, "short");

  step("scans");
  await redis.mset(Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`many:${n}`, n])));
  const found = new Set();
  for await (const keys of redis.scanStream({ match: "many:*", count: 50 })) keys.forEach((key) => found.add(key));
  equal(found.size, 300);
  step("blocking");
  const popped = other.blpop("queue", 5);
  await redis.rpush("queue", "job");
  equal(await popped, ["queue", "job"]);
  step("auto-pipelining");
  const auto = new Redis(url, { enableAutoPipelining: true, keyPrefix: "many:" });
  equal(await Promise.all([1, 2, 3].map((n) => auto.get(String(n)))), ["1", "2", "3"]);
});
