// Jedis's cluster mode: pipelines, transactions, MGET of several slots, blocking, sharded pub/sub, RESP2 and RESP3, a slot that
// moves, a primary that is killed.
// Packages: jedis
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisShardedPubSub;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.util.JedisClusterCRC16;

class JedisCluster {
  public static void main(String[] arguments) {
    Verdict.report(
        () -> {
          commands(RedisProtocol.RESP2).close();
          var redis = commands(RedisProtocol.RESP3);
          Writer.moveAndKill((name, value) -> redis.set(name, value), redis::get);
          Verdict.equal(redis.mget("{tag}1", "{tag}2"), List.of("2", "3"));
        });
  }

  static RedisClusterClient commands(RedisProtocol protocol) throws Exception {
    var config = DefaultJedisClientConfig.builder().protocol(protocol).build();
    var nodes = Set.of(new HostAndPort(Verdict.HOST, Verdict.PORT));
    var redis = RedisClusterClient.builder().nodes(nodes).clientConfig(config).build();
    Verdict.step(protocol + ": keys of all slots");
    for (int n = 0; n < 300; n++) redis.set("key:" + n, String.valueOf(n));
    for (int n = 0; n < 300; n++) Verdict.equal(redis.get("key:" + n), String.valueOf(n));
    Verdict.step(protocol + ": pipelines");
    List<Response<String>> replies = new ArrayList<>();
    try (var pipe = redis.pipelined()) {
      for (int n = 0; n < 300; n++) replies.add(pipe.get("key:" + n));
    }
    for (int n = 0; n < 300; n++) Verdict.equal(replies.get(n).get(), String.valueOf(n));
    Verdict.step(protocol + ": one tag");
    redis.mset("{tag}1", "1", "{tag}2", "2");
    Verdict.equal(redis.mget("{tag}1", "{tag}2"), List.of("1", "2"));
    try (var one = redis.getConnectionFromSlot(JedisClusterCRC16.getSlot("{tag}"))) {
      var transaction = new Transaction(one);
      transaction.incr("{tag}1");
      transaction.incr("{tag}2");
      Verdict.equal(transaction.exec(), List.of(2L, 3L));
    }
    Verdict.step(protocol + ": blocking");
    var popped = CompletableFuture.supplyAsync(() -> redis.blpop(10, "{tag}queue"));
    redis.rpush("{tag}queue", "job");
    Verdict.equal(popped.get(), List.of("{tag}queue", "job"));
    Verdict.step(protocol + ": sharded pub/sub");
    var ready = new CompletableFuture<Void>();
    var heard = new CompletableFuture<String>();
    var listener =
        new JedisShardedPubSub() {
          @Override
          public void onSSubscribe(String channel, int count) {
            ready.complete(null);
          }

          @Override
          public void onSMessage(String channel, String message) {
            heard.complete(message);
            sunsubscribe();
          }
        };
    var thread = new Thread(() -> redis.ssubscribe(listener, "{tag}news"));
    thread.start();
    ready.get();
    redis.spublish("{tag}news", "hello");
    Verdict.equal(heard.get(), "hello");
    thread.join();
    return redis;
  }
}
