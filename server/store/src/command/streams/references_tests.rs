use crate::command::testing::Fixture;

/// A stream with the entries 1-0 to 5-0; group a has read all entries, and group b the first three.
fn filled() -> Fixture {
    let mut f = Fixture::sharded(2);
    for n in 1..=5 {
        f.run(&format!("XADD s {n}-0 f {n}"));
    }
    f.run("XGROUP CREATE s a 0");
    f.run("XGROUP CREATE s b 0");
    f.run("XREADGROUP GROUP a one STREAMS s >");
    f.run("XREADGROUP GROUP b two COUNT 3 STREAMS s >");
    f.events();
    f
}

fn ids(f: &mut Fixture) -> String {
    let text = f.run("XRANGE s - +");
    let ids = text.split(' ').filter(|word| word.contains('-'));
    ids.collect::<Vec<_>>().join(" ")
}

fn pending(f: &mut Fixture, group: &str) -> String {
    let text = f.run(&format!("XPENDING s {group} - + 9"));
    let ids = text.split(' ').filter(|word| word.contains('-'));
    ids.collect::<Vec<_>>().join(" ")
}

#[test]
fn xdelex_follows_the_references() {
    let mut f = filled();
    assert_eq!(f.run("XDELEX s IDS 2 1-0 9-0"), "*2 :1 :-1");
    assert_eq!(f.events(), "xdel s");
    assert_eq!(pending(&mut f, "a"), "1-0 2-0 3-0 4-0 5-0");
    // DELREF also removes references to an entry that no longer exists.
    assert_eq!(f.run("XDELEX s DELREF IDS 2 1-0 2-0"), "*2 :-1 :1");
    assert_eq!(pending(&mut f, "a"), "3-0 4-0 5-0");
    assert_eq!(pending(&mut f, "b"), "3-0");
    // b has not read 4-0 yet.
    f.run("XACK s a 3-0 4-0");
    f.run("XACK s b 3-0");
    assert_eq!(f.run("XDELEX s ACKED IDS 3 3-0 4-0 5-0"), "*3 :1 :2 :2");
    assert_eq!(ids(&mut f), "4-0 5-0");
    assert_eq!(f.run("XDELEX nothing IDS 1 1-0"), "*1 :-1");
    f.run("XADD alone 1-0 f v");
    assert_eq!(f.run("XDELEX alone ACKED IDS 2 1-0 1-0"), "*2 :1 :-1");
    // As in Redis 8.2, an ID that a group has yet to read is kept, whether the entry exists or not.
    f.run("XGROUP CREATE alone a 1-0");
    let reply = f.run("XDELEX alone ACKED IDS 2 1-0 2-0");
    assert_eq!(reply, "*2 :-1 :2");
}

#[test]
fn xackdel_acknowledges_and_deletes() {
    let mut f = filled();
    assert_eq!(f.run("XACKDEL s b ACKED IDS 2 1-0 4-0"), "*2 :2 :-1");
    assert_eq!(f.run("XACKDEL s a ACKED IDS 1 1-0"), "*1 :1");
    assert_eq!(f.events(), "xdel s");
    assert_eq!(f.run("XACKDEL s a KEEPREF IDS 1 2-0"), "*1 :1");
    assert_eq!(pending(&mut f, "b"), "2-0 3-0");
    assert_eq!(
        f.run("XACKDEL s b IDS 1 2-0"),
        "*1 :1",
        "the entry was deleted before"
    );
    assert_eq!(f.run("XACKDEL s a DELREF IDS 1 3-0"), "*1 :1");
    assert_eq!(pending(&mut f, "b"), "");
    assert_eq!(pending(&mut f, "a"), "4-0 5-0");
    assert_eq!(f.run("XACKDEL s nobody IDS 1 4-0"), "*1 :-1");
    assert_eq!(f.run("XACKDEL nothing a IDS 1 4-0"), "*1 :-1");
}

#[test]
fn bad_arguments_are_refused() {
    let mut f = filled();
    for command in ["XDELEX s", "XACKDEL s a"] {
        for (words, error) in [
            ("IDS 0 1-0", "-ERR Number of IDs must be a positive integer"),
            (
                "IDS abc 1-0",
                "-ERR Number of IDs must be a positive integer",
            ),
            (
                "IDS 3 1-0 2-0",
                "-ERR The `numids` parameter must match the number of arguments",
            ),
            ("IDS 1 1-0 2-0", "-ERR syntax error"),
            ("KEEPREF ACKED IDS 1 1-0", "-ERR syntax error"),
            ("KEEPREF DELREF x 1-0", "-ERR syntax error"),
            (
                "IDS 1 x",
                "-ERR Invalid stream ID specified as stream command argument",
            ),
        ] {
            assert_eq!(
                f.run(&format!("{command} {words}")),
                error,
                "{command} {words}"
            );
        }
    }
    assert_eq!(f.run("XTRIM s MAXLEN 1 ACKED DELREF"), "-ERR syntax error");
    assert_eq!(
        f.run("XNACK s a SOON IDS 1 1-0"),
        "-ERR mode must be SILENT, FAIL, or FATAL"
    );
    assert_eq!(
        f.run("XNACK s a FAIL IDS 0 1-0"),
        "-ERR numids must be a positive integer"
    );
    assert_eq!(
        f.run("XNACK s a FAIL IDS 2 1-0"),
        "-ERR number of IDs doesn't match numids"
    );
    assert_eq!(f.run("XNACK s a FAIL IDS 1 1-0 NOW"), "-ERR syntax error");
}

#[test]
fn trims_follow_the_references() {
    let mut f = filled();
    assert_eq!(f.run("XTRIM s MAXLEN 1 ACKED"), ":0");
    f.run("XACK s a 1-0 3-0 4-0");
    f.run("XACK s b 1-0 3-0");
    // 2-0 is pending, and b has not read 4-0.
    assert_eq!(f.run("XADD s MAXLEN = 1 ACKED 6-0 f v"), "$3 6-0");
    assert_eq!(f.events(), "xadd s, xtrim s");
    assert_eq!(ids(&mut f), "2-0 4-0 5-0 6-0");
    assert_eq!(f.run("XTRIM s MINID 5 DELREF"), ":2");
    assert_eq!(pending(&mut f, "a"), "5-0");
    assert_eq!(pending(&mut f, "b"), "");
    assert_eq!(f.run("XTRIM s MAXLEN ~ 0 DELREF LIMIT 0"), ":2");
    assert_eq!(pending(&mut f, "a"), "");
    // Without groups, the options make no difference.
    f.run("XADD t 1-0 f v");
    f.run("XADD t MAXLEN 1 ACKED 2-0 f v");
    assert_eq!(f.run("XLEN t"), ":1");
}

#[test]
fn xnack_releases_entries() {
    let mut f = filled();
    assert_eq!(f.run("XNACK s b FAIL IDS 3 1-0 2-0 4-0"), ":2");
    assert_eq!(
        f.run("XPENDING s b - + 9"),
        "*3 *4 $3 1-0 $0  :-1 :1 *4 $3 2-0 $0  :-1 :1 *4 $3 3-0 $3 two :0 :1"
    );
    assert_eq!(f.run("XNACK s b SILENT IDS 1 1-0"), ":1");
    assert_eq!(f.run("XNACK s b FATAL IDS 1 3-0"), ":1");
    assert_eq!(f.run("XNACK s b FAIL IDS 1 2-0 RETRYCOUNT 7"), ":1");
    assert_eq!(f.run("XNACK s b FAIL IDS 2 5-0 9-0 FORCE"), ":1");
    assert_eq!(
        f.run("XPENDING s b - + 9"),
        "*4 *4 $3 1-0 $0  :-1 :0 *4 $3 2-0 $0  :-1 :7 *4 $3 3-0 $0  :-1 :4294967295 *4 $3 5-0 $0  :-1 :0"
    );
    // Any consumer may claim released entries, with any idle time.
    assert_eq!(
        f.run("XAUTOCLAIM s b three 100000 - COUNT 1 JUSTID"),
        "*3 $3 2-0 *1 $3 1-0 *0"
    );
    assert_eq!(
        f.run("XREADGROUP GROUP b four CLAIM 100000 COUNT 1 STREAMS s >"),
        "*1 *2 $1 s *1 *4 $3 2-0 *2 $1 f $1 2 :1000000 :7"
    );
    assert_eq!(f.run("XNACK s nobody FAIL IDS 1 1-0"), ":0");
    assert_eq!(f.run("XNACK nothing b FAIL IDS 1 1-0"), ":0");
}
