// Jedis: types, pipelines, transactions, EVAL, EVALSHA, FCALL, pub/sub, scans, blocking, RESP2 and RESP3.
// Packages: jedis
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

class JedisClient {
  public static void main(String[] arguments) {
    Verdict.report(
        () -> {
          for (RedisProtocol protocol : new RedisProtocol[] {RedisProtocol.RESP2, RedisProtocol.RESP3}) tryAll(protocol);
        });
  }

  static void tryAll(RedisProtocol protocol) throws Exception {
    var config = DefaultJedisClientConfig.builder().protocol(protocol).build();
    var address = new HostAndPort(Verdict.HOST, Verdict.PORT);
    var redis = RedisClient.builder().hostAndPort(address).clientConfig(config).build();
    redis.flushAll();
    Verdict.step(protocol + ": types");
    redis.set("s", "1", SetParams.setParams().px(60000));
    Verdict.equal(redis.incrBy("s", 4), 5L);
    redis.hset("h", Map.of("a", "1", "b", "two"));
    Verdict.equal(redis.hgetAll("h"), Map.of("a", "1", "b", "two"));
    redis.zadd("z", Map.of("b", 2.0, "a", 1.0));
    Verdict.equal(redis.zrange("z", 0, -1), List.of("a", "b"));
    Verdict.equal(redis.zscore("z", "b"), 2.0);
    Verdict.equal(Verdict.message(() -> redis.incr("h")), "WRONGTYPE Operation against a key holding the wrong kind of value");
    Verdict.step(protocol + ": pipelines and transactions");
    try (var pipe = redis.pipelined()) {
      pipe.set("m", "1");
      Response<Long> two = pipe.incr("m");
      pipe.sync();
      Verdict.equal(two.get(), 2L);
    }
    try (var one = new Jedis(address, config)) {
      one.watch("m");
      redis.set("m", "changed");
      var transaction = one.multi();
      transaction.set("m", "lost");
      Verdict.equal(transaction.exec(), null);
    }
    Verdict.step(protocol + ": EVAL and EVALSHA");
    Object reply = redis.eval("return {KEYS[1], ARGV[1], 3, false, {'x'}}", 1, "k", "v");
    Verdict.equal(reply, Arrays.asList("k", "v", 3L, null, List.of("x")));
    String sha = redis.scriptLoad("return redis.call('GET', KEYS[1])", "s");
    Verdict.equal(redis.evalsha(sha, 1, "s"), "5");
    Verdict.equal(redis.scriptExists(List.of(sha, "0")), List.of(true, false));
    Verdict.equal(Verdict.message(() -> redis.evalsha("0".repeat(40), 0)), "NOSCRIPT No matching script. Please use EVAL.");
    Verdict.equal(Verdict.message(() -> redis.eval("return redis.error_reply('MINE said no')")), "MINE said no");
    Verdict.step(protocol + ": FCALL");
    String library = "#!lua name=ours\nredis.register_function('put', function(k, a) return redis.call('SET', k[1], a[1]) end)";
    Verdict.equal(redis.functionLoadReplace(library), "ours");
    Verdict.equal(redis.fcall("put", List.of("f"), List.of("v")), "OK");
    Verdict.equal(redis.functionList().get(0).getLibraryName(), "ours");
    Verdict.step(protocol + ": pub/sub");
    var heard = new CompletableFuture<String>();
    var ready = new CompletableFuture<Void>();
    var listener =
        new JedisPubSub() {
          public void onSubscribe(String channel, int count) {
            ready.complete(null);
          }

          public void onMessage(String channel, String message) {
            heard.complete(message);
            unsubscribe();
          }
        };
    var thread = new Thread(() -> redis.subscribe(listener, "news"));
    thread.start();
    ready.get();
    redis.publish("news", "hello");
    Verdict.equal(heard.get(), "hello");
    thread.join();
    Verdict.step(protocol + ": scans");
    for (int n = 0; n < 300; n++) redis.set("many:" + n, "x");
    Set<String> found = new HashSet<>();
    String cursor = "0";
    do {
      ScanResult<String> page = redis.scan(cursor, new ScanParams().match("many:*").count(50));
      found.addAll(page.getResult());
      cursor = page.getCursor();
    } while (!cursor.equals("0"));
    Verdict.equal(found.size(), 300);
    Verdict.step(protocol + ": blocking");
    var popped = CompletableFuture.supplyAsync(() -> redis.blpop(5, "queue"));
    redis.rpush("queue", "job");
    Verdict.equal(popped.get(), new ArrayList<>(List.of("queue", "job")));
    redis.close();
  }
}
