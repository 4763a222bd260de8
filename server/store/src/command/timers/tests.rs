//! Tests of timers in the keyspace, without a server. A simple model computes which timers fire,
//! and only the tests move the clock.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::SET;
use crate::command::testing::Fixture;
use crate::value::Value;
use crate::value::timer::{CatchUp, Past, Plan, Repeat, Timer, When};
use crate::{Now, Turn};

/// Sets a timer whose command has one word.
pub(super) fn set(fixture: &mut Fixture, words: &str) {
    assert_eq!(fixture.run_row(&SET, &format!("TIMER SET {words}")), "+OK");
}

/// Moves the clock, and returns the instants and the commands of the timers that have fired.
pub(super) fn jump(fixture: &mut Fixture, to: u64) -> Vec<(u64, String)> {
    let mut fired = Vec::new();
    fixture.with_turn(|turn: &mut Turn<'_>| {
        while !turn.advance(Now::from_ms(to)) {
            for due in turn.take_due_timers() {
                turn.pin(None);
                let firing = turn.begin_firing(&due).expect("nothing has changed");
                if firing.runs {
                    let word = String::from_utf8_lossy(due.words().as_args().at(0)).into_owned();
                    fired.push((turn.now.read_ms(), word));
                }
                turn.end_firing(firing, None);
                turn.unpin();
            }
        }
    });
    fixture.now = Now::from_ms(to);
    fired
}

/// A timer of the model.
#[derive(Clone, Debug)]
struct Modelled {
    deadline: Option<u64>,
    remaining: u64,
    /// Period, phase and the next instant of the schedule.
    every: Option<(u64, u64, u64)>,
    word: String,
}

impl Modelled {
    fn next(every: u64, phase: u64, after: u64) -> u64 {
        (after + 1..).find(|ms| ms % every == phase).unwrap()
    }
}

/// Fires the timers of the model whose deadlines are at most `to`.
fn model_jump(all: &mut BTreeMap<String, Modelled>, from: u64, to: u64) -> Vec<(u64, String)> {
    let mut fired = Vec::new();
    loop {
        let due = all
            .iter()
            .filter_map(|(key, timer)| Some((timer.deadline?, key.clone())));
        let Some((deadline, key)) = due.min().filter(|(at, _)| *at <= to) else {
            return fired;
        };
        let now = deadline.max(from);
        let timer = all.get_mut(&key).unwrap();
        fired.push((now, timer.word.clone()));
        match &mut timer.every {
            None => {
                all.remove(&key);
            }
            Some((every, phase, nominal)) => {
                *nominal = Modelled::next(*every, *phase, deadline.max(*nominal).max(now));
                timer.deadline = Some(*nominal);
            }
        }
    }
}

/// Checks that the instants ascend, and sorts the timers of each instant, whose order is
/// unspecified.
fn in_order(mut fired: Vec<(u64, String)>) -> Vec<(u64, String)> {
    assert!(fired.is_sorted_by_key(|(at, _)| *at), "{fired:?}");
    fired.sort();
    fired
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_commands_agree_with_a_model(steps in prop::collection::vec((0..13u8, 0..6u8, 0..6u8, 1..300u64), 1..80)) {
        let mut fixture = Fixture::sharded(4);
        let mut all: BTreeMap<String, Modelled> = BTreeMap::new();
        for (number, (kind, key, other, ms)) in steps.into_iter().enumerate() {
            let now = fixture.now.read_ms();
            let (key, other) = (format!("t{key}"), format!("t{other}"));
            let word = format!("w{number}");
            match kind {
                0 | 1 => {
                    set(&mut fixture, &format!("{key} IN {ms} DO {word}"));
                    all.insert(key, Modelled { deadline: Some(now + ms), remaining: 0, every: None, word });
                }
                2 => {
                    set(&mut fixture, &format!("{key} AT {} DO {word}", now - 5));
                    all.insert(key, Modelled { deadline: Some(now - 5), remaining: 0, every: None, word });
                }
                3 | 4 => {
                    set(&mut fixture, &format!("{key} EVERY {ms} DO {word}"));
                    let every = Some((ms, now % ms, now + ms));
                    all.insert(key, Modelled { deadline: Some(now + ms), remaining: 0, every, word });
                }
                5 => {
                    fixture.run(&format!("PEXPIRE {key} {ms}"));
                    if let Some(timer) = all.get_mut(&key) { timer.deadline = Some(now + ms); }
                }
                6 => {
                    fixture.run(&format!("PEXPIRE {key} -1"));
                    if let Some(timer) = all.get_mut(&key) { timer.deadline = Some(now); }
                }
                7 => {
                    let line = if ms % 2 == 0 { format!("PERSIST {key}") } else { format!("TIMER PAUSE {key}") };
                    fixture.run(&line);
                    if let Some(timer) = all.get_mut(&key) && let Some(at) = timer.deadline.take() {
                        timer.remaining = at.saturating_sub(now);
                    }
                }
                8 => {
                    fixture.run(&format!("TIMER RESUME {key}"));
                    if let Some(timer) = all.get_mut(&key) && timer.deadline.is_none() {
                        timer.deadline = Some(match &mut timer.every {
                            None => now + timer.remaining,
                            Some((every, phase, nominal)) => {
                                *nominal = Modelled::next(*every, *phase, now);
                                *nominal
                            }
                        });
                    }
                }
                9 => {
                    fixture.run(&format!("DEL {key}"));
                    all.remove(&key);
                }
                10 => {
                    fixture.run(&format!("RENAME {key} {other}"));
                    if let Some(timer) = all.remove(&key) { all.insert(other, timer); }
                }
                11 => {
                    fixture.run(&format!("COPY {key} {other} REPLACE"));
                    if let Some(timer) = all.get(&key).cloned() && key != other { all.insert(other, timer); }
                }
                _ => {
                    if ms % 3 == 0 { fixture.reload(); }
                    let fired = jump(&mut fixture, now + ms);
                    let expected = model_jump(&mut all, now, now + ms);
                    prop_assert_eq!(in_order(fired), in_order(expected));
                }
            }
            let known = fixture.run("TIMER LIST COUNT 1000");
            let known: Vec<&str> = known.split(' ').filter(|word| word.starts_with('t')).collect();
            prop_assert_eq!(known.len(), all.len());
            prop_assert!(known.iter().all(|key| all.contains_key(*key)));
            let (from, width, parts) = (fixture.now.read_ms() - 20 + ms % 50, ms % 211, 1 + ms % 7);
            let mut counts = vec![0; parts as usize];
            for at in all.values().filter_map(|timer| timer.deadline) {
                // The starts of the parts are rounded down.
                let part = (0..parts).find(|part| {
                    let edge = |part| from + width * part / parts;
                    (edge(*part)..edge(part + 1)).contains(&at)
                });
                part.into_iter().for_each(|part| counts[part as usize] += 1);
            }
            let shown: String = counts.iter().map(|count| format!(" :{count}")).collect();
            let line = format!("TIMER COUNT {from} {}", from + width);
            prop_assert_eq!(fixture.run(&format!("{line} BUCKETS {parts}")), format!("*{parts}{shown}"));
            prop_assert_eq!(fixture.run(&line), format!(":{}", counts.iter().sum::<u64>()));
            let armed = all.values().filter(|timer| timer.deadline.is_some()).count();
            prop_assert_eq!(fixture.run("TIMER COUNT - +"), format!(":{armed}"));
        }
        let now = fixture.now.read_ms();
        let fired = jump(&mut fixture, now + 1_000);
        prop_assert_eq!(in_order(fired), in_order(model_jump(&mut all, now, now + 1_000)));
    }
}

/// Commands see a due timer until it fires, but treat a due key as missing.
#[test]
fn a_due_timer_stays_visible() {
    let mut fixture = Fixture::new();
    set(&mut fixture, "t IN 10 DO w");
    fixture.run("SET k v PX 10");
    fixture.advance(20);
    fixture.run("GET k");
    assert_eq!(fixture.run("EXISTS t k"), ":1");
    assert_eq!(fixture.run("PTTL t"), ":0");
    assert_eq!(fixture.run("KEYS *"), "*1 $1 t");
    assert_eq!(fixture.run("SCAN 0"), "*2 $1 0 *1 $1 t");
    assert_eq!(fixture.run("RANDOMKEY"), "$1 t");
    fixture.frozen = true;
    assert_eq!(fixture.run("TYPE t"), "+timer");
    fixture.frozen = false;
    let now = fixture.now.read_ms();
    assert_eq!(jump(&mut fixture, now), [(now, "w".to_owned())]);
    assert_eq!(fixture.run("EXISTS t"), ":0");
}

/// Expiry returns a due timer repeatedly until it fires, and a timer that has changed since then
/// does not fire.
#[test]
fn a_due_timer_is_returned_until_it_fires() {
    let mut fixture = Fixture::sharded(2);
    set(&mut fixture, "t IN 10 DO w");
    fixture.advance(10);
    let due = |fixture: &mut Fixture| {
        fixture.with_turn(|turn| {
            for shard in 0..2 {
                assert!(turn.expire(shard, &mut 100) || turn.has_due_timers());
            }
            turn.take_due_timers()
        })
    };
    let first = due(&mut fixture);
    assert_eq!((first.len(), due(&mut fixture).len()), (1, 1));
    for line in ["PEXPIRE t 5", "RENAME t u", "PERSIST t", "DEL t"] {
        let due = due(&mut fixture);
        fixture.run(line);
        let fires = fixture.with_turn(|turn| {
            turn.pin(None);
            turn.begin_firing(&due[0]).is_some()
        });
        assert!(!fires, "{line}");
        fixture.run("RENAME u t");
        fixture.run("TIMER RESUME t");
        fixture.advance(5);
    }
}

#[test]
fn a_range_is_in_order_and_bounded() {
    let mut fixture = Fixture::sharded(8);
    for n in 0..100 {
        set(
            &mut fixture,
            &format!("t{n} AT {} DO w", 2_000_000 + n * 7 % 100),
        );
    }
    fixture.run("TIMER PAUSE t0");
    let keys = |reply: String| -> Vec<u64> {
        let times = reply
            .split(' ')
            .filter_map(|word| word.strip_prefix(':')?.parse().ok());
        times.collect()
    };
    let all = keys(fixture.run("TIMER RANGE - + COUNT 1000"));
    assert_eq!(all, (2_000_001..2_000_100).collect::<Vec<u64>>());
    assert_eq!(
        keys(fixture.run("TIMER RANGE 2000010 2000012")),
        [2_000_010, 2_000_011, 2_000_012]
    );
    assert_eq!(
        keys(fixture.run("TIMER RANGE 2000010 + COUNT 2")),
        [2_000_010, 2_000_011]
    );
    assert_eq!(fixture.run("TIMER RANGE 5 1"), "*0");
    assert_eq!(
        fixture.run("TIMER RANGE - + MATCH t1"),
        "*1 *2 $2 t1 :2000007"
    );
    assert!(
        fixture
            .run("TIMER LIST COUNT 1000")
            .ends_with("*2 $2 t0 $-1")
    );
    assert_eq!(
        fixture.run("TIMER LIST COUNT 100001"),
        "-ERR COUNT is at most 100000"
    );
}

#[test]
fn counts_refuse_bad_ranges() {
    let mut fixture = Fixture::new();
    set(&mut fixture, "t AT 5 DO w");
    for (line, reply) in [
        ("0 5", ":0"),
        ("5 6", ":1"),
        ("-9 +", ":1"),
        ("5 5 BUCKETS 2", "*2 :0 :0"),
        ("0 6 buckets 1", "*1 :1"),
        ("6 5", "-ERR the range ends before it begins"),
        ("x 5", "-ERR value is not an integer or out of range"),
        ("0 5 BUCKETS", "-ERR syntax error"),
        ("0 5 BUCKETS 0", "-ERR BUCKETS is from 1 to 1440"),
        ("0 5 BUCKETS 1441", "-ERR BUCKETS is from 1 to 1440"),
        ("- 5 BUCKETS 3", "-ERR BUCKETS needs a range with two times"),
        ("0 5 PARTS 3", "-ERR syntax error"),
    ] {
        assert_eq!(fixture.run(&format!("TIMER COUNT {line}")), reply, "{line}");
    }
}

#[test]
fn jitter_follows_from_the_seed() {
    let deadlines = |seed| {
        let mut fixture = Fixture::seeded(1, seed);
        let mut deadline = |n: u32| {
            set(&mut fixture, &format!("t:{n} IN 1000 JITTER 1000000 DO w"));
            fixture.run(&format!("PEXPIRETIME t:{n}"))
        };
        (0..10).map(&mut deadline).collect::<Vec<String>>()
    };
    assert_eq!(deadlines(7), deadlines(7));
    assert_ne!(deadlines(7), deadlines(8));
}

/// Deadlines are signed numbers, also in the log.
#[test]
fn the_latest_deadline_can_be_read_again() {
    let mut fixture = Fixture::new();
    fixture.set_logged(true);
    let latest_ms = i64::MAX;
    for (line, latest) in [
        (format!("t IN {latest_ms} DO w"), true),
        (format!("t AT {latest_ms} JITTER {latest_ms} DO w"), true),
        (format!("t EVERY 1000 JITTER {latest_ms} DO w"), false),
    ] {
        set(&mut fixture, &line);
        let log = String::from_utf8_lossy(&fixture.take_log()).into_owned();
        let words: Vec<&str> = log
            .lines()
            .filter(|line| !line.starts_with(['*', '$']))
            .collect();
        let at = words.iter().position(|word| *word == "AT").unwrap();
        let at: i64 = words[at + 1]
            .parse()
            .expect("a signed number, which the command accepts");
        assert!(!latest || at == latest_ms, "{line}: {words:?}");
        fixture.run("TIMER PAUSE t");
        assert_eq!(fixture.run("TIMER RESUME t"), ":1");
        assert!(fixture.run("PEXPIRETIME t").starts_with(':'));
        let log = fixture.take_log();
        assert!(!log.windows(4).any(|part| part == b"-ERR"));
    }
}

proptest! {
    /// For any numbers in the timer of a payload, RESTORE refuses the payload, or the timer works
    /// and its log can be replayed.
    #[test]
    fn a_payload_with_any_numbers_is_refused_or_works(
        picks in prop::collection::vec(prop::sample::select(
            &[0, 1, 7, 1_000_003, i64::MAX as u64, u64::MAX - 1, u64::MAX][..]
        ), 16),
    ) {
        let mut picks = picks.into_iter();
        let mut pick = || picks.next().unwrap_or(0);
        let plan = Plan {
            user: None,
            remaining_ms: pick(),
            past: Past { runs: pick(), failures: pick(), late_us: pick(), error: [].into() },
            repeat: Some(Repeat {
                when: When::Every { every_ms: pick(), anchor_ms: pick() },
                nominal_ms: pick(),
                start_ms: Some(pick()).filter(|n| n % 2 == 1),
                end_ms: Some(pick()).filter(|n| n % 2 == 1),
                limit: Some(pick()).filter(|n| n % 2 == 1),
                jitter_ms: pick(),
                catch_up: [CatchUp::Skip, CatchUp::Once, CatchUp::All][pick() as usize % 3],
            }),
            words: ["w"].iter().collect(),
        };
        let payload = Value::Timer(Timer::new(&plan)).dump();
        let (mut fixture, mut replica) = (Fixture::new(), Fixture::new());
        fixture.set_logged(true);
        let at = pick().min(i64::MAX as u64).to_string();
        let restore = [&b"RESTORE"[..], b"t", at.as_bytes(), &payload, b"ABSTTL"];
        let reply = fixture.run_words(&restore);
        if reply != "+OK" {
            prop_assert_eq!(reply, "-ERR Bad data format");
            return Ok(());
        }
        for step in 1..4 {
            fixture.run("TIMER NEXT t COUNT 3");
            fixture.run("TIMER GET t");
            fixture.with_turn(|turn| {
                let _ = turn.advance(Now::from_ms(1_000_000 + step));
                for due in turn.take_due_timers() {
                    turn.pin(None);
                    let firing = turn.begin_firing(&due).expect("nothing has changed");
                    turn.end_firing(firing, None);
                    turn.unpin();
                }
            });
            fixture.now = Now::from_ms(1_000_000 + step);
            fixture.run("TIMER PAUSE t");
            fixture.run("TIMER RESUME t");
        }
        let log = fixture.take_log();
        replica.apply(&log);
    }
}
