/** Writes keys to the slot of a tag and to other slots, each until it is acknowledged. */
final class Writer extends Thread {
  interface Set {
    void call(String name, String value) throws Exception;
  }

  interface Get {
    String call(String name) throws Exception;
  }

  private final String tag;
  private final Set set;
  private volatile int acknowledged;
  private volatile boolean stopped;

  private Writer(String tag, Set set) throws Exception {
    this.tag = tag;
    this.set = set;
    setDaemon(true);
    start();
    more();
  }

  private String name(int number) {
    return (number % 2 == 1 ? "{" + tag + "}:" : tag + ":") + number;
  }

  @Override
  public void run() {
    while (!stopped) {
      try {
        set.call(name(acknowledged), String.valueOf(acknowledged));
        acknowledged++;
      } catch (Exception error) {
        System.out.println("again: " + error);
        try {
          Thread.sleep(10);
        } catch (InterruptedException interrupted) {
          return;
        }
      }
    }
  }

  private void more() throws Exception {
    int goal = acknowledged + 100;
    Verdict.until(() -> acknowledged >= goal);
  }

  private void end() throws Exception {
    more();
    stopped = true;
    join();
  }

  /** Moves a slot while a client writes, kills a primary while it writes, and reads the acknowledged writes. */
  static void moveAndKill(Set set, Get get) throws Exception {
    Verdict.step("a slot moves");
    var moved = new Writer("moved", set);
    Verdict.control("move {moved} redirected");
    moved.end();
    Verdict.control("replicated");
    Verdict.step("a primary is killed");
    var killed = new Writer("killed", set);
    Verdict.control("kill {moved}");
    killed.end();
    Verdict.step("acknowledged writes");
    for (int number = 0; number < moved.acknowledged; number++) {
      Verdict.equal(get.call(moved.name(number)), String.valueOf(number));
    }
  }
}
