//! A server embedded in a program: moving the clock without a connection, and checks of options.

use std::io::ErrorKind;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::wire::{Open as _, Wire, eventually};
use punctual_server::{MoveError, Server, Value};

fn start(threads: usize) -> Server {
    Server::builder()
        .port(0)
        .threads(threads)
        .virtual_clock()
        .option("notify-keyspace-events", "Ex")
        .option("notify-expired-values", "yes")
        .spawn()
        .unwrap()
}

/// Returns the bytes that have arrived at the socket, without waiting.
fn received(c: &mut Wire) -> String {
    c.stream.set_nonblocking(true).unwrap();
    let mut bytes = vec![0; 1 << 16];
    let count = match std::io::Read::read(&mut c.stream, &mut bytes) {
        Ok(count) => count,
        Err(e) if e.kind() == ErrorKind::WouldBlock => 0,
        Err(e) => panic!("{e}"),
    };
    c.stream.set_nonblocking(false).unwrap();
    String::from_utf8_lossy(&bytes[..count]).replace("\r\n", "|")
}

/// When `advance` returns, due keys are removed, and the clients' sockets have all events and
/// delayed replies.
#[test]
fn advance_returns_after_all_its_effects() {
    for threads in [1, 3] {
        let server = start(threads);
        let mut c = Wire::open(&server);
        let mut others: Vec<Wire> = (0..4).map(|_| Wire::open(&server)).collect();
        for (n, other) in others.iter_mut().enumerate() {
            let channel = "__keyevent@0__:expired";
            other.expect(
                &[&format!("SUBSCRIBE {channel}")],
                &format!("*3|$9|subscribe|$22|{channel}|:1|"),
            );
            c.expect(&[&format!("SET k{n} v PX {}", 100 * (n + 1))], "+OK|");
        }
        let mut waiting = Wire::open(&server);
        waiting.send(&["BLPOP nothing 0.4", "ECHO late"]);
        eventually(|| c.text("INFO clients").contains("\r\nblocked_clients:1\r\n"));
        for round in 0..4 {
            let before = server.now();
            let now = server.advance(Duration::from_millis(100)).unwrap();
            assert_eq!(now, before + Duration::from_millis(100));
            for other in &mut others {
                let output = received(other);
                assert!(output.ends_with(&format!("|$2|k{round}|")), "{output}");
                assert_eq!(output.matches("message").count(), 1, "{output}");
            }
            c.expect(&["DBSIZE"], &format!(":{}|", 3 - round));
        }
        // The wait has timed out, and the client's next command has also run.
        assert_eq!(received(&mut waiting), "*-1|$4|late|");
        let stats = c.text("INFO stats");
        assert!(stats.contains("\r\nexpired_keys:4\r\n"), "{stats}");
    }
}

#[test]
fn the_clock_moves_by_microseconds_and_never_back() {
    let server = start(1);
    let mut c = Wire::open(&server);
    let began = server.now();
    let since_epoch = began.duration_since(UNIX_EPOCH).unwrap();
    assert_eq!(since_epoch.as_millis() as i64, c.int("CLOCK NOW"));
    c.expect(&["SET k v PX 1"], "+OK|");
    server.advance(Duration::from_micros(999)).unwrap();
    c.expect(&["EXISTS k"], ":1|");
    // Less than a microsecond is rounded down to zero.
    server.advance(Duration::from_nanos(999)).unwrap();
    c.expect(&["EXISTS k"], ":1|");
    server.advance(Duration::from_micros(1)).unwrap();
    c.expect(&["EXISTS k"], ":0|");
    let later = began + Duration::from_secs(60);
    assert_eq!(server.set_time(later), Ok(later));
    assert_eq!(server.set_time(later), Ok(later));
    assert_eq!(server.set_time(began), Err(MoveError::Backwards));
    assert_eq!(server.set_time(UNIX_EPOCH), Err(MoveError::Backwards));
    assert_eq!(server.advance(Duration::MAX), Err(MoveError::OutOfRange));
    let ages = Duration::from_micros(i64::MAX as u64);
    assert_eq!(server.advance(ages), Err(MoveError::OutOfRange));
    assert_eq!(server.now(), later);
    c.expect_error("CLOCK ADVANCE 9223372036854775", "value is out of range");
}

#[test]
fn concurrent_advances_add_up() {
    let server = start(2);
    let began = server.now();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..50 {
                    server.advance(Duration::from_millis(2)).unwrap();
                }
            });
            scope.spawn(|| {
                let mut c = Wire::open(&server);
                for _ in 0..50 {
                    c.int("CLOCK ADVANCE 3");
                }
            });
        }
    });
    let passed = server.now().duration_since(began).unwrap();
    assert_eq!(passed, Duration::from_millis(3 * 50 * (2 + 3)));
}

#[test]
fn moving_the_clock_of_a_real_or_stopped_server_fails() {
    let server = Server::builder().port(0).spawn().unwrap();
    assert_eq!(server.advance(Duration::from_secs(1)), Err(MoveError::Real));
    assert_eq!(server.set_time(SystemTime::now()), Err(MoveError::Real));
    let server_now = server.now();
    let apart = SystemTime::now().duration_since(server_now).unwrap();
    assert!(apart < Duration::from_secs(60));

    let server = start(2);
    assert!(server.is_running());
    Wire::open(&server).send(&["SHUTDOWN NOSAVE"]);
    eventually(|| !server.is_running());
    eventually(|| server.advance(Duration::from_secs(1)) == Err(MoveError::Stopped));
}

#[test]
fn options_are_checked_before_the_start() {
    let builder = Server::builder().port(0).option("maxclients", "many");
    let error = builder.configuration().unwrap_err().to_string();
    assert!(
        error.contains("Reading the program's options, at maxclients\n>>> 'maxclients \"many\"'"),
        "{error}"
    );
    assert!(Server::builder().option("prot", "1").spawn().is_err());
    // Quotes and control characters in a value are kept.
    let odd = "a \"b\"\nport 7\t\u{e9}\\";
    let config = Server::builder()
        .option("requirepass", odd)
        .option("bind", "127.0.0.1 -::1")
        .configuration()
        .unwrap();
    let settings = config.settings();
    assert_eq!(settings.requirepass.as_deref(), Some(odd.as_bytes()));
    assert_eq!((settings.port, settings.bind.len()), (6379, 2));
    assert!(settings.save.is_empty());
}

#[test]
fn the_logfile_option_writes_a_log_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.log");
    let server = Server::builder()
        .port(0)
        .option("logfile", path.to_str().unwrap())
        .spawn()
        .unwrap();
    server.shutdown();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains(" * Ready to accept connections tcp\n"),
        "{text}"
    );
}

#[test]
fn timers_of_a_client_in_the_process_run_as_the_default_user() {
    let server = start(1);
    let timer = ["TIMER", "SET", "t", "IN", "50", "DO", "SET", "k", "v"];
    server.call(&timer).unwrap();
    let dump = server.call(&["DUMP", "t"]).unwrap();
    let restore = [b"RESTORE", &b"copy"[..], b"0", dump.as_bytes().unwrap()];
    assert_eq!(
        server.call(&restore).unwrap(),
        Value::Simple(b"OK".to_vec())
    );
    server.advance(Duration::from_millis(50)).unwrap();
    assert_eq!(server.call(&["GET", "k"]).unwrap(), Value::bulk("v"));
}
