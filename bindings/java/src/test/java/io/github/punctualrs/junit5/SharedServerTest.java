package io.github.punctualrs.junit5;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.extension.RegisterExtension;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;

/** One server for all tests of a class. */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class SharedServerTest {
    @RegisterExtension
    static final PunctualServer server =
            PunctualServer.builder().directive("notify-keyspace-events", "Ex").build();

    private static int port;

    @Test
    @Order(1)
    void aSessionExpiresWhenTheClockMoves() {
        port = server.port();
        try (Jedis redis = new Jedis(server.uri())) {
            redis.setex("session", 1800, "alice");
            redis.set("kept", "value");
            server.advance(Duration.ofMillis(1_799_999));
            assertEquals("alice", redis.get("session"));
            server.advance(Duration.ofMillis(1));
            assertNull(redis.get("session"));
        }
    }

    @Test
    @Order(2)
    void theNextTestHasTheSameServer() {
        assertEquals(port, server.port());
        try (Jedis redis = new Jedis(server.uri())) {
            assertEquals("value", redis.get("kept"));
        }
    }

    @Test
    @Order(3)
    void eventsOfExpiryArriveInOrder() {
        List<String> expired = new ArrayList<>();
        try (Jedis redis = new Jedis(server.uri());
                Jedis events = new Jedis(server.uri())) {
            JedisPubSub listener = new JedisPubSub() {
                @Override
                public void onSubscribe(String channel, int count) {
                    for (int seconds : new int[] {30, 10, 20}) {
                        redis.setex("k" + seconds, seconds, "");
                    }
                    server.advance(Duration.ofMinutes(1));
                }

                @Override
                public void onMessage(String channel, String key) {
                    expired.add(key);
                    if (expired.size() == 3) {
                        unsubscribe();
                    }
                }
            };
            events.subscribe(listener, "__keyevent@0__:expired");
        }
        assertEquals(List.of("k10", "k20", "k30"), expired);
    }

    @Nested
    class InAnotherClass {
        @Test
        void theServerIsTheSame() {
            assertEquals(port, server.port());
        }
    }
}
