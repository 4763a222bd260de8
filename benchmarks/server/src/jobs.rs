//! `bench jobs`: the lateness, the memory and the cost of jobs.
//!
//! `late`: the due times of jobs are spread over some seconds after the end of loading. One worker
//! waits in JOB TAKE, and acknowledges its jobs before the next JOB TAKE. Lateness is the time of
//! reception minus the job's due time.
//!
//! `storm`: all jobs are due in one millisecond, while another client reads keys.
//!
//! `memory`: the growth of resident memory while delayed jobs with payloads of 100 bytes are added,
//! divided by their number.
//!
//! `cost`: the CPU time of the server for a JOB ADD, a JOB TAKE and a JOB ACK, with [`PIPELINE`]
//! commands at once on each of [`CLIENTS`] connections.
//!
//! `peers`: job queues of other projects (`jobs/peers.rs`).

mod peers;

use std::time::Duration;

use punctual_resp::{Value, encode_command};

use crate::client::Client;
use crate::clock::{sleep_until, unix_micros};
use crate::error::{Error, Result};
use crate::keyload::{self, set_keys};
use crate::late::Late;
use crate::launch::{Program, Server};
use crate::load::{Generator, Load};
use crate::options::JobsOptions;
use crate::report::Report;
use crate::sheet::{self, Bar, Figures, Sheet};
use crate::workload::Template;

const KEY: &str = "pb:jobs";
/// Maximum number of jobs in one JOB TAKE.
const COUNT: &str = "256";
/// Number of commands that are sent at once.
const PIPELINE: u64 = 16;
/// Number of clients in the measurement of CPU, as in `bench server`.
const CLIENTS: u64 = 50;
/// Time after the last due time after which a job counts as lost.
const TIME_LIMIT_US: u64 = 60_000_000;
/// Minimum time until jobs are due that stay pending during the run: an hour, in ms.
const FAR_MS: u64 = 3_600_000;
/// Number of keys that the other client reads in `storm`.
const LIVE_KEYS: u64 = 10_000;
/// Delay until an idle server sleeps, so that the kernel has updated its CPU time.
const SETTLE: Duration = Duration::from_millis(5);

/// Runs the benchmark and prints the report. Each part starts new servers.
pub(crate) fn run(options: &JobsOptions, programs: &[Program], report: &mut Report) -> Result<()> {
    let common = &options.common;
    let parts = common.parts(&["memory", "late", "storm", "cost", "peers"])?;
    let (delayed, passing) = (
        common.keys(50_000, 1_000_000),
        common.keys(100_000, 1_000_000),
    );
    let spread = common.seconds(4, 45);
    report.header(
        "Jobs",
        programs,
        &["memory, late and storm: delayed jobs with payloads of 100 bytes"],
    );
    let mut sheet = Sheet::new("jobs", sheet::columns(programs));
    let late_bar = if options.pending == 0 { 1.0 } else { 2.0 };
    type Part<'a> = (
        &'static str,
        Vec<(&'static str, Bar)>,
        &'a dyn Fn(&Server) -> Result<Figures>,
    );
    let measured: [Part<'_>; 4] = [
        (
            "memory",
            vec![("of a delayed job, bytes", Bar::AtMost(260.0))],
            &|server| memory(server, delayed),
        ),
        (
            "late",
            vec![
                ("late p99, ms", Bar::AtMost(late_bar)),
                ("missing", Bar::Never(0.0)),
                ("early", Bar::Never(0.0)),
                ("again", Bar::Never(0.0)),
            ],
            &|server| {
                let mut figures = Figures::default();
                late(server, delayed, spread, options.pending)?.put(&mut figures);
                Ok(figures)
            },
        ),
        (
            "storm",
            vec![
                ("all done after, ms", Bar::AtMost(5_000.0)),
                ("GET p99, ms", Bar::AtMost(2.0)),
                ("jobs lost, early or again", Bar::Never(0.0)),
            ],
            &|server| storm(server, delayed),
        ),
        (
            "cost",
            vec![("ADD + TAKE + ACK, µs", Bar::AtMost(3.0))],
            &|server| {
                Ok(Figures::from([(
                    "ADD + TAKE + ACK, µs",
                    cost(server, passing)?,
                )]))
            },
        ),
    ];
    for (part, bars, measure) in measured {
        if parts.contains(&part) {
            sheet.measure(report, part, &bars, common.rounds(1, 1), |at, _| {
                measure(&programs[at].start(&[])?)
            })?;
        }
    }
    sheet.show(report)?;
    if parts.contains(&"peers") {
        peers::run(options, programs, report)?;
    }
    Ok(())
}

/// Appends the JOB ADD of a job that is due at `due_ms`, with a payload of 100 bytes.
fn write_add(index: u64, due_ms: u64, out: &mut Vec<u8>) {
    let (payload, due) = (format!("{index:0100}"), due_ms.to_string());
    encode_command(out, &["JOB", "ADD", KEY, &payload, "AT", &due]);
}

/// A job in a reply to JOB TAKE: ID, token, due time in ms, payload.
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

/// Appends a JOB ACK of these jobs, given as pairs of ID and token. Returns false if there are no
/// jobs.
fn write_ack(pairs: &mut Vec<Vec<u8>>, out: &mut Vec<u8>) -> bool {
    if pairs.is_empty() {
        return false;
    }
    let mut words: Vec<Vec<u8>> = vec![b"JOB".into(), b"ACK".into(), KEY.into()];
    words.append(pairs);
    encode_command(out, &words);
    true
}

/// Returns a number of milliseconds below an hour, which looks random.
fn far(index: u64) -> u64 {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % FAR_MS
}

/// Measures the lateness of delayed jobs at a waiting worker, with `pending` later jobs in the
/// queue.
fn late(server: &Server, count: u64, spread: Duration, pending: u64) -> Result<Late> {
    let mut worker = server.client()?;
    let (spread_ms, later_ms) = (spread.as_millis() as u64, unix_micros() / 1000 + FAR_MS);
    keyload::load(&mut worker, pending, "JOB", |index, out| {
        write_add(index, later_ms + far(index), out)
    })?;
    let first_ms = keyload::load_due(&mut worker, count, 2, "JOB", |first_ms, index, out| {
        // The order of the due times differs from the order of addition.
        let place = (index * 7_919) % count;
        write_add(index, first_ms + place * spread_ms / count, out);
    })?;
    work(&mut worker, count, first_ms + spread_ms)
}

/// Measures jobs that are due in one millisecond, and the latency of another client's GETs
/// meanwhile.
fn storm(server: &Server, count: u64) -> Result<Figures> {
    let mut worker = server.client()?;
    set_keys(&mut worker, LIVE_KEYS)?;
    let mut reader = Generator::connect(server.addr, 1)?;
    let due_ms = keyload::load_due(&mut worker, count, 2, "JOB", |first_ms, index, out| {
        write_add(index, first_ms, out)
    })?;
    let load = Load {
        template: &Template::new(&["GET", "key:{n}"], 0),
        pipeline: 1,
        requests: u64::MAX,
        keys: 0..LIVE_KEYS,
        seed: 1,
        stop: None,
    };
    // A GET is in flight at the due time.
    sleep_until(due_ms * 1000 - 1_000);
    let (late, gets) = reader.run_while(&load, || work(&mut worker, count, due_ms))?;
    Ok(Figures::from([
        (
            "all done after, ms",
            unix_micros().saturating_sub(due_ms * 1000) as f64 / 1e3,
        ),
        ("GET p50, ms", gets.ms(50.0)),
        ("GET p99, ms", gets.ms(99.0)),
        ("GET max, ms", gets.ms(100.0)),
        ("jobs lost, early or again", late.wrong()),
    ]))
}

/// Takes and acknowledges `count` jobs, the last of which is due at `last_ms`.
fn work(worker: &mut Client, count: u64, last_ms: u64) -> Result<Late> {
    let mut late = Late::new(count);
    let give_up_us = last_ms * 1000 + TIME_LIMIT_US;
    let mut seen = vec![false; count as usize];
    let (mut acknowledge, mut bytes) = (Vec::<Vec<u8>>::new(), Vec::new());
    while late.count() < count && unix_micros() < give_up_us {
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
                .and_then(|number| number.parse().ok());
            let number: usize = number.ok_or_else(|| Error::Invalid("an unknown job".into()))?;
            match std::mem::replace(&mut seen[number], true) {
                true => late.again += 1,
                false => late.record(now_us, due_ms * 1000),
            }
        }
    }
    bytes.clear();
    if write_ack(&mut acknowledge, &mut bytes) {
        worker.send(&bytes)?;
        worker.replies(1, "JOB")?;
    }
    Ok(late)
}

/// Measures the memory of a delayed job in bytes.
fn memory(server: &Server, count: u64) -> Result<Figures> {
    let mut client = server.client()?;
    let mut add = |count| {
        client.expect(&["DEL", KEY])?;
        keyload::load(&mut client, count, "JOB", |index, out| {
            write_add(index, (1 << 42) + far(index), out)
        })
    };
    // A first load, so that the buffers of the connection already exist before the measurement.
    add(2_000)?;
    let before = server.resident()?;
    add(count)?;
    let grown = server.resident()?.saturating_sub(before);
    Ok(Figures::from([(
        "of a delayed job, bytes",
        grown as f64 / count as f64,
    )]))
}

/// Returns the microseconds of CPU of a job from its addition to its acknowledgement.
fn cost(server: &Server, count: u64) -> Result<f64> {
    let clients = (0..CLIENTS).map(|_| server.client());
    let mut clients = clients.collect::<Result<Vec<Client>>>()?;
    let rounds = count.div_ceil(PIPELINE * CLIENTS);
    let payload = "p".repeat(100);
    let (mut adds, mut takes, mut acks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PIPELINE {
        encode_command(&mut adds, &["JOB", "ADD", KEY, &payload]);
        encode_command(&mut takes, &["JOB", "TAKE", KEY]);
    }
    let ((), cpu) = server.cpu_of(SETTLE, || {
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
                    write_ack(
                        &mut vec![id.to_vec(), token.to_string().into_bytes()],
                        &mut acks,
                    );
                }
                client.send(&acks)?;
            }
            for client in &mut clients {
                client.replies(PIPELINE as usize, "JOB")?;
            }
        }
        Ok(())
    })?;
    Ok(cpu * 1e6 / (rounds * PIPELINE * CLIENTS) as f64)
}
