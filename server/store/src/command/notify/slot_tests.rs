//! Rules in cluster mode, where each slot has its stream.

use punctual_cluster::slot;

use super::tests::entries;
use crate::command::testing::Fixture;

/// Returns the stream of the rule's name `s` for the slot of a key.
fn stream(key: &str) -> String {
    format!("s{{{}}}", slot::tag(slot::of_key(key.as_bytes())))
}

fn move_slots(f: &Fixture, migrating: &[&str], importing: &[&str]) {
    let slots = |keys: &[&str]| {
        let slots = keys.iter().map(|key| slot::of_key(key.as_bytes()));
        slots.collect::<Vec<_>>().into_iter()
    };
    f.store.set_moving_slots(slots(migrating), slots(importing));
}

/// Returns the payload of DUMP.
fn dump(f: &mut Fixture, key: &str) -> Vec<u8> {
    let words = ["DUMP", key];
    let reply = f.reply(words.iter().collect::<punctual_resp::OwnedArgs>().as_args());
    let start = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    reply[start..reply.len() - 2].to_vec()
}

/// Restores a stream in a slot that arrives.
fn restore(f: &mut Fixture, key: &str, payload: &[u8]) -> String {
    f.run_words(&[b"RESTORE-ASKING", key.as_bytes(), b"0", payload])
}

#[test]
fn an_event_goes_to_the_stream_of_its_slot() {
    for shards in [1, 4] {
        let mut f = Fixture::clustered(shards);
        assert_eq!(f.run("NOTIFY SET all STREAM s"), "+OK");
        assert_eq!(f.run("NOTIFY STREAMS all"), "*0");
        f.run("SET a 1 PX 10");
        f.run("SET {a}b 1");
        f.run("SET c 1");
        f.jump(1_000_020);
        let (of_a, of_c) = (stream("a"), stream("c"));
        assert_ne!(of_a, of_c);
        assert_eq!(slot::of_key(of_a.as_bytes()), slot::of_key(b"a"));
        assert_eq!(
            entries(&mut f, &of_a),
            [
                "0 event set key a",
                "0 event expire key a",
                "0 event set key {a}b",
                "10 event expired key a"
            ]
        );
        assert_eq!(entries(&mut f, &of_c), ["0 event set key c"]);
        // The keys c, {a}b and two streams; changes of the streams have no entries.
        f.run(&format!("XDEL {of_c} 1-1"));
        assert_eq!(f.run("DBSIZE"), ":4");
        let reply = f.run("NOTIFY STREAMS all");
        assert!(reply.starts_with("*2 ") && reply.contains(&of_a) && reply.contains(&of_c));
        assert_eq!(f.run("NOTIFY STREAMS none"), "$-1");
    }
    let mut f = Fixture::new();
    f.run("NOTIFY SET all STREAM s");
    f.run("SET a 1");
    assert_eq!(f.run("NOTIFY STREAMS all"), "*1 $1 s");
}

#[test]
fn a_name_with_a_brace_is_refused() {
    let mut f = Fixture::clustered(2);
    assert_eq!(
        f.run("NOTIFY SET all STREAM s{a}"),
        "-ERR in cluster mode the name of the stream must not contain '{'"
    );
    // A snapshot of a server without cluster mode may have such a rule.
    let mut other = Fixture::new();
    other.run("NOTIFY SET all STREAM s{a}");
    let texts = other.store.notify_rules();
    f.with_turn(|turn| turn.restore_notify_rule(&texts[0]).unwrap());
    f.run("SET k 1");
    assert!(
        f.run("NOTIFY GET all")
            .ends_with("appended :0 $6 failed :1")
    );
}

#[test]
fn all_streams_of_a_rule_get_its_age() {
    let mut f = Fixture::clustered(4);
    f.run("NOTIFY SET all STREAM s");
    f.run("SET a 1");
    f.run("SET c 1");
    f.set_logged(true);
    f.run("NOTIFY SET all STREAM s MAXAGE 100");
    f.advance(50);
    f.run("SET d 1");
    f.jump(1_000_100);
    let lengths =
        |f: &mut Fixture| ["a", "c", "d"].map(|key| f.run(&format!("XLEN {}", stream(key))));
    assert_eq!(lengths(&mut f), [":0", ":0", ":1"]);
    f.jump(1_000_150);
    assert_eq!(lengths(&mut f), [":0", ":0", ":0"]);
}

#[test]
fn streams_of_rules_are_listed_last() {
    let mut f = Fixture::clustered(2);
    f.run("NOTIFY SET all STREAM s");
    for n in 0..20 {
        f.run(&format!("SET {{a}}{n} 1"));
    }
    let listed = |f: &mut Fixture, max| {
        let mut keys = Vec::new();
        f.with_turn(|turn| {
            turn.keys_in_slot(slot::of_key(b"a"), max, |key| keys.push(key.to_vec()));
        });
        keys
    };
    for max in [1, 10, 20] {
        let keys = listed(&mut f, max);
        assert_eq!(keys.len(), max);
        assert!(keys.iter().all(|key| key.starts_with(b"{a}")));
    }
    assert_eq!(listed(&mut f, 21)[20], stream("a").as_bytes());
}

/// Returns two nodes between which a slot moves, and the rule's stream in the slot. On the first
/// node, the stream has an event and a group that has read none.
fn while_a_slot_moves() -> (Fixture, Fixture, String) {
    let (mut from, mut to) = (Fixture::clustered(2), Fixture::clustered(2));
    let key = stream("a");
    for f in [&mut from, &mut to] {
        f.run("NOTIFY SET all STREAM s");
    }
    move_slots(&from, &["a"], &[]);
    move_slots(&to, &[], &["a"]);
    from.run("SET {a}1 x");
    from.run(&format!("XGROUP CREATE {key} g 0"));
    (from, to, key)
}

/// While a slot moves, each node appends the events of its keys to a stream of its own.
#[test]
fn a_stream_that_arrives_is_joined_with_the_own_one() {
    let (mut from, mut to, key) = while_a_slot_moves();
    // The second event of this node has the ID of the first event of the other one.
    to.now = crate::Now::from_ms(999_999);
    to.run("SET {a}2 x");
    to.advance(1);
    to.run("SET {a}2 y");
    from.advance(5);
    from.run("SET {a}1 y");
    from.run(&format!("XREADGROUP GROUP g c STREAMS {key} >"));
    to.advance(9);
    to.run("SET {a}2 z");
    let payload = dump(&mut from, &key);
    to.set_logged(true);
    to.events();
    assert_eq!(restore(&mut to, &key, &payload), "+OK");
    assert_eq!(to.events(), format!("new {key}, restore {key}"));
    let joined = [
        "0 event set key {a}1",
        "5 event set key {a}1",
        "5 event set key {a}2",
        "5 event set key {a}2",
        "9 event set key {a}2",
    ];
    assert_eq!(entries(&mut to, &key), joined);
    // A reader of the group gets the events of this node, which it has not read yet.
    let log = to.take_log();
    let unread = to.run(&format!("XREADGROUP GROUP g c STREAMS {key} >"));
    assert_eq!(unread.matches("{a}2").count(), 3, "{unread}");
    assert_eq!(unread.matches("{a}1").count(), 0, "{unread}");
    // The same stream again: the first reply was lost.
    assert_eq!(restore(&mut to, &key, &payload), "+OK");
    assert_eq!(entries(&mut to, &key), joined);
    // The log has the joined stream.
    let mut replica = Fixture::clustered(2);
    replica.run_words(&[b"RESTORE", key.as_bytes(), b"0", &payload]);
    replica.apply(&log);
    assert_eq!(entries(&mut replica, &key), joined);
}

/// After the stream has left, the source may get further events. It appends them to a new stream.
#[test]
fn a_second_stream_is_appended_to_the_first() {
    let (mut from, mut to, key) = while_a_slot_moves();
    let payload = dump(&mut from, &key);
    assert_eq!(restore(&mut to, &key, &payload), "+OK");
    from.run(&format!("DEL {key}"));
    from.advance(3);
    from.run("SET {a}1 y");
    to.advance(7);
    to.run("SET {a}2 x");
    let payload = dump(&mut from, &key);
    assert_eq!(restore(&mut to, &key, &payload), "+OK");
    assert_eq!(
        entries(&mut to, &key),
        [
            "0 event set key {a}1",
            "7 event set key {a}2",
            "7 event set key {a}1"
        ]
    );
    assert!(to.run(&format!("XINFO GROUPS {key}")).contains("lag :3"));
}

#[test]
fn only_streams_of_rules_in_slots_that_arrive_are_joined() {
    let mut f = Fixture::clustered(2);
    let busy = "-BUSYKEY Target key name already exists.";
    f.run("NOTIFY SET all STREAM s");
    f.run("SET a 1");
    let key = stream("a");
    let payload = dump(&mut f, &key);
    assert_eq!(restore(&mut f, &key, &payload), busy, "a stable slot");
    move_slots(&f, &["a"], &[]);
    assert_eq!(restore(&mut f, &key, &payload), busy, "a slot that leaves");
    move_slots(&f, &[], &["a"]);
    assert_eq!(restore(&mut f, "{a}b", &payload), "+OK");
    assert_eq!(restore(&mut f, "{a}b", &payload), busy, "another stream");
    let text = dump(&mut f, "a");
    assert_eq!(restore(&mut f, &key, &text), busy, "another type");
    let words: [&[u8]; 5] = [b"RESTORE", key.as_bytes(), b"0", &payload, b"REPLACE"];
    assert_eq!(f.run_words(&words), "+OK");
    assert_eq!(entries(&mut f, &key), ["0 event set key a"], "also joined");
    f.run("NOTIFY DEL all");
    assert_eq!(restore(&mut f, &key, &payload), busy, "no rule");
}

/// A key that moves to another node is neither created nor deleted.
#[test]
fn a_move_has_no_event() {
    let mut f = Fixture::clustered(2);
    f.run("NOTIFY SET all STREAM s");
    f.run("SET a 1");
    let (key, text) = (stream("a"), dump(&mut f, "a"));
    let length = format!("XLEN {key}");
    assert_eq!(f.run(&length), ":1");
    move_slots(&f, &["a"], &[]);
    f.with_turn(|turn| {
        let words: punctual_resp::OwnedArgs = ["DEL", "a"].iter().collect();
        let mut out = Vec::new();
        let mut reply = punctual_resp::Reply::new(&mut out, punctual_resp::Protocol::Resp2);
        let del = crate::command::find(b"del").unwrap();
        turn.set_moves_keys(true);
        turn.run(del, 0, true, words.as_args(), &mut reply).unwrap();
    });
    assert_eq!(f.run("EXISTS a"), ":0");
    assert_eq!(f.run(&length), ":1");
    move_slots(&f, &[], &["a"]);
    assert_eq!(restore(&mut f, "a", &text), "+OK");
    assert_eq!(f.run(&length), ":1");
    move_slots(&f, &[], &[]);
    assert_eq!(restore(&mut f, "{a}x", &text), "+OK");
    assert_eq!(f.run(&length), ":2");
    let deleted = f.with_turn(|turn| turn.delete_slot(slot::of_key(b"a"), 100));
    assert_eq!(deleted, 3, "the stream goes with its slot");
    assert_eq!(f.run("DBSIZE"), ":0");
}
