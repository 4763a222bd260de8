//! Tests of the comparison itself: two redis-servers are equal, and a modified redis-server is
//! detected.

use std::thread;
use std::time::Duration;

use punctual_compat::link::{Link, Side};
use punctual_compat::report::Difference;
use punctual_compat::{
    Addresses, Command, Duel, DuelError, Family, Options, Oracle, Protocol, Summary,
};

/// Starts a redis-server. Panics if it is not installed: a test that cannot run must not pass.
fn oracle(arguments: &[&str]) -> Oracle {
    Oracle::start_with(arguments).unwrap_or_else(|error| panic!("{error}"))
}

fn duel(a: &Oracle, b: &Oracle, options: &Options) -> Result<Summary, DuelError> {
    Duel::run(
        Addresses {
            a: a.address(),
            b: b.address(),
            peer: None,
        },
        options,
        |_| {},
    )
}

/// Runs a stream against a modified A and a normal B, which must find a difference.
fn detected(arguments: &[&str], options: &Options) -> Difference {
    let (tampered, sound) = (oracle(arguments), oracle(&[]));
    match duel(&tampered, &sound, options) {
        Err(DuelError::Differ(difference)) => *difference,
        other => panic!("{arguments:?} was not detected: {other:?}"),
    }
}

#[test]
fn redis_agrees_with_itself() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let seed = rand::random();
        println!("seed {seed}, {protocol}");
        let (a, b) = (oracle(&[]), oracle(&[]));
        let summary = duel(&a, &b, &Options::new(seed, 10_000, protocol))
            .unwrap_or_else(|error| panic!("{error}"));
        assert!(
            summary.commands >= 10_000 && summary.audits >= 2 && summary.expiry_phases >= 2,
            "{summary:?}"
        );
    }
}

#[test]
fn a_missing_command_is_detected_and_shown_by_a_single_command() {
    let mut options = Options::new(1, 5_000, Protocol::Resp2);
    // Without the family `expiry`, whose commands depend on the time at which they run, so a replay
    // of a single one shows no difference.
    options.families = [Family::Strings].into();
    let difference = detected(&["--rename-command", "STRLEN", ""], &options);
    assert_eq!(difference.repro.len(), 1, "{difference}");
    assert_eq!(difference.repro[0].name(), "STRLEN", "{difference}");
    let text = difference.to_string();
    assert!(
        text.contains("seed 1") && text.contains("unknown command"),
        "{text}"
    );
}

#[test]
fn a_wrong_bound_is_detected() {
    let difference = detected(
        &["--databases", "12"],
        &Options::new(2, 5_000, Protocol::Resp3),
    );
    assert!(
        difference.to_string().contains("out of range")
            || difference.to_string().contains("databases"),
        "{difference}"
    );
}

/// GET replies correctly but deletes the key. Only later replies, events and audits show this.
#[test]
fn a_wrong_side_effect_is_detected_and_shown_by_few_commands() {
    let tampering = [
        "--rename-command",
        "GET",
        "TRUEGET",
        "--rename-command",
        "GETDEL",
        "GET",
    ];
    let mut options = Options::new(3, 5_000, Protocol::Resp2);
    options.families = [Family::Strings].into();
    let difference = detected(&tampering, &options);
    assert!((1..=4).contains(&difference.repro.len()), "{difference}");
}

/// One server executes another command in place of the given one: RPOP instead of LPOP, for
/// example. The comparison finds it in pipelines, and with blocked clients.
#[test]
fn a_wrong_end_is_detected() {
    for (taken, by, family) in [
        ("LPUSH", "RPUSH", Family::Lists),
        ("ZPOPMIN", "ZPOPMAX", Family::Zsets),
        ("BLPOP", "BRPOP", Family::Blocking),
        ("SINTERSTORE", "SUNIONSTORE", Family::Sets),
    ] {
        let tampering = [
            "--rename-command",
            taken,
            "TRUE",
            "--rename-command",
            by,
            taken,
        ];
        let mut options = Options::new(5, 20_000, Protocol::Resp3);
        options.families = [family].into();
        // The server lacks the other command, whose absence is not the difference under test.
        options.without = [by.to_owned()].into();
        options.shrink = false;
        let difference = detected(&tampering, &options);
        let text = difference.to_string();
        assert!(!text.contains("unknown command"), "{text}");
    }
}

/// While the stream runs, another client of server A changes the data or only publishes messages.
#[test]
fn changes_by_another_client_are_detected() {
    let changes: [(&[&str], &[Family]); 4] = [
        (&["SET", "stray", "x"], &[Family::Keys]),
        (&["PUBLISH", "stray", "x"], &[Family::Strings]),
        (
            &["PEXPIRE", "k0", "900000000000"],
            &[Family::Expiry, Family::Strings],
        ),
        (&["APPEND", "k1", "x"], &[Family::Strings]),
    ];
    for (words, families) in changes {
        let (a, b) = (oracle(&[]), oracle(&[]));
        let mut options = Options::new(4, 1_000_000, Protocol::Resp2);
        options.families = families.iter().copied().collect();
        options.shrink = false;
        let address = a.address();
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let change = Command::of(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let saboteur = thread::spawn(move || {
            let mut link = Link::connect(Side::A, address).expect("the oracle runs");
            thread::sleep(Duration::from_millis(300));
            // The client repeats the change until the comparison detects it: the stream may undo a
            // single change at once.
            while link.ask(&change).is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let outcome = duel(&a, &b, &options);
        drop((a, b));
        saboteur.join().expect("the saboteur ends with its server");
        assert!(
            matches!(outcome, Err(DuelError::Differ(_))),
            "{words:?} was not detected: {outcome:?}"
        );
    }
}

/// Deadlines are compared with a tolerance, but a difference of half a second is detected.
#[test]
fn a_late_deadline_is_detected() {
    let (a, b) = (oracle(&[]), oracle(&[]));
    let addresses = Addresses {
        a: a.address(),
        b: b.address(),
        peer: None,
    };
    let mut pair = punctual_compat::link::Pair::connect(addresses).expect("both run");
    // After a stall of the machine, the tolerance may exceed half a second, so the test tries
    // again.
    for _ in 0..100 {
        for (link, ttl_ms) in [(&mut pair.a, "5000500"), (&mut pair.b, "5000000")] {
            link.ask(&Command::of(&["SET", "k", "v", "PX", ttl_ms]))
                .expect("answered");
        }
        let mut tolerance = punctual_compat::compare::Tolerance::default();
        let found = punctual_compat::audit::audit(&mut pair, &mut tolerance).expect("both answer");
        if tolerance.ms() < 500 {
            let finding = found.expect("a difference of half a second is found");
            assert_eq!(finding.keys, [b"k".to_vec()]);
            return;
        }
    }
    panic!("the tolerance is never below half a second");
}
