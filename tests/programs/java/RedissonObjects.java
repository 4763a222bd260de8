// Redisson: locks with their watchdog, fair and read-write locks, semaphores, latches, rate limiters, maps with expiring
// entries, delayed queues, topics, batches, transactions, scripts, executors.
// Packages: redisson
import java.io.Serializable;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RScript;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.api.TransactionOptions;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

class RedissonObjects {
  static <T> T elsewhere(Callable<T> call) throws Exception {
    var result = new CompletableFuture<T>();
    new Thread(
            () -> {
              try {
                result.complete(call.call());
              } catch (Throwable error) {
                result.completeExceptionally(error);
              }
            })
        .start();
    return result.get(15, TimeUnit.SECONDS);
  }

  static class Sum implements Callable<Integer>, Serializable {
    public Integer call() {
      return 42;
    }
  }

  public static void main(String[] arguments) {
    Verdict.report(RedissonObjects::run);
  }

  static void run() throws Exception {
    var config = new Config();
    config.setLockWatchdogTimeout(1500);
    config.useSingleServer().setAddress(Verdict.URL);
    RedissonClient redisson = Redisson.create(config);
    Verdict.step("locks");
    var lock = redisson.getLock("lock");
    lock.lock();
    lock.lock();
    Verdict.equal(elsewhere(() -> redisson.getLock("lock").tryLock()), false);
    Thread.sleep(2000); // longer than the timeout: the watchdog renews the lock
    Verdict.equal(lock.isHeldByCurrentThread() && lock.remainTimeToLive() > 0, true);
    lock.unlock();
    var waiting = CompletableFuture.supplyAsync(() -> tryLock(redisson));
    Thread.sleep(100);
    lock.unlock();
    Verdict.equal(waiting.get(10, TimeUnit.SECONDS), true);
    Verdict.step("fair and read-write locks");
    var fair = redisson.getFairLock("fair");
    Verdict.equal(fair.tryLock(1, 10, TimeUnit.SECONDS), true);
    fair.unlock();
    var both = redisson.getReadWriteLock("both");
    both.readLock().lock();
    Verdict.equal(elsewhere(() -> redisson.getReadWriteLock("both").readLock().tryLock()), true);
    Verdict.equal(elsewhere(() -> redisson.getReadWriteLock("both").writeLock().tryLock()), false);
    both.readLock().unlock();
    Verdict.step("semaphores and latches");
    var semaphore = redisson.getSemaphore("semaphore");
    semaphore.trySetPermits(2);
    Verdict.equal(List.of(semaphore.tryAcquire(2), semaphore.tryAcquire()), List.of(true, false));
    var permits = redisson.getPermitExpirableSemaphore("permits");
    permits.trySetPermits(1);
    String permit = permits.acquire(200, TimeUnit.MILLISECONDS);
    Verdict.equal(permit != null && permits.tryAcquire() == null, true);
    Verdict.until(() -> permits.tryAcquire() != null);
    var latch = redisson.getCountDownLatch("latch");
    latch.trySetCount(1);
    CompletableFuture.runAsync(() -> redisson.getCountDownLatch("latch").countDown());
    Verdict.equal(latch.await(5, TimeUnit.SECONDS), true);
    Verdict.step("rate limiters");
    RRateLimiter limiter = redisson.getRateLimiter("limiter");
    limiter.trySetRate(RateType.OVERALL, 3, java.time.Duration.ofSeconds(1));
    Verdict.equal(List.of(limiter.tryAcquire(3), limiter.tryAcquire()), List.of(true, false));
    Verdict.until(() -> limiter.tryAcquire());
    Verdict.step("maps with expiring entries");
    var cache = redisson.<String, String>getMapCache("cache");
    cache.put("short", "x", 1000, TimeUnit.MILLISECONDS);
    cache.put("long", "y", 1, TimeUnit.MINUTES);
    Verdict.equal(cache.get("short"), "x");
    Verdict.until(() -> cache.get("short") == null);
    Verdict.equal(cache.getOrDefault("long", "gone"), "y");
    Verdict.equal(redisson.<String, Integer>getMap("map").merge("n", 1, Integer::sum), 1);
    Verdict.step("delayed queues");
    var queue = redisson.<String>getBlockingQueue("queue");
    var delayed = redisson.getDelayedQueue(queue);
    delayed.offer("later", 500, TimeUnit.MILLISECONDS);
    delayed.offer("sooner", 200, TimeUnit.MILLISECONDS);
    Verdict.equal(List.of(queue.poll(5, TimeUnit.SECONDS), queue.poll(5, TimeUnit.SECONDS)), List.of("sooner", "later"));
    Verdict.step("topics");
    var heard = new CompletableFuture<String>();
    redisson.getTopic("news").addListener(String.class, (channel, message) -> heard.complete(message));
    redisson.getTopic("news").publish("hello");
    Verdict.equal(heard.get(5, TimeUnit.SECONDS), "hello");
    Verdict.step("batches and transactions");
    var batch = redisson.createBatch();
    for (int n = 0; n < 10; n++) batch.getAtomicLong("n").incrementAndGetAsync();
    Verdict.equal(batch.execute().getResponses().get(9), 10L);
    var transaction = redisson.createTransaction(TransactionOptions.defaults());
    transaction.getMap("map").put("k", "v");
    transaction.commit();
    Verdict.equal(redisson.getMap("map").get("k"), "v");
    Verdict.step("scripts");
    Object reply =
        redisson
            .getScript(StringCodec.INSTANCE)
            .eval(RScript.Mode.READ_WRITE, "return {KEYS[1], ARGV[1]}", RScript.ReturnType.LIST, List.of("k"), "v");
    Verdict.equal(reply, List.of("k", "v"));
    Verdict.step("objects");
    var sorted = redisson.<String>getScoredSortedSet("z");
    sorted.add(2, "b");
    sorted.add(1, "a");
    Verdict.equal(sorted.pollFirst(), "a");
    var bloom = redisson.<String>getBloomFilter("bloom");
    bloom.tryInit(100, 0.01);
    bloom.add("x");
    Verdict.equal(bloom.contains("x"), true);
    var ids = redisson.getIdGenerator("ids");
    ids.tryInit(1, 100);
    Verdict.equal(List.of(ids.nextId(), ids.nextId()), List.of(1L, 2L));
    Verdict.step("executors");
    var executor = redisson.getExecutorService("executor");
    executor.registerWorkers(org.redisson.api.WorkerOptions.defaults());
    Verdict.equal(executor.submit(new Sum()).get(10, TimeUnit.SECONDS), 42);
    Verdict.equal(executor.schedule(new Sum(), 300, TimeUnit.MILLISECONDS).get(10, TimeUnit.SECONDS), 42);
  }

  static boolean tryLock(RedissonClient redisson) {
    try {
      return redisson.getLock("lock").tryLock(10, 10, TimeUnit.SECONDS);
    } catch (InterruptedException error) {
      return false;
    }
  }
}
