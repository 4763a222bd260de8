//! Lateness of expired keys on a replica's own event stream.
//!
//! A replica removes a key when its primary says so. Redis's replica then publishes `del`, because the primary has sent a
//! DEL; so a trial finds out which event to count.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use punctual_resp::encode_command;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Name, attach, redis, wait_until_attached};
use crate::bars;
use crate::clock::unix_micros;
use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::events::{Expected, Received, Receiver, key_name};
use crate::keyload;
use crate::lateness::{check_lead, millis_of};
use crate::launch::{Candidate, Server};
use crate::options::ReplicationOptions;
use crate::report::{self, Report};
use crate::sheet::Sheet;
use punctual_figures::table::{millis, thousands};

/// The settings of both servers of a pair.
const SETTINGS: [(&str, &str); 2] = [super::SETTINGS[0], ("notify-keyspace-events", "Egx")];
/// The events that tell of the end of a key.
const EVENTS: [&str; 2] = ["expired", "del"];
/// Time limit of the trial that finds the event.
const TRIAL_LIMIT: Duration = Duration::from_secs(20);
/// Interval of the checks whether all events have arrived.
const POLL: Duration = Duration::from_millis(100);

/// Results of one pair.
struct Run {
    event: &'static str,
    received: Received,
    missing: u64,
}

/// Measures and prints a table with a column per pair.
pub(super) fn run(
    options: &ReplicationOptions,
    programs: &[(&Candidate, Name)],
    report: &mut Report,
) -> Result<()> {
    let redis = redis(programs);
    let (mut columns, mut runs) = (Vec::new(), Vec::new());
    for (at, (primary, name)) in programs.iter().enumerate() {
        for (to, (replica, replica_name)) in programs.iter().enumerate() {
            // Keys of a redis-server primary expire late on any replica.
            if Some(at) == redis && to != at {
                continue;
            }
            let label = format!("{} -> {}", name.label, replica_name.label);
            let run = once(
                options,
                &primary.open(&SETTINGS)?,
                &replica.open(&SETTINGS)?,
                &label,
            )?;
            for (metric, percentile) in [("lateness_p50", 50.0), ("lateness_p99", 99.0)] {
                report.record(Measurement {
                    benchmark: "replication",
                    server: &name.product,
                    case: &format!("expiry on {}", replica_name.label),
                    round: 1,
                    metric,
                    unit: "ms",
                    value: run.at(percentile),
                })?;
            }
            columns.push((label, name.ours && replica_name.ours));
            runs.push(run);
        }
    }
    print(options, report, &columns, &runs);
    Ok(())
}

impl Run {
    /// Returns the lateness in ms at a percentile.
    fn at(&self, percentile: f64) -> f64 {
        self.received.lateness.value_at_percentile(percentile) as f64 / 1000.0
    }
}

fn print(
    options: &ReplicationOptions,
    report: &mut Report,
    columns: &[(String, bool)],
    runs: &[Run],
) {
    say!(
        "Lateness on the replica's event stream: {} keys, deadlines over {} s:",
        thousands(options.expiring() as f64),
        options.spread().as_secs_f64()
    );
    let mut sheet = Sheet::with_columns("lateness", columns);
    sheet.row("event", runs.iter().map(|run| run.event.to_owned()));
    sheet.row("p50, ms", runs.iter().map(|run| millis(run.at(50.0))));
    let bound = bars::REPLICA_LATENESS.as_secs_f64() * 1e3;
    let judged = runs.iter().map(|run| {
        let late = run.at(99.0);
        (millis(late), run.missing == 0 && late <= bound)
    });
    sheet.judged(report, "p99, ms", &format!("<= {bound}"), judged);
    sheet.row("p99.9, ms", runs.iter().map(|run| millis(run.at(99.9))));
    sheet.row("max, ms", runs.iter().map(|run| millis(run.at(100.0))));
    let count = |value: u64| (thousands(value as f64), value == 0);
    let missing = runs.iter().map(|run| count(run.missing));
    sheet.counted(report, "events missing", "0", missing);
    let early = runs.iter().map(|run| count(run.received.early));
    sheet.counted(report, "events early", "0", early);
    say!("{sheet}");
}

/// Loads the primary and collects the events of its replica.
fn once(
    options: &ReplicationOptions,
    primary: &Server,
    replica: &Server,
    label: &str,
) -> Result<Run> {
    let mut client = primary.client()?;
    let mut control = replica.client()?;
    attach(&mut control, primary)?;
    wait_until_attached(replica, &mut control)?;
    let event = event_of(primary, replica)?;
    let (keys, spread_ms) = (options.expiring(), millis_of(options.spread()).max(1));
    let lead = match options.lead {
        Some(lead) => lead,
        // The replica takes its share of the machine.
        None => keyload::lead(&mut client, keys)? * 2,
    };
    let expected = Expected {
        event,
        names: keys,
        each: 1,
        step_ms: 0,
    };
    let receiver = Receiver::subscribe(replica, expected)?;
    let begun = Instant::now();
    let first_ms = unix_micros() / 1000 + millis_of(lead);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let bar = report::progress(keys, &format!("{label}: loading"));
    keyload::load(&mut client, keys, "SET", &bar, |index, out| {
        let deadline = first_ms + rng.random_range(0..spread_ms);
        let (name, at) = (key_name(deadline, index), deadline.to_string());
        let words = [b"SET", &name[..], keyload::VALUE, b"PXAT", at.as_bytes()];
        encode_command(out, &words);
    })?;
    super::wait_for_replica(primary, &mut client)?;
    bar.finish_and_clear();
    check_lead(begun.elapsed(), lead)?;
    let bar = report::progress(keys, &format!("{label}: expiring"));
    let give_up = (first_ms + spread_ms + millis_of(options.wait())) * 1000;
    while receiver.count() < keys && unix_micros() < give_up {
        std::thread::sleep(POLL);
        bar.set_position(receiver.count());
    }
    bar.finish_and_clear();
    let received = receiver.finish()?;
    Ok(Run {
        event,
        missing: keys - received.keys,
        received,
    })
}

/// Returns the event that the replica publishes for an expired key.
fn event_of(primary: &Server, replica: &Server) -> Result<&'static str> {
    let mut subscriber = replica.client()?;
    for event in EVENTS {
        subscriber.expect(&["SUBSCRIBE", &format!("__keyevent@0__:{event}")])?;
    }
    let mut client = primary.client()?;
    client.expect(&["SET", "punctual-bench:trial", "x", "PX", "10"])?;
    let begun = Instant::now();
    while begun.elapsed() < TRIAL_LIMIT {
        let message = subscriber.reply()?;
        let words = message.as_slice().unwrap_or_default();
        let channel = words
            .get(1)
            .and_then(|word| word.as_bytes())
            .unwrap_or_default();
        let named = |event: &&&str| channel.ends_with(event.as_bytes());
        if words.len() == 3
            && words[0].as_bytes() == Some(b"message")
            && let Some(event) = EVENTS.iter().find(named)
        {
            return Ok(event);
        }
    }
    Err(Error::Broken {
        doing: "waiting for the event of an expired key from",
        addr: replica.addr,
        source: ErrorKind::TimedOut.into(),
    })
}
