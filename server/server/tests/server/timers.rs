//! TIMER over sockets with a virtual clock: which timers fire, when, with which user, and which
//! commands are refused.

use punctual_server::Server;

use crate::waiters::{block, with_threads};
use crate::wire::{Open as _, Wire, eventually, run, show, shown};

#[test]
fn a_timer_runs_its_command_at_its_deadline_and_is_removed() {
    for threads in [1, 3] {
        let server = with_threads(threads);
        let mut c = Wire::open(&server);
        assert_eq!(show(&mut c, "TIMER SET t IN 1000 DO SET a b"), "OK");
        assert_eq!(show(&mut c, "TYPE t"), "timer");
        assert_eq!(c.int("PTTL t"), 1000);
        c.int("CLOCK ADVANCE 999");
        assert_eq!(show(&mut c, "GET a"), "NullBulk");
        c.int("CLOCK ADVANCE 1");
        assert_eq!(show(&mut c, "GET a"), "b");
        assert_eq!(c.int("EXISTS t"), 0);
        assert!(
            c.text("INFO stats")
                .contains("\r\ntimer_commands_run:1\r\n")
        );
    }
}

/// Each timer fires at its own deadline, although the clock advances past all of them.
#[test]
fn timers_of_all_shards_fire_in_the_order_of_their_deadlines() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let mut c = Wire::open(&server);
        let now = c.int("CLOCK NOW");
        for n in 0..50 {
            let ms = 1 + n * 37 % 50;
            run(
                &mut c,
                &[&format!("TIMER SET timer:{n} IN {ms} DO RPUSH order {ms}")],
            );
        }
        let script = "redis.call('RPUSH', 'times', redis.call('TIME')[1] * 1000 + redis.call('TIME')[2] / 1000)";
        c.ask(&[
            "TIMER", "SET", "s", "EVERY", "10", "LIMIT", "3", "DO", "EVAL", script, "0",
        ]);
        c.int("CLOCK ADVANCE 1000000");
        let order: Vec<String> = (1..=50).map(|ms| ms.to_string()).collect();
        assert_eq!(
            show(&mut c, "LRANGE order 0 -1"),
            format!("[{}]", order.join(" "))
        );
        let times = [now + 10, now + 20, now + 30].map(|ms| ms.to_string());
        assert_eq!(
            show(&mut c, "LRANGE times 0 -1"),
            format!("[{}]", times.join(" "))
        );
        assert_eq!(show(&mut c, "TIMER LIST"), "[]");
    }
}

#[test]
fn the_commands_on_keys_work_on_timers() {
    let server = with_threads(2);
    let mut c = Wire::open(&server);
    let now = c.int("CLOCK NOW");
    run(&mut c, &["TIMER SET t IN 1000 DO INCR n"]);
    run(&mut c, &["PEXPIRE t 5000"]);
    assert_eq!(
        show(&mut c, "TIMER RANGE - +"),
        format!("[[t {}]]", now + 5000)
    );
    run(&mut c, &["RENAME t u", "COPY u v", "MOVE v 3"]);
    assert_eq!(show(&mut c, "SCAN 0 COUNT 1000 TYPE timer"), "[0 [u]]");
    assert_eq!(show(&mut c, "OBJECT ENCODING u"), "raw");
    // PERSIST pauses a timer, and keeps its remaining time.
    c.int("CLOCK ADVANCE 2000");
    assert_eq!(c.int("PERSIST u"), 1);
    assert_eq!(c.int("PTTL u"), -1);
    c.int("CLOCK ADVANCE 60000");
    assert_eq!(show(&mut c, "GET n"), "NullBulk");
    c.send(&["SELECT 3", "GET n", "SELECT 0"]);
    // The copy has fired in the other database.
    c.receive("+OK|$1|1|+OK|");
    assert_eq!(c.int("TIMER RESUME u"), 1);
    assert_eq!(c.int("PTTL u"), 3000);
    c.send(&["DUMP u"]);
    let payload = c.value();
    let ttl = "4000";
    c.ask(&[
        &b"RESTORE"[..],
        b"w",
        ttl.as_bytes(),
        payload.as_bytes().unwrap(),
    ]);
    c.int("CLOCK ADVANCE 3000");
    assert_eq!(show(&mut c, "GET n"), "1");
    c.int("CLOCK ADVANCE 1000");
    assert_eq!(show(&mut c, "GET n"), "2");
    // A deadline in the past is due at once. A deleted timer does not fire.
    run(
        &mut c,
        &[
            "TIMER SET t IN 1000 DO INCR n",
            "PEXPIREAT t 1",
            "CLOCK ADVANCE 0",
        ],
    );
    assert_eq!(show(&mut c, "GET n"), "3");
    run(
        &mut c,
        &[
            "TIMER SET t IN 1000 DO INCR n",
            "DEL t",
            "CLOCK ADVANCE 5000",
        ],
    );
    assert_eq!(show(&mut c, "GET n"), "3");
    run(&mut c, &["TIMER SET t IN 1000 DO INCR n"]);
    for line in ["GET t", "LPUSH t a", "SORT t", "APPEND t x"] {
        assert!(show(&mut c, line).starts_with("WRONGTYPE"), "{line}");
    }
    assert!(show(&mut c, "TIMER GET n").starts_with("WRONGTYPE"));
    assert!(show(&mut c, "TIMER SET n IN 1 DO INCR m").starts_with("WRONGTYPE"));
}

#[test]
fn a_repeating_timer_keeps_its_schedule() {
    let server = with_threads(1);
    let mut c = Wire::open(&server);
    let now = c.int("CLOCK NOW");
    run(&mut c, &["TIMER SET t EVERY 1000 LIMIT 4 DO RPUSH l x"]);
    assert_eq!(
        show(&mut c, "TIMER NEXT t COUNT 9"),
        format!(
            "[{} {} {} {}]",
            now + 1000,
            now + 2000,
            now + 3000,
            now + 4000
        )
    );
    c.int("CLOCK ADVANCE 1500");
    assert_eq!(c.int("LLEN l"), 1);
    assert_eq!(c.int("PTTL t"), 500);
    // After its deadline was moved once, the timer returns to its schedule.
    run(&mut c, &["PEXPIRE t 700", "CLOCK ADVANCE 700"]);
    assert_eq!(c.int("LLEN l"), 2);
    assert_eq!(c.int("PTTL t"), 800);
    assert_eq!(show(&mut c, "TIMER RUN t"), "OK");
    assert_eq!(c.int("LLEN l"), 3);
    assert_eq!(c.int("PTTL t"), 800);
    let got = show(&mut c, "TIMER GET t");
    assert!(got.contains("every 1000"), "{got}");
    assert!(got.contains("runs 3 failures 0"), "{got}");
    c.int("CLOCK ADVANCE 800");
    assert_eq!((c.int("LLEN l"), c.int("EXISTS t")), (4, 0));
    // During a pause, runs are skipped.
    run(
        &mut c,
        &[
            "TIMER SET p EVERY 1000 OFFSET 0 DO RPUSH m x",
            "TIMER PAUSE p",
        ],
    );
    assert_eq!(c.int("TIMER PAUSE p"), 0);
    assert!(show(&mut c, "TIMER LIST").contains("[p NullBulk]"));
    c.int("CLOCK ADVANCE 10000");
    assert_eq!(c.int("TIMER RESUME p"), 1);
    assert_eq!(c.int("TIMER RESUME p"), 0);
    assert!(c.int("PTTL p") <= 1000);
    c.int("CLOCK ADVANCE 1000");
    assert_eq!(c.int("LLEN m"), 1);
}

#[test]
fn cron_fires_in_its_zone() {
    let server = with_threads(1);
    let mut c = Wire::open(&server);
    // From this time on, in May 2033, 400 days contain one change to summer time and one back.
    c.int("CLOCK SET 2000000000000");
    c.ask(&[
        "TIMER",
        "SET",
        "t",
        "CRON",
        "30 2 * * *",
        "TZ",
        "Europe/Berlin",
        "DO",
        "INCR",
        "n",
    ]);
    let next = show(&mut c, "TIMER NEXT t COUNT 400");
    let instants: Vec<i64> = next
        .trim_matches(['[', ']'])
        .split(' ')
        .map(|ms| ms.parse().unwrap())
        .collect();
    let days: Vec<i64> = instants.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // In spring 02:30 does not exist on one day, so the run on that day is half an hour late, which
    // changes two intervals. The day in autumn with 25 hours changes one.
    assert_eq!(
        days.iter().filter(|ms| **ms != 86_400_000).count(),
        3,
        "{days:?}"
    );
    c.int(&format!("CLOCK SET {}", instants[9] + 1));
    assert_eq!(show(&mut c, "GET n"), "10");
}

#[test]
fn errors_are_counted_kept_and_published() {
    let server = with_threads(1);
    let (mut c, mut listener) = (Wire::open(&server), Wire::open(&server));
    run(
        &mut c,
        &["CONFIG SET notify-keyspace-events Eg", "SET s text"],
    );
    listener.send(&["PSUBSCRIBE __keyevent@0__:timer*"]);
    listener.value();
    run(
        &mut c,
        &[
            "TIMER SET good EVERY 1000 DO INCR n",
            "TIMER SET bad EVERY 1000 DO INCR s",
        ],
    );
    run(&mut c, &["CLOCK ADVANCE 1000"]);
    let mut events: Vec<String> = (0..4).map(|_| shown(&listener.value())).collect();
    events.sort();
    let event = |name: &str, key: &str| {
        format!("[pmessage __keyevent@0__:timer* __keyevent@0__:{name} {key}]")
    };
    assert_eq!(
        events,
        [
            event("timer", "good"),
            event("timer-failed", "bad"),
            event("timer-set", "bad"),
            event("timer-set", "good")
        ]
    );
    let got = show(&mut c, "TIMER GET bad");
    assert!(
        got.contains("runs 1 failures 1") && got.contains("last-error ERR value is not an integer"),
        "{got}"
    );
    run(&mut c, &["SET s 1", "CLOCK ADVANCE 1000"]);
    let got = show(&mut c, "TIMER GET bad");
    assert!(
        got.contains("runs 2 failures 1 last-late-us 0 last-error ]"),
        "{got}"
    );
    assert!(show(&mut c, "TIMER RUN nope").contains("no such key"));
    run(&mut c, &["SET s text"]);
    assert!(show(&mut c, "TIMER RUN bad").contains("not an integer"));
}

/// Commands that are refused, and the start of their errors.
#[rustfmt::skip]
const REFUSED: &[(&str, &str)] = &[
    ("TIMER SET t IN 1 DO nosuch a", "ERR unknown command 'nosuch'"),
    ("TIMER SET t IN 1 DO GET", "ERR wrong number of arguments for 'get' command"),
    ("TIMER SET t IN 1 DO CONFIG nosuch", "ERR unknown subcommand"),
    ("TIMER SET t IN 1 DO BLPOP l 0", "ERR 'blpop' may wait, which a timer cannot"),
    ("TIMER SET t IN 1 DO SUBSCRIBE c", "ERR 'subscribe' is not allowed in a timer"),
    ("TIMER SET t IN 1 DO MULTI", "ERR 'multi' is not allowed in a timer"),
    ("TIMER SET t IN 1 DO AUTH a", "ERR 'auth' is not allowed in a timer"),
    ("TIMER SET t IN 1 DO SELECT 1", "ERR 'select' is not allowed in a timer"),
    ("TIMER SET t IN 1 DO SHUTDOWN", "ERR 'shutdown' is not allowed in a timer"),
    ("TIMER SET t IN 1 DO CONFIG SET maxmemory 1", "ERR 'config|set' is not allowed in a timer"),
    ("TIMER SET t IN 1 DO TIMER RUN t", "ERR 'timer|run' is not allowed in a timer"),
    ("TIMER SET t IN 1 DO TIMER SET t IN 1 DO INCR a", "ERR 'timer|set' is not allowed in a timer"),
    ("TIMER SET t IN -1 DO INCR a", "ERR value is out of range"),
    ("TIMER SET t IN x DO INCR a", "ERR value is not an integer or out of range"),
    ("TIMER SET t EVERY 0 DO INCR a", "ERR EVERY needs at least 1 millisecond"),
    ("TIMER SET t EVERY 10 OFFSET 10 DO INCR a", "ERR OFFSET must be less than EVERY"),
    ("TIMER SET t EVERY 10 LIMIT 0 DO INCR a", "ERR LIMIT needs at least 1 run"),
    ("TIMER SET t EVERY 10 END 5 DO INCR a", "ERR the timer would never fire"),
    ("TIMER SET t IN 1 EVERY 1 DO INCR a", "ERR syntax error"),
    ("TIMER SET t IN 1 LIMIT 3 DO INCR a", "ERR syntax error"),
    ("TIMER SET t NX GET IN 1 DO INCR a", "ERR syntax error"),
    ("TIMER SET t IN 1 USER admin DO INCR a", "ERR syntax error"),
    ("TIMER SET t IN 1 INCR a b", "ERR syntax error"),
    ("TIMER SET t CRON \"61 * * * *\" DO INCR a", "ERR invalid minute '61'"),
    ("TIMER SET t CRON \"0 0 30 2 *\" DO INCR a", "ERR no day matches '0 0 30 2 *'"),
    ("TIMER SET t CRON @daily TZ Mars/Base DO INCR a", "ERR unknown time zone 'Mars/Base'"),
    ("TIMER STATE t 0 0 0 0 0 0 x", "ERR TIMER STATE is for logs of changes only"),
    ("TIMER LIST COUNT 0", "ERR syntax error"),
    ("TIMER NEXT t COUNT 1001", "ERR COUNT is at most 1000"),
];

#[test]
fn impossible_commands_are_refused_by_timer_set() {
    let server = with_threads(2);
    let mut c = Wire::open(&server);
    for (line, error) in REFUSED {
        let reply = show(&mut c, line);
        assert!(reply.starts_with(error), "{line}: {reply}");
    }
    assert_eq!(c.int("DBSIZE"), 0);
    assert_eq!(show(&mut c, "TIMER SET t XX IN 1000 DO INCR a"), "NullBulk");
    assert_eq!(show(&mut c, "TIMER SET t NX IN 1000 DO INCR a"), "OK");
    assert_eq!(show(&mut c, "TIMER SET t NX IN 2000 DO INCR a"), "NullBulk");
    assert_eq!(c.int("PTTL t"), 1000);
    let old = show(&mut c, "TIMER SET t GET IN 3000 DO INCR b");
    assert!(old.contains("command [INCR a]"), "{old}");
    assert_eq!(c.int("PTTL t"), 3000);
}

#[test]
fn a_timer_runs_as_its_user_and_pauses_without_permission() {
    let server = with_threads(2);
    let (mut c, mut alice) = (Wire::open(&server), Wire::open(&server));
    run(&mut c, &["ACL SETUSER alice on nopass +@all -del ~a:* &*"]);
    run(&mut alice, &["AUTH alice x"]);
    let reply = show(&mut alice, "TIMER SET a:t IN 1000 DO DEL a:x");
    assert!(reply.starts_with("NOPERM"), "{reply}");
    let reply = show(&mut alice, "TIMER SET a:t IN 1000 DO SET b:x 1");
    assert!(reply.starts_with("NOPERM"), "{reply}");
    let reply = show(&mut alice, "TIMER SET b:t IN 1000 DO SET a:x 1");
    assert!(reply.starts_with("NOPERM"), "{reply}");
    run(
        &mut alice,
        &[
            "TIMER SET a:t EVERY 1000 DO INCR a:n",
            "TIMER SET a:u IN 1500 DO SET a:x 1",
        ],
    );
    assert!(show(&mut c, "TIMER GET a:t").contains("user alice"));
    c.int("CLOCK ADVANCE 1000");
    assert_eq!(show(&mut c, "GET a:n"), "1");
    // The user's rules change: both timers are paused, and their commands do not run.
    run(&mut c, &["ACL SETUSER alice -incr -set"]);
    c.int("CLOCK ADVANCE 60000");
    assert_eq!(show(&mut c, "GET a:n"), "1");
    assert_eq!(c.int("EXISTS a:x"), 0);
    let got = show(&mut c, "TIMER GET a:u");
    assert!(
        got.contains("paused 1") && got.contains("last-error NOPERM"),
        "{got}"
    );
    assert_eq!(c.int("PTTL a:t"), -1);
    run(
        &mut c,
        &[
            "ACL SETUSER alice +incr +set",
            "TIMER RESUME a:t",
            "TIMER RESUME a:u",
        ],
    );
    c.int("CLOCK ADVANCE 1000");
    assert_eq!(
        (show(&mut c, "GET a:n"), c.int("EXISTS a:u")),
        ("2".to_owned(), 0)
    );
    run(&mut c, &["ACL DELUSER alice"]);
    c.int("CLOCK ADVANCE 60000");
    let got = show(&mut c, "TIMER GET a:t");
    assert!(
        got.contains("paused 1") && got.contains("does not exist or is off"),
        "{got}"
    );
}

/// A payload does not let a user create a timer of another user.
#[test]
fn a_payload_does_not_change_the_user() {
    let server = with_threads(1);
    let (mut c, mut alice) = (Wire::open(&server), Wire::open(&server));
    run(
        &mut c,
        &[
            "ACL SETUSER alice on nopass +@all -flushall ~* &*",
            "TIMER SET t IN 1000 DO FLUSHALL",
        ],
    );
    run(&mut alice, &["AUTH alice x"]);
    alice.send(&["DUMP t"]);
    let payload = alice.value();
    let reply = alice.ask(&[&b"RESTORE"[..], b"u", b"1", payload.as_bytes().unwrap()]);
    assert!(shown(&reply).starts_with("NOPERM"), "{reply:?}");
    let reply = c.ask(&[&b"RESTORE"[..], b"u", b"1000", payload.as_bytes().unwrap()]);
    assert_eq!(shown(&reply), "OK");
}

#[test]
fn a_timer_serves_waiting_clients_at_its_instant() {
    for threads in [1, 3] {
        let server = with_threads(threads);
        let (mut c, mut reader) = (Wire::open(&server), Wire::open(&server));
        run(&mut c, &["TIMER SET t IN 5000 DO RPUSH l job"]);
        // CLOCK ADVANCE passes the end of the wait, but the timer fires before that.
        block(&server, &mut reader, "BLPOP l 10");
        c.int("CLOCK ADVANCE 60000");
        reader.receive("*2|$1|l|$3|job|");
    }
}

#[test]
fn a_timer_in_a_transaction_and_a_script() {
    let server = with_threads(3);
    let mut c = Wire::open(&server);
    run(
        &mut c,
        &[
            "MULTI",
            "TIMER SET t IN 10 DO INCR n",
            "CLOCK ADVANCE 10",
            "GET n",
            "TIMER SET u EVERY 5 DO INCR m",
            "TIMER RUN u",
            "EXEC",
        ],
    );
    assert_eq!(
        (show(&mut c, "GET n"), show(&mut c, "GET m")),
        ("1".to_owned(), "1".to_owned())
    );
    c.ask(&[
        "EVAL",
        "return redis.call('TIMER', 'SET', KEYS[1], 'IN', '5', 'DO', 'INCR', 'k')",
        "1",
        "v",
    ]);
    c.int("CLOCK ADVANCE 5");
    assert_eq!(show(&mut c, "GET k"), "1");
    // A timer that sets itself again and again does not stop the clock.
    let script = "redis.call('INCR', 'loops') redis.call('TIMER', 'SET', 'again', 'IN', '0', 'DO', 'FCALL', 'f', '0')";
    let library = format!("#!lua name=l\nredis.register_function('f', function() {script} end)");
    c.ask(&["FUNCTION", "LOAD", &library]);
    run(&mut c, &["DEL u", "FCALL f 0", "CLOCK ADVANCE 100"]);
    // The count includes the call, the instant of the first timer, and each millisecond after it.
    assert_eq!(show(&mut c, "GET loops"), "102");
}

/// With the real clock, the loops sleep until the deadlines, while no client sends anything.
#[test]
fn timers_fire_by_themselves() {
    for threads in [1, 3] {
        let server = Server::builder().port(0).threads(threads).spawn().unwrap();
        let mut c = Wire::open(&server);
        for n in 0..40 {
            run(
                &mut c,
                &[&format!("TIMER SET t:{n} IN {} DO INCR n", n % 7)],
            );
        }
        let script = "return redis.call('INCR', 'n')";
        for n in 0..10 {
            let key = format!("s:{n}");
            c.ask(&["TIMER", "SET", &key, "IN", "3", "DO", "EVAL", script, "0"]);
        }
        let mut reader = Wire::open(&server);
        run(&mut c, &["TIMER SET push IN 20 DO RPUSH l job"]);
        reader.expect(&["BLPOP l 0"], "*2|$1|l|$3|job|");
        eventually(|| show(&mut c, "GET n") == "50");
        assert_eq!(show(&mut c, "SCAN 0 COUNT 1000 TYPE timer"), "[0 []]");
    }
}

#[test]
fn missed_runs_follow_the_catchup_option() {
    let server = with_threads(1);
    let mut c = Wire::open(&server);
    run(
        &mut c,
        &[
            "TIMER SET a EVERY 1000 CATCHUP all DO INCR na",
            "TIMER SET o EVERY 1000 CATCHUP once DO INCR no",
            "TIMER SET s EVERY 1000 CATCHUP skip DO INCR ns",
            "TIMER SET t IN 1000 DO INCR nt",
            // While expiry is paused, no timer fires and the clock moves on.
            "CLIENT PAUSE 10500 WRITE",
            "CLOCK ADVANCE 10400",
        ],
    );
    assert_eq!(
        show(&mut c, "MGET na no ns nt"),
        "[NullBulk NullBulk NullBulk NullBulk]"
    );
    run(&mut c, &["CLOCK ADVANCE 200"]);
    eventually(|| show(&mut c, "MGET na no ns nt") == "[10 1 NullBulk 1]");
    run(&mut c, &["CLOCK ADVANCE 1000"]);
    eventually(|| show(&mut c, "MGET na no ns nt") == "[11 2 1 1]");
}

#[test]
fn jitter_delays_each_run_a_little() {
    let server = with_threads(1);
    let mut c = Wire::open(&server);
    let now = c.int("CLOCK NOW");
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..50 {
        run(
            &mut c,
            &[&format!("TIMER SET t:{n} IN 1000 JITTER 500 DO INCR n")],
        );
        let late = c.int(&format!("PEXPIRETIME t:{n}")) - now - 1000;
        assert!((0..=500).contains(&late), "{late}");
        seen.insert(late);
    }
    assert!(seen.len() > 5, "{seen:?}");
    run(
        &mut c,
        &[
            "TIMER SET e EVERY 1000 JITTER 500 LIMIT 9 DO INCR ne",
            "CLOCK ADVANCE 9600",
        ],
    );
    assert_eq!(
        (show(&mut c, "GET ne"), show(&mut c, "GET n")),
        ("9".to_owned(), "50".to_owned())
    );
}
