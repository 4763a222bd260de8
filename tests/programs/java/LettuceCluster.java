// Lettuce's cluster mode: asynchronous commands, MGET of several slots, transactions, blocking, sharded pub/sub, RESP2 and RESP3,
// a slot that moves, a primary that is killed.
// Packages: lettuce-core
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

class LettuceCluster {
  public static void main(String[] arguments) {
    Verdict.report(
        () -> {
          commands(ProtocolVersion.RESP2);
          var redis = commands(ProtocolVersion.RESP3);
          Writer.moveAndKill((name, value) -> redis.set(name, value), redis::get);
          Verdict.equal(redis.get("{tag}2"), "3");
        });
  }

  static RedisAdvancedClusterCommands<String, String> commands(ProtocolVersion version) throws Exception {
    var address = RedisURI.create(Verdict.URL);
    address.setTimeout(Duration.ofSeconds(2));
    var client = RedisClusterClient.create(address);
    var refresh = ClusterTopologyRefreshOptions.builder().enableAllAdaptiveRefreshTriggers();
    refresh.adaptiveRefreshTriggersTimeout(Duration.ofMillis(500)).enablePeriodicRefresh(Duration.ofSeconds(1));
    var options = ClusterClientOptions.builder().protocolVersion(version);
    client.setOptions(options.topologyRefreshOptions(refresh.build()).build());
    var connection = client.connect();
    var redis = connection.sync();
    Verdict.step(version + ": keys of all slots");
    for (int n = 0; n < 300; n++) redis.set("key:" + n, String.valueOf(n));
    Verdict.equal(redis.mget("key:1", "key:2"), List.of(KeyValue.just("key:1", "1"), KeyValue.just("key:2", "2")));
    Verdict.step(version + ": asynchronous commands");
    List<RedisFuture<String>> futures = new ArrayList<>();
    for (int n = 0; n < 300; n++) futures.add(connection.async().get("key:" + n));
    for (int n = 0; n < 300; n++) Verdict.equal(futures.get(n).get(5, TimeUnit.SECONDS), String.valueOf(n));
    Verdict.step(version + ": one tag");
    redis.mset(Map.of("{tag}1", "1", "{tag}2", "2"));
    var node = client.getPartitions().getPartitionBySlot(SlotHash.getSlot("{tag}"));
    var one = connection.getConnection(node.getNodeId()).sync();
    one.multi();
    one.incr("{tag}1");
    one.incr("{tag}2");
    Verdict.equal(one.exec().stream().toList(), List.of(2L, 3L));
    Verdict.step(version + ": blocking");
    var popped = connection.async().blpop(2, "{tag}queue");
    // Another connection: the blocked command would hold back the commands behind it.
    client.connect().sync().rpush("{tag}queue", "job");
    Verdict.equal(popped.get(5, TimeUnit.SECONDS), KeyValue.just("{tag}queue", "job"));
    Verdict.step(version + ": sharded pub/sub");
    var heard = new CompletableFuture<String>();
    var subscriber = client.connectPubSub();
    subscriber.addListener(
        new RedisPubSubAdapter<String, String>() {
          @Override
          public void smessage(String channel, String message) {
            heard.complete(message);
          }
        });
    subscriber.sync().ssubscribe("{tag}news");
    Verdict.until(() -> redis.spublish("{tag}news", "hello") == 1);
    Verdict.equal(heard.get(5, TimeUnit.SECONDS), "hello");
    subscriber.close();
    return redis;
  }
}
