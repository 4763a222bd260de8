// Redisson's cluster mode: buckets, batches, maps, locks, latches, blocking queues, sharded topics, a slot that moves, a primary
// that is killed.
// Packages: redisson
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

class RedissonCluster {
  public static void main(String[] arguments) {
    Verdict.report(
        () -> {
          var config = new Config();
          config.setCodec(StringCodec.INSTANCE);
          config.useClusterServers().addNodeAddress(Verdict.URL).setScanInterval(500).setRetryAttempts(1).setTimeout(1000);
          RedissonClient redisson = Redisson.create(config);
          commands(redisson);
          Writer.moveAndKill(
              (name, value) -> redisson.<String>getBucket(name).set(value), name -> redisson.<String>getBucket(name).get());
          Verdict.equal(redisson.getAtomicLong("{tag}2").get(), 3L);
        });
  }

  static void commands(RedissonClient redisson) throws Exception {
    Verdict.step("keys of all slots");
    for (int n = 0; n < 300; n++) redisson.<String>getBucket("key:" + n).set(String.valueOf(n));
    Verdict.equal(redisson.getBuckets().get("key:1", "key:2").size(), 2);
    Verdict.equal(redisson.getKeys().count(), 300L);
    Verdict.step("batches");
    var batch = redisson.createBatch();
    for (int n = 0; n < 300; n++) batch.<String>getBucket("key:" + n).getAsync();
    Verdict.equal(batch.execute().getResponses().get(299), "299");
    Verdict.step("counters and maps");
    Verdict.equal(redisson.getAtomicLong("{tag}2").addAndGet(3), 3L);
    redisson.<String, String>getMap("{tag}map").put("a", "1");
    Verdict.equal(redisson.<String, String>getMap("{tag}map").get("a"), "1");
    Verdict.step("locks");
    var lock = redisson.getLock("{tag}lock");
    lock.lock(10, TimeUnit.SECONDS);
    Verdict.equal(CompletableFuture.supplyAsync(lock::tryLock).get(), false);
    var waiting =
        CompletableFuture.supplyAsync(
            () -> {
              try {
                return redisson.getLock("{tag}lock").tryLock(5, 1, TimeUnit.SECONDS);
              } catch (InterruptedException error) {
                return false;
              }
            });
    lock.unlock();
    Verdict.equal(waiting.get(), true);
    Verdict.step("blocking");
    var popped = redisson.<String>getBlockingQueue("{tag}queue").pollAsync(5, TimeUnit.SECONDS);
    redisson.<String>getBlockingQueue("{tag}queue").add("job");
    Verdict.equal(popped.get(), "job");
    Verdict.step("sharded topics");
    var heard = new CompletableFuture<String>();
    var topic = redisson.getShardedTopic("{tag}news");
    topic.addListener(String.class, (channel, message) -> heard.complete(message));
    topic.publish("hello");
    Verdict.equal(List.of(heard.get(5, TimeUnit.SECONDS)), List.of("hello"));
  }
}
