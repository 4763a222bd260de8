//! Messages about the fields and members that commands and expiry change.

use crate::waiters::with_threads;
use crate::wire::{Open as _, Wire, shown};

fn run(c: &mut Wire, lines: &[&str]) {
    for line in lines {
        c.run(line);
    }
}

/// Checks that the messages arrive in this order; each is `channel payload`.
#[track_caller]
fn receive(subscriber: &mut Wire, messages: &[&str]) {
    for message in messages {
        let received = shown(&subscriber.value());
        assert_eq!(received, format!("[pmessage __sub* {message}]"));
    }
}

#[test]
fn commands_publish_on_the_four_kinds_of_channels() {
    for threads in [1, 3] {
        let server = with_threads(threads);
        let (mut c, mut subscriber) = (Wire::open(&server), Wire::open(&server));
        subscriber.run("PSUBSCRIBE __sub*");
        // Without a channel of subkeys or a class of values, there are no messages.
        for flags in ["KEA", "STIV", "STIVKEg$sz"] {
            c.run(&format!("CONFIG SET notify-keyspace-events {flags}"));
            run(&mut c, &["HSET h a 1 bb 2", "DEL h"]);
        }
        c.run("CONFIG SET notify-keyspace-events VITSh");
        run(&mut c, &["HSET h a 1 bb 2", "SELECT 2", "HSET h|: c 1"]);
        receive(
            &mut subscriber,
            &[
                "__subkeyspace@0__:h hset|1:a,2:bb",
                "__subkeyevent@0__:hset 1:h|1:a,2:bb",
                "__subkeyspaceitem@0__:h\na hset",
                "__subkeyspaceitem@0__:h\nbb hset",
                "__subkeyspaceevent@0__:hset|h 1:a,2:bb",
                "__subkeyspace@2__:h|: hset|1:c",
                "__subkeyevent@2__:hset 3:h|:|1:c",
                "__subkeyspaceitem@2__:h|:\nc hset",
                "__subkeyspaceevent@2__:hset|h|: 1:c",
            ],
        );
    }
}

#[test]
fn expired_fields_and_members_are_named() {
    for threads in [1, 3] {
        let server = with_threads(threads);
        let (mut c, mut subscriber) = (Wire::open(&server), Wire::open(&server));
        c.run("CONFIG SET notify-keyspace-events Tshz");
        run(&mut c, &["HSET h a 1 b 2", "SADD s x", "ZADD z 1 y"]);
        run(&mut c, &["HPEXPIRE h 10 FIELDS 2 a b"]);
        run(&mut c, &["SPEXPIRE s 20 MEMBERS 1 x"]);
        run(&mut c, &["ZPEXPIRE z 30 MEMBERS 1 y"]);
        subscriber.run("PSUBSCRIBE __sub*");
        c.run("CLOCK ADVANCE 30");
        receive(
            &mut subscriber,
            &[
                "__subkeyevent@0__:hexpired 1:h|1:a,1:b",
                "__subkeyevent@0__:sexpired 1:s|1:x",
                "__subkeyevent@0__:zexpired 1:z|1:y",
            ],
        );
    }
}

/// The letters are printed in Redis's order, and a rule of NOTIFY takes none of them.
#[test]
fn the_directive_keeps_the_letters() {
    let server = with_threads(1);
    let mut c = Wire::open(&server);
    for (set, printed) in [
        ("KEASTIV", "AKESTIV"),
        ("VITSmhE", "hEmSTIV"),
        ("STh", "hST"),
        ("", ""),
    ] {
        c.run(&format!("CONFIG SET notify-keyspace-events \"{set}\""));
        let value = c.run("CONFIG GET notify-keyspace-events");
        assert_eq!(shown(&value), format!("[notify-keyspace-events {printed}]"));
    }
    for letter in ["S", "T", "I", "V"] {
        let reply = c.text(&format!("NOTIFY SET r STREAM s EVENTS h{letter}"));
        assert!(reply.starts_with("ERR EVENTS takes letters"), "{reply}");
    }
}

/// The channels are ordinary channels to the rules of users.
#[test]
fn users_need_permission_for_the_channels() {
    let server = with_threads(1);
    let (mut c, mut ann) = (Wire::open(&server), Wire::open(&server));
    c.run("CONFIG SET notify-keyspace-events SVh");
    c.run("ACL SETUSER ann on nopass +@all allkeys resetchannels &__subkeyspace@0__:public:*");
    ann.run("AUTH ann any");
    for refused in [
        "SUBSCRIBE __subkeyspace@0__:private",
        "SUBSCRIBE __subkeyspace@1__:public:h",
        "SUBSCRIBE __subkeyspaceevent@0__:hset|public:h",
        "PSUBSCRIBE __subkeyspace@0__:*",
        "PSUBSCRIBE __sub*",
    ] {
        assert!(ann.text(refused).starts_with("NOPERM"), "{refused}");
    }
    ann.run("SUBSCRIBE __subkeyspace@0__:public:h");
    run(&mut c, &["HSET private f 1", "HSET public:h f 1"]);
    let message = shown(&ann.value());
    assert_eq!(message, "[message __subkeyspace@0__:public:h hset|1:f]");
}
