//! Commands that the embedding program adds to its server.

use crate::wire::{Open as _, Wire};
use punctual_server::{
    Builder, CallError, CommandRow, Flags, Group, Invocation, Server, StartError, Value,
};
use std::sync::{Arc, OnceLock};

/// Takes an amount from a counter, unless too little is left.
fn take(call: &mut Invocation<'_>) -> Value {
    let (key, amount) = (call.arg(1).unwrap(), call.arg(2).unwrap());
    let left = call.call(&[b"DECRBY", key, amount]);
    match left.as_int() {
        Some(0..) | None => left,
        Some(_) => {
            call.call(&[b"INCRBY", key, amount]);
            Value::Error(b"ERR not enough left".to_vec())
        }
    }
}

fn with_take() -> Builder {
    let row = CommandRow::new("take", 3, Flags::WRITE, Group::String, ())
        .keys(1, 1, 1)
        .doc("1.0.0", "O(1)", "Takes an amount if there is as much.")
        .syntax("key amount:integer");
    let types = CommandRow::new("types", 1, Flags::READONLY, Group::Generic, ());
    let spoil = CommandRow::new("spoil", 2, Flags::READONLY, Group::Generic, ()).keys(1, 1, 1);
    let panics = CommandRow::new("panics", 2, Flags::WRITE, Group::Generic, ()).keys(1, 1, 1);
    Server::builder()
        .port(0)
        .command(row, take)
        .command(types, |_| {
            let pair = (Value::bulk("half"), Value::Double(0.5));
            Value::Array(vec![
                Value::Map(vec![pair]),
                Value::Boolean(true),
                Value::Null,
            ])
        })
        .command(spoil, |call| {
            call.call(&[b"SET", call.arg(1).unwrap(), b"x"])
        })
        .command(panics, |call| {
            call.call(&[b"SET", call.arg(1).unwrap(), b"before"]);
            panic!("a handler's own fault")
        })
}

#[test]
fn an_own_command_runs_wherever_commands_run() {
    for threads in [1, 3] {
        let server = with_take().threads(threads).spawn().unwrap();
        let mut c = Wire::open(&server);
        c.expect(
            &["SET stock 10", "TAKE stock 3", "take stock 8"],
            "+OK|:7|-ERR not enough left|",
        );
        c.expect(
            &["TAKE stock"],
            "-ERR wrong number of arguments for 'take' command|",
        );
        c.expect(
            &["MULTI", "TAKE stock 1", "GET stock", "EXEC"],
            "+OK|+QUEUED|+QUEUED|*2|:6|$1|6|",
        );
        c.expect(
            &["MULTI", "TAKE stock 9", "EXEC"],
            "+OK|+QUEUED|*1|-ERR not enough left|",
        );
        let call = "return redis.call('take', KEYS[1], 2)";
        let reply = server.call(&["EVAL", call, "1", "stock"]).unwrap();
        assert_eq!(reply, Value::Int(4));
        let read_only = server.call(&["EVAL_RO", call, "1", "stock"]).unwrap();
        assert!(read_only.is_error(), "{read_only:?}");
        c.expect(&["GET stock"], "$1|4|");
        assert_eq!(server.call(&["TAKE", "stock", "4"]).unwrap(), Value::Int(0));
    }
}

#[test]
fn a_timer_runs_an_own_command() {
    let server = with_take().virtual_clock().spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(
        &["SET stock 10", "TIMER SET t IN 50 DO TAKE stock 4"],
        "+OK|+OK|",
    );
    server
        .advance(std::time::Duration::from_millis(50))
        .unwrap();
    c.expect(&["GET stock"], "$1|6|");
}

#[test]
fn replies_fit_both_protocols() {
    let server = with_take().spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["TYPES"], "*3|*2|$4|half|$3|0.5|:1|$-1|");
    c.run("HELLO 3");
    c.expect(&["TYPES"], "*3|%1|$4|half|,0.5|#t|_|");
}

#[test]
fn tables_and_rules_know_an_own_command() {
    let server = with_take().spawn().unwrap();
    let mut c = Wire::open(&server);
    c.expect(&["COMMAND GETKEYS TAKE stock 3"], "*1|$5|stock|");
    let docs = server.call(&["COMMAND", "DOCS", "take"]).unwrap();
    assert!(format!("{docs:?}").len() > 100);
    c.expect(&["ACL SETUSER u on >p ~a* +take +get"], "+OK|");
    c.expect(&["AUTH u p"], "+OK|");
    // The second command is allowed, but not the command that its handler calls.
    for denied in ["TAKE b 1", "TAKE a 1", "TYPES"] {
        let words: Vec<&str> = denied.split(' ').collect();
        let reply = c.ask(&words);
        let text = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
        assert!(
            reply.is_error() && (text.contains("no permissions") || text.contains("can't run")),
            "{denied}: {text}"
        );
    }
}

#[test]
fn a_handler_cannot_write_without_the_flag_and_its_panic_is_an_error() {
    let server = with_take().spawn().unwrap();
    let mut c = Wire::open(&server);
    let refused = server.call(&["SPOIL", "k"]).unwrap();
    assert!(refused.is_error(), "{refused:?}");
    c.expect(&["EXISTS k"], ":0|");
    c.expect(
        &["PANICS k", "GET k"],
        "-ERR the handler of 'panics' has panicked|$6|before|",
    );
}

#[test]
fn the_log_has_the_called_commands() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let builder = with_take().option("dir", path).option("appendonly", "yes");
    let server = builder.clone().spawn().unwrap();
    server.call(&["SET", "stock", "10"]).unwrap();
    server.call(&["TAKE", "stock", "3"]).unwrap();
    server.call(&["TAKE", "stock", "9"]).unwrap();
    server.shutdown();
    // A server without the command can load the file.
    let plain = Server::builder()
        .port(0)
        .option("dir", path)
        .option("appendonly", "yes");
    let server = plain.spawn().unwrap();
    assert_eq!(server.call(&["GET", "stock"]).unwrap(), Value::bulk("7"));
}

#[test]
fn a_handler_that_calls_the_server_gets_an_error() {
    let server: Arc<OnceLock<Server>> = Arc::default();
    let own = Arc::clone(&server);
    let row = CommandRow::new("again", 1, Flags::READONLY, Group::Generic, ());
    let started = Server::builder()
        .port(0)
        .command(row, move |_| {
            let result = own.get().unwrap().call(&["PING"]);
            Value::Boolean(matches!(result, Err(CallError::InHandler)))
        })
        .spawn()
        .unwrap();
    let server = server.get_or_init(|| started);
    assert_eq!(server.call(&["AGAIN"]).unwrap(), Value::Boolean(true));
}

#[test]
fn names_must_be_new_and_valid() {
    for name in ["get", "Take", "", "two words"] {
        let row = CommandRow::new(name, 1, Flags::READONLY, Group::Generic, ());
        let started = Server::builder()
            .port(0)
            .command(row, |_| Value::Null)
            .spawn();
        assert!(matches!(started, Err(StartError::CommandName(taken)) if taken == name));
    }
}
