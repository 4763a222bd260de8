package io.github.punctualrs.junit5;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.time.Duration;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.RegisterExtension;
import redis.clients.jedis.Jedis;

/** New servers for each test: one in a field, and one as a parameter. */
@ExtendWith(PunctualExtension.class)
class ServerForEachTestTest {
    @RegisterExtension
    final PunctualServer field = PunctualServer.builder().build();

    private PunctualServer before;

    @BeforeEach
    void prepare(PunctualServer parameter) {
        before = parameter;
    }

    @RepeatedTest(2)
    void isNewAndEmpty(PunctualServer parameter) {
        assertSame(before, parameter);
        assertNotEquals(field.port(), parameter.port());
        for (PunctualServer server : new PunctualServer[] {field, parameter}) {
            try (Jedis redis = new Jedis(server.uri())) {
                assertEquals(0, redis.dbSize());
                redis.psetex("key", 60_000, "value");
                redis.set("forever", "value");
                server.advance(Duration.ofMinutes(1));
                assertEquals(1, redis.dbSize());
            }
        }
    }

    /** A suite of tests that each start a server. */
    @RepeatedTest(100)
    void isStartedQuickly() {
        try (Jedis redis = new Jedis(field.uri())) {
            redis.psetex("key", 60_000, "value");
            field.advance(Duration.ofMinutes(1));
            assertEquals(0, redis.dbSize());
        }
    }
}
