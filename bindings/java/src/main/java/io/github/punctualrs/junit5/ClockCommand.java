package io.github.punctualrs.junit5;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;

/** The command CLOCK, on a connection of its own. */
final class ClockCommand {
    private ClockCommand() {}

    /** Runs the command, and returns the reply: Unix milliseconds. */
    static long run(int port, String password, String... arguments) {
        String request = command("CLOCK", arguments);
        if (password != null) {
            request = command("AUTH", password) + request;
        }
        try (Socket socket = new Socket(Child.HOST, port)) {
            socket.setSoTimeout((int) Child.PATIENCE.toMillis());
            socket.getOutputStream().write(request.getBytes(UTF_8));
            BufferedReader replies = new BufferedReader(new InputStreamReader(socket.getInputStream(), UTF_8));
            String reply = replies.readLine();
            if (password != null && "+OK".equals(reply)) {
                reply = replies.readLine();
            }
            if (reply == null || !reply.startsWith(":")) {
                throw new IllegalStateException("CLOCK " + String.join(" ", arguments) + ": " + reply);
            }
            return Long.parseLong(reply.substring(1));
        } catch (IOException e) {
            throw new IllegalStateException("CLOCK " + String.join(" ", arguments) + ": " + e, e);
        }
    }

    private static String command(String name, String... arguments) {
        StringBuilder text = new StringBuilder("*" + (1 + arguments.length) + "\r\n");
        word(text, name);
        for (String argument : arguments) {
            word(text, argument);
        }
        return text.toString();
    }

    private static void word(StringBuilder text, String word) {
        text.append('$').append(word.getBytes(UTF_8).length).append("\r\n").append(word).append("\r\n");
    }
}
