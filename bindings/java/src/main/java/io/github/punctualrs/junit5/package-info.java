/**
 * Punctual servers for tests with JUnit 5. Punctual is a Redis-compatible server with a clock that a
 * test can advance, so a test of expiry needs no sleep.
 *
 * <pre>{@code
 * class SessionTest {
 *     @RegisterExtension
 *     static final PunctualServer server = PunctualServer.builder().build();
 *
 *     @Test
 *     void endsAfterHalfAnHour() {
 *         try (var redis = new Jedis(server.uri())) {
 *             redis.setex("session", 1800, "alice");
 *             server.advance(Duration.ofMinutes(30));
 *             assertNull(redis.get("session"));
 *         }
 *     }
 * }
 * }</pre>
 */
package io.github.punctualrs.junit5;
