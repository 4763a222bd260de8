// redlock (Node): locks on one and several resources, extension, contention, retries, expiry.
// Packages: redlock ioredis
import { Redis } from "ioredis";
import Redlock from "redlock";
import { equal, report, step, url } from "./verdict.js";

report(async () => {
  const redis = new Redis(url, { lazyConnect: true });
  await redis.connect();
  const redlock = new Redlock([redis], { retryCount: 0 });
  redlock.on("clientError", (error) => console.log(String(error)));
  step("lock and unlock");
  let lock = await redlock.lock("a", 5000);
  equal(await redis.get("a"), lock.value);
  step("contention");
  equal(await redlock.lock("a", 5000).then(() => "taken", (error) => error.name), "LockError");
  step("extension");
  lock = await lock.extend(20000);
  equal((await redis.pttl("a")) > 15000, true);
  await lock.unlock();
  equal(await redis.exists("a"), 0);
  step("several resources");
  const both = await redlock.lock(["b", "c"], 5000);
  equal(await redlock.lock("c", 5000).then(() => "taken", (error) => error.name), "LockError");
  await both.unlock();
  equal(await redis.exists("b", "c"), 0);
  step("expiry and retries");
  const short = await redlock.lock("d", 300);
  const patient = new Redlock([redis], { retryCount: 30, retryDelay: 50 });
  const next = await patient.lock("d", 5000);
  // The first client's lock has expired, so the first client cannot release the second client's lock.
  equal(await short.unlock().then(() => "released", (error) => error.name), "LockError");
  equal(await redis.get("d"), next.value);
  await next.unlock();
});
