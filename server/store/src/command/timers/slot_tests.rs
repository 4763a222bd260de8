//! What waits in cluster mode while its slot moves: timers, dead jobs, and entries for dead-letter
//! streams.

use punctual_cluster::slot;

use super::tests::{jump, set};
use crate::command::testing::Fixture;

/// Makes the slot of `{a}` move, or makes it stable.
fn set_moving(f: &mut Fixture, leaves: bool, arrives: bool) {
    let slots = |moves: bool| moves.then(|| slot::of_key(b"a")).into_iter();
    f.store.set_moving_slots(slots(leaves), slots(arrives));
    f.with_turn(|turn| {
        (0..turn.store.shards()).for_each(|shard| turn.resume_timers(shard));
    });
}

fn waiting(f: &mut Fixture) -> usize {
    let now = f.now;
    f.with_turn(|turn| {
        turn.lock_all();
        let dbs = turn.held_dbs(0);
        dbs.map(|(_, db)| db.held_timers(now).len()).sum()
    })
}

#[test]
fn timers_wait_and_fire_in_the_order_of_their_deadlines() {
    for leaves in [true, false] {
        let mut f = Fixture::clustered(2);
        set_moving(&mut f, leaves, !leaves);
        set(&mut f, "{a}1 IN 30 DO third");
        set(&mut f, "{a}2 IN 10 DO first");
        set(&mut f, "{a}3 EVERY 20 DO second");
        set(&mut f, "b IN 15 DO other");
        let fired = jump(&mut f, 1_000_100);
        assert_eq!(fired, [(1_000_015, "other".to_owned())]);
        assert_eq!(waiting(&mut f), 3);
        assert_eq!(f.run("PEXPIRETIME {a}2"), ":1000010", "the deadline stays");
        set_moving(&mut f, leaves, !leaves);
        assert_eq!(waiting(&mut f), 3);
        set_moving(&mut f, false, false);
        assert_eq!(waiting(&mut f), 0);
        let fired = jump(&mut f, 1_000_105);
        let words: Vec<&str> = fired.iter().map(|(_, word)| word.as_str()).collect();
        assert_eq!(words, ["first", "second", "third"]);
    }
}

#[test]
fn a_waiting_timer_can_be_changed() {
    let mut f = Fixture::clustered(2);
    set_moving(&mut f, true, false);
    for n in 1..=6 {
        set(&mut f, &format!("{{a}}{n} IN 10 DO {n}"));
    }
    assert!(jump(&mut f, 1_000_010).is_empty());
    assert_eq!(f.run("DEL {a}1"), ":1");
    assert_eq!(f.run("TIMER PAUSE {a}2"), ":1");
    set(&mut f, "{a}3 AT 1000050 DO later");
    set(&mut f, "{a}4 AT 1000005 DO earlier");
    assert_eq!(f.run("SET {a}5 text KEEPTTL"), "+OK");
    assert_eq!(f.run("RENAME {a}6 {a}7"), "+OK");
    f.expire();
    assert_eq!(f.run("EXISTS {a}5"), ":0", "the string expires");
    assert_eq!(waiting(&mut f), 2);
    set_moving(&mut f, false, false);
    let words: Vec<String> = jump(&mut f, 1_000_060)
        .into_iter()
        .map(|(_, word)| word)
        .collect();
    assert_eq!(words, ["earlier", "6", "later"]);
    assert_eq!(f.run("DBSIZE"), ":1");
    f.run("FLUSHALL");
    assert_eq!(f.run("INCR {a}8"), ":1");
}

/// A dead job's other queue, and a stream's dead-letter stream, may be at the other node.
#[test]
fn dead_jobs_and_dead_letters_wait() {
    let mut f = Fixture::clustered(2);
    f.run("JOB ADD {a}q job ID j RETRY 0 LEASE 10 DEAD {a}grave");
    f.run("JOB TAKE {a}q");
    f.run("XADD {a}s 1-0 f v");
    f.run("XGROUP CREATE {a}s g 0");
    f.run("XGROUP SETLEASE {a}s g 10 MAXDELIVERIES 1 DEADLETTER {a}dead");
    f.run("XREADGROUP GROUP g c STREAMS {a}s >");
    for (leaves, arrives) in [(true, false), (false, true)] {
        set_moving(&mut f, leaves, arrives);
        for _ in 0..3 {
            f.advance(700);
            f.expire();
        }
        assert_eq!(f.run("EXISTS {a}grave {a}dead"), ":0");
        assert!(f.run("JOB GET {a}q j").contains("dead"));
        assert!(f.run("XPENDING {a}s g").starts_with("*4 :1"));
        // A new lease ends at once.
        assert_eq!(f.run("XREADGROUP GROUP g d STREAMS {a}s >"), "*-1");
    }
    set_moving(&mut f, false, false);
    f.advance(1000);
    f.expire();
    assert_eq!(f.run("EXISTS {a}grave {a}dead"), ":2");
    assert_eq!(f.run("XLEN {a}dead"), ":1");
    assert!(f.run("JOB GET {a}grave j").contains("ready"));
}
