//! Comparison with a transcript of redis-server, and of LIMIT with a sorted array.

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
fn changes_are_counted() {
    let mut fixture = Fixture::new();
    fixture.run("RPUSH k 3 1 2");
    for (line, dirty) in [
        ("SORT k STORE to", 3),
        ("SORT k GET # GET # STORE to", 6),
        ("SORT k LIMIT 0 0 STORE to", 1),
        ("SORT k LIMIT 0 0 STORE to", 0),
        ("SORT k", 0),
    ] {
        fixture.stats.dirty = 0;
        fixture.run(line);
        assert_eq!(fixture.stats.dirty, dirty, "{line}");
    }
}

#[test]
fn a_short_result_has_the_encoding_listpack() {
    // Redis has this encoding since 7.2, and the transcript is from 7.0.
    let mut fixture = Fixture::new();
    fixture.run("RPUSH k 2 1");
    assert_eq!(fixture.run("SORT k STORE to"), ":2");
    assert_eq!(fixture.run("OBJECT ENCODING to"), "$8 listpack");
}

#[test]
fn due_weights_are_missing() {
    let mut fixture = Fixture::sharded(4);
    fixture.run("RPUSH k 1 2");
    fixture.run("SET w_1 9 PX 100");
    fixture.run("SET w_2 5");
    assert_eq!(fixture.run("SORT k BY w_* GET w_*"), "*2 $1 5 $1 9");
    fixture.advance(100);
    fixture.events();
    assert_eq!(fixture.run("SORT k BY w_* GET w_*"), "*2 $-1 $1 5");
    assert_eq!(fixture.events(), "expired w_1, keymiss w_1, keymiss w_1");
}

proptest! {
    #[test]
    fn limit_selects_a_range_of_the_sorted_elements(
        numbers in proptest::collection::vec(-50..50_i64, 1..200),
        start in 0..220_usize,
        count in 0..220_usize,
        descending in any::<bool>(),
        alpha in any::<bool>(),
    ) {
        let mut fixture = Fixture::new();
        let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
        fixture.run(&format!("RPUSH k {}", texts.join(" ")));
        let mut sorted = numbers;
        if alpha {
            sorted.sort_by_key(i64::to_string);
        } else {
            sorted.sort_unstable();
        }
        if descending {
            sorted.reverse();
        }
        let wanted: Vec<String> = sorted
            .iter()
            .skip(start)
            .take(count)
            .map(|number| format!(" ${} {number}", number.to_string().len()))
            .collect();
        let order = if descending { "DESC" } else { "ASC" };
        let alpha = if alpha { "ALPHA" } else { "" };
        let line = format!("SORT k {order} {alpha} LIMIT {start} {count}");
        prop_assert_eq!(fixture.run(&line), format!("*{}{}", wanted.len(), wanted.concat()));
    }
}
