// Lettuce: types, synchronous, asynchronous and reactive commands, transactions, EVAL, EVALSHA, FCALL, pub/sub, scans,
// blocking, RESP2 and RESP3.
// Packages: lettuce-core
import io.lettuce.core.ClientOptions;
import io.lettuce.core.KeyScanCursor;
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanCursor;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.ZAddArgs;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

class LettuceClient {
  public static void main(String[] arguments) {
    Verdict.report(
        () -> {
          for (ProtocolVersion version : new ProtocolVersion[] {ProtocolVersion.RESP2, ProtocolVersion.RESP3}) tryAll(version);
        });
  }

  static void tryAll(ProtocolVersion version) throws Exception {
    var client = RedisClient.create(RedisURI.create(Verdict.URL));
    client.setOptions(ClientOptions.builder().protocolVersion(version).build());
    var connection = client.connect();
    var redis = connection.sync();
    redis.flushall();
    Verdict.step(version + ": types");
    redis.set("s", "1", SetArgs.Builder.px(60000));
    Verdict.equal(redis.incrby("s", 4), 5L);
    redis.hset("h", Map.of("a", "1", "b", "two"));
    Verdict.equal(redis.hgetall("h"), Map.of("a", "1", "b", "two"));
    redis.zadd("z", ZAddArgs.Builder.nx(), 2, "b");
    redis.zadd("z", 1, "a");
    Verdict.equal(redis.zrangeWithScores("z", 0, -1).get(1).getScore(), 2.0);
    Verdict.equal(Verdict.message(() -> redis.incr("h")), "WRONGTYPE Operation against a key holding the wrong kind of value");
    Verdict.step(version + ": asynchronous and reactive commands");
    List<RedisFuture<Long>> futures = new ArrayList<>();
    for (int n = 0; n < 100; n++) futures.add(connection.async().incr("many"));
    Verdict.equal(futures.get(99).get(5, TimeUnit.SECONDS), 100L);
    Verdict.equal(connection.reactive().incr("many").block(), 101L);
    Verdict.step(version + ": transactions");
    redis.multi();
    redis.incr("m");
    redis.get("m");
    var all = redis.exec();
    Verdict.equal(List.of(all.get(0), all.get(1)), List.of(1L, "1"));
    redis.watch("m");
    client.connect().sync().set("m", "changed");
    redis.multi();
    redis.set("m", "lost");
    Verdict.equal(redis.exec().wasDiscarded(), true);
    Verdict.step(version + ": EVAL and EVALSHA");
    String[] keys = {"k"};
    List<Object> reply = redis.eval("return {KEYS[1], ARGV[1], 3, false, {'x'}}", ScriptOutputType.MULTI, keys, "v");
    Verdict.equal(reply, Arrays.asList("k", "v", 3L, null, List.of("x")));
    String sha = redis.scriptLoad("return redis.call('GET', KEYS[1])");
    Verdict.equal(redis.<String>evalsha(sha, ScriptOutputType.VALUE, "s"), "5");
    Verdict.equal(redis.<String>evalshaReadOnly(sha, ScriptOutputType.VALUE, new String[] {"s"}), "5");
    Verdict.equal(redis.<Boolean>eval("return 1", ScriptOutputType.BOOLEAN), true);
    Verdict.equal(redis.<Long>eval("return #ARGV", ScriptOutputType.INTEGER, keys, "a", "b"), 2L);
    Verdict.equal(redis.scriptExists(sha, "0"), List.of(true, false));
    Verdict.equal(
        Verdict.message(() -> redis.evalsha("0".repeat(40), ScriptOutputType.VALUE)),
        "NOSCRIPT No matching script. Please use EVAL.");
    Verdict.step(version + ": FCALL");
    String library = "#!lua name=ours\nredis.register_function('put', function(k, a) return redis.call('SET', k[1], a[1]) end)";
    Verdict.equal(redis.functionLoad(library, true), "ours");
    Verdict.equal(redis.<String>fcall("put", ScriptOutputType.STATUS, new String[] {"f"}, "v"), "OK");
    // With RESP2, the elements of the reply are lists, so the test only looks for the name in their text.
    Verdict.equal(String.valueOf((Object) ((List<?>) redis.functionList()).get(0)).contains("ours"), true);
    byte[] dump = redis.functionDump();
    redis.functionFlush(io.lettuce.core.FlushMode.SYNC);
    redis.functionRestore(dump);
    Verdict.equal(redis.<String>fcall("put", ScriptOutputType.STATUS, new String[] {"f"}, "v"), "OK");
    Verdict.step(version + ": pub/sub");
    var heard = new CompletableFuture<String>();
    var subscriber = client.connectPubSub();
    subscriber.addListener(
        new RedisPubSubAdapter<String, String>() {
          public void message(String channel, String message) {
            heard.complete(message);
          }
        });
    subscriber.sync().subscribe("news");
    redis.publish("news", "hello");
    Verdict.equal(heard.get(5, TimeUnit.SECONDS), "hello");
    Verdict.step(version + ": scans");
    for (int n = 0; n < 300; n++) redis.set("many:" + n, "x");
    Set<String> found = new HashSet<>();
    KeyScanCursor<String> page = redis.scan(ScanArgs.Builder.matches("many:*"));
    found.addAll(page.getKeys());
    while (!page.isFinished()) {
      page = redis.scan(ScanCursor.of(page.getCursor()), ScanArgs.Builder.matches("many:*"));
      found.addAll(page.getKeys());
    }
    Verdict.equal(found.size(), 300);
    Verdict.step(version + ": blocking");
    var popped = client.connect().async().blpop(5, "queue");
    redis.rpush("queue", "job");
    Verdict.equal(popped.get(5, TimeUnit.SECONDS), KeyValue.just("queue", "job"));
    client.shutdown();
  }
}
