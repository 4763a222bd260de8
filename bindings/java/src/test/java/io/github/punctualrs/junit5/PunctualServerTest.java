package io.github.punctualrs.junit5;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.ConnectException;
import java.net.Socket;
import java.net.SocketException;
import java.time.Duration;
import java.time.Instant;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.platform.testkit.engine.EngineTestKit;

class PunctualServerTest {
    @Test
    void theClockMovesInWholeMilliseconds() {
        try (PunctualServer server = PunctualServer.builder().directive("requirepass", "a \"b").build().start()) {
            Instant before = server.now();
            assertEquals(before, server.advance(Duration.ZERO));
            assertEquals(before.plusMillis(1), server.advance(Duration.ofNanos(1)));
            assertEquals(before.plusMillis(2), server.advance(Duration.ofMillis(1)));
            assertEquals(before.plusSeconds(60), server.setTime(before.plusSeconds(60)));
            assertEquals(before.plusSeconds(60), server.now());
        }
    }

    @Test
    void aStoppedServerStartsAgain() {
        PunctualServer server = PunctualServer.builder().build();
        for (int i = 0; i < 2; i++) {
            int port = server.start().port();
            assertTrue(server.log().contains("The clock is virtual"), server.log());
            assertThrows(IllegalStateException.class, server::start);
            server.close();
            assertThrows(ConnectException.class, () -> new Socket("127.0.0.1", port).close());
            assertThrows(IllegalStateException.class, server::uri);
        }
        server.close();
    }

    @Test
    void errorsSayWhatToDo() {
        fails(PunctualServer.builder().directive("maxclients", "many"), "maxclients");
        fails(PunctualServer.builder().binary("/no/such/program"), "/no/such/program");
        String given = System.getProperty("punctual.binary");
        System.setProperty("punctual.binary", "/no/such/property");
        try {
            fails(PunctualServer.builder(), "/no/such/property");
        } finally {
            if (given == null) {
                System.clearProperty("punctual.binary");
            } else {
                System.setProperty("punctual.binary", given);
            }
        }
        try (PunctualServer server = PunctualServer.builder().realClock().build().start()) {
            Throwable refused = assertThrows(IllegalStateException.class, () -> server.advance(Duration.ofSeconds(1)));
            assertTrue(refused.getMessage().startsWith("CLOCK ADVANCE 1000: -ERR"), refused.getMessage());
        }
    }

    private static void fails(PunctualServer.Builder builder, String expected) {
        Throwable error = assertThrows(IllegalStateException.class, builder.build()::start);
        assertTrue(error.getMessage().contains(expected), error.getMessage());
    }

    /** A test that fails, which JUnit finds only in the test below. */
    static class FailsTestCase {
        @RegisterExtension
        final PunctualServer server = PunctualServer.builder().build();

        @Test
        void fails() {
            Assertions.fail();
        }
    }

    @Test
    void aFailedTestPrintsTheLog() {
        PrintStream before = System.err;
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        System.setErr(new PrintStream(errors, true));
        try {
            EngineTestKit.engine("junit-jupiter")
                    .selectors(selectClass(FailsTestCase.class))
                    .execute()
                    .testEvents()
                    .assertStatistics(events -> events.failed(1));
        } finally {
            System.setErr(before);
        }
        assertTrue(errors.toString().contains("Ready to accept connections"), errors.toString());
    }

    /** The program that the test below kills: prints the port of a server, and waits. */
    static class Parent {
        public static void main(String[] arguments) throws InterruptedException {
            System.out.println(PunctualServer.builder().build().start().port());
            Thread.sleep(Long.MAX_VALUE);
        }
    }

    @Test
    void theServerEndsWithAKilledParent() throws IOException {
        Process parent = new ProcessBuilder(
                        System.getProperty("java.home") + "/bin/java",
                        "-Dpunctual.binary=" + System.getProperty("punctual.binary", ""),
                        "-cp",
                        System.getProperty("java.class.path"),
                        Parent.class.getName())
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        try (BufferedReader output = new BufferedReader(new InputStreamReader(parent.getInputStream()));
                Socket client = new Socket("127.0.0.1", Integer.parseInt(output.readLine()))) {
            client.setSoTimeout((int) Child.PATIENCE.toMillis());
            parent.destroyForcibly();
            assertEquals(-1, endOf(client));
        }
    }

    private static int endOf(Socket client) throws IOException {
        try {
            return client.getInputStream().read();
        } catch (SocketException e) {
            return -1; // reset by the end
        }
    }
}
