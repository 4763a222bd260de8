//! Everyday use through a real client library, the `redis` crate.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::wire::{eventually, start, unix_time};
use punctual_server::Server;
use redis::{
    Client, Commands, Connection, ErrorKind, ExistenceCheck, ExpireOption, Msg, PushInfo, PushKind,
    ServerErrorKind, SetExpiry, SetOptions, Value,
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Timeout for a reply, generous for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn connect_with(server: &Server, query: &str) -> Connection {
    let url = format!("redis://127.0.0.1:{}/{query}", server.port());
    let connection = Client::open(url).unwrap().get_connection().unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection
}

fn connect(server: &Server) -> Connection {
    connect_with(server, "")
}

/// Runs `test` in both protocols. The library's results must be the same.
fn in_both_protocols(test: impl Fn(&Server, &mut Connection)) {
    for query in ["?protocol=resp2", "?protocol=resp3"] {
        let server = start();
        test(&server, &mut connect_with(&server, query));
    }
}

#[test]
fn strings() {
    in_both_protocols(|_, con| {
        let () = con.set("name", "Ada").unwrap();
        assert_eq!(con.get::<_, String>("name").unwrap(), "Ada");
        assert_eq!(con.get::<_, Option<String>>("nobody").unwrap(), None);
        assert_eq!(con.append::<_, _, usize>("name", " Lovelace").unwrap(), 12);
        assert_eq!(
            con.getrange::<_, String>("name", -8, -1).unwrap(),
            "Lovelace"
        );
        assert_eq!(con.setrange::<_, _, usize>("name", 4, "l").unwrap(), 12);
        assert_eq!(
            con.getset::<_, _, String>("name", "Grace").unwrap(),
            "Ada lovelace"
        );
        assert_eq!(con.get_del::<_, String>("name").unwrap(), "Grace");

        assert_eq!(con.incr::<_, _, i64>("visits", 41).unwrap(), 41);
        assert_eq!(con.incr::<_, _, i64>("visits", 1).unwrap(), 42);
        assert_eq!(con.decr::<_, _, i64>("visits", 2).unwrap(), 40);
        assert_eq!(con.incr::<_, _, f64>("share", 0.1).unwrap(), 0.1);
        assert!(!con.set_nx::<_, _, bool>("visits", 1).unwrap());

        let () = con.mset(&[("a", "1"), ("b", "2")]).unwrap();
        let values: Vec<Option<i64>> = con.mget(&["a", "missing", "b"]).unwrap();
        assert_eq!(values, [Some(1), None, Some(2)]);
        assert!(
            !con.mset_nx::<_, _, bool>(&[("c", "3"), ("a", "4")])
                .unwrap()
        );

        let bytes: Vec<u8> = (0..=255).collect();
        let () = con.set("bytes", &bytes).unwrap();
        assert_eq!(con.get::<_, Vec<u8>>("bytes").unwrap(), bytes);
        let () = con.set("", "the empty key").unwrap();
        assert_eq!(con.get::<_, String>("").unwrap(), "the empty key");
    });
}

#[test]
fn keys() {
    in_both_protocols(|server, con| {
        let names: HashSet<String> = (0..1_000).map(|n| format!("key:{n}")).collect();
        for name in &names {
            let () = con.set(name, 1).unwrap();
        }
        let scanned: HashSet<String> = con
            .scan_match("key:*")
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(scanned, names);
        assert_eq!(con.keys::<_, HashSet<String>>("key:99?").unwrap().len(), 10);
        assert_eq!(
            con.del::<_, usize>(&["key:1", "key:2", "no such key"])
                .unwrap(),
            2
        );
        assert!(!con.exists::<_, bool>("key:1").unwrap());
        let () = con.rename("key:3", "renamed").unwrap();
        assert!(con.exists::<_, bool>("renamed").unwrap());
        assert_eq!(
            redis::cmd("TYPE")
                .arg("renamed")
                .query::<String>(con)
                .unwrap(),
            "string"
        );
        assert_eq!(redis::cmd("DBSIZE").query::<usize>(con).unwrap(), 998);

        let mut other = connect_with(server, "3");
        assert_eq!(redis::cmd("DBSIZE").query::<usize>(&mut other).unwrap(), 0);
        assert!(
            redis::cmd("MOVE")
                .arg("renamed")
                .arg(3)
                .query::<bool>(con)
                .unwrap()
        );
        assert!(other.exists::<_, bool>("renamed").unwrap());
        let () = redis::cmd("FLUSHALL").query(con).unwrap();
        assert_eq!(redis::cmd("DBSIZE").query::<usize>(&mut other).unwrap(), 0);
    });
}

#[test]
fn deadlines_with_the_virtual_clock() {
    let server = Server::builder().port(0).virtual_clock().spawn().unwrap();
    let mut con = connect(&server);
    let advance = |con: &mut Connection, ms: u64| -> u64 {
        redis::cmd("CLOCK")
            .arg("ADVANCE")
            .arg(ms)
            .query(con)
            .unwrap()
    };

    let options = SetOptions::default()
        .conditional_set(ExistenceCheck::NX)
        .with_expiration(SetExpiry::EX(30 * 24 * 3600));
    assert!(
        con.set_options::<_, _, bool>("session", "open", options.clone())
            .unwrap()
    );
    assert!(
        !con.set_options::<_, _, bool>("session", "again", options)
            .unwrap()
    );
    assert_eq!(con.ttl::<_, i64>("session").unwrap(), 30 * 24 * 3600);
    advance(&mut con, 30 * DAY_MS - 1);
    assert_eq!(con.pttl::<_, i64>("session").unwrap(), 1);
    assert_eq!(con.get::<_, String>("session").unwrap(), "open");
    let now: u64 = advance(&mut con, 1);
    assert_eq!(
        redis::cmd("CLOCK")
            .arg("NOW")
            .query::<u64>(&mut con)
            .unwrap(),
        now
    );
    assert_eq!(con.get::<_, Option<String>>("session").unwrap(), None);
    assert_eq!(con.ttl::<_, i64>("session").unwrap(), -2);

    let () = con.set_ex("cache", "v", 10).unwrap();
    assert!(con.expire::<_, bool>("cache", 60).unwrap());
    assert_eq!(
        con.expire_time::<_, u64>("cache").unwrap(),
        (now + 60_000) / 1000 + u64::from((now + 60_000) % 1000 >= 500)
    );
    let shorter = redis::cmd("EXPIRE")
        .arg("cache")
        .arg(5)
        .arg(ExpireOption::GT)
        .query::<bool>(&mut con)
        .unwrap();
    assert!(!shorter, "GT accepts only later deadlines");
    assert!(con.persist::<_, bool>("cache").unwrap());
    assert_eq!(con.ttl::<_, i64>("cache").unwrap(), -1);
    advance(&mut con, 1000 * DAY_MS);
    assert_eq!(con.get::<_, String>("cache").unwrap(), "v");

    let refused = redis::cmd("CLOCK")
        .arg("ADVANCE")
        .arg(1)
        .query::<u64>(&mut connect(&start()))
        .unwrap_err();
    assert!(
        refused.to_string().contains("the clock is real"),
        "{refused}"
    );
}

#[test]
fn keys_expire_with_the_real_clock() {
    let server = start();
    let mut con = connect(&server);
    // The clock is read before the key is set, so that a slow reply cannot make the expiry appear
    // early.
    let began = unix_time();
    let () = con.pset_ex("k", "v", 30).unwrap();
    eventually(|| !con.exists::<_, bool>("k").unwrap());
    let took = unix_time() - began;
    assert!(took >= Duration::from_millis(30), "gone after {took:?}");
}

#[test]
fn pipelines() {
    in_both_protocols(|_, con| {
        let (first, second): (i64, String) = redis::pipe()
            .set("k", 7)
            .ignore()
            .incr("k", 1)
            .get("k")
            .query(con)
            .unwrap();
        assert_eq!((first, second.as_str()), (8, "8"));

        let mut many = redis::pipe();
        for number in 0..10_000 {
            many.set(format!("many:{number}"), number)
                .ignore()
                .get(format!("many:{number}"));
        }
        let values: Vec<u32> = many.query(con).unwrap();
        assert!(values.iter().copied().eq(0..10_000));
        // An error within the pipeline is reported, and the connection remains usable.
        let wrong = redis::pipe()
            .set("text", "x")
            .incr("text", 1)
            .get("text")
            .query::<Vec<Value>>(con);
        assert!(wrong.is_err());
        assert_eq!(con.get::<_, String>("text").unwrap(), "x");
    });
}

#[test]
fn publish_and_subscribe() {
    let server = start();
    let mut con = connect(&server);
    let mut listener = connect(&server);
    let mut pubsub = listener.as_pubsub();
    pubsub.subscribe(&["news", "weather"]).unwrap();
    pubsub.psubscribe("log.*").unwrap();
    assert_eq!(con.publish::<_, _, usize>("news", "one").unwrap(), 1);
    assert_eq!(con.publish::<_, _, usize>("log.warning", "two").unwrap(), 1);
    assert_eq!(con.publish::<_, _, usize>("nobody", "lost").unwrap(), 0);
    let text_of = |msg: Msg| {
        (
            msg.get_channel_name().to_owned(),
            msg.get_payload::<String>().unwrap(),
            msg.from_pattern(),
        )
    };
    assert_eq!(
        text_of(pubsub.get_message().unwrap()),
        ("news".into(), "one".into(), false)
    );
    assert_eq!(
        text_of(pubsub.get_message().unwrap()),
        ("log.warning".into(), "two".into(), true)
    );
    pubsub.unsubscribe("news").unwrap();
    assert_eq!(con.publish::<_, _, usize>("news", "three").unwrap(), 0);
    let counts: HashMap<String, usize> = redis::cmd("PUBSUB")
        .arg("NUMSUB")
        .arg("news")
        .arg("weather")
        .query(&mut con)
        .unwrap();
    assert_eq!((counts["news"], counts["weather"]), (0, 1));
    drop(pubsub);
    // The connection is out of subscribed mode again.
    assert_eq!(listener.get::<_, Option<String>>("k").unwrap(), None);
}

#[test]
fn events_of_expired_keys() {
    let server = Server::builder()
        .port(0)
        .virtual_clock()
        .option("notify-keyspace-events", "KEA")
        .spawn()
        .unwrap();
    let mut con = connect(&server);
    let mut listener = connect(&server);
    let mut pubsub = listener.as_pubsub();
    pubsub.psubscribe("__key*@0__:*").unwrap();
    for (name, seconds) in [("late", 20), ("early", 10)] {
        let () = con.set_ex(name, "v", seconds).unwrap();
    }
    let _: u64 = redis::cmd("CLOCK")
        .arg("ADVANCE")
        .arg(60_000)
        .query(&mut con)
        .unwrap();
    let mut events = Vec::new();
    for _ in 0..12 {
        let msg = pubsub.get_message().unwrap();
        if msg.get_channel_name().starts_with("__keyevent") {
            let event = msg
                .get_channel_name()
                .rsplit(':')
                .next()
                .unwrap()
                .to_owned();
            events.push((event, msg.get_payload::<String>().unwrap()));
        }
    }
    let expected = [
        ("set", "late"),
        ("expire", "late"),
        ("set", "early"),
        ("expire", "early"),
        ("expired", "early"),
        ("expired", "late"),
    ];
    assert_eq!(
        events,
        expected.map(|(event, key)| (event.to_owned(), key.to_owned()))
    );
}

#[test]
fn pushes_beside_replies() {
    let server = Server::builder()
        .port(0)
        .option("notify-keyspace-events", "Ex")
        .spawn()
        .unwrap();
    let mut con = connect_with(&server, "?protocol=resp3");
    let (sender, pushes) = mpsc::channel::<PushInfo>();
    con.set_push_sender(sender);
    con.subscribe_resp3("__keyevent@0__:expired").unwrap();
    // In RESP3 the same connection also runs commands.
    let () = con.pset_ex("short", "v", 20).unwrap();
    let began = Instant::now();
    let push = loop {
        // The library reads pushes only while it reads a reply.
        let _: String = redis::cmd("PING").query(&mut con).unwrap();
        match pushes.try_recv() {
            Ok(push) if push.kind == PushKind::Message => break push,
            _ => assert!(began.elapsed() < PATIENCE, "no message"),
        }
    };
    let bulk = |text: &str| Value::BulkString(text.into());
    assert_eq!(push.data, [bulk("__keyevent@0__:expired"), bulk("short")]);

    let hello: HashMap<String, Value> = redis::cmd("HELLO").arg(3).query(&mut con).unwrap();
    assert_eq!(
        (&hello["server"], &hello["proto"]),
        (&bulk("redis"), &Value::Int(3))
    );
    assert!(matches!(
        redis::cmd("CONFIG")
            .arg("GET")
            .arg("maxclients")
            .query(&mut con)
            .unwrap(),
        Value::Map(_)
    ));
    assert_eq!(
        redis::cmd("GET")
            .arg("short")
            .query::<Value>(&mut con)
            .unwrap(),
        Value::Nil
    );
}

#[test]
fn errors_have_the_library_s_kinds() {
    in_both_protocols(|_, con| {
        let error = |con: &mut Connection, words: &[&str]| {
            let mut cmd = redis::cmd(words[0]);
            cmd.arg(&words[1..]);
            cmd.query::<Value>(con).unwrap_err()
        };
        let () = con.set("text", "x").unwrap();
        for (words, text) in [
            (
                &["INCR", "text"][..],
                "value is not an integer or out of range",
            ),
            (
                &["NOSUCH", "a"],
                "unknown command 'NOSUCH', with args beginning with: 'a' ",
            ),
            (&["GET"], "wrong number of arguments for 'get' command"),
            (
                &["SET", "k", "v", "EX", "0"],
                "invalid expire time in 'set' command",
            ),
            (&["SET", "k", "v", "NX", "XX"], "syntax error"),
            (&["SELECT", "99"], "DB index is out of range"),
        ] {
            let error = error(con, words);
            assert_eq!(
                error.kind(),
                ErrorKind::Server(ServerErrorKind::ResponseError),
                "{words:?}: {error}"
            );
            assert_eq!(
                (error.code(), error.detail()),
                (Some("ERR"), Some(text)),
                "{words:?}"
            );
        }
        let denied = error(con, &["AUTH", "somebody", "x"]);
        assert_eq!(denied.code(), Some("WRONGPASS"));
        let unread = con.get::<_, i64>("text").unwrap_err();
        assert_eq!(unread.kind(), ErrorKind::Parse, "{unread}");
        assert_eq!(con.get::<_, String>("text").unwrap(), "x");
    });
}

#[test]
fn passwords() {
    let server = Server::builder()
        .port(0)
        .option("requirepass", "secret")
        .spawn()
        .unwrap();
    let open = |auth: &str, query: &str| {
        let url = format!("redis://{auth}127.0.0.1:{}/{query}", server.port());
        Client::open(url).unwrap().get_connection()
    };
    // The library maps the error of AUTH to an error of its own, and passes on the error of HELLO.
    for (query, kind) in [
        ("?protocol=resp2", ErrorKind::AuthenticationFailed),
        ("?protocol=resp3", ErrorKind::Extension),
    ] {
        let mut con = open(":secret@", query).unwrap();
        assert_eq!(
            redis::cmd("PING").query::<String>(&mut con).unwrap(),
            "PONG"
        );
        let mut con = open("default:secret@", query).unwrap();
        assert_eq!(
            redis::cmd("ECHO")
                .arg("hi")
                .query::<String>(&mut con)
                .unwrap(),
            "hi"
        );
        let Err(wrong) = open(":guess@", query) else {
            panic!("the connection was accepted")
        };
        assert_eq!(wrong.kind(), kind, "{wrong}");
    }
    let mut nobody = open("", "").unwrap();
    let refused = nobody.get::<_, Option<String>>("k").unwrap_err();
    assert_eq!(refused.code(), Some("NOAUTH"), "{refused}");
}

#[test]
fn four_loops_and_clients_in_threads() {
    let server = Server::builder().port(0).threads(4).spawn().unwrap();
    let client = Client::open(format!("redis://127.0.0.1:{}/", server.port())).unwrap();
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let client = client.clone();
            thread::spawn(move || {
                let mut con = client.get_connection().unwrap();
                for round in 0..200 {
                    let () = con.set(format!("own:{number}"), round).unwrap();
                    assert_eq!(con.get::<_, i32>(format!("own:{number}")).unwrap(), round);
                    let _: i64 = con.incr("shared", 1).unwrap();
                    // A command on keys of many shards is atomic.
                    let pairs: Vec<(String, String)> = (0..8)
                        .map(|k| (format!("set:{k}"), format!("{number}.{round}")))
                        .collect();
                    let () = con.mset(&pairs).unwrap();
                    let names: Vec<&String> = pairs.iter().map(|(k, _)| k).collect();
                    let seen: HashSet<String> = con.mget(&names).unwrap();
                    assert_eq!(seen.len(), 1, "{seen:?}");
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    let mut con = client.get_connection().unwrap();
    assert_eq!(con.get::<_, i64>("shared").unwrap(), 1_600);
}
