// node-redis: types, pipelines, transactions, scripts of its API, EVAL, EVALSHA, FCALL, pub/sub, scans, blocking,
// pools, RESP2 and RESP3.
// Packages: redis
import { createClient, createClientPool, defineScript } from "redis";
import { equal, report, step, url } from "./verdict.js";

const scripts = {
  add: defineScript({
    SCRIPT: "return redis.call('INCRBY', KEYS[1], ARGV[1])",
    NUMBER_OF_KEYS: 1,
    parseCommand(parser, key, by) {
      parser.pushKey(key);
      parser.push(String(by));
    },
    transformReply: (reply) => reply,
  }),
};

async function tryAll(RESP) {
  const client = await createClient({ url, RESP, scripts }).connect();
  await client.flushAll();
  step(`RESP${RESP}: types`);
  await client.set("s", "1", { expiration: { type: "PX", value: 60000 } });
  equal(await client.incrBy("s", 4), 5);
  await client.hSet("h", { a: 1, b: "two" });
  equal({ ...(await client.hGetAll("h")) }, { a: "1", b: "two" });
  await client.zAdd("z", [{ score: 2, value: "b" }, { score: 1, value: "a" }]);
  equal(await client.zRangeWithScores("z", 0, -1), [{ value: "a", score: 1 }, { value: "b", score: 2 }]);
  equal(await client.zScore("z", "b"), 2);
  step(`RESP${RESP}: transactions`);
  equal(await client.multi().set("m", 1).incr("m").get("m").exec(), ["OK", 2, "2"]);
  const other = await client.duplicate().connect();
  await client.watch("m");
  await other.set("m", "changed");
  equal(await client.multi().set("m", "lost").exec().catch((error) => error.constructor.name), "WatchError");

  step(`RESP${RESP}: EVAL and EVALSHA`);
  equal(await client.eval("return {KEYS[1], ARGV[1], 3}", { keys: ["k"], arguments: ["v"] }), ["k", "v", 3]);
  const sha = await client.scriptLoad("return redis.call('GET', KEYS[1])");
  equal(await client.evalSha(sha, { keys: ["s"] }), "5");
  equal(await client.evalRo("return 1"), 1);
  equal(await client.add("s", 10), 15);
  await client.scriptFlush();
  equal(await client.add("s", 10), 25);
  equal(await client.eval("return redis.error_reply('MINE said no')").catch((error) => error.message), "MINE said no");
  step(`RESP${RESP}: FCALL`);
  const code = `#!lua name=ours
    local function get(keys) return redis.call('GET', keys[1]) end
    redis.register_function{function_name='get', callback=get, flags={'no-writes'}}`;
  equal(await client.functionLoad(code, { REPLACE: true }), "ours");
  equal(await client.fCall("get", { keys: ["s"] }), "25");
  equal(await client.fCallRo("get", { keys: ["s"] }), "25");
  equal((await client.functionList()).map((library) => library.library_name), ["ours"]);

  step(`RESP${RESP}: pub/sub`);
  const subscriber = await client.duplicate().connect();
  const heard = new Promise((resolve) => subscriber.subscribe("news", (message) => resolve(message)));
  while ((await client.publish("news", "hello")) === 0);
  equal(await heard, "hello");
  step(`RESP${RESP}: scans`);
  await Promise.all(Array.from({ length: 300 }, (_, n) => client.set(`many:${n}`, n)));
  const found = new Set();
  for await (const keys of client.scanIterator({ MATCH: "many:*" })) keys.forEach((key) => found.add(key));
  equal(found.size, 300);
  step(`RESP${RESP}: blocking`);
  const popped = other.blPop("queue", 5);
  await client.rPush("queue", "job");
  equal({ ...(await popped) }, { key: "queue", element: "job" });
}

report(async () => {
  await tryAll(2);
  await tryAll(3);
  step("pools");
  const pool = await createClientPool({ url }).connect();
  equal(await Promise.all([1, 2, 3].map(() => pool.incr("pool"))).then((all) => all.sort()), [1, 2, 3]);
});
