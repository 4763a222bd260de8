//! `bench streams`, beside redis-server: what consumer groups cost, and how long a large stream takes to and from a file.
//!
//! The CPU time is that of the server's process for rounds of XREADGROUP COUNT 10 and XACK of what it returned, pipelined. The bytes of a pending
//! entry are the growth of resident memory while a consumer reads a whole stream, divided by its entries.

use std::time::Instant;

use punctual_resp::encode_command;

use super::entry_ids;
use crate::bars;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::keyload;
use crate::launch::{self, Server};
use crate::options::{StreamsOptions, StreamsTest};
use crate::process::{CpuTime, resident_bytes};
use crate::report::{self, Report};
use crate::sheet::{Bound, Sheet, ratios, spreads};
use punctual_figures::table::{millis, thousands};

/// Entries of one XREADGROUP, as in the bar.
const COUNT: u64 = 10;
/// XREADGROUPs, and then XACKs, that are sent at once.
const PIPELINE: u64 = 16;

/// A figure of a round; `None` if the server is not on this machine or refuses.
#[derive(Debug, Default)]
struct Run {
    /// Microseconds of CPU of an XREADGROUP and its XACK.
    cpu_us: Option<f64>,
    pending_bytes: Option<f64>,
    save_ms: Option<f64>,
    load_ms: Option<f64>,
}

/// Measures every server, and prints the table.
pub(super) fn run(options: &StreamsOptions, report: &mut Report, servers: &[Server]) -> Result<()> {
    let mut runs: Vec<Vec<Run>> = servers.iter().map(|_| Vec::new()).collect();
    for round in 1..=options.rounds() {
        for (server, runs) in servers.iter().zip(&mut runs) {
            let mut run = Run::default();
            if options.has(StreamsTest::Groups) {
                run.cpu_us = cost(options, server)?;
                run.pending_bytes = pending(options, server)?;
            }
            if options.has(StreamsTest::File) {
                (run.save_ms, run.load_ms) = file(options, server)?;
            }
            let figures = [
                ("group_cpu", "us", run.cpu_us),
                ("pending_bytes", "bytes", run.pending_bytes),
                ("save", "ms", run.save_ms),
                ("load", "ms", run.load_ms),
            ];
            report.record_all("streams", &server.product, "groups", round, figures)?;
            runs.push(run);
        }
    }
    print(report, servers, &runs);
    Ok(())
}

/// Name, name of the ratio, value, bar of the ratio, and format.
type Row = (
    &'static str,
    &'static str,
    fn(&Run) -> Option<f64>,
    f64,
    fn(f64) -> String,
);

fn print(report: &mut Report, servers: &[Server], runs: &[Vec<Run>]) {
    let mut sheet = Sheet::new("groups and files", servers);
    let reference = launch::reference(servers);
    let rows: [Row; 4] = [
        (
            "XREADGROUP of 10 + XACK, us of CPU",
            "CPU to redis-server",
            |run| run.cpu_us,
            bars::STREAMS_GROUP_CPU_RATIO,
            millis,
        ),
        (
            "bytes of a pending entry",
            "bytes to redis-server",
            |run| run.pending_bytes,
            bars::STREAMS_PENDING_BYTES_RATIO,
            thousands,
        ),
        (
            "SAVE, ms",
            "SAVE to redis-server",
            |run| run.save_ms,
            bars::STREAMS_FILE_RATIO,
            thousands,
        ),
        (
            "load, ms",
            "load to redis-server",
            |run| run.load_ms,
            bars::STREAMS_FILE_RATIO,
            thousands,
        ),
    ];
    for (name, ratio, value, bar, show) in rows {
        let figures = spreads(runs, value);
        if figures.iter().all(Option::is_none) {
            continue;
        }
        sheet.shown(name, &figures, show);
        let to_reference = ratios(
            runs,
            |at| reference.filter(|reference| *reference != at),
            |run, base| Some(value(run)? / value(base)?),
        );
        sheet.ratio(report, ratio, &to_reference, Bound::AtMost(bar));
    }
    say!("{sheet}");
}

/// Creates a stream of `count` entries with two small fields, and a group that has read none.
fn fill(client: &mut Client, server: &Server, key: &str, count: u64) -> Result<()> {
    client.expect(&["DEL", key])?;
    let bar = report::progress(count, &format!("{}: loading", server.label));
    keyload::load(client, count, "XADD", &bar, |index, out| {
        let (id, number) = (format!("{}-1", index + 1), format!("{index:08}"));
        let words = ["XADD", key, &id, "name", &number, "size", &number];
        encode_command(out, &words);
    })?;
    bar.finish_and_clear();
    client.expect(&["XGROUP", "CREATE", key, "g", "0"])?;
    Ok(())
}

fn read_group<'a>(key: &'a str, count: &'a str) -> [&'a str; 9] {
    [
        "XREADGROUP",
        "GROUP",
        "g",
        "c",
        "COUNT",
        count,
        "STREAMS",
        key,
        ">",
    ]
}

/// Returns the microseconds of CPU of an XREADGROUP and the XACK of its entries.
fn cost(options: &StreamsOptions, server: &Server) -> Result<Option<f64>> {
    const KEY: &str = "pb:group";
    let mut client = server.client()?;
    let pairs = options.group_reads();
    fill(&mut client, server, KEY, pairs * COUNT)?;
    let (count, before) = (COUNT.to_string(), server.pid.and_then(CpuTime::of));
    let mut bytes = Vec::new();
    let mut done = 0;
    while done < pairs {
        let batch = PIPELINE.min(pairs - done);
        bytes.clear();
        for _ in 0..batch {
            encode_command(&mut bytes, &read_group(KEY, &count));
        }
        client.send(&bytes)?;
        bytes.clear();
        for _ in 0..batch {
            let ids = entry_ids(&client.reply()?);
            if ids.len() as u64 != COUNT {
                return Err(Error::Invalid("XREADGROUP returned too few entries".into()));
            }
            let mut words = vec![b"XACK".to_vec(), KEY.into(), b"g".to_vec()];
            words.extend(ids);
            encode_command(&mut bytes, &words);
        }
        client.send(&bytes)?;
        client.replies(batch as usize, "XACK")?;
        done += batch;
    }
    let after = server.pid.and_then(CpuTime::of);
    client.expect(&["DEL", KEY])?;
    Ok(before
        .zip(after)
        .map(|(before, after)| after.since(&before).as_secs_f64() * 1e6 / pairs as f64))
}

/// Returns the bytes of a pending entry.
fn pending(options: &StreamsOptions, server: &Server) -> Result<Option<f64>> {
    const KEY: &str = "pb:pending";
    let mut client = server.client()?;
    let count = options.pending();
    fill(&mut client, server, KEY, count)?;
    let resident = || server.pid.and_then(resident_bytes);
    // The buffers of the replies are there before.
    client.expect(&["XRANGE", KEY, "-", "+", "COUNT", "1000"])?;
    let before = resident();
    let mut read = 0;
    while read < count {
        let reply = client.expect(&read_group(KEY, "1000"))?;
        let ids = entry_ids(&reply).len() as u64;
        if ids == 0 {
            return Err(Error::Invalid("XREADGROUP returned too few entries".into()));
        }
        read += ids;
    }
    let after = resident();
    client.expect(&["DEL", KEY])?;
    Ok(before
        .zip(after)
        .map(|(before, after)| after.saturating_sub(before) as f64 / count as f64))
}

/// Returns the milliseconds of SAVE and of a load, of one large stream.
fn file(options: &StreamsOptions, server: &Server) -> Result<(Option<f64>, Option<f64>)> {
    if !server.started {
        return Ok((None, None));
    }
    let mut client = server.client()?;
    client.expect(&["FLUSHALL"])?;
    fill(&mut client, server, "pb:file", options.file())?;
    let mut timed = |words: &[&str]| -> Result<Option<f64>> {
        let begun = Instant::now();
        client.expect(words)?;
        Ok(Some(begun.elapsed().as_secs_f64() * 1e3))
    };
    let save = timed(&["SAVE"])?;
    let load = timed(&["DEBUG", "RELOAD", "NOSAVE"])?;
    let there = client.integer(&["XLEN", "pb:file"])?;
    if there.cast_unsigned() != options.file() {
        return Err(Error::Invalid(
            "the stream was not loaded as a whole".into(),
        ));
    }
    client.expect(&["FLUSHALL"])?;
    Ok((save, load))
}
