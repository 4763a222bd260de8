// valkey-glide's cluster mode: batches, MGET of several slots, transactions, blocking, sharded pub/sub, a slot that moves, a
// primary that is killed.
// Packages: @valkey/valkey-glide
import { ClusterBatch, GlideClusterClient, GlideClusterClientConfiguration } from "@valkey/valkey-glide";
import { equal, host, moveAndKill, port, report, step } from "./verdict.js";

const addresses = [{ host, port }];
const { PubSubChannelModes } = GlideClusterClientConfiguration;

report(async () => {
  const client = await GlideClusterClient.createClient({ addresses, requestTimeout: 2000 });
  const numbers = Array.from({ length: 300 }, (_, n) => n);
  step("keys of all slots");
  for (const n of numbers) await client.set(`key:${n}`, String(n));
  equal(await client.mget(["key:1", "key:2"]), ["1", "2"]);
  equal(await client.dbsize(), 300);
  step("batches");
  const batch = new ClusterBatch(false);
  for (const n of numbers) batch.get(`key:${n}`);
  equal(await client.exec(batch, true), numbers.map(String));
  step("one tag");
  await client.mset({ "{tag}1": "1", "{tag}2": "2" });
  equal(await client.exec(new ClusterBatch(true).incr("{tag}1").incr("{tag}2"), true), [2, 3]);
  step("blocking");
  const other = await GlideClusterClient.createClient({ addresses, requestTimeout: 2000 });
  const popped = other.blpop(["{tag}queue"], 10);
  await client.rpush("{tag}queue", ["job"]);
  equal(await popped, ["{tag}queue", "job"]);
  other.close();
  step("sharded pub/sub");
  const channelsAndPatterns = { [PubSubChannelModes.Sharded]: new Set(["{tag}news"]) };
  const subscriber = await GlideClusterClient.createClient({ addresses, pubsubSubscriptions: { channelsAndPatterns } });
  await client.publish("hello", "{tag}news", true);
  equal((await subscriber.getPubSubMessage()).message, "hello");
  subscriber.close();
  await moveAndKill((name, value) => client.set(name, value), (name) => client.get(name));
  equal(await client.mget(["{tag}1", "{tag}2"]), ["2", "3"]);
});
