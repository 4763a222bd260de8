import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.Socket;
import java.util.Objects;
import java.util.concurrent.Callable;

/** Prints the last line of a program, its verdict: {@code works}, or {@code fails: } with the step and the error. */
final class Verdict {
  static final String HOST = System.getenv("REDIS_HOST");
  static final int PORT = Integer.parseInt(System.getenv("REDIS_PORT"));
  static final String URL = System.getenv("REDIS_URL");

  private static String current = "start";

  interface Program {
    void run() throws Exception;
  }

  /** Prints the name of the next step. */
  static void step(String name) {
    current = name;
    System.out.println("- " + name);
  }

  static void equal(Object actual, Object expected) {
    if (!Objects.equals(actual, expected)) throw new AssertionError(actual + ", not " + expected);
  }

  /** Returns the message of the exception that the call must throw. */
  static String message(Callable<?> call) {
    try {
      return "nothing thrown, but returned: " + call.call();
    } catch (Exception error) {
      return error.getMessage();
    }
  }

  /** Waits until the condition is true. */
  static void until(Callable<Boolean> condition) throws Exception {
    for (long end = System.nanoTime() + 15_000_000_000L; !condition.call(); Thread.sleep(20)) {
      if (System.nanoTime() > end) throw new AssertionError("not true within 15 s");
    }
  }

  /** Sends a command to the control port of scripts/cluster, and waits until it is done. */
  static void control(String command) throws Exception {
    try (var to = new Socket(HOST, Integer.parseInt(System.getenv("CLUSTER_CONTROL")))) {
      to.getOutputStream().write((command + "\n").getBytes());
      equal(new BufferedReader(new InputStreamReader(to.getInputStream())).readLine(), "ok");
    }
  }

  /** Runs the program, prints the verdict and ends the process, even if the library has running threads. */
  static void report(Program program) {
    int status = 0;
    try {
      program.run();
      System.out.println("works");
    } catch (Throwable error) {
      error.printStackTrace(System.out);
      System.out.println(("fails: " + current + ": " + error).replaceAll("\\s+", " "));
      status = 1;
    }
    System.out.flush();
    Runtime.getRuntime().halt(status);
  }
}
