//! Comparison with a transcript of redis-server, and with a model that works bit by bit.

use proptest::prelude::*;

use crate::command::testing::Fixture;

const TRANSCRIPT: &str = include_str!("transcript.txt");

#[test]
fn replies_and_events_match_redis() {
    for shards in [1, 16] {
        Fixture::sharded(shards).replay(TRANSCRIPT);
    }
}

#[test]
fn arguments_are_checked_before_the_key() {
    // Redis replies this since 7.2, and the transcript is from 7.0.
    let mut fixture = Fixture::new();
    assert_eq!(fixture.run("BITCOUNT nokey 0 1 x"), "-ERR syntax error");
    assert_eq!(fixture.run("BITCOUNT nokey 0"), "-ERR syntax error");
    let not_int = "-ERR value is not an integer or out of range";
    assert_eq!(fixture.run("BITCOUNT nokey 0 x"), not_int);
    assert_eq!(fixture.run("BITPOS nokey 0 x"), not_int);
    assert_eq!(fixture.run("BITPOS nokey 0 1 2 x"), "-ERR syntax error");
    assert_eq!(fixture.events(), "");
}

#[test]
fn offsets_beyond_the_longest_string_are_refused() {
    let mut fixture = Fixture::new();
    fixture.store.set_string_max(1000);
    assert_eq!(fixture.run("SETBIT k 7999 1"), ":0");
    let refused = "-ERR bit offset is not an integer or out of range";
    assert_eq!(fixture.run("SETBIT k 8000 1"), refused);
    assert_eq!(fixture.run("GETBIT k 8000"), refused);
    assert_eq!(fixture.run("BITFIELD k GET u8 #1000"), refused);
    // As in Redis, a field may begin in the last byte and end after it.
    assert_eq!(
        fixture.run("BITFIELD k SET u63 7999 1"),
        "*1 :4611686018427387904"
    );
    assert_eq!(fixture.run("STRLEN k"), ":1008");
    let overflowing = format!("BITFIELD k GET u8 #{}", i64::MAX);
    assert_eq!(fixture.run(&overflowing), refused);
}

#[test]
fn changes_are_counted() {
    let mut fixture = Fixture::new();
    for (line, dirty) in [
        ("SETBIT k 3 0", 1),
        ("SETBIT k 3 0", 0),
        ("SETBIT k 3 1", 1),
        ("BITFIELD k SET u4 0 1 SET u4 4 0 INCRBY u4 4 0", 0),
        ("BITFIELD k SET u4 0 1 SET u4 4 1 INCRBY u4 4 1", 2),
        (
            "BITFIELD k SET u4 100 0 SET u4 4 2 OVERFLOW FAIL SET u4 0 99 GET u8 0",
            2,
        ),
        ("BITOP NOT k k", 1),
        ("BITOP NOT k nokey", 1),
        ("BITOP NOT k nokey", 0),
    ] {
        fixture.stats.dirty = 0;
        fixture.run(line);
        assert_eq!(fixture.stats.dirty, dirty, "{line}");
    }
}

#[test]
fn overflow_with_fail_is_null() {
    let mut fixture = Fixture::resp3();
    assert_eq!(
        fixture.run("BITFIELD k OVERFLOW FAIL INCRBY u1 0 2 GET u1 0"),
        "*2 _ :0"
    );
}

/// Returns the bits of a string.
fn bits(bytes: &[u8]) -> Vec<bool> {
    let of_byte = |byte: &u8| (0..8).map(|i| byte >> (7 - i) & 1 == 1).collect::<Vec<_>>();
    bytes.iter().flat_map(of_byte).collect()
}

/// Strings with long runs of equal bits.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let run = (prop_oneof![Just(0), Just(0xff), any::<u8>()], 1..150_usize);
    proptest::collection::vec(run, 0..4).prop_map(|runs| {
        runs.into_iter()
            .flat_map(|(byte, len)| vec![byte; len])
            .collect()
    })
}

/// The result of a BITOP for the bytes at one position of all strings.
type Operation<'f> = &'f dyn Fn(&[u8]) -> u8;

proptest! {
    #[test]
    fn bitcount_and_bitpos_match_the_model_in_any_range(
        bytes in bytes(),
        start in -5000..5000_i64,
        end in -5000..5000_i64,
        one in any::<bool>(),
        by_bits in any::<bool>(),
    ) {
        let mut fixture = Fixture::new();
        fixture.run_words(&[&b"SET"[..], b"k", &bytes]);
        let all = bits(&bytes);
        let (unit, width) = if by_bits { ("BIT", 1) } else { ("BYTE", 8) };
        let total = all.len() as i64 / width;
        let front = |at: i64| if at < 0 { (at + total).max(0) } else { at.min(total) };
        let stop = if end < 0 { front(end) + 1 } else { front(end + 1) };
        let (from, to) = (front(start) * width, stop.min(total) * width);
        let part = all.get(from as usize..to as usize).unwrap_or_default();

        let wanted = if start < 0 && end < 0 && start > end {
            0
        } else {
            part.iter().filter(|bit| **bit).count()
        };
        let counted = fixture.run(&format!("BITCOUNT k {start} {end} {unit}"));
        prop_assert_eq!(counted, format!(":{wanted}"));

        let place = part.iter().position(|bit| *bit == one);
        let wanted = place.map_or(-1, |at| at as i64 + from);
        let one = u8::from(one);
        let found = fixture.run(&format!("BITPOS k {one} {start} {end} {unit}"));
        prop_assert_eq!(found, format!(":{wanted}"));
    }

    #[test]
    fn bitop_matches_the_model(strings in proptest::collection::vec(bytes(), 1..5)) {
        let mut fixture = Fixture::new();
        for (i, bytes) in strings.iter().enumerate() {
            fixture.run_words(&[&b"SET"[..], i.to_string().as_bytes(), bytes]);
        }
        let keys: Vec<String> = (0..strings.len()).map(|i| i.to_string()).collect();
        let len = strings.iter().map(Vec::len).max().unwrap();
        let any = |bytes: &[u8]| bytes.iter().fold(0, |a, b| a | b);
        let of_one = |bytes: &[u8]| {
            let bits = (0..8).map(|bit| 1 << bit);
            bits.filter(|bit| bytes.iter().filter(|byte| *byte & bit != 0).count() == 1).sum::<u8>()
        };
        let operations: [(&str, Operation<'_>); 7] = [
            ("AND", &|bytes| bytes.iter().fold(255, |a, b| a & b)),
            ("OR", &any),
            ("XOR", &|bytes| bytes.iter().fold(0, |a, b| a ^ b)),
            ("ONE", &of_one),
            ("DIFF", &|bytes| bytes[0] & !any(&bytes[1..])),
            ("DIFF1", &|bytes| any(&bytes[1..]) & !bytes[0]),
            ("ANDOR", &|bytes| bytes[0] & any(&bytes[1..])),
        ];
        let possible = if strings.len() > 1 { 7 } else { 4 };
        for (name, operation) in &operations[..possible] {
            let byte_at = |at: usize| {
                let bytes = strings.iter().map(|s| s.get(at).copied().unwrap_or(0));
                operation(&bytes.collect::<Vec<_>>())
            };
            let wanted: Vec<u8> = (0..len).map(byte_at).collect();
            let reply = fixture.run(&format!("BITOP {name} to {}", keys.join(" ")));
            prop_assert_eq!(reply, format!(":{len}"));
            let got = fixture.run_words(&[&b"GET"[..], b"to"]);
            if len > 0 {
                prop_assert_eq!(got, format!("${len} {}", String::from_utf8_lossy(&wanted).replace("\r\n", " ")));
            } else {
                prop_assert_eq!(got, "$-1");
            }
        }
    }
}
