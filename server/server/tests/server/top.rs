//! `punctual top` on real servers: its screens, its printed output, and its behaviour when a server
//! refuses commands or disconnects.

use std::path::Path;
use std::process::{Command, Output};

use punctual_harness::free_port;
use punctual_server::Server;
use punctual_top::{Line, Options, Sample, State, Target, View, draw};

use crate::killed::start;
use crate::tls::Authority;
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, eventually, server_with};

/// Runs `punctual top --once`.
fn once(words: &[&str], password: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(["top", "--once"]).args(words);
    command
        .env_remove("REDISCLI_AUTH")
        .env_remove("SSL_CERT_FILE");
    if let Some(password) = password {
        command.env("REDISCLI_AUTH", password);
    }
    command.output().unwrap()
}

fn page(words: &[&str], password: Option<&str>) -> String {
    let output = once(words, password);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the error of `punctual top --once`.
fn refused(words: &[&str], password: Option<&str>) -> String {
    let output = once(words, password);
    assert!(!output.status.success());
    assert_eq!(output.stdout, b"");
    String::from_utf8(output.stderr).unwrap()
}

/// Draws a state, and returns the text of the screen.
fn drawn(state: &mut State, width: u16, height: u16) -> String {
    let lines = draw(state, width, height);
    assert_eq!(lines.len(), usize::from(height));
    let lines: Vec<_> = lines.iter().map(Line::text).collect();
    for line in &lines {
        // These tests use no characters that are two columns wide.
        assert!(line.chars().count() <= usize::from(width), "{line}");
        assert!(!line.contains(char::is_control), "{line:?}");
    }
    lines.join("\n")
}

/// Starts a server with a virtual clock, three timers and two queues.
fn future() -> (Server, Wire) {
    let server = server_with("clock virtual");
    let mut c = Wire::open(&server);
    for line in [
        "CLOCK SET 2000000000000",
        "TIMER SET soon IN 5000 DO SET a b",
        "TIMER SET later IN 7200000 DO SET a b",
        "TIMER SET paused IN 1 DO SET a b",
        "TIMER PAUSE paused",
        "JOB ADD mails p",
        "JOB ADD mails p DELAY 30000",
        "JOB ADD reports p DELAY 60000000",
        "JOB PAUSE reports",
        "SET k v PX 10",
        "CONFIG SET slowlog-log-slower-than 0",
        "SET odd\x1b[2J v",
        "CONFIG SET slowlog-log-slower-than -1",
    ] {
        c.run(line);
    }
    (server, c)
}

fn assert_shows(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn a_page_shows_the_next_deadlines() {
    let (server, _c) = future();
    let page = page(&["-p", &server.port().to_string()], None);
    assert_shows(
        &page,
        &[
            concat!("punctual ", env!("CARGO_PKG_VERSION"), ", master, up "),
            "clients   ",
            "expired 0 since start",
            "in 5.000s       soon\n",
            "in 2h 00m       later\n",
            "paused          paused\n",
            "timers minute           1  ·····█·",
            "timers day              2  █···█·",
            "jobs   minute           1  ······························█",
            "jobs   day              2  █",
            "1         1        0        0     0.000s   in 30.000s  mails\n",
            "in 16h 40m  reports (paused)\n",
            r"SET odd\x1b[2J v",
            "  set\n",
            "  timer|set\n",
        ],
    );
}

#[test]
fn every_view_is_drawn_and_rates_are_those_between_two_samples() {
    let (server, mut c) = future();
    let port = server.port().to_string();
    let target = Target::new(Options::read(["-p", &port]).unwrap()).unwrap();
    let mut connection = target.connect().unwrap();
    let mut state = State {
        address: target.address(),
        ..State::default()
    };
    assert_shows(
        &drawn(&mut state, 80, 24),
        &["punctual top  127.0.0.1:", "[1 overview]"],
    );
    state.take(Sample::take(&mut connection).map_err(|error| error.to_string()));
    c.int("CLOCK ADVANCE 5000");
    state.take(Sample::take(&mut connection).map_err(|error| error.to_string()));
    let overview = drawn(&mut state, 100, 60);
    assert_shows(
        &overview,
        &[
            concat!("punctual ", env!("CARGO_PKG_VERSION"), ", master"),
            "% of one processor",
            // The key and the timer that were due in between.
            "now                ≤1       ≤1       ≤1       ≤1                    2",
            "in 1h 59m       later",
            "in 25.000s  mails",
            " a second, in ",
            "calls/s",
        ],
    );
    // Panes of 8, 4 and 7 rows, three panes that share the other 39 rows, the head and the foot.
    let titles = overview.lines().enumerate();
    let titles = titles.filter_map(|(row, line)| line.ends_with("──").then_some(row));
    assert_eq!(titles.collect::<Vec<_>>(), [1, 9, 13, 20, 33, 46]);
    assert!(overview.ends_with(
        "\n[1 overview] 2 future  3 timers  4 queues  5 commands  6 slow  7 cluster q quit"
    ));
    for (view, shown) in [
        (View::Future, "due in the next minute, hour and day"),
        (View::Timers, "in 1h 59m       later"),
        (View::Queues, "reports (paused)"),
        (View::Commands, "us/call"),
        (View::Slow, r"SET odd\x1b[2J v"),
        (View::Cluster, "cluster mode is off"),
    ] {
        state.show(view);
        assert_shows(&drawn(&mut state, 100, 24), &[shown]);
    }
    // Drawing works at any size.
    for (width, height) in [(0, 0), (0, 9), (9, 0), (1, 1), (20, 3), (80, 5), (300, 100)] {
        for view in View::ALL {
            state.show(view);
            state.scroll(isize::MAX);
            drawn(&mut state, width, height);
        }
    }
    state.show(View::Commands);
    state.scroll(isize::MAX);
    let last = drawn(&mut state, 100, 5);
    let all = drawn(&mut state, 100, 100);
    let end = all.trim_end().lines().filter(|line| !line.is_empty());
    assert_eq!(last.lines().nth(3), end.rev().nth(1), "the last command");
    state.take(Err("gone".to_owned()));
    let gone = drawn(&mut state, 100, 24);
    assert_shows(&gone, &["no connection, trying again: gone"]);
}

#[test]
fn a_redis_server_is_shown_without_our_own_figures() {
    let redis = Redis::start(&[]);
    let port = redis.port.to_string();
    let mut c = Wire::to(redis.port);
    c.expect(&["SET k v"], "+OK|");
    let page = page(&["-p", &port], None);
    assert_shows(
        &page,
        &[
            "redis 7.0",
            "db0 1 (0 with a deadline)",
            "  set\n",
            "this needs Punctual: redis-server does not measure it",
            "timers this needs Punctual: the server has no such command",
            "jobs   this needs Punctual: the server has no such command",
        ],
    );
    let stats = c.text("INFO errorstats");
    assert!(
        !stats.contains("errorstat_ERR"),
        "nothing unknown was sent: {stats}"
    );
}

/// Starts a node of a cluster. Returns it, a client, and the port of its bus.
fn node(folder: &Path) -> (Server, Wire, u16) {
    let bus_port = free_port();
    let server = configured("cluster-enabled yes|repl-diskless-sync-delay 0")
        .option("cluster-port", &bus_port.to_string())
        .option("dir", &folder.display().to_string())
        .spawn()
        .unwrap();
    let client = Wire::open(&server);
    (server, client, bus_port)
}

#[test]
fn a_cluster_is_shown_with_slots_roles_and_lag() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (primary, mut c, bus_port) = node(folders[0].path());
    let (replica, mut r, _) = node(folders[1].path());
    c.run("CLUSTER ADDSLOTS 0 2 3 5 7 8 10");
    c.run("CLUSTER ADDSLOTSRANGE 12 16383");
    c.run("CONFIG SET cluster-require-full-coverage no");
    let port = primary.port();
    r.run(&format!("CLUSTER MEET 127.0.0.1 {port} {bus_port}"));
    eventually(|| {
        let known = c.text("CLUSTER NODES").lines().count() == 2;
        known && c.text("CLUSTER INFO").contains("cluster_state:ok")
    });
    let id = c.text("CLUSTER MYID");
    eventually(|| r.text("CLUSTER NODES").contains(&id));
    r.run(&format!("CLUSTER REPLICATE {id}"));
    eventually(|| r.text("INFO replication").contains("master_link_status:up"));
    // Key `a` is in slot 15495.
    c.expect(&["SET a b", "WAIT 1 0"], "+OK|:1|");
    let address = |server: &Server| format!(" 127.0.0.1:{} ", server.port());
    let line_of = |page: &str, server: &Server| {
        let line = page.lines().find(|line| line.contains(&address(server)));
        line.map(str::to_owned).unwrap_or_else(|| panic!("{page}"))
    };
    let mut shown = String::new();
    eventually(|| {
        shown = page(&["-p", &port.to_string()], None);
        // The replica acknowledges once a second what WAIT has sent.
        shown.contains(" replica online ") && line_of(&shown, &replica).contains(" -         0B")
    });
    assert_shows(
        &line_of(&shown, &primary),
        &[
            "primary *online ",
            " 1          -   0 2-3 5 7-8 and 2 more (16,379)",
        ],
    );
    let shown = page(&["-p", &replica.port().to_string()], None);
    assert_shows(&line_of(&shown, &primary), &["primary  online "]);
    assert_shows(&line_of(&shown, &replica), &[" replica*online ", " 1  "]);

    let text = port.to_string();
    let target = Target::new(Options::read(["-p", &text]).unwrap()).unwrap();
    let mut state = State::default();
    let mut connection = target.connect().unwrap();
    state.take(Sample::take(&mut connection).map_err(|error| error.to_string()));
    state.show(View::Cluster);
    let screen = drawn(&mut state, 100, 10);
    assert_shows(
        &screen,
        &["shards of the cluster", "(16,379)", "[7 cluster]"],
    );
}

#[test]
fn a_refused_command_leaves_the_other_panes() {
    let (server, mut c) = future();
    c.expect(
        &["ACL SETUSER watcher on >secret ~mails +timer|list +job|queues +job|count"],
        "+OK|",
    );
    let port = server.port().to_string();
    let words = ["-p", &port, "--user", "watcher"];
    let shown = page(&words, Some("secret"));
    assert_shows(
        &shown,
        &[
            "NOPERM this user has no permissions to run the 'info' command",
            "NOPERM this user has no permissions to run the 'slowlog|get' command",
            "timers NOPERM this user has no permissions to run the 'timer|count' command",
            "  mails\n",
            "soon\n",
        ],
    );
    assert!(!shown.contains("reports"), "{shown}");
    let words = [&words[..], &["-a", "secret"]].concat();
    assert_shows(&page(&words, None), &["  mails\n"]);
    let words = [&words[..4], &["-a", "wrong"]].concat();
    assert_shows(&refused(&words, None), &["WRONGPASS"]);
    assert_shows(&refused(&words[..4], None), &["a user needs a password"]);
    assert_shows(
        &refused(&["-p", "1"], None),
        &["127.0.0.1:1: Connection refused"],
    );
}

#[test]
fn sockets_databases_and_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s").display().to_string();
    let authority = Authority::new();
    authority.issue("watcher");
    let server = authority
        .builder()
        .option("unixsocket", &path)
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    c.expect(
        &["SELECT 3", "TIMER SET three IN 60000 DO SET a b"],
        "+OK|+OK|",
    );
    assert_shows(&page(&["-s", &path, "-n", "3"], None), &["  three\n"]);
    assert_shows(&page(&["-s", &path], None), &["there are no timers"]);
    let port = server.tls_port().to_string();
    let (ca, certificate, key) = (
        authority.path("ca.crt"),
        authority.path("watcher.crt"),
        authority.path("watcher.key"),
    );
    let tls = ["-h", "localhost", "-p", &port, "--tls"];
    let own = ["--cert", &certificate, "--key", &key];
    let trusted = [&tls[..], &own[..], &["--cacert", &ca]].concat();
    assert_shows(
        &page(&trusted, None),
        &[concat!("punctual ", env!("CARGO_PKG_VERSION"))],
    );
    let insecure = [&tls[..], &own[..], &["--insecure"]].concat();
    assert_shows(
        &page(&insecure, None),
        &[concat!("punctual ", env!("CARGO_PKG_VERSION"))],
    );
    let other = [&trusted[..], &["--sni", "elsewhere"]].concat();
    assert_shows(&refused(&other, None), &["not valid for name"]);
    let missing = [&tls[..], &["--cacert", "/nowhere"]].concat();
    assert_shows(&refused(&missing, None), &["/nowhere: "]);
}

#[test]
fn a_server_that_comes_back_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let start = || start(folder.path(), port, &[]);
    let text = port.to_string();
    let target = Target::new(Options::read(["-p", &text]).unwrap()).unwrap();
    let mut state = State::default();
    let mut server = start();
    let mut connection = target.connect().unwrap();
    state.take(Sample::take(&mut connection).map_err(|error| error.to_string()));
    server.kill();
    assert!(Sample::take(&mut connection).is_err());
    let mut server = start();
    let mut open = None;
    eventually(|| {
        open = target.connect().ok();
        open.is_some()
    });
    state.take(Sample::take(&mut open.unwrap()).map_err(|error| error.to_string()));
    // Counters of a new process are not compared with counters of the first process.
    assert_shows(&drawn(&mut state, 100, 60), &["since start, evicted"]);
    server.kill();
}
