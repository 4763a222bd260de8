//! `bench jobs`: the lateness, the memory and the cost of jobs.
//!
//! Late: jobs are due at times that are spread over some seconds, all after the end of loading. One worker waits in JOB TAKE, and
//! acknowledges what it got when it asks for more. Lateness is the time of reception minus the job's due time.
//!
//! Memory: the growth of resident memory while delayed jobs with payloads of 100 bytes are added, divided by their number.
//!
//! Storm: all these jobs are due in one millisecond, while another client reads (`jobs/storm.rs`).
//!
//! Cost: the CPU time of the server's process for a JOB ADD, a JOB TAKE and a JOB ACK, each sixteen at once.
//!
//! Peers: other people's job queues (`jobs/peers.rs`).

mod peers;
mod storm;

use std::time::Duration;

use hdrhistogram::Histogram;
use punctual_resp::{Value, encode_command};

use crate::bars;
use crate::client::Client;
use crate::clock::unix_micros;
use crate::csv::Measurement;
use crate::error::{Error, Result};
use crate::keyload;
use crate::lateness::millis_of;
use crate::launch::{self, Server};
use crate::load::latency_histogram;
use crate::options::{JobsOptions, JobsTest};
use crate::process::{CpuTime, resident_bytes};
use crate::report::{self, Report, describe};
use crate::sheet::{Sheet, hundredths, spreads};
use crate::table::{millis, thousands};

const KEY: &str = "pb:jobs";
/// Jobs that a worker takes at once at most.
const COUNT: &str = "256";
/// Commands that are sent at once.
const PIPELINE: u64 = 16;
/// Clients of the measurement of CPU, as in `bench server`.
const CLIENTS: u64 = 50;
/// Time after the last due time after which a job counts as lost.
const TIME_LIMIT_US: u64 = 60_000_000;

/// An hour.
const FAR_MS: u64 = 3_600_000;

const COLUMNS: [(&str, f64); 5] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("max", 100.0),
];

/// Results on one server in one round.
#[derive(Debug, Default)]
struct Run {
    late: Option<Late>,
    storm: Option<storm::Storm>,
    /// Bytes of a delayed job.
    bytes: Option<f64>,
    /// Microseconds of CPU of a job.
    cpu_us: Option<f64>,
}

#[derive(Debug)]
struct Late {
    lateness: Histogram<u64>,
    early: u64,
    lost: u64,
    again: u64,
    /// Time of the last reply, in unix µs.
    end_us: u64,
}

/// Getter of a count.
type Count = fn(&Late) -> u64;

/// Runs the benchmark on every server that has jobs, and prints the report.
pub(crate) fn run(options: &JobsOptions, report: &mut Report) -> Result<()> {
    if JobsTest::ALONE.iter().any(|test| options.has(*test)) {
        alone(options, report)?;
    }
    if options.has(JobsTest::Peers) {
        peers::run(options, report)?;
    }
    Ok(())
}

/// Measures the servers that have jobs, without other people's queues.
fn alone(options: &JobsOptions, report: &mut Report) -> Result<()> {
    let (candidates, mut notes) = launch::candidates(&options.target)?;
    let servers = launch::open_all(&candidates, &[])?;
    let mut able = Vec::new();
    for server in servers {
        let reply = server.client()?.command(&["JOB", "HELP"])?;
        match reply.is_error() {
            true => notes.push(format!(
                "{} has no jobs, and is not measured",
                server.product
            )),
            false => able.push(server),
        }
    }
    report.header(
        &format!(
            "Jobs: {} due over {} s among {} due later, {} added, taken and acknowledged; {} round(s)",
            thousands(options.delayed() as f64),
            options.spread().as_secs_f64(),
            thousands(options.pending as f64),
            thousands(options.passing() as f64),
            options.rounds(),
        ),
        &able.iter().map(describe).collect::<Vec<_>>(),
        &notes,
    );
    if able.is_empty() {
        return Err(Error::Invalid("no server has JOB".into()));
    }
    let mut runs: Vec<Vec<Run>> = able.iter().map(|_| Vec::new()).collect();
    for round in 1..=options.rounds() {
        for (server, runs) in able.iter().zip(&mut runs) {
            let mut run = Run::default();
            // First, because the memory of the others stays with the process.
            if options.has(JobsTest::Memory) {
                run.bytes = memory(options, server)?;
            }
            if options.has(JobsTest::Late) {
                run.late = Some(late(
                    options.delayed(),
                    options.spread(),
                    options.pending,
                    server,
                )?);
            }
            if options.has(JobsTest::Storm) {
                run.storm = Some(storm::run(options, server)?);
            }
            if options.has(JobsTest::Cost) {
                run.cpu_us = cost(options.passing(), server)?;
            }
            record(report, server, round, &run)?;
            runs.push(run);
        }
    }
    print_sheet(options, report, &able, &runs);
    Ok(())
}

/// Adds jobs that are due at `due_ms`, with payloads of 100 bytes.
fn add(server: &Server, count: u64, due_ms: impl Fn(u64) -> u64) -> Result<()> {
    let mut client = server.client()?;
    let bar = report::progress(count, &format!("{}: loading", server.label));
    keyload::load(&mut client, count, "JOB", &bar, |index, out| {
        let payload = format!("{index:0100}");
        let due = due_ms(index).to_string();
        encode_command(out, &["JOB", "ADD", KEY, &payload, "AT", &due]);
    })?;
    bar.finish_and_clear();
    Ok(())
}

/// A job of a reply to JOB TAKE: ID, token, due time in ms, payload.
type Taken<'a> = (&'a [u8], i64, u64, &'a [u8]);

fn taken(reply: &Value) -> impl Iterator<Item = Taken<'_>> {
    let int = |value: &Value| match value {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let jobs = reply.as_slice().unwrap_or_default().iter();
    jobs.filter_map(move |job| {
        let job = job.as_slice()?;
        let due = u64::try_from(int(job.get(4)?)?).ok()?;
        Some((
            job.get(1)?.as_bytes()?,
            int(job.get(2)?)?,
            due,
            job.get(5)?.as_bytes()?,
        ))
    })
}

/// Appends the acknowledgement of jobs, if there are any: pairs of IDs and tokens.
fn write_ack(pairs: &mut Vec<Vec<u8>>, out: &mut Vec<u8>) -> bool {
    if pairs.is_empty() {
        return false;
    }
    let mut words: Vec<Vec<u8>> = vec![b"JOB".into(), b"ACK".into(), KEY.into()];
    words.append(pairs);
    encode_command(out, &words);
    true
}

/// Returns a time within an hour, in no order.
fn far(index: u64) -> u64 {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % FAR_MS
}

/// Measures delayed jobs at a worker that waits.
fn late(count: u64, spread: Duration, pending: u64, server: &Server) -> Result<Late> {
    let mut worker = server.client()?;
    let spread_ms = millis_of(spread);
    worker.expect(&["DEL", KEY])?;
    add(server, pending, |index| {
        unix_micros() / 1000 + FAR_MS + far(index)
    })?;
    let first_ms = first_ms(&mut worker, count)?;
    // Not in the order of their addition.
    let place = |index: u64| (index * 7_919) % count;
    add(server, count, |index| {
        first_ms + place(index) * spread_ms / count
    })?;
    let late = work(server, &mut worker, count, first_ms, spread_ms)?;
    worker.expect(&["DEL", KEY])?;
    Ok(late)
}

/// Returns the earliest due time that so many jobs may have, which are about to be added.
fn first_ms(client: &mut Client, count: u64) -> Result<u64> {
    // A job is longer than what the trial loads.
    let lead = keyload::lead(client, count)? * 2;
    Ok(unix_micros() / 1000 + millis_of(lead))
}

/// Takes and acknowledges jobs that are due from `first_ms` on, as they come.
fn work(
    server: &Server,
    worker: &mut Client,
    count: u64,
    first_ms: u64,
    spread_ms: u64,
) -> Result<Late> {
    if unix_micros() / 1000 >= first_ms {
        return Err(Error::Invalid("loading took longer than expected".into()));
    }
    let mut late = Late {
        lateness: latency_histogram(),
        early: 0,
        lost: 0,
        again: 0,
        end_us: 0,
    };
    let bar = report::progress(count, &format!("{}: due", server.label));
    let give_up_us = (first_ms + spread_ms) * 1000 + TIME_LIMIT_US;
    let mut seen = vec![false; count as usize];
    let (mut left, mut acknowledge) = (count, Vec::<Vec<u8>>::new());
    let mut bytes = Vec::new();
    while left > 0 && unix_micros() < give_up_us {
        bytes.clear();
        let acknowledged = write_ack(&mut acknowledge, &mut bytes);
        encode_command(
            &mut bytes,
            &["JOB", "TAKE", KEY, "COUNT", COUNT, "BLOCK", "500"],
        );
        worker.send(&bytes)?;
        worker.replies(usize::from(acknowledged), "JOB")?;
        let reply = worker.reply()?;
        let now_us = unix_micros();
        for (id, token, due_ms, payload) in taken(&reply) {
            acknowledge.push(id.to_vec());
            acknowledge.push(token.to_string().into_bytes());
            let number = std::str::from_utf8(payload)
                .ok()
                .and_then(|n| n.parse().ok());
            let number: usize = number.ok_or_else(|| Error::Invalid("a strange job".into()))?;
            if std::mem::replace(&mut seen[number], true) {
                late.again += 1;
                continue;
            }
            left -= 1;
            late.early += u64::from(now_us < due_ms * 1000);
            late.lateness
                .saturating_record(now_us.saturating_sub(due_ms * 1000).max(1));
        }
        bar.set_position(count - left);
    }
    bar.finish_and_clear();
    bytes.clear();
    if write_ack(&mut acknowledge, &mut bytes) {
        worker.send(&bytes)?;
        worker.replies(1, "JOB")?;
    }
    late.lost = left;
    late.end_us = unix_micros();
    Ok(late)
}

/// Returns the bytes of a delayed job.
fn memory(options: &JobsOptions, server: &Server) -> Result<Option<f64>> {
    let count = options.delayed();
    let resident = || server.pid.and_then(resident_bytes);
    // The buffers of the connection are there before.
    server.client()?.expect(&["DEL", KEY])?;
    add(server, 2_000, |index| (1 << 42) + index)?;
    let before = resident();
    server.client()?.expect(&["DEL", KEY])?;
    let due = |index: u64| (1 << 42) + far(index);
    add(server, count, due)?;
    let after = resident();
    server.client()?.expect(&["DEL", KEY])?;
    let grown = before.zip(after).map(|(b, a)| a.saturating_sub(b));
    Ok(grown.map(|bytes| bytes as f64 / count as f64))
}

/// Returns the microseconds of CPU of a job from its addition to its acknowledgement, with [`CLIENTS`] clients at a time.
fn cost(count: u64, server: &Server) -> Result<Option<f64>> {
    let mut clients = (0..CLIENTS)
        .map(|_| server.client())
        .collect::<Result<Vec<Client>>>()?;
    clients[0].expect(&["DEL", KEY])?;
    let rounds = count.div_ceil(PIPELINE * CLIENTS);
    let payload = "p".repeat(100);
    let (mut adds, mut takes, mut acks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PIPELINE {
        encode_command(&mut adds, &["JOB", "ADD", KEY, &payload]);
        encode_command(&mut takes, &["JOB", "TAKE", KEY]);
    }
    let before = server.pid.and_then(CpuTime::of);
    for _ in 0..rounds {
        for client in &mut clients {
            client.send(&adds)?;
        }
        for client in &mut clients {
            client.replies(PIPELINE as usize, "JOB")?;
            client.send(&takes)?;
        }
        for client in &mut clients {
            acks.clear();
            for _ in 0..PIPELINE {
                let reply = client.reply()?;
                let Some((id, token, ..)) = taken(&reply).next() else {
                    return Err(Error::Invalid("JOB TAKE returned no job".into()));
                };
                let token = token.to_string();
                let words: [&[u8]; 5] = [b"JOB", b"ACK", KEY.as_bytes(), id, token.as_bytes()];
                encode_command(&mut acks, &words);
            }
            client.send(&acks)?;
        }
        for client in &mut clients {
            client.replies(PIPELINE as usize, "JOB")?;
        }
    }
    let after = server.pid.and_then(CpuTime::of);
    clients[0].expect(&["DEL", KEY])?;
    let jobs = (rounds * PIPELINE * CLIENTS) as f64;
    Ok(before
        .zip(after)
        .map(|(before, after)| after.since(&before).as_secs_f64() * 1e6 / jobs))
}

fn lateness(run: &Run, percentile: f64) -> Option<f64> {
    let all = &run.late.as_ref()?.lateness;
    (!all.is_empty()).then(|| all.value_at_percentile(percentile) as f64 / 1e3)
}

fn record(report: &mut Report, server: &Server, round: u32, run: &Run) -> Result<()> {
    let mut write = |metric: &str, unit: &str, value: Option<f64>| match value {
        None => Ok(()),
        Some(value) => report.record(Measurement {
            benchmark: "jobs",
            server: &server.product,
            case: "jobs",
            round,
            metric,
            unit,
            value,
        }),
    };
    for (name, percentile) in COLUMNS {
        write(&format!("lateness_{name}"), "ms", lateness(run, percentile))?;
    }
    let late = |count: Count| run.late.as_ref().map(|late| count(late) as f64);
    write("early", "jobs", late(|late| late.early))?;
    write("lost", "jobs", late(|late| late.lost))?;
    write("again", "jobs", late(|late| late.again))?;
    let storm = run.storm.as_ref();
    for (name, value) in storm.map(storm::Storm::figures).unwrap_or_default() {
        write(name, "ms", Some(value))?;
    }
    write("memory", "bytes", run.bytes)?;
    write("cpu", "us", run.cpu_us)
}

fn print_sheet(options: &JobsOptions, report: &mut Report, servers: &[Server], runs: &[Vec<Run>]) {
    let mut sheet = Sheet::new("jobs", servers);
    let of = |value: &dyn Fn(&Run) -> Option<f64>| spreads(runs, value);
    let is_there = |figures: &[Option<_>]| figures.iter().any(Option::is_some);
    let bound = match options.pending {
        0 => bars::JOBS_LATENESS,
        _ => bars::JOBS_LATENESS_PENDING,
    };
    for (name, percentile) in COLUMNS {
        let late = of(&|run| lateness(run, percentile));
        if !is_there(&late) {
            continue;
        }
        let name_ms = format!("lateness {name}, ms");
        if percentile == bars::JOBS_PERCENTILE {
            sheet.within(report, &name_ms, &late, bound);
        } else {
            sheet.shown(&name_ms, &late, millis);
        }
    }
    let counts: [(&str, Count); 3] = [
        ("jobs lost", |late| late.lost),
        ("jobs early", |late| late.early),
        ("jobs again", |late| late.again),
    ];
    for (name, count) in counts {
        let figures = of(&|run| run.late.as_ref().map(|late| count(late) as f64));
        if is_there(&figures) {
            sheet.none(report, name, &figures);
        }
    }
    storm::print(report, &mut sheet, runs);
    let bytes = of(&|run| run.bytes);
    if is_there(&bytes) {
        let bar = bars::BYTES_PER_JOB;
        let judged = bytes.iter().map(|figure| {
            let met = figure.is_some_and(|figure| figure.median <= bar);
            (crate::spread::text_with(*figure, thousands), met)
        });
        let judged: Vec<_> = judged.collect();
        let name = "bytes of a delayed job";
        sheet.counted(report, name, &format!("<= {bar}"), judged);
    }
    let cpu = of(&|run| run.cpu_us);
    if is_there(&cpu) {
        let bar = bars::JOB_CPU_US;
        let judged = cpu.iter().map(|figure| {
            let met = figure.is_some_and(|figure| figure.median <= bar);
            (crate::spread::text_with(*figure, hundredths), met)
        });
        let judged: Vec<_> = judged.collect();
        let name = "ADD + TAKE + ACK, us of CPU";
        sheet.judged(report, name, &format!("<= {bar}"), judged);
    }
    say!("{sheet}");
}
