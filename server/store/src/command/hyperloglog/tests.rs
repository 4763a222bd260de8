//! Comparison with a transcript of redis-server, and corrupt strings.
//! `tests/hyperloglog_of_redis.rs` compares the bytes with a running redis-server.

use proptest::prelude::*;

use super::sketch::Union;
use super::{REGISTERS, dense, sketch, sparse};
use crate::command::testing::Fixture;

const TRANSCRIPT: &str = include_str!("transcript.txt");

#[test]
fn replies_and_events_match_redis() {
    for shards in [1, 16] {
        Fixture::sharded(shards).replay(TRANSCRIPT);
    }
}

#[test]
fn changes_are_counted() {
    let mut fixture = Fixture::new();
    for (line, dirty) in [
        ("PFADD k", 1),
        ("PFADD k", 0),
        ("PFADD k a b c", 3),
        ("PFADD k a d b", 1),
        ("PFCOUNT k", 1),
        ("PFCOUNT k", 0),
        ("PFCOUNT k k", 0),
        ("PFMERGE k", 1),
        ("PFDEBUG TODENSE k", 1),
        ("PFDEBUG GETREG k", 0),
    ] {
        fixture.stats.dirty = 0;
        fixture.run(line);
        assert_eq!(fixture.stats.dirty, dirty, "{line}");
    }
}

#[test]
fn the_self_test_passes() {
    let mut fixture = Fixture::new();
    for _ in 0..3 {
        assert_eq!(fixture.run("PFSELFTEST"), "+OK");
        fixture.advance(1);
    }
}

#[test]
fn corrupt_runs_are_refused() {
    let corrupt = "-INVALIDOBJ Corrupted HLL object detected";
    let runs: [&[u8]; 6] = [
        b"",
        b"\x7f",
        b"\x7f\xfe",
        b"\x7f\xff\x00",
        b"\x7f\xff\x80",
        b"\x7f\xfe\x83",
    ];
    for runs in runs {
        let string = [b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80", runs].concat();
        let mut fixture = Fixture::new();
        fixture.run_words(&[&b"SET"[..], b"k", &string]);
        for line in [
            "PFCOUNT k",
            "PFCOUNT k k",
            "PFMERGE k",
            "PFMERGE other k",
            "PFDEBUG GETREG k",
            "PFDEBUG TODENSE k",
        ] {
            assert_eq!(fixture.run(line), corrupt, "{runs:x?}: {line}");
        }
        let after = fixture.run("GET k");
        assert!(after.starts_with(&format!("${} HYLL\x01", string.len())));
        assert_eq!(fixture.run("EXISTS other"), ":0");
    }
}

proptest! {
    #[test]
    fn commands_on_any_string_do_not_panic(
        runs in proptest::collection::vec(any::<u8>(), 0..400),
        elements in proptest::collection::vec(any::<u16>(), 0..40),
    ) {
        let mut fixture = Fixture::new();
        let string = [b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80", &runs[..]].concat();
        fixture.run_words(&[&b"SET"[..], b"k", &string]);
        fixture.run("PFCOUNT k");
        for element in elements {
            fixture.run(&format!("PFADD k {element}"));
        }
        fixture.run("PFDEBUG DECODE k");
        fixture.run("PFMERGE other k");
        fixture.run("PFDEBUG TODENSE k");
        fixture.run("PFCOUNT k other");
    }

    #[test]
    fn raising_to_a_union_gives_the_same_runs_as_single_changes(
        before in proptest::collection::vec((0..500_usize, 1..4_u8), 0..300),
        mut raised in proptest::collection::vec((0..500_usize, 1..4_u8), 1..300),
    ) {
        let mut one_by_one = sketch::empty();
        for (index, value) in before {
            sketch::raise(&mut one_by_one, index, value, 3000).unwrap();
        }
        let mut at_once = one_by_one.clone();
        let mut other = sketch::empty();
        for (index, value) in &raised {
            sketch::raise(&mut other, *index, *value, 3000).unwrap();
        }
        let mut union = Union::new();
        union.add(&other).unwrap();
        union.raise(&mut at_once, 3000).unwrap();
        // The largest value of each register comes first, so its other values have no effect.
        raised.sort_by_key(|(index, value)| (*index, std::cmp::Reverse(*value)));
        for (index, value) in raised {
            sketch::raise(&mut one_by_one, index, value, 3000).unwrap();
        }
        prop_assert_eq!(at_once, one_by_one);
    }

    #[test]
    fn dense_and_sparse_registers_match_an_array(
        changes in proptest::collection::vec((0..REGISTERS, 1..40_u8), 1..600),
        spread in 1..200_usize,
    ) {
        let mut model = [0; REGISTERS];
        let (mut either, mut wide) = (sketch::empty(), sketch::empty());
        sketch::to_dense(&mut wide).unwrap();
        for (index, value) in changes {
            // Limits the indices, so that runs become adjacent.
            let index = index % (spread * 10);
            let changes = model[index] < value;
            model[index] = value.max(model[index]);
            prop_assert_eq!(sketch::raise(&mut either, index, value, 300).unwrap(), changes);
            prop_assert_eq!(sketch::raise(&mut wide, index, value, 300).unwrap(), changes);
            if sketch::form(&either).unwrap() == sketch::Form::Sparse {
                prop_assert!(either.len() <= 300);
                let mut all = [0; REGISTERS];
                sparse::raise_all(sketch::registers(&either), &mut all).unwrap();
                prop_assert_eq!(&all[..], &model[..]);
            }
        }
        let mut all = [0; REGISTERS];
        dense::raise_all(sketch::registers(&wide), &mut all);
        prop_assert_eq!(&all[..], &model[..]);
        prop_assert_eq!(sketch::estimate(&either).unwrap(), sketch::estimate(&wide).unwrap());
        sketch::to_dense(&mut either).unwrap();
        prop_assert_eq!(sketch::registers(&either), sketch::registers(&wide));
    }
}
