package io.github.punctualrs.junit5;

import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A Punctual server: a process without data and files, to which any Redis client can connect.
 *
 * <p>In a static field with {@code @RegisterExtension}, one server runs for all tests of a class. In
 * another field, each test has a new server. {@link PunctualExtension} passes servers to tests as
 * parameters. Other programs call {@link #start} and {@link #close}.
 *
 * <p>The server ends with this process, also if this process is killed. If a test fails, the server's
 * log is printed to {@code System.err}. Several threads may use the methods.
 *
 * <p>This package does not contain the server. It runs the program that {@link Builder#binary} names,
 * or the system property {@code punctual.binary}, or the environment variable {@code PUNCTUAL_BINARY},
 * or else {@code punctual} or {@code punctual-server} in a folder of {@code PATH}.
 */
public final class PunctualServer
        implements AutoCloseable, BeforeAllCallback, AfterAllCallback, BeforeEachCallback, AfterEachCallback {
    private final String binary;
    private final List<String> directives;
    private final String password;
    private Child child;
    /** Number of test classes that run, a class and those nested in it. */
    private int classes;

    private PunctualServer(Builder builder) {
        binary = builder.binary;
        directives = List.copyOf(builder.directives);
        password = builder.password;
    }

    /**
     * Returns a builder of a server with a virtual clock.
     *
     * @return the builder
     */
    public static Builder builder() {
        return new Builder();
    }

    /** Options of a server. */
    public static final class Builder {
        private final List<String> directives = new ArrayList<>();
        private String binary;
        private String password;

        private Builder() {}

        /**
         * Sets the path of the server's program.
         *
         * @param path the path
         * @return this builder
         */
        public Builder binary(String path) {
            binary = path;
            return this;
        }

        /**
         * Lets the server's time pass as usual. Then {@link PunctualServer#advance} fails.
         *
         * @return this builder
         */
        public Builder realClock() {
            return directive("clock", "real");
        }

        /**
         * Sets a directive of redis.conf, for example {@code directive("notify-keyspace-events", "Ex")}.
         *
         * @param name name of the directive
         * @param values values of the directive
         * @return this builder
         */
        public Builder directive(String name, String... values) {
            if (name.equals("requirepass")) {
                password = String.join("", values);
            }
            directives.add("--" + name);
            directives.addAll(List.of(values));
            return this;
        }

        /**
         * Returns a server that does not run yet.
         *
         * @return the server
         */
        public PunctualServer build() {
            return new PunctualServer(this);
        }
    }

    /**
     * Starts the server, and waits until it accepts connections. A server that was stopped starts
     * again, without its data.
     *
     * @return this server
     * @throws IllegalStateException if no program is found, or if it does not start, or if the server
     *     already runs
     */
    public synchronized PunctualServer start() {
        if (child != null) {
            throw new IllegalStateException("the server already runs, at " + uri());
        }
        child = Child.start(binary, directives);
        return this;
    }

    /** Stops the server. Does nothing if it does not run. */
    @Override
    public synchronized void close() {
        if (child != null) {
            child.stop();
            child = null;
        }
    }

    private synchronized Child running() {
        if (child == null) {
            throw new IllegalStateException("the server does not run");
        }
        return child;
    }

    /**
     * Returns the address that clients connect to.
     *
     * @return a URI such as {@code redis://127.0.0.1:40123}
     */
    public URI uri() {
        return URI.create("redis://" + host() + ":" + port());
    }

    /**
     * Returns the host that clients connect to.
     *
     * @return an IP address
     */
    public String host() {
        return Child.HOST;
    }

    /**
     * Returns the port that clients connect to.
     *
     * @return the port, which the system selects at each start
     */
    public int port() {
        return running().port();
    }

    /**
     * Returns what the server has written since its start.
     *
     * @return lines of the log
     */
    public String log() {
        return running().log();
    }

    /**
     * Moves the clock forward. After the call, all keys whose deadline was reached have expired, and all
     * timers that were due have fired.
     *
     * @param by how far; a fraction of a millisecond counts as a whole one
     * @return the new time
     * @throws IllegalStateException if the server refuses, for example because its clock is real
     */
    public Instant advance(Duration by) {
        return clock("ADVANCE", Long.toString(by.plusNanos(999_999).toMillis()));
    }

    /**
     * Moves the clock forward to a time, as {@link #advance} does.
     *
     * @param to a time that is not earlier than the clock's, in whole milliseconds
     * @return the new time
     * @throws IllegalStateException if the server refuses
     */
    public Instant setTime(Instant to) {
        return clock("SET", Long.toString(to.toEpochMilli()));
    }

    /**
     * Returns the time of the server's clock.
     *
     * @return the time, in whole milliseconds
     */
    public Instant now() {
        return clock("NOW");
    }

    private Instant clock(String... arguments) {
        return Instant.ofEpochMilli(ClockCommand.run(port(), password, arguments));
    }

    /** Called by JUnit for a static field. */
    @Override
    public synchronized void beforeAll(ExtensionContext context) {
        if (classes == 0) {
            start();
        }
        classes++;
    }

    /** Called by JUnit for a static field. */
    @Override
    public synchronized void afterAll(ExtensionContext context) {
        classes--;
        if (classes == 0) {
            close();
        }
    }

    /** Called by JUnit. */
    @Override
    public synchronized void beforeEach(ExtensionContext context) {
        if (classes == 0) {
            start();
        }
    }

    /** Called by JUnit. */
    @Override
    public synchronized void afterEach(ExtensionContext context) {
        if (child != null && context.getExecutionException().isPresent()) {
            System.err.println("log of the server at " + uri() + ":\n" + log());
        }
        if (classes == 0) {
            close();
        }
    }
}
