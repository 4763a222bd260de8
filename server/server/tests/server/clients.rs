//! The CLIENT command, suppressed replies, idle timeouts and output buffer limits.

use std::io::Write;

use crate::process::{Process, Start as _};
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, eventually, field, server_with, start};
use punctual_resp::Value;
use punctual_server::Server;

#[test]
fn connection_commands() {
    let server = start();
    let mut c = Wire::open(&server);
    c.expect(
        &["PING", "PING x", "PING a b", "ECHO", "ECHO hi"],
        "+PONG|$1|x|-ERR wrong number of arguments for 'ping' command|-ERR wrong number of arguments for 'echo' command|$2|hi|",
    );
    c.expect(
        &["SELECT 16", "SELECT -1", "SELECT abc", "SELECT 99999999999", "SELECT 15", "SELECT 0"],
        "-ERR DB index is out of range|-ERR DB index is out of range|-ERR value is not an integer or out of range|-ERR value is out of range, value must between -2147483648 and 2147483647|+OK|+OK|",
    );
    c.expect(
        &["SET k v", "SELECT 3", "GET k", "RESET", "GET k"],
        "+OK|+OK|$-1|+RESET|$1|v|",
    );
    c.expect(&["QUIT", "PING"], "+OK|");
    assert_eq!(c.ends(), 0);
}

#[test]
fn errors_of_the_client_command() {
    let server = start();
    let mut c = Wire::open(&server);
    let arity = "wrong number of arguments for 'client";
    for (line, error) in [
        ("CLIENT", format!("{arity}' command")),
        (
            "CLIENT FOO",
            "unknown subcommand 'FOO'. Try CLIENT HELP.".into(),
        ),
        ("CLIENT ID x", format!("{arity}|id' command")),
        ("CLIENT REPLY", format!("{arity}|reply' command")),
        ("CLIENT REPLY FOO", "syntax error".into()),
        ("CLIENT NO-EVICT foo", "syntax error".into()),
        ("CLIENT NO-TOUCH foo", "syntax error".into()),
        ("CLIENT LIST foo", "syntax error".into()),
        ("CLIENT LIST TYPE", "syntax error".into()),
        ("CLIENT LIST TYPE foo", "Unknown client type 'foo'".into()),
        ("CLIENT LIST TYPE normal x", "syntax error".into()),
        ("CLIENT LIST ID", "syntax error".into()),
        ("CLIENT LIST ID abc", "Invalid client ID".into()),
        ("CLIENT KILL", format!("{arity}|kill' command")),
        ("CLIENT KILL foo", "No such client".into()),
        ("CLIENT KILL ID", "No such client".into()),
        (
            "CLIENT KILL ID 0",
            "client-id should be greater than 0".into(),
        ),
        (
            "CLIENT KILL ID abc",
            "client-id should be greater than 0".into(),
        ),
        ("CLIENT KILL TYPE foo", "Unknown client type 'foo'".into()),
        ("CLIENT KILL USER foo", "No such user 'foo'".into()),
        ("CLIENT KILL SKIPME maybe", "syntax error".into()),
        (
            "CLIENT KILL MAXAGE 0",
            "maxage should be greater than 0".into(),
        ),
        (
            "CLIENT KILL MAXAGE x",
            "maxage is not an integer or out of range".into(),
        ),
        ("CLIENT KILL ID 5 FOO 4", "syntax error".into()),
        ("CLIENT KILL ADDR 1.1.1.1:2 LADDR", "syntax error".into()),
        (
            "CLIENT UNBLOCK abc",
            "value is not an integer or out of range".into(),
        ),
        (
            "CLIENT UNBLOCK 1 FOO",
            "CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into(),
        ),
        (
            "CLIENT UNBLOCK 1 ERROR x",
            "unknown subcommand or wrong number of arguments for 'UNBLOCK'. Try CLIENT HELP."
                .into(),
        ),
        (
            "CLIENT SETINFO lib-foo x",
            "Unrecognized option 'lib-foo'".into(),
        ),
        (
            "CLIENT SETINFO lib-Name \"a b\"",
            "lib-Name cannot contain spaces, newlines or special characters.".into(),
        ),
    ] {
        c.expect_error(line, &error);
    }
    c.expect(&["CLIENT UNBLOCK 1", "CLIENT UNBLOCK 1 TIMEOUT"], ":0|:0|");
    c.expect(
        &["CLIENT KILL TYPE slave", "CLIENT KILL SKIPME yes"],
        ":0|:0|",
    );
    c.expect(
        &["CLIENT GETREDIR", "CLIENT TRACKINGINFO"],
        ":-1|*6|$5|flags|*1|$3|off|$8|redirect|:-1|$8|prefixes|*0|",
    );
    let Value::Array(lines) = c.ask(&["CLIENT", "HELP"]) else {
        panic!()
    };
    assert_eq!(
        lines.last().unwrap().as_bytes(),
        Some(&b"    Prints this help."[..])
    );
}

#[test]
fn names() {
    let server = start();
    let mut c = Wire::open(&server);
    let bad = "-ERR Client names cannot contain spaces, newlines or special characters.|";
    c.expect(&["CLIENT GETNAME"], "$-1|");
    c.expect(
        &[
            "CLIENT SETNAME \"a b\"",
            "CLIENT SETNAME \"a\\n\"",
            "CLIENT SETNAME \"\\xff\"",
        ],
        &bad.repeat(3),
    );
    c.expect(
        &[
            "CLIENT SETNAME ~!",
            "CLIENT GETNAME",
            "CLIENT SETNAME \"\"",
            "CLIENT GETNAME",
        ],
        "+OK|$2|~!|+OK|$-1|",
    );
    c.expect(
        &[
            "CLIENT SETINFO LIB-NAME redis-py(x)",
            "CLIENT SETINFO lib-ver 5.0",
            "CLIENT SETNAME n",
        ],
        "+OK|+OK|+OK|",
    );
    let line = c.text("CLIENT INFO");
    assert!(
        line.ends_with(" resp=2 lib-name=redis-py(x) lib-ver=5.0\n"),
        "{line}"
    );
    assert_eq!(field(&line, "name"), "n");
    c.expect(&["RESET"], "+RESET|");
    let line = c.text("CLIENT INFO");
    assert!(line.contains(" name= "), "{line}");
    assert!(
        line.contains(" lib-name=redis-py(x) "),
        "RESET keeps the library's name: {line}"
    );
}

#[test]
fn client_list_shows_every_field() {
    let server = server_with("clock virtual");
    let (mut c, mut d) = (Wire::open(&server), Wire::open(&server));
    let id = d.int("CLIENT ID");
    d.int("CLOCK ADVANCE 2500");
    d.expect(
        &[
            "SELECT 4",
            "CLIENT NO-EVICT on",
            "CLIENT NO-TOUCH on",
            "CLIENT SETNAME n",
        ],
        "+OK|+OK|+OK|+OK|",
    );
    d.send(&["HELLO 3"]);
    d.value();
    d.send(&["SUBSCRIBE a b", "PSUBSCRIBE p", "SSUBSCRIBE s t u"]);
    (0..6).for_each(|_| drop(d.value()));
    // Half of an argument stays in the query buffer.
    d.stream.write_all(b"*2\r\n$4\r\nECHO\r\n$3\r\na").unwrap();
    eventually(|| field(&c.text(&format!("CLIENT LIST ID {id}")), "qbuf") == "1");
    c.int("CLOCK ADVANCE 1000");
    let list = c.text(&format!("CLIENT LIST ID {id} 99999 -3"));
    assert_eq!(list.lines().count(), 1);
    for (name, value) in [
        ("id", id.to_string()),
        ("addr", format!("127.0.0.1:{}", d.port())),
        ("laddr", format!("127.0.0.1:{}", server.port())),
        ("name", "n".into()),
        ("age", "3".into()),
        ("idle", "1".into()),
        ("flags", "PeT".into()),
        ("db", "4".into()),
        ("sub", "2".into()),
        ("psub", "1".into()),
        ("ssub", "3".into()),
        ("multi", "-1".into()),
        ("qbuf", "1".into()),
        ("qbuf-free", "0".into()),
        ("argv-mem", "18".into()),
        ("multi-mem", "0".into()),
        ("rbs", "0".into()),
        ("obl", "0".into()),
        ("oll", "0".into()),
        ("omem", "0".into()),
        ("events", "r".into()),
        ("cmd", "ssubscribe".into()),
        ("user", "default".into()),
        ("redir", "-1".into()),
        ("resp", "3".into()),
        ("lib-name", String::new()),
        ("lib-ver", String::new()),
    ] {
        assert_eq!(field(&list, name), value, "{name} in {list}");
    }
    assert!(field(&list, "fd").parse::<u32>().is_ok());
    let figure = |name: &str| field(&list, name).parse::<u64>().unwrap();
    assert!(figure("tot-mem") > 14);
    // The peak of the reply buffer is kept for five seconds.
    assert!((50..1000).contains(&figure("rbp")), "{list}");
    assert_eq!(c.text("CLIENT LIST TYPE pubsub"), list);
    assert_eq!(c.text("CLIENT LIST TYPE replica"), "");
    let own = c.text("CLIENT LIST TYPE normal");
    assert_eq!(field(&own, "cmd"), "client|list");
    assert_eq!(field(&own, "flags"), "N");
    assert_eq!(c.text("CLIENT LIST").lines().count(), 2);
    c.int("CLOCK ADVANCE 5000");
    d.stream.write_all(b"b").unwrap();
    eventually(|| field(&c.text(&format!("CLIENT LIST ID {id}")), "qbuf") == "2");
    let list = c.text(&format!("CLIENT LIST ID {id}"));
    assert_eq!(field(&list, "rbp"), "0");
    // The query buffer has grown.
    assert_ne!(field(&list, "qbuf-free"), "0");
    let Value::Verbatim { format, .. } = ({
        c.send(&["HELLO 3"]);
        c.value();
        c.ask(&["CLIENT", "LIST"])
    }) else {
        panic!()
    };
    assert_eq!(&format, b"txt");
}

#[test]
fn client_lists_match_redis() {
    let redis = Redis::start(&[]);
    let server = start();
    let ports = [redis.port, server.port()];
    let mut two = ports.map(Wire::to);
    let [theirs, ours] = &mut two;
    let names = |line: &str| -> Vec<String> {
        let fields = line.split_ascii_whitespace();
        fields
            .map(|f| f.split_once('=').unwrap().0.to_owned())
            .collect()
    };
    // Fields that are new in 7.2.
    let mut expected = names(&theirs.text("CLIENT INFO"));
    expected.extend(["lib-name", "lib-ver"].map(str::to_owned));
    assert_eq!(names(&ours.text("CLIENT INFO")), expected);

    let same = |lines: [String; 2], more: &[&str]| {
        let all = "name flags db sub psub ssub multi argv-mem multi-mem oll omem events cmd user redir resp";
        for name in all.split(' ').chain(more.iter().copied()) {
            let [theirs, ours] = [field(&lines[0], name), field(&lines[1], name)];
            assert_eq!(ours, theirs, "{name} in {lines:?}");
        }
    };
    let own = ["qbuf", "obl"];
    let ask = |c: &mut Wire| {
        let line = c.ask(&["client", "list"]);
        String::from_utf8_lossy(line.as_bytes().unwrap()).into_owned()
    };
    same([ask(theirs), ask(ours)], &own);
    assert_eq!(field(&ask(ours), "qbuf"), "26");
    let behind_a_ping = |c: &mut Wire| {
        c.send(&["PING", "CLIENT INFO"]);
        c.value();
        String::from_utf8_lossy(c.value().as_bytes().unwrap()).into_owned()
    };
    same([behind_a_ping(theirs), behind_a_ping(ours)], &own);
    // The replies are now in the buffer of the client.
    let line = behind_a_ping(ours);
    let figure = |name: &str| field(&line, name).parse::<u64>().unwrap();
    assert!(figure("rbs") >= figure("obl") && figure("obl") == 7);
    assert!((200..=16384).contains(&figure("rbp")), "{line}");

    // The lines that another client sees: first while commands are queued, then during BLPOP.
    let mut others = ports.map(Wire::to);
    for (c, seen_by) in two.iter_mut().zip(&mut others) {
        c.expect(&["MULTI", "SET k v", "GET k"], "+OK|+QUEUED|+QUEUED|");
        seen_by.expect(&["PING"], "+PONG|");
    }
    let line_of = |c: &mut Wire, id: &str| c.text(&format!("CLIENT LIST ID {id}"));
    let ids = [
        field(&others[0].text("CLIENT LIST"), "id").to_owned(),
        field(&others[1].text("CLIENT LIST"), "id").to_owned(),
    ];
    let mut seen = || {
        let [theirs, ours] = &mut others;
        [line_of(theirs, &ids[0]), line_of(ours, &ids[1])]
    };
    same(seen(), &own);
    assert_eq!(field(&seen()[1], "multi-mem"), "49");
    for c in &mut two {
        c.send(&["EXEC", "BLPOP nothing 0"]);
        c.value();
    }
    eventually(|| seen().iter().all(|line| field(line, "flags") == "b"));
    same(seen(), &own);
    assert_eq!(field(&seen()[1], "argv-mem"), "13");
}

#[test]
fn client_kill() {
    for threads in [1, 3] {
        let server = Server::builder().port(0).threads(threads).spawn().unwrap();
        let mut c = Wire::open(&server);
        let me = c.int("CLIENT ID");
        let open = || {
            let mut w = Wire::open(&server);
            let id = w.int("CLIENT ID");
            (w, id)
        };
        // By ID. The list is correct at once, even if another loop serves the client.
        let (mut d, id) = open();
        c.send(&[&format!("CLIENT KILL ID {id}"), "CLIENT LIST"]);
        assert_eq!(c.value(), Value::Int(1));
        assert_eq!(
            c.value()
                .as_bytes()
                .unwrap()
                .iter()
                .filter(|b| **b == b'\n')
                .count(),
            1
        );
        assert_eq!(d.ends(), 0);
        // By address, in the old and in the new form.
        let (mut d, _) = open();
        c.expect(&[&format!("CLIENT KILL 127.0.0.1:{}", d.port())], "+OK|");
        assert_eq!(d.ends(), 0);
        let (mut d, _) = open();
        c.expect(
            &[&format!(
                "CLIENT KILL ADDR 127.0.0.1:{} USER default",
                d.port()
            )],
            ":1|",
        );
        assert_eq!(d.ends(), 0);
        // By type. The client's subscriptions end.
        let (mut d, _) = open();
        d.expect(&["SUBSCRIBE a"], "*3|$9|subscribe|$1|a|:1|");
        c.expect(&["CLIENT KILL TYPE PubSub"], ":1|");
        assert_eq!(d.ends(), 0);
        eventually(|| c.int("PUBLISH a m") == 0);
        // All clients that match, except the caller.
        let (mut d, _) = open();
        let (mut e, _) = open();
        let laddr = format!("127.0.0.1:{}", server.port());
        c.expect(&[&format!("CLIENT KILL LADDR {laddr} TYPE normal")], ":2|");
        assert_eq!((d.ends(), e.ends()), (0, 0));
        c.expect(&[&format!("CLIENT KILL ID {me}"), "PING"], ":0|+PONG|");
        // The caller itself: it gets the reply, and later commands do not run.
        c.expect(&[&format!("CLIENT KILL ID {me} SKIPME no"), "PING"], ":1|");
        assert_eq!(c.ends(), 0);
        let (mut d, _) = open();
        let own = format!("CLIENT KILL 127.0.0.1:{}", d.port());
        d.expect(&[&own, "PING"], "+OK|");
        assert_eq!(d.ends(), 0);
    }
}

#[test]
fn client_reply_modes() {
    let server = start();
    let mut c = Wire::open(&server);
    c.expect(
        &["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "PING", "PING x"],
        "$1|x|",
    );
    c.expect(&["CLIENT REPLY SKIP", "nosuch", "PING"], "+PONG|");
    c.expect(
        &[
            "CLIENT REPLY OFF",
            "CLIENT REPLY SKIP",
            "PING",
            "nosuch",
            "CLIENT REPLY ON",
            "PING",
        ],
        "+OK|+PONG|",
    );
    c.expect(
        &["CLIENT REPLY OFF", "SET k v", "RESET", "GET k"],
        "+RESET|$1|v|",
    );
    // Messages are always sent, including SUBSCRIBE's replies.
    c.expect(
        &["CLIENT REPLY SKIP", "SUBSCRIBE a", "PING", "RESET"],
        "*3|$9|subscribe|$1|a|:1|*2|$4|pong|$0||+RESET|",
    );
    c.send(&["HELLO 3"]);
    c.value();
    c.expect(
        &[
            "CLIENT REPLY OFF",
            "SUBSCRIBE a",
            "PUBLISH a x",
            "PING",
            "UNSUBSCRIBE",
            "CLIENT REPLY ON",
        ],
        ">3|$9|subscribe|$1|a|:1|>3|$7|message|$1|a|$1|x|>3|$11|unsubscribe|$1|a|:0|+OK|",
    );
}

#[test]
fn idle_clients_are_closed() {
    let server = server_with("timeout 10|clock virtual");
    let mut clock = Wire::open(&server);
    let (mut idle, mut busy) = (Wire::open(&server), Wire::open(&server));
    let mut listener = Wire::open(&server);
    idle.expect(&["PING"], "+PONG|");
    listener.expect(&["SUBSCRIBE a"], "*3|$9|subscribe|$1|a|:1|");
    clock.int("CLOCK ADVANCE 6000");
    busy.expect(&["PING"], "+PONG|");
    clock.int("CLOCK ADVANCE 3999");
    idle.expect_silence();
    clock.int("CLOCK ADVANCE 1");
    assert_eq!(idle.ends(), 0);
    busy.expect(&["PING"], "+PONG|");
    clock.int("CLOCK ADVANCE 9000");
    clock.int("CLOCK ADVANCE 9000");
    assert_eq!(busy.ends(), 0);
    clock.int("CLOCK ADVANCE 9000");
    assert_eq!(clock.int("PUBLISH a m"), 1);
    listener.receive("*3|$7|message|$1|a|$1|m|");
    // A change at runtime applies to connected clients.
    let mut late = Wire::open(&server);
    late.expect(&["CONFIG SET timeout 0"], "+OK|");
    clock.int("CLOCK ADVANCE 100000");
    late.expect(&["PING", "CONFIG SET timeout 1"], "+PONG|+OK|");
    clock.int("CLOCK ADVANCE 500");
    clock.int("CLOCK ADVANCE 500");
    assert_eq!(late.ends(), 0);
}

#[test]
fn a_slow_subscriber_is_closed_at_the_hard_limit() {
    // A child process, so that only the memory of the server is measured.
    let server = Process::start(&["--client-output-buffer-limit", "pubsub 8mb 0 0"]);
    let (mut c, mut slow) = (Wire::to(server.port), Wire::to(server.port));
    slow.expect(&["SUBSCRIBE a"], "*3|$9|subscribe|$1|a|:1|");
    let message = vec![b'x'; 1 << 20];
    let before = server.resident_mib();
    let mut largest = 0;
    let mut sent = 0;
    loop {
        let got = c
            .ask(&[b"PUBLISH".as_slice(), b"a", &message])
            .as_int()
            .unwrap();
        let list = c.text("CLIENT LIST TYPE pubsub");
        if got == 0 || list.is_empty() {
            break;
        }
        largest = largest.max(field(&list, "omem").parse::<u64>().unwrap());
        sent += 1;
        assert!(sent < 200, "the subscriber is not closed");
    }
    assert!((1..=9 << 20).contains(&largest), "{largest}");
    assert!(slow.ends() <= sent * (message.len() + 64));
    assert_eq!(c.int("PUBLISH a m"), 0);
    server.wait_for_resident_mib(before + 40.0);
    server.stop();
}

#[test]
fn a_slow_subscriber_is_closed_after_the_soft_limit_s_seconds() {
    let server = server_with("client-output-buffer-limit pubsub 0 1mb 2|clock virtual");
    let (mut c, mut slow) = (Wire::open(&server), Wire::open(&server));
    slow.expect(&["SUBSCRIBE a"], "*3|$9|subscribe|$1|a|:1|");
    let message = vec![b'x'; 1 << 20];
    for _ in 0..32 {
        assert_eq!(
            c.ask(&[b"PUBLISH".as_slice(), b"a", &message]).as_int(),
            Some(1)
        );
    }
    let list = c.text("CLIENT LIST TYPE pubsub");
    assert!(
        field(&list, "omem").parse::<u64>().unwrap() > 1 << 20,
        "{list}"
    );
    for (name, value) in [
        ("rbs", "16384"),
        ("rbp", "16384"),
        ("obl", "16384"),
        ("oll", "1"),
    ] {
        assert_eq!(field(&list, name), value, "{name}");
    }
    let recent = |c: &mut Wire| {
        let info = c.text("INFO clients");
        let (_, line) = info.split_once("client_recent_max_output_buffer:").unwrap();
        line.lines().next().unwrap().parse::<u64>().unwrap()
    };
    assert!(recent(&mut c) > 1 << 20);
    assert_eq!(field(&list, "events"), "rw");
    // The limit also applies when no further messages arrive.
    c.int("CLOCK ADVANCE 2000");
    c.expect(&["PING"], "+PONG|");
    assert_eq!(c.text("CLIENT LIST TYPE pubsub").lines().count(), 1);
    c.int("CLOCK ADVANCE 1");
    eventually(|| c.text("CLIENT LIST TYPE pubsub").is_empty());
    assert!(slow.ends() < 32 * message.len());
}

#[test]
fn replies_count_towards_the_output_limit() {
    let server = server_with("client-output-buffer-limit normal 1mb 0 0");
    let mut c = Wire::open(&server);
    let value = vec![b'x'; 512 << 10];
    assert_eq!(
        c.ask(&[b"SET".as_slice(), b"k", &value]).as_bytes(),
        Some(&b"OK"[..])
    );
    c.send(&["GET k"; 100]);
    assert!(c.ends() < 100 * value.len());
    let mut d = Wire::open(&server);
    assert_eq!(d.ask(&["GET", "k"]).as_bytes().unwrap().len(), value.len());
}

/// The `redis` crate sets its library name and reads it back.
#[test]
fn through_the_redis_crate() {
    let server = start();
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port())).unwrap();
    let mut connection = client.get_connection().unwrap();
    let () = redis::cmd("CLIENT")
        .arg("SETNAME")
        .arg("it")
        .query(&mut connection)
        .unwrap();
    let name: String = redis::cmd("CLIENT")
        .arg("GETNAME")
        .query(&mut connection)
        .unwrap();
    assert_eq!(name, "it");
    let line: String = redis::cmd("CLIENT")
        .arg("INFO")
        .query(&mut connection)
        .unwrap();
    assert_eq!(field(&line, "lib-name"), "redis-rs");
}

#[test]
fn old_clients_are_killed_by_their_age() {
    let server = server_with("clock virtual");
    let (mut c, mut old) = (Wire::open(&server), Wire::open(&server));
    old.expect(&["PING"], "+PONG|");
    c.expect(&["CLIENT KILL MAXAGE 1"], ":0|");
    c.ask(&["CLOCK", "ADVANCE", "10000"]);
    let mut new = Wire::open(&server);
    new.expect(&["PING"], "+PONG|");
    c.expect(
        &["CLIENT KILL MAXAGE 11", "CLIENT KILL MAXAGE 10"],
        ":0|:1|",
    );
    assert_eq!(old.ends(), 0);
    new.expect(&["PING"], "+PONG|");
}
