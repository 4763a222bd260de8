//! Tests of the JOB commands. Only the tests move the clock, which begins at 1,000,000 ms.

use proptest::prelude::*;

use crate::command::testing::Fixture;
use crate::value::Kind as _;
use crate::value::jobs::{Backoff, Details, Job, Jobs, State, TIME_MAX};

const NIL: &str = "*-1";

/// Takes a job. Returns its ID, token, attempt, due time and payload, separated by spaces.
fn take(f: &mut Fixture, line: &str) -> String {
    let reply = f.run(line);
    let words: Vec<&str> = reply
        .split(' ')
        .filter(|w| !w.starts_with(['*', '$']))
        .collect();
    words
        .iter()
        .skip(1)
        .map(|w| w.trim_start_matches(':'))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns a field of JOB GET or JOB INFO.
fn field(f: &mut Fixture, line: &str, name: &str) -> String {
    let reply = f.run(line);
    let words: Vec<&str> = reply.split(' ').collect();
    let at = words.iter().position(|word| *word == name);
    let Some(at) = at else { return String::new() };
    match words[at + 1].strip_prefix(':') {
        Some(number) => number.to_owned(),
        None if words[at + 1] == "$-1" => "nil".to_owned(),
        None => words[at + 2].to_owned(),
    }
}

fn counts(f: &mut Fixture, queue: &str) -> String {
    let line = format!("JOB INFO {queue}");
    let names = ["ready", "delayed", "leased", "dead", "done"];
    names.map(|name| field(f, &line, name)).join(" ")
}

#[test]
fn a_job_is_added_taken_and_acknowledged() {
    let mut f = Fixture::new();
    assert_eq!(f.run("JOB TAKE q"), NIL);
    assert_eq!(f.run("JOB INFO q"), "$-1");
    assert_eq!(f.run("JOB ADD q one"), "$10 1000000000");
    assert_eq!(f.events(), "new q, jobadd q");
    assert_eq!(f.run("JOB ADD q two ID b"), "$1 b");
    assert_eq!(f.run("TYPE q"), "+jobs");
    assert_eq!(f.run("OBJECT ENCODING q"), "$4 jobs");
    assert_eq!(counts(&mut f, "q"), "2 0 0 0 0");
    assert_eq!(
        f.run("JOB TAKE q COUNT 5"),
        "*2 *6 $1 q $10 1000000000 :1000000001 :1 :1000000 $3 one \
         *6 $1 q $1 b :1000000002 :1 :1000000 $3 two"
    );
    assert_eq!(counts(&mut f, "q"), "0 0 2 0 0");
    assert_eq!(f.run("JOB ACK q 1000000000 7"), ":0", "a wrong token");
    assert_eq!(f.run("JOB ACK q nobody 7"), ":0");
    assert_eq!(f.run("JOB ACK q 1000000000 1000000001 b 1000000002"), ":2");
    assert_eq!(counts(&mut f, "q"), "0 0 0 0 0");
    assert_eq!(f.run("EXISTS q"), ":1", "the queue stays");
    assert_eq!(f.run("JOB ACK none 1 1"), ":0");
}

#[test]
fn jobs_come_by_priority_and_then_in_order() {
    let mut f = Fixture::new();
    for (id, priority) in [("a", 0), ("b", 5), ("c", -32768), ("d", 5), ("e", 32767)] {
        f.run(&format!("JOB ADD q {id} ID {id} PRIORITY {priority}"));
        f.advance(1);
    }
    f.run("JOB ADD q f ID f DELAY 100 PRIORITY 10");
    let mut order = String::new();
    for _ in 0..6 {
        let id = take(&mut f, "JOB TAKE q");
        order.push_str(id.split(' ').next().unwrap());
        f.advance(30);
        f.expire();
    }
    assert_eq!(order, "ebdafc");
    // Jobs of equal priority and time come in the order of their addition.
    for n in 0..50 {
        f.run(&format!("JOB ADD r {n} ID {n} DELAY 10"));
    }
    f.advance(10);
    for n in 0..50 {
        assert!(take(&mut f, "JOB TAKE r").starts_with(&format!("{n} ")));
    }
}

#[test]
fn a_job_is_due_at_its_millisecond() {
    let mut f = Fixture::new();
    f.run("JOB ADD q a ID a DELAY 100");
    f.run("JOB ADD q b ID b AT 1000050");
    f.run("JOB ADD q c ID c AT 5");
    assert_eq!(counts(&mut f, "q"), "1 2 0 0 0");
    assert!(take(&mut f, "JOB TAKE q").starts_with("c "));
    f.jump(1_000_049);
    assert_eq!(f.run("JOB TAKE q"), NIL);
    assert_eq!(field(&mut f, "JOB INFO q", "next-due"), "1000050");
    f.events();
    f.jump(1_000_050);
    assert_eq!(f.events(), "jobready q");
    assert_eq!(counts(&mut f, "q"), "1 1 1 0 0");
    f.advance(7);
    assert_eq!(field(&mut f, "JOB INFO q", "oldest-ready-ms"), "7");
    assert!(take(&mut f, "JOB TAKE q").ends_with(" 1 1000050 b"));
    // The job is also ready for a command that runs before the wheel expires entries.
    f.advance(43);
    assert!(take(&mut f, "JOB TAKE q").ends_with(" 1 1000100 a"));
}

#[test]
fn a_lease_ends_at_its_millisecond_and_fences_its_worker() {
    let mut f = Fixture::new();
    f.run("JOB ADD q a ID a LEASE 1000");
    assert_eq!(take(&mut f, "JOB TAKE q"), "a 1000000000 1 1000000 a");
    f.advance(600);
    assert_eq!(f.run("JOB TOUCH q a 1000000000"), ":1");
    f.advance(999);
    assert_eq!(f.run("JOB TAKE q"), NIL);
    f.advance(1);
    assert_eq!(f.run("JOB ACK q a 1000000000"), ":0", "its lease has ended");
    assert_eq!(f.run("JOB TOUCH q a 1000000000"), ":0");
    assert_eq!(f.run("JOB NACK q a 1000000000"), ":0");
    assert_eq!(
        take(&mut f, "JOB TAKE q LEASE 5"),
        "a 1001600000 2 1001600 a"
    );
    assert_eq!(f.run("JOB ACK q a 1000000000"), ":0");
    f.advance(5);
    f.expire();
    assert_eq!(take(&mut f, "JOB TAKE q"), "a 1001605000 3 1001605 a");
    assert_eq!(f.run("JOB TOUCH q a 1001605000 LEASE 50"), ":1");
    assert_eq!(field(&mut f, "JOB GET q a", "at"), "1001655");
    assert_eq!(f.run("JOB ACK q a 1001605000"), ":1");
}

#[test]
fn a_failing_job_waits_longer_each_time_and_becomes_dead() {
    let mut f = Fixture::new();
    f.run("JOB ADD q a ID a RETRY 2 BACKOFF 100 150 LEASE 1000");
    let token = |taken: String| taken.split(' ').nth(1).unwrap().to_owned();
    let first = token(take(&mut f, "JOB TAKE q"));
    assert_eq!(f.run(&format!("JOB NACK q a {first} ERROR oops")), ":1");
    assert_eq!(field(&mut f, "JOB GET q a", "error"), "oops");
    f.jump(1_000_099);
    assert_eq!(f.run("JOB TAKE q"), NIL);
    f.jump(1_000_100);
    take(&mut f, "JOB TAKE q");
    // The lease ends at 1001100; then the second waiting time begins.
    f.jump(1_001_249);
    assert_eq!(f.run("JOB TAKE q"), NIL);
    f.jump(1_001_250);
    let third = token(take(&mut f, "JOB TAKE q"));
    f.events();
    assert_eq!(
        f.run(&format!("JOB NACK q a {third} DELAY 5 ERROR no")),
        ":1"
    );
    assert_eq!(f.events(), "jobdead q");
    assert_eq!(counts(&mut f, "q"), "0 0 0 1 0");
    assert_eq!(field(&mut f, "JOB GET q a", "state"), "dead");
    assert_eq!(f.run("JOB REVIVE q a a b"), ":1");
    assert_eq!(f.run("JOB REVIVE q a"), ":0");
    assert!(take(&mut f, "JOB TAKE q").contains(" 1 1001250 a"));
    // A job is dead after the end of its last lease.
    f.run("JOB ADD q b ID b RETRY 0 LEASE 10");
    take(&mut f, "JOB TAKE q");
    f.advance(10);
    f.expire();
    assert_eq!(field(&mut f, "JOB GET q b", "state"), "dead");
    assert_eq!(f.run("JOB REVIVE q ALL"), ":1");
    assert_eq!(f.run("JOB REVIVE q ALL"), ":0");
}

#[test]
fn a_dead_job_moves_to_its_dead_letter_queue() {
    for shards in [1, 8] {
        let mut f = Fixture::sharded(shards);
        for n in 0..200 {
            f.run(&format!(
                "JOB ADD q p{n} ID {n} RETRY 0 LEASE 10 DEAD grave PRIORITY 3"
            ));
        }
        f.run("JOB TAKE q COUNT 200");
        f.advance(10);
        for _ in 0..4 {
            f.expire();
            f.advance(1);
        }
        assert_eq!(counts(&mut f, "q"), "0 0 0 0 0");
        assert_eq!(counts(&mut f, "grave"), "200 0 0 0 0");
        assert_eq!(field(&mut f, "JOB GET grave 7", "from"), "q");
        assert_eq!(field(&mut f, "JOB GET grave 7", "payload"), "p7");
        // The dead-letter key has another type, so the job stays in its queue.
        f.run("SET text v");
        let add = "JOB ADD q p ID x RETRY 0 DEAD text";
        f.run(add);
        let taken = take(&mut f, "JOB TAKE q");
        let token = taken.split(' ').nth(1).unwrap();
        assert_eq!(f.run(&format!("JOB NACK q x {token}")), ":1");
        f.advance(1);
        f.expire();
        assert_eq!(counts(&mut f, "q"), "0 0 0 1 0");
        assert_eq!(f.run("GET text"), "$1 v");
    }
}

/// A dead job makes its queue due at once: at a time before the wheel's current tick.
#[test]
fn a_failed_job_moves_to_its_dead_letter_queue_on_a_virtual_clock() {
    let mut f = Fixture::sharded(4);
    for n in 0..10 {
        f.run(&format!("JOB ADD q{n} p ID x RETRY 0 DEAD grave"));
        f.run(&format!("SET k{n} v PX {}", 100 + n));
    }
    f.jump(1_001_000);
    for n in 0..10 {
        let taken = take(&mut f, &format!("JOB TAKE q{n}"));
        let token = taken.split(' ').nth(1).unwrap().to_owned();
        assert_eq!(f.run(&format!("JOB NACK q{n} x {token}")), ":1");
    }
    f.jump(1_001_001);
    assert_eq!(counts(&mut f, "grave"), "10 0 0 0 0");
    f.run("JOB ADD past p AT 5 LEASE 1");
    f.run("JOB TAKE past");
    f.jump(1_002_000);
    assert_eq!(counts(&mut f, "past"), "1 0 0 0 0");
}

#[test]
fn an_id_is_taken_while_its_job_exists() {
    let mut f = Fixture::new();
    assert_eq!(f.run("JOB ADD q one ID a"), "$1 a");
    assert_eq!(f.run("JOB ADD q two ID a"), "$-1");
    let digest = "$40 fe05bcdcdc4928012781a5f1a2a77cbb5398e106";
    assert_eq!(f.run("JOB ADD q one UNIQUE 100"), digest);
    assert_eq!(f.run("JOB ADD q one UNIQUE 100"), "$-1");
    let id = &digest[4..];
    for _ in 0..2 {
        let taken = take(&mut f, "JOB TAKE q");
        let pair: Vec<&str> = taken.split(' ').take(2).collect();
        assert_eq!(f.run(&format!("JOB ACK q {}", pair.join(" "))), ":1");
    }
    assert_eq!(counts(&mut f, "q"), "0 0 0 0 1");
    assert_eq!(field(&mut f, &format!("JOB GET q {id}"), "payload"), "");
    f.advance(99);
    assert_eq!(f.run("JOB ADD q one UNIQUE 100"), "$-1");
    f.advance(1);
    assert_eq!(f.run("JOB ADD q one UNIQUE 100"), digest);
    assert_eq!(f.run("JOB ADD q two ID a UNIQUE 10"), "$1 a");
}

#[test]
fn jobs_expire_and_are_kept() {
    let mut f = Fixture::new();
    f.run("JOB ADD q a ID a TTL 100");
    f.run("JOB ADD q b ID b TTL 100 LEASE 200 KEEP 1000");
    f.run("JOB ADD q c ID c TTL 100 DELAY 500");
    f.run("JOB DEL q a");
    f.run("JOB ADD q a ID a TTL 100");
    let taken = take(&mut f, "JOB TAKE q");
    f.jump(1_000_099);
    assert_eq!(counts(&mut f, "q"), "1 1 1 0 0");
    f.jump(1_000_100);
    assert_eq!(counts(&mut f, "q"), "0 0 1 0 0");
    assert!(taken.starts_with("b "), "{taken}");
    let token = taken.split(' ').nth(1).unwrap();
    assert_eq!(f.run(&format!("JOB ACK q b {token}")), ":1");
    assert_eq!(counts(&mut f, "q"), "0 0 0 0 1");
    assert_eq!(field(&mut f, "JOB GET q b", "payload"), "b");
    f.jump(1_001_100);
    assert_eq!(counts(&mut f, "q"), "0 0 0 0 0");
    // A job whose TTL ends during its lease is removed when the lease ends.
    f.run("JOB ADD q d ID d TTL 100 LEASE 200");
    f.run("JOB TAKE q");
    f.jump(1_001_299);
    assert_eq!(counts(&mut f, "q"), "0 0 1 0 0");
    f.jump(1_001_300);
    assert_eq!(counts(&mut f, "q"), "0 0 0 0 0");
}

#[test]
fn workers_cannot_take_jobs_of_a_paused_queue() {
    let mut f = Fixture::new();
    assert_eq!(f.run("JOB RESUME q"), ":0");
    assert_eq!(f.run("JOB PAUSE q"), ":1");
    assert_eq!(f.run("JOB PAUSE q"), ":0");
    f.run("JOB ADD q a");
    assert_eq!(f.run("JOB TAKE q"), NIL);
    assert_eq!(field(&mut f, "JOB INFO q", "paused"), "1");
    f.run("JOB ADD r b");
    assert!(
        f.run("JOB TAKE q r").contains("$1 r"),
        "the queue r is not paused"
    );
    assert_eq!(f.run("JOB RESUME q"), ":1");
    assert!(f.run("JOB TAKE q r").contains("$1 q"));
}

#[test]
fn ranges_are_by_position() {
    let mut f = Fixture::new();
    for n in 1..=5 {
        f.run(&format!("JOB ADD q p{n} ID {n} DELAY {n}0"));
    }
    let ids = |reply: String| -> String {
        let words: Vec<&str> = reply.split(' ').collect();
        let at = words.iter().enumerate().filter(|(_, word)| **word == "id");
        at.map(|(at, _)| words[at + 2]).collect()
    };
    assert_eq!(ids(f.run("JOB RANGE q DELAYED 0 -1")), "12345");
    assert_eq!(ids(f.run("JOB RANGE q DELAYED 1 2")), "23");
    assert_eq!(ids(f.run("JOB RANGE q delayed -2 100")), "45");
    assert_eq!(f.run("JOB RANGE q DELAYED 3 2"), "*0");
    assert_eq!(f.run("JOB RANGE q DELAYED 0 -9"), "*0");
    assert_eq!(f.run("JOB RANGE none READY 0 -1"), "*0");
    // In a frozen turn, as on a replica, the wheel moves no jobs, but readers show due jobs as
    // ready.
    f.frozen = true;
    f.advance(30);
    assert_eq!(counts(&mut f, "q"), "3 2 0 0 0");
    assert_eq!(ids(f.run("JOB RANGE q READY 0 -1")), "123");
    assert_eq!(ids(f.run("JOB RANGE q DELAYED 0 -1")), "45");
    assert_eq!(field(&mut f, "JOB GET q 1", "state"), "ready");
    f.frozen = false;
    f.expire();
    assert_eq!(counts(&mut f, "q"), "3 2 0 0 0");
}

#[test]
fn bad_input_is_refused() {
    let mut f = Fixture::new();
    f.run("SET text v");
    f.run("JOB ADD q a ID a");
    for line in [
        "JOB ADD q",
        "JOB ADD q p ID",
        "JOB ADD q p ID \"\"",
        "JOB ADD q p DELAY -1",
        "JOB ADD q p DELAY 1 AT 2",
        "JOB ADD q p DELAY 281474976710656",
        "JOB ADD q p DELAY x",
        "JOB ADD q p PRIORITY 40000",
        "JOB ADD q p LEASE 0",
        "JOB ADD q p RETRY -1",
        "JOB ADD q p BACKOFF 10",
        "JOB ADD q p BACKOFF 10 5",
        "JOB ADD q p BACKOFF 1 2 JITTER 101",
        "JOB ADD q p JITTER 5",
        "JOB ADD q p TTL 0",
        "JOB ADD q p UNIQUE 0",
        "JOB ADD q p DEAD q",
        "JOB ADD q p KEEP -1",
        "JOB ADD q p NOW",
        "JOB TAKE q COUNT 0",
        "JOB TAKE q COUNT 10001",
        "JOB TAKE q BLOCK -1",
        "JOB TAKE q BLOCK x",
        "JOB TAKE q LEASE 0",
        "JOB TAKE q COUNT",
        "JOB ACK q a",
        "JOB ACK q a b",
        "JOB ACK q a 1 b",
        "JOB NACK q a 1 DELAY",
        "JOB NACK q a 1 DELAY -1",
        "JOB TOUCH q a 1 LEASE 0",
        "JOB RANGE q LATE 0 1",
        "JOB RANGE q READY a 1",
        "JOB PUT q x",
        "JOB LEASED q a 1 1 1",
    ] {
        let reply = f.run(line);
        assert!(reply.starts_with("-ERR"), "{line}: {reply}");
    }
    for line in [
        "ADD text p",
        "TAKE text",
        "TAKE q text",
        "ACK text a 1",
        "INFO text",
    ] {
        let reply = f.run(&format!("JOB {line}"));
        assert!(reply.starts_with("-WRONGTYPE"), "{line}: {reply}");
    }
    assert_eq!(
        counts(&mut f, "q"),
        "1 0 0 0 0",
        "nothing was taken or added"
    );
    assert!(f.run("LPUSH q v").starts_with("-WRONGTYPE"));
    // The first queue may have the name of an option.
    f.run("JOB ADD count p");
    assert!(f.run("JOB TAKE count COUNT 1").contains("$5 count"));
}

#[test]
fn queues_survive_files_and_copies() {
    let mut f = Fixture::sharded(2);
    for n in 0..40 {
        f.run(&format!(
            "JOB ADD q p{n} ID {n} DELAY {} PRIORITY {} BACKOFF 1 9 JITTER 50 TTL 5000",
            n * 10,
            n % 3
        ));
    }
    f.run("JOB ADD q p ID x RETRY 0 LEASE 1");
    f.advance(50);
    f.run("JOB TAKE q COUNT 3");
    f.run("JOB PAUSE q");
    let digest = f.run_row(
        &crate::command::digest::DEBUG_DIGEST_VALUE,
        "DEBUG DIGEST-VALUE q",
    );
    let before = (
        f.run("JOB INFO q"),
        f.run("JOB RANGE q DELAYED 0 -1"),
        f.run("JOB RANGE q LEASED 0 -1"),
    );
    let seen = |f: &mut Fixture, q: &str| {
        (
            f.run(&format!("JOB INFO {q}")),
            f.run(&format!("JOB RANGE {q} DELAYED 0 -1")),
            f.run(&format!("JOB RANGE {q} LEASED 0 -1")),
        )
    };
    f.reload();
    assert_eq!(seen(&mut f, "q"), before);
    assert_eq!(
        f.run_row(
            &crate::command::digest::DEBUG_DIGEST_VALUE,
            "DEBUG DIGEST-VALUE q"
        ),
        digest
    );
    assert_eq!(f.run("COPY q copy"), ":1");
    assert_eq!(seen(&mut f, "copy"), before);
    assert_eq!(f.run("RENAME copy other"), "+OK");
    assert_eq!(seen(&mut f, "other"), before);
    let words: punctual_resp::OwnedArgs = ["DUMP", "q"].iter().collect();
    let dumped = f.reply(words.as_args());
    let start = dumped.iter().position(|b| *b == b'\n').unwrap() + 1;
    let payload = dumped[start..dumped.len() - 2].to_vec();
    assert_eq!(
        f.run_words(&[b"RESTORE", &b"restored"[..], b"0", &payload]),
        "+OK"
    );
    assert_eq!(seen(&mut f, "restored"), before);
    // The timers of all queues run.
    for queue in ["q", "other", "restored"] {
        f.run(&format!("JOB RESUME {queue}"));
    }
    f.jump(1_000_390);
    for queue in ["q", "other", "restored"] {
        assert_eq!(field(&mut f, &format!("JOB INFO {queue}"), "ready"), "38");
    }
    f.jump(1_005_000);
    for queue in ["q", "other", "restored"] {
        assert_eq!(counts(&mut f, queue), "1 0 3 0 0", "x has no TTL");
    }
}

proptest! {
    /// For any numbers in the jobs of a payload, RESTORE refuses the payload, or the queue works
    /// and its log can be replayed.
    #[test]
    fn a_payload_with_any_numbers_is_refused_or_works(
        picks in prop::collection::vec(prop::sample::select(
            &[0, 1, 99, 101, 255, 1 << 32, TIME_MAX, TIME_MAX + 1, i64::MAX as u64, u64::MAX][..]
        ), 40),
    ) {
        let mut picks = picks.into_iter();
        let mut pick = || picks.next().unwrap_or(0);
        let mut jobs = Jobs::default();
        for (id, dead) in [(b"a", None), (b"b", Some(&b"grave"[..]))] {
            let (base_ms, max_ms) = (pick(), pick());
            let backoff = Backoff { base_ms, max_ms, jitter: pick() as u8 };
            let details = Details {
                lease_ms: pick(),
                retries: pick() as u32,
                backoff: Some(backoff),
                expires_ms: Some(pick()).filter(|at| *at > 1),
                keep_ms: pick(),
                unique_ms: pick(),
                dead,
                ..Details::new(id, b"payload")
            };
            let mut job = Job::new(&details, pick() as i16, pick(), pick() as u32);
            (job.token, job.attempt) = (pick(), pick() as u32);
            let states = [State::Waiting, State::Leased, State::Dead, State::Done];
            job.state = states[pick() as usize % states.len()];
            jobs.put(job);
        }
        let payload = jobs.into_value().dump();
        let (mut f, mut replica) = (Fixture::new(), Fixture::new());
        f.set_logged(true);
        let reply = f.run_words(&[b"RESTORE", &b"q"[..], b"0", &payload]);
        if reply != "+OK" {
            prop_assert_eq!(reply, "-ERR Bad data format");
            return Ok(());
        }
        for _ in 0..3 {
            f.run("JOB TAKE q COUNT 9");
            for id in ["a", "b"] {
                let token = field(&mut f, &format!("JOB GET q {id}"), "token");
                f.run(&format!("JOB TOUCH q {id} {token}0 {id} 0"));
                f.run(&format!("JOB NACK q {id} {token}"));
            }
            f.run("JOB TAKE q COUNT 9 LEASE 281474976710655");
            f.run("JOB RANGE q LEASED 0 -1");
            f.run("JOB REVIVE q ALL");
            f.run("JOB TAKE q COUNT 9");
            f.advance(101);
            f.expire();
            f.run("JOB INFO q");
            let token = field(&mut f, "JOB GET q a", "token");
            f.run(&format!("JOB ACK q a {token}"));
            f.reload();
        }
        let log = f.take_log();
        replica.apply(&log);
    }
}

/// A restart or a promotion must not append the entry of NOTIFY again.
#[test]
fn ends_of_delays_and_leases_are_logged_for_rules() {
    let mut f = Fixture::new();
    f.set_logged(true);
    f.run("NOTIFY SET r STREAM s EVENTS g MATCH q");
    for line in [
        "JOB ADD q a ID a LEASE 10 RETRY 5 BACKOFF 20 100",
        "JOB ADD q b ID b LEASE 30 RETRY 5",
        "JOB ADD q c ID c DELAY 15",
        // Both ends are found by one step, and the job is removed after its lease has ended.
        "JOB ADD q d ID d LEASE 10 RETRY 5 TTL 12 PRIORITY 7",
        "JOB TAKE q COUNT 3",
    ] {
        f.run(line);
    }
    f.advance(16);
    f.expire();
    f.advance(20);
    f.run("JOB TAKE q COUNT 1");
    let mut copy = Fixture::new();
    let log = f.take_log();
    copy.apply(&log);
    copy.now = f.now;
    let jobs = |f: &mut Fixture| {
        let mut seen = vec![f.run("XLEN s"), counts(f, "q")];
        seen.extend(["a", "b", "c", "d"].map(|id| f.run(&format!("JOB GET q {id}"))));
        seen
    };
    copy.expire();
    assert_eq!(jobs(&mut copy), jobs(&mut f));
    // Without a rule for the event, the log has no such ends, and a later rule does not get them.
    f.run("NOTIFY SET r STREAM s EVENTS x");
    f.run("JOB ADD q e ID e DELAY 5");
    copy.apply(&f.take_log());
    f.advance(6);
    f.expire();
    assert_eq!(f.take_log(), b"");
    f.run("NOTIFY SET r STREAM s EVENTS g");
    copy.apply(&f.take_log());
    copy.now = f.now;
    copy.expire();
    assert_eq!(counts(&mut copy, "q"), counts(&mut f, "q"));
    assert_eq!(copy.run("XLEN s"), f.run("XLEN s"));
}
