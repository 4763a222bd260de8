package io.github.punctualrs.junit5;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The process of a server. It ends when its standard input is closed, which the system also does when
 * this process ends.
 */
final class Child {
    static final String HOST = "127.0.0.1";
    /** Limits the start, the end and a reply, also on a busy machine. */
    static final Duration PATIENCE = Duration.ofSeconds(30);

    private static final String READY = "ready port=";

    private final Process process;
    private final StringBuffer log = new StringBuffer();
    private final CompletableFuture<Integer> ready = new CompletableFuture<>();

    private Child(Process process) {
        this.process = process;
    }

    static Child start(String binary, List<String> directives) {
        String program = find(binary);
        List<String> words = new ArrayList<>(List.of(
                program, "--supervised", "parent", "--port", "0", "--clock", "virtual", "--save", ""));
        words.addAll(directives);
        Child child;
        try {
            child = new Child(new ProcessBuilder(words).redirectErrorStream(true).start());
        } catch (IOException e) {
            throw new IllegalStateException("cannot start the server: " + e.getMessage(), e);
        }
        Thread reader = new Thread(child::read, "punctual-log");
        reader.setDaemon(true);
        reader.start();
        try {
            child.ready.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
            return child;
        } catch (ExecutionException | TimeoutException | InterruptedException e) {
            if (e instanceof InterruptedException) {
                Thread.currentThread().interrupt();
            }
            child.stop();
            throw new IllegalStateException("cannot start " + program + "; its log:\n" + child.log, e);
        }
    }

    private static String find(String binary) {
        String property = System.getProperty("punctual.binary");
        for (String named : new String[] {binary, property, System.getenv("PUNCTUAL_BINARY")}) {
            if (named != null && !named.isEmpty()) {
                return named;
            }
        }
        String[] folders = System.getenv().getOrDefault("PATH", "").split(File.pathSeparator);
        for (String name : new String[] {"punctual", "punctual-server"}) {
            for (String folder : folders) {
                File file = new File(folder, name);
                if (file.canExecute() && file.isFile()) {
                    return file.getPath();
                }
            }
        }
        throw new IllegalStateException("no server program: name it with PunctualServer.builder().binary(...), the system "
                + "property punctual.binary or the environment variable PUNCTUAL_BINARY, or install punctual in a folder of PATH");
    }

    /** Reads the log until the process ends. */
    private void read() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream(), UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                log.append(line).append('\n');
                if (line.startsWith(READY)) {
                    ready.complete(Integer.valueOf(line.substring(READY.length())));
                }
            }
        } catch (IOException e) {
            log.append(e).append('\n');
        }
        ready.completeExceptionally(new IllegalStateException("the server has ended"));
    }

    int port() {
        return ready.join();
    }

    String log() {
        return log.toString();
    }

    void stop() {
        try {
            process.getOutputStream().close();
            if (process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
                return;
            }
        } catch (IOException e) {
            log.append(e).append('\n'); // the process has ended
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        process.destroyForcibly();
    }
}
