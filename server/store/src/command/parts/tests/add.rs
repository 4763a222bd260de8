//! Tests of SADDEX and ZADDEX.

use super::TYPES;
use crate::command::testing::Fixture;

/// Runs lines for both types: `?` stands for the first letter, and `<m>` for the arguments that add
/// the member `m`.
#[track_caller]
fn check_both(lines: &[(&str, &str)]) -> [Fixture; 2] {
    TYPES.map(|(letter, _)| {
        let mut fixture = Fixture::new();
        for (line, reply) in lines {
            let score = if letter == "Z" { "7 " } else { "" };
            let line = line
                .replace('?', letter)
                .replace('<', score)
                .replace('>', "");
            let reply = reply.replace('?', &letter.to_lowercase());
            assert_eq!(fixture.run(&line), reply, "{line}");
        }
        fixture
    })
}

#[test]
fn members_are_added_with_a_deadline_or_none() {
    check_both(&[
        ("?ADDEX k EX 10 MEMBERS 2 <a> <b>", ":1"),
        ("?TTL k MEMBERS 2 a b", "*2 :10 :10"),
        ("?ADDEX k PX 1500 MEMBERS 2 <b> <c>", ":1"),
        ("?ADDEX k exat 2000 members 1 <d>", ":1"),
        ("?ADDEX k PXAT 3000000 MEMBERS 1 <e>", ":1"),
        (
            "?PEXPIRETIME k MEMBERS 5 a b c d e",
            "*5 :1010000 :1001500 :1001500 :2000000 :3000000",
        ),
        // Without an option, members lose their deadlines.
        ("?ADDEX k MEMBERS 2 <a> <f>", ":1"),
        ("?ADDEX k KEEPTTL MEMBERS 2 <b> <g>", ":1"),
        ("?PTTL k MEMBERS 4 a f b g", "*4 :-1 :-1 :1500 :-1"),
        ("?CARD k", ":7"),
        ("?ADDEX k EX 10 MEMBERS 2 <h> <h>", ":1"),
        ("?CARD k", ":8"),
    ]);
}

#[test]
fn conditions_hold_for_all_members_or_none() {
    check_both(&[
        ("?ADDEX k MXX EX 10 MEMBERS 1 <a>", ":0"),
        ("EXISTS k", ":0"),
        ("?ADDEX k MNX EX 10 MEMBERS 2 <a> <b>", ":1"),
        ("?ADDEX k MNX EX 99 MEMBERS 2 <c> <a>", ":0"),
        ("?ADDEX k MXX EX 99 MEMBERS 2 <a> <c>", ":0"),
        ("?TTL k MEMBERS 3 a b c", "*3 :10 :10 :-2"),
        ("?ADDEX k MXX EX 99 MEMBERS 2 <a> <b>", ":1"),
        ("?TTL k MEMBERS 2 a b", "*2 :99 :99"),
        // Options may also follow the members.
        ("?ADDEX k MEMBERS 1 <c> PX 2000 MNX", ":1"),
        ("?PTTL k MEMBERS 1 c", "*1 :2000"),
    ]);
}

#[test]
fn a_deadline_in_the_past_removes_members_and_adds_none() {
    for mut fixture in check_both(&[
        ("?ADDEX k PXAT 1 MEMBERS 1 <a>", ":1"),
        ("EXISTS k", ":0"),
        ("?ADDEX k EX 10 MEMBERS 2 <a> <b>", ":1"),
        ("?ADDEX k EXAT 1 MEMBERS 3 <a> <none> <a>", ":1"),
        ("?CARD k", ":1"),
        ("?ADDEX k EX 0 MEMBERS 1 <b>", ":1"),
        ("EXISTS k", ":0"),
    ]) {
        let events = fixture.events().replace('z', "s");
        assert_eq!(
            events,
            "keymiss k, new k, sadd k, sexpire k, srem k, srem k, del k, keymiss k"
        );
        assert_eq!(fixture.parts_with_deadline(), 0);
    }
}

#[test]
fn a_due_member_does_not_exist() {
    for (letter, score) in [("S", ""), ("Z", "7 ")] {
        let mut fixture = Fixture::new();
        fixture.run(&format!("{letter}ADDEX k PX 5 MEMBERS 1 {score}a"));
        fixture.run(&format!("{letter}ADDEX k EX 50 MEMBERS 1 {score}b"));
        fixture.advance(5);
        let line = format!("{letter}ADDEX k MXX MEMBERS 2 {score}a {score}b");
        assert_eq!(fixture.run(&line), ":0");
        let line = format!("{letter}ADDEX k MNX MEMBERS 1 {score}a");
        assert_eq!(fixture.run(&line), ":1");
        let line = format!("{letter}TTL k MEMBERS 2 a b");
        assert_eq!(fixture.run(&line), "*2 :-1 :50");
    }
}

/// A change has an event for each kind of change, and none if nothing has changed.
#[test]
fn events_say_what_has_changed() {
    for mut fixture in check_both(&[
        ("?ADDEX k MEMBERS 1 <a>", ":1"),
        ("?ADDEX k MEMBERS 1 <a>", ":1"),
        ("?ADDEX k KEEPTTL MEMBERS 1 <a>", ":1"),
        ("?ADDEX k EX 10 MEMBERS 1 <a>", ":1"),
        ("?ADDEX k MEMBERS 2 <a> <b>", ":1"),
    ]) {
        let events = fixture.events().replace('z', "s");
        assert_eq!(events, "new k, sadd k, sexpire k, sadd k, spersist k");
    }
}

#[test]
fn zaddex_updates_scores() {
    let mut fixture = Fixture::new();
    fixture.expect(&[
        ("ZADDEX z EX 10 MEMBERS 2 1 a 2 b", ":1"),
        ("ZADDEX z KEEPTTL MEMBERS 1 5 a", ":1"),
        ("ZRANGE z 0 -1 WITHSCORES", "*4 $1 b $1 2 $1 a $1 5"),
        ("ZTTL z MEMBERS 2 a b", "*2 :10 :10"),
        (
            "ZADDEX z MEMBERS 2 1 c x d",
            "-ERR value is not a valid float",
        ),
        ("ZCARD z", ":2"),
    ]);
}

#[test]
fn arguments_are_checked() {
    const ONE_OF: &str =
        "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
    check_both(&[
        ("?ADDEX k MEMBERS 0 <a>", "-ERR invalid number of members"),
        ("?ADDEX k MEMBERS x <a>", "-ERR invalid number of members"),
        (
            "?ADDEX k MEMBERS 3 <a> <b>",
            "-ERR wrong number of arguments",
        ),
        (
            "?ADDEX k MEMBERS 1 <a> MEMBERS 1 <b>",
            "-ERR MEMBERS keyword specified multiple times",
        ),
        ("?ADDEX k BAD MEMBERS 1 <a>", "-ERR unknown argument: BAD"),
        ("?ADDEX k MEMBERS 1 <a> c", "-ERR unknown argument: c"),
        ("?ADDEX k FNX MEMBERS 1 <a>", "-ERR unknown argument: FNX"),
        (
            "?ADDEX k MXX MNX MEMBERS 1 <a>",
            "-ERR Only one of MXX or MNX arguments can be specified",
        ),
        ("?ADDEX k EX 1 PX 1 MEMBERS 1 <a>", ONE_OF),
        ("?ADDEX k KEEPTTL EXAT 1 MEMBERS 1 <a>", ONE_OF),
        ("?ADDEX k MEMBERS 1 <a> EX", "-ERR missing expire time"),
        (
            "?ADDEX k EX -1 MEMBERS 1 <a>",
            "-ERR invalid expire time, must be >= 0",
        ),
        (
            "?ADDEX k PX 99999999999999999 MEMBERS 1 <a>",
            "-ERR invalid expire time in '?addex' command",
        ),
        (
            "?ADDEX k EX x MEMBERS 1 <a>",
            "-ERR value is not an integer or out of range",
        ),
        ("SET s v", "+OK"),
        (
            "?ADDEX s MEMBERS 1 <a>",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("EXISTS k", ":0"),
    ]);
    let line = "SADDEX k EX 100 MXX";
    Fixture::new().expect(&[(line, "-ERR missing MEMBERS argument")]);
}
