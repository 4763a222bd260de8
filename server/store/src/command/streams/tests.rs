use punctual_resp::{OwnedArgs, Protocol};

use crate::command::testing::Fixture;

#[test]
fn ids_are_generated_from_the_clock_and_never_fall_back() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.run("XADD s * f v"), "$9 1000000-0");
    assert_eq!(fixture.run("XADD s * f v"), "$9 1000000-1");
    assert_eq!(fixture.run("XADD s 2000000-7 f v"), "$9 2000000-7");
    assert_eq!(fixture.run("XADD s * f v"), "$9 2000000-8");
    assert_eq!(fixture.run("XADD s 2000000-* f v"), "$9 2000000-9");
    assert_eq!(
        fixture.run("XADD s 1999999-* f v"),
        "-ERR The ID specified in XADD is equal or smaller than the target stream top item"
    );
    assert_eq!(fixture.run("XLEN s"), ":5");
    assert_eq!(
        fixture.events(),
        "new s, xadd s, xadd s, xadd s, xadd s, xadd s"
    );
}

#[test]
fn a_plus_reads_the_last_entry() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.run("XREAD STREAMS s +"), "*-1");
    for n in 1..=3 {
        fixture.run(&format!("XADD s {n}-0 f {n}"));
    }
    let last = |id: &str, value| format!("*1 *2 $1 s *1 *2 $3 {id} *2 $1 f $1 {value}");
    assert_eq!(fixture.run("XREAD COUNT 5 STREAMS s +"), last("3-0", 3));
    fixture.run("XDEL s 3-0");
    assert_eq!(fixture.run("XREAD STREAMS s +"), last("2-0", 2));
    fixture.run("XTRIM s MAXLEN 0");
    assert_eq!(fixture.run("XREAD STREAMS s +"), "*-1");
    fixture.run("XGROUP CREATE s g 0");
    let refused = fixture.run("XREADGROUP GROUP g a STREAMS s +");
    assert!(
        refused.starts_with("-ERR The + ID is meaningless"),
        "{refused}"
    );
}

#[test]
fn a_group_delivers_each_entry_once() {
    let mut fixture = Fixture::new();
    for n in 1..=3 {
        fixture.run(&format!("XADD s {n}-0 f {n}"));
    }
    assert_eq!(fixture.run("XGROUP CREATE s g 0"), "+OK");
    assert_eq!(
        fixture.run("XREADGROUP GROUP g a COUNT 2 STREAMS s >"),
        "*1 *2 $1 s *2 *2 $3 1-0 *2 $1 f $1 1 *2 $3 2-0 *2 $1 f $1 2"
    );
    assert_eq!(
        fixture.run("XREADGROUP GROUP g b STREAMS s >"),
        "*1 *2 $1 s *1 *2 $3 3-0 *2 $1 f $1 3"
    );
    assert_eq!(fixture.run("XREADGROUP GROUP g b STREAMS s >"), "*-1");
    assert_eq!(
        fixture.run("XPENDING s g"),
        "*4 :3 $3 1-0 $3 3-0 *2 *2 $1 a $1 2 *2 $1 b $1 1"
    );
    assert_eq!(fixture.run("XACK s g 1-0 1-0 9-9"), ":1");
    fixture.advance(500);
    assert_eq!(
        fixture.run("XAUTOCLAIM s g b 500 - COUNT 1"),
        "*3 $3 3-0 *1 *2 $3 2-0 *2 $1 f $1 2 *0"
    );
    assert_eq!(
        fixture.run("XPENDING s g - + 9"),
        "*2 *4 $3 2-0 $1 b :0 :2 *4 $3 3-0 $1 b :500 :1"
    );
    assert_eq!(
        fixture.run("XINFO GROUPS s"),
        "*1 *12 $4 name $1 g $9 consumers :2 $7 pending :2 $17 last-delivered-id $3 3-0 $12 entries-read :3 $3 lag :0"
    );
}

#[test]
fn streams_with_groups_survive_snapshots_and_dumps() {
    let mut fixture = Fixture::sharded(2);
    for n in 1..=300 {
        fixture.run(&format!("XADD s {n}-1 name {n} other value{n}"));
    }
    for line in [
        "XDEL s 7-1 250-1",
        "XGROUP CREATE s g 0 ENTRIESREAD 0",
        "XGROUP CREATE s empty 5-5",
        "XGROUP CREATECONSUMER s g idle",
        "XREADGROUP GROUP g a COUNT 200 STREAMS s >",
        "XREADGROUP GROUP g b COUNT 20 STREAMS s >",
        "XTRIM s MAXLEN 150",
        "XGROUP CREATE none g $ MKSTREAM",
    ] {
        let reply = fixture.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    let ask = |fixture: &mut Fixture| -> Vec<String> {
        [
            "XINFO STREAM s FULL COUNT 0",
            "XINFO STREAM none FULL",
            "XRANGE s - +",
        ]
        // Snapshots have streams in the form of Redis 7.0, which lacks `active-time`. A load sets
        // it to `seen-time`.
        .map(|line| {
            fixture
                .run(line)
                .replace("active-time :-1", "active-time :1000000")
        })
        .into()
    };
    let before = ask(&mut fixture);
    fixture.reload();
    assert_eq!(ask(&mut fixture), before);
    fixture.run("COPY s copy");
    fixture.run("RENAME copy s");
    assert_eq!(ask(&mut fixture), before);
}

/// MAXSIZE (Redis 8.10) limits the bytes of the reply. A larger first entry is returned.
#[test]
fn max_size_limits_the_bytes_of_the_reply() {
    fn raw(f: &mut Fixture, line: &str) -> Vec<u8> {
        let args: OwnedArgs = line.split(' ').collect();
        f.reply(args.as_args())
    }
    for (resp3, shards) in [(false, 1), (true, 8)] {
        let mut f = Fixture::sharded(shards);
        if resp3 {
            f.protocol = Protocol::Resp3;
        }
        for key in ["s1", "s2"] {
            f.run(&format!("XGROUP CREATE {key} g 0 MKSTREAM"));
            for n in 1..=4 {
                f.run(&format!("XADD {key} {n}-0 field value"));
            }
        }
        let whole = f.run("XREAD STREAMS s1 s2 0 0");
        let ids = |reply: &str| reply.split(' ').filter(|word| word.ends_with("-0")).count();
        assert_eq!(ids(&whole), 8);
        let mut lengths = Vec::new();
        for size in 1..600 {
            f.run("XGROUP DESTROY s1 g");
            f.run("XGROUP CREATE s1 g 0");
            f.run("XGROUP SETID s2 g 0");
            let read = raw(&mut f, &format!("XREAD MAXSIZE {size} STREAMS s1 s2 0 0"));
            let group = format!("XREADGROUP GROUP g c MAXSIZE {size} STREAMS s1 s2 > >");
            let delivered = raw(&mut f, &group);
            assert_eq!(read, delivered, "{size}");
            let count = ids(&String::from_utf8_lossy(&read).replace("\r\n", " "));
            assert!(read.len() <= size || count == 1, "{size}: {}", read.len());
            // Only what is in the reply is delivered, and the history has the same limit.
            let pending = f.run("XPENDING s1 g - + 9").matches("-0").count();
            assert_eq!(pending, count.min(4), "{size}");
            let history = f.run(&format!("XREADGROUP GROUP g c MAXSIZE {size} STREAMS s1 0"));
            assert_eq!(ids(&history), pending.min(4), "{size}");
            lengths.push(count);
        }
        assert!(lengths.is_sorted());
        lengths.dedup();
        assert_eq!(lengths, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(
            ids(&f.run("XREAD MAXSIZE 9999 MAXCOUNT 3 STREAMS s1 s2 0 0")),
            3
        );
        f.run("XADD big 1-0 field 0123456789012345678901234567890123456789");
        assert_eq!(
            f.run("XREAD MAXSIZE 1 STREAMS s1 big 0 0"),
            f.run("XREAD COUNT 1 STREAMS s1 0")
        );
        let big = f.run("XREAD MAXSIZE 1 STREAMS big 0");
        assert!(big.contains("0123456789"));
    }
}

/// MAXCOUNT (Redis 8.10) limits all streams together, in their order, and COUNT limits each stream.
#[test]
fn max_count_limits_all_streams_together() {
    /// Returns the streams of a reply with the IDs of their entries.
    fn read(f: &mut Fixture, line: &str) -> String {
        let reply = f.run(line);
        let shown = |word: &&str| word.starts_with('s') || word.contains('-');
        reply.split(' ').filter(shown).collect::<Vec<_>>().join(" ")
    }
    // With several shards, this also tests that the command finds and locks all of its keys.
    let mut f = Fixture::sharded(8);
    for key in ["s1", "s2", "s3"] {
        f.run(&format!("XGROUP CREATE {key} g 0 MKSTREAM"));
        for n in 1..=4 {
            f.run(&format!("XADD {key} {n}-0 f v"));
        }
    }
    for (options, all) in [
        ("COUNT 2 MAXCOUNT 3", "s1 1-0 2-0 s2 1-0"),
        ("MAXCOUNT 2 COUNT 1", "s1 1-0 s2 1-0"),
        ("MAXCOUNT 5", "s1 1-0 2-0 3-0 4-0 s2 1-0"),
        ("COUNT 0 MAXCOUNT 4", "s1 1-0 2-0 3-0 4-0"),
        ("COUNT 1 MAXCOUNT 100 BLOCK 0", "s1 1-0 s2 1-0 s3 1-0"),
    ] {
        assert_eq!(
            read(&mut f, &format!("XREAD {options} STREAMS s1 s2 s3 0 0 0")),
            all
        );
        f.run("XGROUP SETID s1 g 0");
        f.run("XGROUP SETID s2 g 0");
        f.run("XGROUP SETID s3 g 0");
        let group = format!("XREADGROUP GROUP g c {options} NOACK STREAMS s1 s2 s3 > > >");
        assert_eq!(read(&mut f, &group), all, "of a group");
    }
    assert_eq!(
        read(&mut f, "XREAD MAXCOUNT 2 STREAMS s1 s2 s3 4-0 3-0 0"),
        "s2 4-0 s3 1-0"
    );
    // Entries over MAXCOUNT are not delivered, and a consumer's pending entries count towards it.
    f.run("XGROUP SETID s1 g 0");
    f.run("XGROUP SETID s2 g 0");
    f.run("XREADGROUP GROUP g c MAXCOUNT 5 STREAMS s1 s2 > >");
    assert!(f.run("XPENDING s2 g").starts_with("*4 :1 "));
    let history = read(&mut f, "XREADGROUP GROUP g c MAXCOUNT 3 STREAMS s1 s2 0 0");
    assert_eq!(history, "s1 1-0 2-0 3-0");
    for read in ["XREAD", "XREADGROUP GROUP g c"] {
        for (options, error) in [
            ("MAXCOUNT 0", "MAXCOUNT must be a positive integer"),
            ("MAXCOUNT -1", "MAXCOUNT must be a positive integer"),
            (
                "COUNT 2 MAXCOUNT 1",
                "MAXCOUNT must be greater than or equal to COUNT",
            ),
            ("MAXSIZE 0", "MAXSIZE must be a positive integer"),
            ("MAXSIZE x", "value is not an integer or out of range"),
        ] {
            let line = format!("{read} {options} STREAMS s1 0");
            assert_eq!(f.run(&line), format!("-ERR {error}"), "{line}");
        }
    }
}
