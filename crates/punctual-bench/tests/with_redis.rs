//! Whole runs against a real redis-server, small ones; skipped, with a word, where none is installed.

use std::ffi::OsString;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A redis-server of the test's own.
struct Redis {
    child: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Redis {
    fn start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("redis.conf");
        let settings = "save \"\"\nnotify-keyspace-events Kg\nrename-command INCR \"\"\nrename-command HSET \"\"\n";
        std::fs::write(&config, settings).unwrap();
        let child = Command::new("redis-server")
            .arg(config)
            .args(["--port", &port.to_string()])
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            eprintln!("skipped: redis-server is not installed");
            return None;
        };
        let redis = Self {
            child,
            port,
            _directory: directory,
        };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "redis-server does not serve"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(redis)
    }

    /// Sends one inline command and returns what comes back within a moment.
    fn ask(&self, command: &str) -> String {
        use std::io::{Read, Write};
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .write_all(format!("{command}\r\nQUIT\r\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn bench(&self, arguments: &str) -> ExitCode {
        let addr = format!("--addr=127.0.0.1:{}", self.port);
        let words = arguments.split_whitespace().map(OsString::from);
        punctual_bench::run(words.chain([addr.into()]))
    }
}

/// The only value of this metric in a CSV file of results.
fn value(csv: &Path, metric: &str) -> f64 {
    let text = std::fs::read_to_string(csv).unwrap();
    let found: Vec<f64> = text
        .lines()
        .filter(|line| line.split(',').any(|field| field == metric))
        .map(|line| line.rsplit(',').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(found.len(), 1, "{metric} in\n{text}");
    found[0]
}

#[test]
fn expiry_counts_every_key_and_sets_the_setting_back() {
    let Some(redis) = Redis::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let csv = directory.path().join("a.csv");
    let code = redis.bench(&format!(
        "expiry --keys 3000 --spread 0.5 --lead 2 --wait 20 --csv {} --out {}",
        csv.display(),
        directory.path().display()
    ));
    assert_eq!(code, ExitCode::SUCCESS);
    assert_eq!(value(&csv, "received"), 3000.0);
    assert_eq!((value(&csv, "missing"), value(&csv, "early")), (0.0, 0.0));
    assert!(value(&csv, "lateness_p50") > 0.0);
    assert!(directory.path().join("expiry-lateness.svg").is_file());
    let flags = redis.ask("CONFIG GET notify-keyspace-events");
    assert!(flags.contains("gK") || flags.contains("Kg"), "{flags}");
    assert!(redis.ask("DBSIZE").starts_with(":0\r\n"));
}

#[test]
fn servers_without_deadlines_of_fields_are_left_out() {
    let Some(redis) = Redis::start() else { return };
    // This server has no HSET either.
    assert_eq!(
        redis.bench("expiry --fields --keys 100 --spread 0.1 --lead 0.2"),
        ExitCode::from(1)
    );
    let flags = redis.ask("CONFIG GET notify-keyspace-events");
    assert!(flags.contains("gK") || flags.contains("Kg"), "{flags}");
}

#[test]
fn storm_finds_all_keys_gone_and_none_readable() {
    let Some(redis) = Redis::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let csv = directory.path().join("a.csv");
    let code = redis.bench(&format!(
        "expiry --storm --events --keys 5000 --lead 2 --rounds 1 --readers 2 --csv {}",
        csv.display()
    ));
    assert_eq!(code, ExitCode::SUCCESS);
    assert_eq!(value(&csv, "left"), 0.0);
    assert_eq!(value(&csv, "readable_late"), 0.0);
    assert_eq!(value(&csv, "gone_early"), 0.0);
    assert_eq!(value(&csv, "lost"), 0.0);
    // A GET that finds a due key removes it, with an event too.
    assert_eq!(value(&csv, "events"), 5000.0);
}

#[test]
fn probes_expire_among_others_and_none_is_left() {
    let Some(redis) = Redis::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let csv = directory.path().join("a.csv");
    let code = redis.bench(&format!(
        "expiry --probe --keys 1 --spread 0.5 --wait 20 --csv {}",
        csv.display()
    ));
    assert_eq!(code, ExitCode::SUCCESS);
    assert_eq!(value(&csv, "missing"), 0.0);
    assert!(value(&csv, "p50") > 0.0);
    let code = redis.bench("expiry --probe --keys 10000 --spread 0.1 --wait 0.1");
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(redis.ask("DBSIZE").starts_with(":0\r\n"));
}

#[test]
fn blocking_waits_for_every_timeout() {
    let Some(redis) = Redis::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let csv = directory.path().join("a.csv");
    let code = redis.bench(&format!(
        "blocking --clients 50 --least 0.05 --greatest 0.3 --csv {}",
        csv.display()
    ));
    assert_eq!(code, ExitCode::SUCCESS);
    assert_eq!(value(&csv, "answered"), 50.0);
    assert_eq!(value(&csv, "missing"), 0.0);
    assert!(value(&csv, "lateness_p50") >= 0.0);
}

#[test]
fn server_measures_cpu_and_skips_what_is_not_known() {
    let Some(redis) = Redis::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let csv = directory.path().join("a.csv");
    let code = redis.bench(&format!(
        "server --tests incr,hget,lrange --pipeline 8 --clients 5 --requests 4000 --rounds 1 --keyspace 2000 --csv {}",
        csv.display()
    ));
    assert_eq!(code, ExitCode::SUCCESS);
    // INCR, and what would fill HGET's hash, are renamed away in this server: one figure is left.
    let cost = value(&csv, "cpu_per_command");
    assert!((0.1..1000.0).contains(&cost), "{cost} µs");
    assert!(value(&csv, "throughput") > 0.0);
}

#[test]
fn a_running_server_cannot_be_a_fresh_one() {
    let run = |words: &[&str]| punctual_bench::run(words.iter().map(OsString::from));
    assert_eq!(
        run(&["server", "--memory", "--addr", "127.0.0.1:1"]),
        ExitCode::from(1)
    );
    assert_eq!(run(&["server", "--addr", "127.0.0.1:1"]), ExitCode::from(1));
    assert_eq!(
        run(&["server", "--tests", "nonsense", "--addr", "127.0.0.1:1"]),
        ExitCode::from(1)
    );
    assert_eq!(run(&["nonsense"]), ExitCode::from(2));
}
