//! CONFIG SET at run time, and configuration files and options of the program.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, eventually, server_with, start};
use punctual_server::Server;
use punctual_server::log::{Level, Logger};

#[test]
fn maxclients_takes_effect_at_once() {
    let server = start();
    let mut c = Wire::open(&server);
    let mut second = Wire::open(&server);
    second.expect(&["PING"], "+PONG|");
    c.expect(&["CONFIG SET maxclients 2"], "+OK|");
    Wire::open(&server).receive("-ERR max number of clients reached|");
    c.expect(&["CONFIG SET maxclients 3"], "+OK|");
    let mut third = Wire::open(&server);
    third.expect(&["PING"], "+PONG|");
    Wire::open(&server).receive("-ERR max number of clients reached|");
    // Connected clients stay connected.
    c.expect(&["CONFIG SET maxclients 1"], "+OK|");
    third.expect(&["PING"], "+PONG|");
    assert!(c.text("INFO stats").contains("rejected_connections:2\r\n"));
    let refusal = c.text("CONFIG SET maxclients 4000000000");
    let prefix = "ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to handle the specified number of clients, try with ";
    let possible = refusal
        .strip_prefix(prefix)
        .unwrap_or_else(|| panic!("{refusal}"));
    c.expect(&["CONFIG GET maxclients"], "*2|$10|maxclients|$1|1|");
    c.expect(&[&format!("CONFIG SET maxclients {possible}")], "+OK|");
}

/// Each change sees the change before it: no two loops begin the same append-only file, and the
/// last value of a setting is in force.
#[test]
fn loops_change_the_configuration_at_the_same_time() {
    const ROUNDS: usize = 25;
    let folder = tempfile::tempdir().unwrap();
    let builder = configured("threads 4");
    let builder = builder.option("dir", folder.path().to_str().unwrap());
    let server = builder.spawn().unwrap();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let mut c = Wire::open(&server);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let even = (number + round) % 2 == 0;
                    let change = match (number < 2, even) {
                        (true, true) => "appendonly yes",
                        (true, false) => "appendonly no",
                        (false, true) => "hash-max-listpack-entries 1",
                        (false, false) => "hash-max-listpack-entries 9",
                    };
                    c.expect(&[&format!("CONFIG SET {change}")], "+OK|");
                }
            });
        }
    });
    let mut c = Wire::open(&server);
    c.expect(&["HSET h a 1 b 2"], ":2|");
    let setting = c.ask(&["CONFIG", "GET", "hash-max-listpack-entries"]);
    let encoding = match setting.as_slice().unwrap()[1].as_bytes() {
        Some(b"1") => "hashtable",
        _ => "listpack",
    };
    assert_eq!(c.text("OBJECT ENCODING h"), encoding);
}

#[test]
fn timeout_and_notifications_take_effect_at_once() {
    let server = server_with("clock virtual");
    let mut c = Wire::open(&server);
    let mut idle = Wire::open(&server);
    idle.expect(&["PING"], "+PONG|");
    c.int("CLOCK ADVANCE 100000");
    idle.expect(&["PING"], "+PONG|");
    c.expect(&["CONFIG SET timeout 10"], "+OK|");
    c.int("CLOCK ADVANCE 10000");
    assert_eq!(idle.ends(), 0);
    let mut listener = Wire::open(&server);
    listener.expect(
        &["SUBSCRIBE __keyevent@0__:set"],
        "*3|$9|subscribe|$18|__keyevent@0__:set|:1|",
    );
    // The change also applies within its own pipeline.
    c.expect(
        &[
            "SET a 1",
            "CONFIG SET notify-keyspace-events E$",
            "SET b 1",
            "CONFIG SET notify-keyspace-events ''",
            "SET c 1",
        ],
        "+OK|+OK|+OK|+OK|+OK|",
    );
    listener.receive("*3|$7|message|$18|__keyevent@0__:set|$1|b|");
    listener.expect_silence();
}

#[test]
fn a_new_password_applies_to_new_clients() {
    let server = start();
    let mut c = Wire::open(&server);
    c.expect(&["CONFIG SET requirepass abc"], "+OK|");
    c.expect(&["PING"], "+PONG|");
    let mut new = Wire::open(&server);
    new.expect(&["PING", "AUTH x", "AUTH abc", "PING"], "-NOAUTH Authentication required.|-WRONGPASS invalid username-password pair or user is disabled.|+OK|+PONG|");
    c.expect(&["CONFIG SET requirepass ''"], "+OK|");
    Wire::open(&server).expect(&["PING"], "+PONG|");
}

#[test]
fn the_port_can_change_at_runtime() {
    let server = start();
    let mut c = Wire::open(&server);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    let refusal = format!("CONFIG SET port {port}");
    assert!(
        c.text(&refusal)
            .ends_with("Unable to listen on this port. Check server logs.")
    );
    Wire::open(&server).expect(&["PING"], "+PONG|");
    drop(free);
    c.expect(&[&format!("CONFIG SET port {port}")], "+OK|");
    eventually(|| TcpStream::connect(("127.0.0.1", server.port())).is_err());
    Wire::to(port).expect(&["PING"], "+PONG|");
    c.expect(&["PING"], "+PONG|");
    assert!(
        c.text("INFO server")
            .contains(&format!("tcp_port:{port}\r\n"))
    );
}

#[test]
fn unavailable_addresses_are_refused_as_in_redis() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let ours = Server::builder()
        .port(port)
        .option("bind", "127.0.0.1")
        .spawn()
        .unwrap();
    let theirs = Redis::start(&[]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for line in [
        // This address belongs to no machine (RFC 5737).
        "CONFIG SET bind 192.0.2.1",
        "CONFIG SET bind '127.0.0.1 192.0.2.1'",
        "CONFIG GET bind",
        &format!("CONFIG SET port {port}"),
        &format!("CONFIG SET port {port} bind 192.0.2.1"),
        &format!("CONFIG SET bind 192.0.2.1 port {port}"),
    ] {
        let reply = |port: u16| {
            let mut wire = Wire::to(port);
            wire.send(&["CONFIG SET bind 127.0.0.1", line]);
            (wire.value(), wire.value())
        };
        assert_eq!(reply(ours.port()), reply(theirs.port), "{line}");
    }
}

#[test]
fn output_limits_take_effect_at_once() {
    let server = start();
    let mut c = Wire::open(&server);
    c.expect(
        &["CONFIG SET client-output-buffer-limit 'pubsub 100000 0 0'"],
        "+OK|",
    );
    let mut listener = Wire::open(&server);
    listener.expect(&["SUBSCRIBE ch"], "*3|$9|subscribe|$2|ch|:1|");
    let message = "x".repeat(50_000);
    // The listener does not read. First the kernel's buffers fill, then the server's; then the
    // server disconnects the client.
    eventually(|| c.ask(&["PUBLISH", "ch", &message]).as_int() == Some(0));
    assert!(
        c.text("INFO stats")
            .contains("client_output_buffer_limit_disconnections:1\r\n")
    );
}

#[test]
fn config_set_applies_all_directives_or_none() {
    let server = start();
    let mut c = Wire::open(&server);
    c.expect_error("CONFIG SET timeout 5 maxclients x", "CONFIG SET failed (possibly related to argument 'maxclients') - argument couldn't be parsed into an integer");
    c.expect(&["CONFIG GET timeout"], "*2|$7|timeout|$1|0|");
    c.expect(
        &[
            "CONFIG SET timeout 5 loglevel debug",
            "CONFIG GET timeout loglevel",
        ],
        "+OK|*4|$7|timeout|$1|5|$8|loglevel|$5|debug|",
    );
    c.expect_error(
        "CONFIG SET timeout",
        "wrong number of arguments for 'config|set' command",
    );
    c.expect_error(
        "CONFIG SET timeout 1 loglevel",
        "wrong number of arguments for 'config|set' command",
    );
    c.expect_error(
        "CONFIG SET nosuch 1",
        "Unknown option or number of arguments for CONFIG SET - 'nosuch'",
    );
    c.expect_error(
        "CONFIG REWRITE",
        "The server is running without a config file",
    );
    c.expect_error(
        "CONFIG NOSUCH",
        "unknown subcommand 'NOSUCH'. Try CONFIG HELP.",
    );
    c.expect(&["HELLO 3"], "");
    c.value();
    c.expect(&["CONFIG GET timeout"], "%1|$7|timeout|$1|5|");
}

#[test]
fn the_log_level_takes_effect_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let logger = Logger::file(Level::Notice, &path).unwrap();
    let server = configured("enable-debug-command yes")
        .logger(logger)
        .spawn()
        .unwrap();
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "DEBUG LOG one",
            "CONFIG SET loglevel warning",
            "DEBUG LOG two",
        ],
        "+OK|+OK|+OK|",
    );
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains(" * Ready to accept connections tcp\n"),
        "{text}"
    );
    assert!(
        text.contains(" # DEBUG LOG: one\n") && text.contains(" # DEBUG LOG: two\n"),
        "{text}"
    );
}

/// Starts the program with these arguments, and `input` as its standard input.
fn punctual(args: &[&str], input: &str) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may exit before it has read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child
}

/// Returns the error that the program prints before it exits.
fn refusal(args: &[&str], input: &str) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = punctual(args, input).wait_with_output().unwrap();
    assert_eq!(
        status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&stdout)
    );
    String::from_utf8(stderr).unwrap()
}

#[test]
fn configuration_errors_name_the_file_and_line() {
    let text = refusal(&["--port", "abc"], "");
    assert!(text.contains("*** FATAL CONFIG FILE ERROR"), "{text}");
    assert!(
        text.contains("at --port\n>>> 'port \"abc\"'\nargument couldn't be parsed into an integer"),
        "{text}"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.conf");
    std::fs::write(&path, "# first\nport 0\nmaxclient 5\n").unwrap();
    let text = refusal(&[path.to_str().unwrap()], "");
    assert!(
        text.contains(&format!(
            "at line 3 of {}\n>>> 'maxclient 5'\n",
            path.display()
        )),
        "{text}"
    );
    assert!(text.contains("did you mean 'maxclients'?"), "{text}");
    let text = refusal(&["-"], "port 0\nloglevel loud\n");
    assert!(text.contains("at line 2 of standard input\n>>> 'loglevel loud'\nargument(s) must be one of the following: "), "{text}");
    let text = refusal(&["/nowhere/redis.conf"], "");
    assert_eq!(
        text,
        "Fatal error, can't open config file '/nowhere/redis.conf': No such file or directory\n"
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let text = refusal(&["--port", &port, "--bind", "127.0.0.1"], "");
    assert!(
        text.contains("Could not create server TCP listening socket 127.0.0.1:")
            && text.contains("in use"),
        "{text}"
    );
}

#[test]
fn the_program_reads_its_options_and_rewrites_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let (conf, pidfile) = (folder.path().join("redis.conf"), folder.path().join("pid"));
    std::fs::write(
        &conf,
        format!(
            "port {port}\nbind 127.0.0.1\npidfile {}\ntimeout 100\n",
            pidfile.display()
        ),
    )
    .unwrap();
    let mut child = punctual(
        &[conf.to_str().unwrap(), "--timeout", "300", "-"],
        "maxclients 77\n",
    );
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut log = Vec::new();
    for line in lines.by_ref() {
        let line = line.unwrap();
        let ready = line.contains("Ready to accept connections tcp");
        log.push(line);
        if ready {
            break;
        }
    }
    let id = child.id();
    assert!(
        log[0].starts_with(&format!("{id}:C "))
            && log[0].ends_with(" * oO0OoO0OoO0Oo Punctual is starting oO0OoO0OoO0Oo"),
        "{log:?}"
    );
    assert!(
        log.iter()
            .any(|l| l.ends_with(&format!("PID: {id}, just started"))),
        "{log:?}"
    );
    assert!(
        log.iter().any(|l| l.ends_with("Configuration loaded")),
        "{log:?}"
    );
    assert!(
        log.iter().any(|l| l.contains(&format!("{id}:M "))
            && l.contains(&format!("Running mode=standalone, port={port}"))),
        "{log:?}"
    );
    eventually(|| std::fs::read_to_string(&pidfile).is_ok_and(|t| t == format!("{id}\n")));
    let mut c = Wire::to(port);
    c.expect(
        &["CONFIG GET timeout", "CONFIG GET maxclients"],
        "*2|$7|timeout|$3|300|*2|$10|maxclients|$2|77|",
    );
    // CONFIG REWRITE writes the changes to the file, and the next start reads it.
    c.expect(&["CONFIG SET timeout 55", "CONFIG REWRITE"], "+OK|+OK|");
    assert!(
        std::fs::read_to_string(&conf)
            .unwrap()
            .contains("\ntimeout 55\n")
    );
    c.send(&["SHUTDOWN NOSAVE"]);
    assert_eq!(c.ends(), 0);
    assert!(child.wait().unwrap().success());
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(
        rest.iter()
            .any(|l| l.ends_with(" # User requested shutdown...")),
        "{rest:?}"
    );
    assert!(
        rest.last()
            .unwrap()
            .ends_with(" # Punctual is now ready to exit, bye bye..."),
        "{rest:?}"
    );
    assert!(!pidfile.exists());
}

#[test]
fn a_low_limit_of_open_files_lowers_maxclients() {
    let script = format!(
        "ulimit -n 200; exec {} --port 0 --unixsocket s --maxclients 5000",
        env!("CARGO_BIN_EXE_punctual")
    );
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut log = Vec::new();
    for line in lines.by_ref() {
        let ready = line.contains("Ready to accept connections unix");
        log.push(line);
        if ready {
            break;
        }
    }
    let mut socket = std::os::unix::net::UnixStream::connect(folder.path().join("s")).unwrap();
    socket
        .write_all(b"CONFIG GET maxclients\r\nSHUTDOWN\r\n")
        .unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    assert!(child.wait().unwrap().success());
    // Root may raise the limit. For other users, the server lowers maxclients and logs it.
    if log.iter().any(|l| {
        l.contains("Increased maximum number of open files to 5032 (it was originally set to 200).")
    }) {
        assert!(reply.ends_with("\r\n5000\r\n"), "{reply}");
    } else {
        assert!(
            log.iter().any(|l| l
                .contains("Current maximum open files is 200. maxclients has been reduced to 168")),
            "{log:?}"
        );
        assert!(reply.ends_with("\r\n168\r\n"), "{reply}");
    }
}

#[test]
fn the_seed_decides_random_replies() {
    let replies = |seed: &str| {
        let server = Server::builder().port(0).option("seed", seed).spawn();
        let server = server.unwrap();
        let mut c = Wire::open(&server);
        let members: Vec<String> = (0..300).map(|n| format!("m:{n}")).collect();
        assert_eq!(c.int(&format!("SADD s {}", members.join(" "))), 300);
        let asks = ["SPOP s 3", "SRANDMEMBER s -9", "SUNION s s", "SSCAN s 0"];
        asks.map(|ask| format!("{:?}", c.ask(&ask.split(' ').collect::<Vec<&str>>())))
    };
    let seven = replies("7");
    assert_eq!(seven, replies("7"));
    assert_ne!(seven[..2], replies("8")[..2]);
}
