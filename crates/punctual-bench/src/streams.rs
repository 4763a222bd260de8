//! `bench streams`: the lateness of what happens to entries of streams by themselves.
//!
//! Lease: a consumer is given entries at a constant rate and never acknowledges them; another one waits in XREADGROUP. A transaction asks the
//! server for its time, adds entries, and has them delivered by XCLAIM, because XREADGROUP would take over entries whose lease has ended.
//! Lateness is the time of reception minus that time and the lease.
//!
//! Retention: entries have IDs whose ages end over some seconds, all after the end of loading. They leave in the order of their IDs, and
//! INFO counts them without touching the stream: lateness is the time of the first INFO that counts an entry minus its end.

mod groups;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use punctual_resp::{Value, encode_command};

use crate::bars;
use crate::blocking::instant;
use crate::client::{Client, error_text};
use crate::clock::{sleep_until, unix_micros};
use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::keyload;
use crate::lateness::millis_of;
use crate::launch::{self, Server};
use crate::load::latency_histogram;
use crate::options::{StreamsOptions, StreamsTest};
use crate::report::{self, Report, describe};
use crate::sheet::{Sheet, spreads};
use crate::table::{millis, thousands};

/// The lease in ms.
const LEASE_MS: u64 = 1_000;
/// Interval between two deliveries.
const BATCH_US: u64 = 1_000;
/// Time after the last end after which an entry counts as lost.
const TIME_LIMIT_US: u64 = 10_000_000;
/// Interval between two looks at INFO.
const POLL_US: u64 = 200;
/// The age of entries in ms; it only has to be longer than the load takes.
const AGE_MS: u64 = 3_600_000;

const COLUMNS: [(&str, f64); 5] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("max", 100.0),
];

/// Results of one part on one server in one round.
#[derive(Debug)]
struct Run {
    lateness: Histogram<u64>,
    early: u64,
    /// Entries that did not come, or did not leave.
    lost: u64,
    /// Entries that came more than once.
    again: u64,
}

/// Measures one part on one server.
type Measure = fn(&StreamsOptions, &Server) -> Result<Run>;
/// Getter of a count of one run.
type Count = fn(&Run) -> u64;

impl Run {
    fn new() -> Self {
        Self {
            lateness: latency_histogram(),
            early: 0,
            lost: 0,
            again: 0,
        }
    }

    fn late(&mut self, now_us: u64, due_us: u64) {
        self.lateness
            .saturating_record(now_us.saturating_sub(due_us).max(1));
    }
}

/// Runs the benchmark on every server and prints the report.
pub(crate) fn run(options: &StreamsOptions, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) = launch::candidates(&options.target)?;
    let servers = launch::open_all(&candidates, &[("enable-debug-command", "yes")])?;
    let late = options.has(StreamsTest::Lease) || options.has(StreamsTest::Retention);
    let mut able = Vec::new();
    for server in &servers {
        match late && lacks_retention(server)? {
            true => notes.push(format!(
                "{} has no leases and no retention by age, and is not measured there",
                server.product
            )),
            false => able.push(server),
        }
    }
    report.header(
        &format!(
            "Entries of streams: {} with a lease of {} s delivered over {} s, {} that age over {} s; {} round(s)",
            thousands(options.leased() as f64),
            LEASE_MS as f64 / 1e3,
            options.delivery().as_secs_f64(),
            thousands(options.aging() as f64),
            options.spread().as_secs_f64(),
            options.rounds(),
        ),
        &servers.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    if options.has(StreamsTest::Groups) || options.has(StreamsTest::File) {
        groups::run(options, report, &servers)?;
    }
    if late && able.is_empty() {
        return Err(Error::Invalid(
            "no server has XRETAIN and XGROUP SETLEASE".into(),
        ));
    }
    let parts: [(StreamsTest, &str, Measure); 2] = [
        (StreamsTest::Lease, "lease", lease),
        (StreamsTest::Retention, "retention", retention),
    ];
    for (test, name, measure) in parts {
        if !options.has(test) {
            continue;
        }
        let mut runs: Vec<Vec<Run>> = able.iter().map(|_| Vec::new()).collect();
        for round in 1..=options.rounds() {
            for (server, runs) in able.iter().zip(&mut runs) {
                let run = measure(options, server)?;
                record(report, server, name, round, &run)?;
                runs.push(run);
            }
        }
        print_sheet(report, name, &able, &runs);
    }
    Ok(())
}

/// Returns whether a server does not know XRETAIN. One that knows it has no such key.
fn lacks_retention(server: &Server) -> Result<bool> {
    let reply = server.client()?.command(&["XRETAIN", "pb:none", "GET"])?;
    Ok(error_text(&reply).contains("unknown command"))
}

/// Measures entries whose leases end.
fn lease(options: &StreamsOptions, server: &Server) -> Result<Run> {
    let mut crashing = server.client()?;
    crashing.expect(&["DEL", "pb:leased"])?;
    crashing.expect(&["XGROUP", "CREATE", "pb:leased", "g", "0", "MKSTREAM"])?;
    crashing.expect(&[
        "XGROUP",
        "SETLEASE",
        "pb:leased",
        "g",
        &LEASE_MS.to_string(),
    ])?;
    let (count, duration_us) = (options.leased(), millis_of(options.delivery()) * 1000);
    let bar = report::progress(count, &format!("{}: leases", server.label));
    let stop = AtomicBool::new(false);
    let (sent, received) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_again(server, count, duration_us, &stop));
        let sent = deliver(&mut crashing, count, duration_us, &bar);
        if sent.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let received = reader
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (sent, received)
    });
    bar.finish_and_clear();
    let (sent, received) = (sent?, received?);
    let mut run = Run::new();
    for (id, time_us) in &sent {
        let due_us = time_us + LEASE_MS * 1000;
        match received.get(id).map(Vec::as_slice) {
            None => run.lost += 1,
            Some([first_us, again @ ..]) => {
                run.again += again.len() as u64;
                run.early += u64::from(*first_us < due_us);
                run.late(*first_us, due_us);
            }
            Some([]) => {}
        }
    }
    crashing.expect(&["DEL", "pb:leased"])?;
    Ok(run)
}

/// Adds entries and has them delivered to a consumer, in one transaction a batch. Returns each ID with the server's time of its
/// delivery in µs.
fn deliver(
    client: &mut Client,
    count: u64,
    duration_us: u64,
    bar: &indicatif::ProgressBar,
) -> Result<Vec<(Vec<u8>, u64)>> {
    let mut delivered = Vec::new();
    let begun_us = unix_micros();
    let mut bytes = Vec::new();
    while (delivered.len() as u64) < count {
        let elapsed = unix_micros() - begun_us;
        let wanted = (count as f64 * elapsed as f64 / duration_us as f64).ceil() as u64;
        let first = delivered.len() as u64 + 1;
        let ids: Vec<String> = (first..=wanted.min(count))
            .map(|n| format!("{n}-0"))
            .collect();
        if let Some(last) = ids.last() {
            bytes.clear();
            encode_command(&mut bytes, &["MULTI"]);
            encode_command(&mut bytes, &["TIME"]);
            for id in &ids {
                encode_command(&mut bytes, &["XADD", "pb:leased", id, "f", "value"]);
            }
            let mut words = vec!["XCLAIM", "pb:leased", "g", "crashing", "0"];
            words.extend(ids.iter().map(String::as_str));
            words.extend(["FORCE", "JUSTID", "LASTID", last]);
            encode_command(&mut bytes, &words);
            encode_command(&mut bytes, &["EXEC"]);
            client.send(&bytes)?;
            client.replies(ids.len() + 3, "XADD")?;
            let done = client.reply()?;
            let time_us = done
                .as_slice()
                .and_then(|replies| instant(replies.first()?));
            let time_us = time_us.ok_or_else(|| Error::Invalid(format!("EXEC: {done:?}")))?;
            delivered.extend(ids.into_iter().map(|id| (id.into_bytes(), time_us)));
            bar.set_position(delivered.len() as u64);
        }
        std::thread::sleep(Duration::from_micros(BATCH_US));
    }
    Ok(delivered)
}

/// Reads what is delivered again, and acknowledges it. Returns the times at which each entry came.
fn read_again(
    server: &Server,
    count: u64,
    duration_us: u64,
    stop: &AtomicBool,
) -> Result<HashMap<Vec<u8>, Vec<u64>>> {
    let mut client = server.client()?;
    let mut received: HashMap<Vec<u8>, Vec<u64>> = HashMap::new();
    let give_up_us = unix_micros() + duration_us + LEASE_MS * 1000 + TIME_LIMIT_US;
    let mut acknowledge: Vec<Vec<u8>> = Vec::new();
    while (received.len() as u64) < count
        && unix_micros() < give_up_us
        && !stop.load(Ordering::Relaxed)
    {
        let mut bytes = Vec::new();
        let acknowledged = !acknowledge.is_empty();
        if acknowledged {
            let mut words = vec![b"XACK".to_vec(), b"pb:leased".to_vec(), b"g".to_vec()];
            words.append(&mut acknowledge);
            encode_command(&mut bytes, &words);
        }
        let words = [
            "XREADGROUP",
            "GROUP",
            "g",
            "reader",
            "BLOCK",
            "500",
            "STREAMS",
            "pb:leased",
            ">",
        ];
        encode_command(&mut bytes, &words);
        client.send(&bytes)?;
        client.replies(usize::from(acknowledged), "XACK")?;
        let reply = client.reply()?;
        let now_us = unix_micros();
        for id in entry_ids(&reply) {
            acknowledge.push(id.clone());
            received.entry(id).or_default().push(now_us);
        }
    }
    Ok(received)
}

/// Returns the IDs in a reply to XREADGROUP on one stream.
fn entry_ids(reply: &Value) -> Vec<Vec<u8>> {
    let entries = || reply.as_slice()?.first()?.as_slice()?.get(1)?.as_slice();
    let entries = entries().unwrap_or_default().iter();
    entries
        .filter_map(|entry| Some(entry.as_slice()?.first()?.as_bytes()?.to_vec()))
        .collect()
}

/// Measures entries whose age ends.
fn retention(options: &StreamsOptions, server: &Server) -> Result<Run> {
    let mut client = server.client()?;
    client.expect(&["DEL", "pb:aging"])?;
    let (count, spread_ms) = (options.aging(), millis_of(options.spread()));
    let lead = keyload::lead(&mut client, count)?;
    client.expect(&["XGROUP", "CREATE", "pb:aging", "g", "0", "MKSTREAM"])?;
    client.expect(&["XRETAIN", "pb:aging", "MAXAGE", &AGE_MS.to_string()])?;
    let first_ms = unix_micros() / 1000 + millis_of(lead);
    let due_ms = |index: u64| first_ms + index * spread_ms / count;
    let bar = report::progress(count, &format!("{}: loading", server.label));
    keyload::load(&mut client, count, "XADD", &bar, |index, out| {
        let id = format!("{}-{index}", due_ms(index) - AGE_MS);
        encode_command(out, &["XADD", "pb:aging", &id, "f", "value"]);
    })?;
    bar.finish_and_clear();
    if unix_micros() / 1000 >= first_ms {
        return Err(Error::Invalid("loading took longer than expected".into()));
    }
    let before = left(&mut client)?;
    let mut run = Run::new();
    let (mut gone, give_up_us) = (0, due_ms(count) * 1000 + TIME_LIMIT_US);
    let bar = report::progress(count, &format!("{}: aging", server.label));
    sleep_until(first_ms * 1000 - 20_000);
    while gone < count && unix_micros() < give_up_us {
        let now_gone = left(&mut client)? - before;
        let now_us = unix_micros();
        for index in gone..now_gone {
            let due_us = due_ms(index) * 1000;
            run.early += u64::from(now_us < due_us);
            run.late(now_us, due_us);
        }
        gone = gone.max(now_gone);
        bar.set_position(gone);
        std::thread::sleep(Duration::from_micros(POLL_US));
    }
    bar.finish_and_clear();
    run.lost = count - gone;
    client.expect(&["DEL", "pb:aging"])?;
    Ok(run)
}

/// Returns the number of entries that have left streams by their retention, since the server started.
fn left(client: &mut Client) -> Result<u64> {
    let info = client.expect(&["INFO", "stats"])?;
    let text = String::from_utf8_lossy(info.as_bytes().unwrap_or_default()).into_owned();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("stream_entries_retained_out:"));
    line.and_then(|number| number.trim().parse().ok())
        .ok_or_else(|| Error::Invalid("INFO has no stream_entries_retained_out".into()))
}

fn lateness(run: &Run, percentile: f64) -> Option<f64> {
    let all = &run.lateness;
    (!all.is_empty()).then(|| all.value_at_percentile(percentile) as f64 / 1e3)
}

fn record(report: &mut Report, server: &Server, case: &str, round: u32, run: &Run) -> Result<()> {
    let mut write = |metric: &str, unit: &str, value: f64| {
        report.record(Measurement {
            benchmark: "streams",
            server: &server.product,
            case,
            round,
            metric,
            unit,
            value,
        })
    };
    for (name, percentile) in COLUMNS {
        if let Some(late) = lateness(run, percentile) {
            write(&format!("lateness_{name}"), "ms", late)?;
        }
    }
    write("early", "entries", run.early as f64)?;
    write("lost", "entries", run.lost as f64)?;
    write("again", "entries", run.again as f64)
}

fn print_sheet(report: &mut Report, name: &str, servers: &[&Server], runs: &[Vec<Run>]) {
    let columns: Vec<(String, bool)> = servers
        .iter()
        .map(|server| (server.label.clone(), server.ours))
        .collect();
    let mut sheet = Sheet::with_columns(&format!("lateness, {name}"), &columns);
    let of = |value: &dyn Fn(&Run) -> Option<f64>| spreads(runs, value);
    for (name, percentile) in COLUMNS {
        let late = of(&|run| lateness(run, percentile));
        let name_ms = format!("{name}, ms");
        if percentile == bars::STREAMS_PERCENTILE {
            sheet.within(report, &name_ms, &late, bars::STREAMS_LATENESS);
        } else {
            sheet.shown(&name_ms, &late, millis);
        }
    }
    let entries = of(&|run| Some(run.lateness.len() as f64));
    sheet.shown("entries", &entries, thousands);
    let counts: [(&str, Count); 3] = [
        ("entries lost", |run| run.lost),
        ("entries early", |run| run.early),
        ("entries again", |run| run.again),
    ];
    for (name, count) in counts {
        sheet.none(report, name, &of(&|run| Some(count(run) as f64)));
    }
    say!("{sheet}");
}
