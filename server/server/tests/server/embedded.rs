//! Commands in the server's process, without a socket.

use std::thread;
use std::time::Duration;

use crate::wire::{Open as _, Wire, eventually};
use punctual_server::{CallError, Client, Server, Value};

fn start(threads: usize) -> Server {
    let builder = Server::builder().port(0).threads(threads);
    builder.spawn().unwrap()
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

fn is_error(value: &Value, code: &str) -> bool {
    matches!(value, Value::Error(text) if text.starts_with(code.as_bytes()))
}

/// Returns true if exactly one client waits in a blocking command.
fn waits(client: &mut Client) -> bool {
    let info = client.call(&["INFO", "clients"]).unwrap();
    let Value::Verbatim { text, .. } = info else {
        panic!("{info:?}");
    };
    String::from_utf8_lossy(&text).contains("\r\nblocked_clients:1\r\n")
}

#[test]
fn calls_and_sockets_see_the_same_keyspace() {
    for threads in [1, 3] {
        let server = start(threads);
        let mut wire = Wire::open(&server);
        assert_eq!(server.call(&["SET", "k", "v"]).unwrap(), ok());
        wire.expect(&["GET k", "SET k w"], "$1|v|+OK|");
        assert_eq!(server.call(&["GET", "k"]).unwrap(), Value::bulk("w"));
        assert_eq!(server.call(&["GET", "none"]).unwrap(), Value::Null);
        assert!(is_error(&server.call(&["INCR", "k"]).unwrap(), "ERR value"));
        assert!(is_error(&server.call(&["NOSUCH"]).unwrap(), "ERR unknown"));
        assert!(is_error(&server.call(&["GET"]).unwrap(), "ERR wrong"));
        let empty: [&str; 0] = [];
        assert!(matches!(server.call(&empty), Err(CallError::Empty)));
        // `Server::call` has no session: SELECT and MULTI do not affect the next call.
        assert_eq!(server.call(&["SELECT", "1"]).unwrap(), ok());
        assert_eq!(server.call(&["MULTI"]).unwrap(), ok());
        assert_eq!(server.call(&["GET", "k"]).unwrap(), Value::bulk("w"));
    }
}

#[test]
fn a_client_has_a_session() {
    let server = start(1);
    let mut client = server.client().unwrap();
    assert_eq!(client.call(&["SELECT", "2"]).unwrap(), ok());
    assert_eq!(client.call(&["SET", "n", "1"]).unwrap(), ok());
    client.call(&["WATCH", "n"]).unwrap();
    client.call(&["MULTI"]).unwrap();
    let queued = client.pipeline(&[["INCR", "n"], ["INCR", "n"]]).unwrap();
    assert_eq!(queued, vec![Value::Simple(b"QUEUED".to_vec()); 2]);
    let both = Value::Array(vec![Value::Int(2), Value::Int(3)]);
    assert_eq!(client.call(&["EXEC"]).unwrap(), both);
    let script = "return redis.call('INCR', KEYS[1])";
    let value = client.call(&["EVAL", script, "1", "n"]).unwrap();
    assert_eq!(value, Value::Int(4));
    let info = client.call(&["CLIENT", "INFO"]).unwrap();
    let text = String::from_utf8_lossy(info.as_bytes().unwrap_or_default()).into_owned();
    let text = if let Value::Verbatim { text, .. } = &info {
        String::from_utf8_lossy(text).into_owned()
    } else {
        text
    };
    assert!(
        text.contains("addr=local:0") && text.contains("db=2"),
        "{text}"
    );
    drop(client);
    eventually(|| {
        server
            .call(&["CLIENT", "LIST"])
            .is_ok_and(|list| !format!("{list:?}").contains("db=2"))
    });
}

#[test]
fn many_threads_lose_no_command() {
    const CALLS: i64 = 2_000;
    for threads in [1, 2] {
        let server = start(threads);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut client = server.client().unwrap();
                    for _ in 0..CALLS {
                        client.call(&["INCR", "sum"]).unwrap();
                        server.call(&["INCR", "other"]).unwrap();
                    }
                });
            }
            let mut wire = Wire::open(&server);
            for _ in 0..CALLS {
                wire.int("INCR sum");
            }
        });
        let sum = server.call(&["GET", "sum"]).unwrap();
        assert_eq!(sum, Value::bulk((5 * CALLS).to_string()));
        let other = server.call(&["GET", "other"]).unwrap();
        assert_eq!(other, Value::bulk((4 * CALLS).to_string()));
    }
}

#[test]
fn a_blocking_command_waits_and_is_served() {
    for threads in [1, 2] {
        let server = start(threads);
        thread::scope(|scope| {
            let popped = scope.spawn(|| server.client()?.call(&["BLPOP", "list", "0"]));
            let mut client = server.client().unwrap();
            eventually(|| waits(&mut client));
            client.call(&["RPUSH", "list", "a"]).unwrap();
            let pair = Value::Array(vec![Value::bulk("list"), Value::bulk("a")]);
            assert_eq!(popped.join().unwrap().unwrap(), pair);
        });
    }
}

#[test]
fn a_wait_ends_by_its_timeout_and_by_the_end_of_the_server() {
    let builder = Server::builder().port(0).virtual_clock();
    let server = builder.spawn().unwrap();
    let mut second = server.client().unwrap();
    thread::scope(|scope| {
        let popped = scope.spawn(|| server.client()?.call(&["BLPOP", "list", "10"]));
        let mut client = server.client().unwrap();
        eventually(|| waits(&mut client));
        server.advance(Duration::from_secs(10)).unwrap();
        assert_eq!(popped.join().unwrap().unwrap(), Value::Null);
    });
    let mut third = server.client().unwrap();
    let popped = thread::spawn(move || second.call(&["BLPOP", "list", "0"]));
    eventually(|| waits(&mut third));
    server.shutdown();
    assert!(matches!(popped.join().unwrap(), Err(CallError::Stopped)));
    assert!(matches!(third.call(&["PING"]), Err(CallError::Stopped)));
}

/// The deadline is earlier than the time until which the loop sleeps.
#[test]
fn a_deadline_set_by_a_call_is_exact() {
    let server = Server::builder()
        .port(0)
        .option("notify-keyspace-events", "Ex")
        .spawn()
        .unwrap();
    let mut client = server.client().unwrap();
    client
        .call(&["SUBSCRIBE", "__keyevent@0__:expired"])
        .unwrap();
    assert_eq!(client.message(Some(Duration::ZERO)).unwrap(), None);
    server.call(&["SET", "k", "v", "PX", "30"]).unwrap();
    let parts = ["message", "__keyevent@0__:expired", "k"].map(Value::bulk);
    let message = client.message(None).unwrap();
    assert_eq!(message, Some(Value::Push(parts.to_vec())));
}

#[test]
fn messages_are_no_replies() {
    let server = start(1);
    let mut client = server.client().unwrap();
    let kind = |value: &Value| match value {
        Value::Push(parts) => String::from_utf8_lossy(parts[0].as_bytes().unwrap()).into_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        kind(&client.call(&["SUBSCRIBE", "a", "b"]).unwrap()),
        "subscribe"
    );
    server.call(&["PUBLISH", "a", "1"]).unwrap();
    assert_eq!(
        kind(&client.call(&["PSUBSCRIBE", "c*"]).unwrap()),
        "psubscribe"
    );
    assert_eq!(client.call(&["ECHO", "x"]).unwrap(), Value::bulk("x"));
    let kinds: Vec<String> = std::iter::from_fn(|| client.message(Some(Duration::ZERO)).unwrap())
        .map(|message| kind(&message))
        .collect();
    assert_eq!(kinds, ["subscribe", "message"]);
}

#[test]
fn commands_that_change_the_replies_are_refused() {
    let server = start(1);
    let mut client = server.client().unwrap();
    for command in ["HELLO", "RESET", "MONITOR", "SYNC", "REPLCONF"] {
        let refused = client.call(&[command]);
        assert!(matches!(refused, Err(CallError::Unsupported(name)) if name == command));
    }
    let refused = client.pipeline(&[vec!["PING"], vec!["CLIENT", "REPLY", "OFF"]]);
    assert!(matches!(refused, Err(CallError::Unsupported(_))));
    assert_eq!(client.call(&["ECHO", "x"]).unwrap(), Value::bulk("x"));
}

#[test]
fn long_values_arrive_whole() {
    let server = start(1);
    let mut client = server.client().unwrap();
    let long = "x".repeat(5 << 20);
    client.call(&["SET", "long", &long]).unwrap();
    let replies = client.pipeline(&[["GET", "long"]; 4]).unwrap();
    assert!(replies.iter().all(|value| *value == Value::bulk(&long)));
    assert_eq!(client.call(&["ECHO", "x"]).unwrap(), Value::bulk("x"));
}

#[test]
fn a_reply_waits_for_the_append_only_file() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::builder()
        .port(0)
        .option("dir", dir.path().to_str().unwrap())
        .option("appendonly", "yes")
        .option("appendfsync", "always")
        .spawn()
        .unwrap();
    let mut client = server.client().unwrap();
    for n in 1..=20 {
        assert_eq!(client.call(&["INCR", "n"]).unwrap(), Value::Int(n));
    }
    drop((client, server));
    let again = Server::builder()
        .port(0)
        .option("dir", dir.path().to_str().unwrap())
        .option("appendonly", "yes")
        .spawn()
        .unwrap();
    assert_eq!(again.call(&["GET", "n"]).unwrap(), Value::bulk("20"));
}

#[test]
fn a_busy_script_can_be_killed_by_a_call() {
    for threads in [1, 2] {
        let server = Server::builder()
            .port(0)
            .threads(threads)
            .option("busy-reply-threshold", "1")
            .spawn()
            .unwrap();
        thread::scope(|scope| {
            let script = scope.spawn(|| server.call(&["EVAL", "while true do end", "0"]));
            eventually(|| is_error(&server.call(&["GET", "k"]).unwrap(), "BUSY"));
            assert_eq!(server.call(&["SCRIPT", "KILL"]).unwrap(), ok());
            assert!(is_error(&script.join().unwrap().unwrap(), "ERR"));
        });
        assert_eq!(server.call(&["SET", "k", "v"]).unwrap(), ok());
    }
}

#[test]
fn a_killed_client_is_closed_and_others_are_not() {
    let server = start(1);
    let mut client = server.client().unwrap();
    let id = client.call(&["CLIENT", "ID"]).unwrap().as_int().unwrap();
    let mut other = server.client().unwrap();
    other
        .call(&["CLIENT", "KILL", "ID", &id.to_string()])
        .unwrap();
    eventually(|| matches!(client.call(&["PING"]), Err(CallError::Closed)));
    assert_eq!(other.call(&["ECHO", "x"]).unwrap(), Value::bulk("x"));
    assert_eq!(other.call(&["QUIT"]).unwrap(), ok());
    eventually(|| matches!(other.call(&["PING"]), Err(CallError::Closed)));
    let mut last = server.client().unwrap();
    last.call(&["CONFIG", "SET", "maxclients", "1"]).unwrap();
    assert!(matches!(server.client(), Err(CallError::TooManyClients)));
}

#[test]
fn a_stopped_server_refuses_clients() {
    let server = start(1);
    thread::scope(|scope| {
        let calls = scope.spawn(|| {
            loop {
                if let Err(error) = server.call(&["PING"]) {
                    return error;
                }
            }
        });
        let mut client = server.client().unwrap();
        let stopped = client.call(&["SHUTDOWN", "NOSAVE"]);
        assert!(matches!(stopped, Err(CallError::Stopped)), "{stopped:?}");
        let error = calls.join().unwrap();
        assert!(
            matches!(error, CallError::Stopped | CallError::Closed),
            "{error:?}"
        );
    });
}

#[test]
fn an_interrupt_function_ends_a_wait() {
    let server = start(1);
    let mut client = server.client().unwrap();
    let blocked = server.client().map(std::sync::Mutex::new).unwrap();
    client.set_interrupt(move || waits(&mut blocked.lock().unwrap()));
    let popped = client.call(&["BLPOP", "list", "0"]);
    assert!(matches!(popped, Err(CallError::Interrupted)), "{popped:?}");
    assert!(matches!(client.call(&["PING"]), Err(CallError::Closed)));
    let mut other = server.client().unwrap();
    eventually(|| !waits(&mut other));
}
