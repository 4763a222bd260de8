//! `bench streams`: the lateness of leases and retention of stream entries, and the cost of
//! consumer groups.
//!
//! `lease`: one consumer receives entries at a constant rate and never acknowledges them. After the
//! lease, another consumer, which waits in XREADGROUP, receives them. A transaction reads the
//! server's time, adds entries, and delivers them to the first consumer by XCLAIM, because
//! XREADGROUP would also deliver entries whose lease has ended. Lateness is the time of the second
//! delivery minus the server's time in that transaction and minus the lease.
//!
//! `retention`: the entries reach their maximum age over some seconds after the end of loading. The
//! server removes them in the order of their IDs, and INFO has the number of removed entries.
//! Lateness is the time of the first INFO that counts an entry as removed, minus the time at which
//! it reached the maximum age.
//!
//! `groups`: the CPU time of XREADGROUP and XACK, and the memory of pending entries.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punctual_resp::{Value, encode_command};

use crate::blocking::instant;
use crate::client::Client;
use crate::clock::{sleep_until, unix_micros};
use crate::error::{Error, Result};
use crate::keyload;
use crate::late::Late;
use crate::launch::{self, Program, Server};
use crate::options::Common;
use crate::report::Report;
use crate::sheet::{self, Bar, Figures, Sheet};

/// Duration of the lease in ms.
const LEASE_MS: u64 = 1_000;
/// Interval between two deliveries.
const BATCH_US: u64 = 1_000;
/// Time after the end of the last lease or age after which a missing entry counts as lost.
const TIME_LIMIT_US: u64 = 10_000_000;
/// Interval between two reads of INFO.
const POLL_US: u64 = 200;
/// Maximum age of entries in ms. It must be longer than loading takes.
const AGE_MS: u64 = 3_600_000;
/// Number of entries per XREADGROUP in the measurement of CPU.
const COUNT: u64 = 10;
/// Number of XREADGROUPs, and then of XACKs, that are sent at once.
const PIPELINE: u64 = 16;
/// Delay until an idle server sleeps, so that the kernel has updated its CPU time.
const SETTLE: Duration = Duration::from_millis(5);

/// Runs the benchmark and prints the report.
pub(crate) fn run(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let parts = common.parts(&["groups", "lease", "retention"])?;
    report.header(
        "Entries of streams: groups, leases, retention by age",
        programs,
        &[],
    );
    let servers = launch::start_all(programs, &[])?;
    let mut sheet = Sheet::new("streams", sheet::columns(programs));
    let rounds = common.rounds(1, 1);
    if parts.contains(&"groups") {
        let bars = [
            ("XREADGROUP of 10 + XACK, µs", Bar::RatioAtMost(0.6)),
            ("of a pending entry, bytes", Bar::RatioAtMost(0.7)),
        ];
        let (reads, pending) = (common.usual(2_000, 20_000), common.keys(100_000, 1_000_000));
        sheet.measure(report, "groups", &bars, rounds, |at, _| {
            groups(&servers[at], reads, pending)
        })?;
    }
    let bars = [
        ("late p99, ms", Bar::AtMost(2.0)),
        ("missing", Bar::Never(0.0)),
        ("early", Bar::Never(0.0)),
        ("again", Bar::Never(0.0)),
    ];
    if parts.contains(&"lease") {
        let (count, seconds) = (common.keys(10_000, 100_000), common.seconds(2, 20));
        sheet.measure(report, "lease of 1 s", &bars, rounds, |at, _| {
            lease(&servers[at], count, seconds)
        })?;
    }
    if parts.contains(&"retention") {
        let (count, seconds) = (common.keys(100_000, 1_000_000), common.seconds(5, 45));
        sheet.measure(report, "retention", &bars, rounds, |at, _| {
            retention(&servers[at], count, seconds)
        })?;
    }
    sheet.show(report)?;
    Ok(())
}

/// Measures the lateness of entries whose leases end.
fn lease(server: &Server, count: u64, duration: Duration) -> Result<Figures> {
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
    let (duration_us, stop) = (duration.as_micros() as u64, AtomicBool::new(false));
    let (sent, received) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_again(server, count, duration_us, &stop));
        let sent = deliver(&mut crashing, count, duration_us);
        if sent.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let received = reader
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (sent, received)
    });
    let (sent, received) = (sent?, received?);
    let mut late = Late::new(count);
    for (id, time_us) in &sent {
        if let Some([first_us, again @ ..]) = received.get(id).map(Vec::as_slice) {
            late.again += again.len() as u64;
            late.record(*first_us, time_us + LEASE_MS * 1000);
        }
    }
    let mut figures = Figures::default();
    late.put(&mut figures);
    Ok(figures)
}

/// Adds entries and delivers them to a consumer, with one transaction per batch. Returns each ID
/// with the server's time of its delivery in µs.
fn deliver(client: &mut Client, count: u64, duration_us: u64) -> Result<Vec<(Vec<u8>, u64)>> {
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
        }
        std::thread::sleep(Duration::from_micros(BATCH_US));
    }
    Ok(delivered)
}

/// Reads the entries that are delivered a second time, and acknowledges them. Returns the arrival
/// times of each entry.
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
        #[rustfmt::skip]
        let words = [
            "XREADGROUP", "GROUP", "g", "reader", "BLOCK", "500", "STREAMS", "pb:leased", ">",
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

/// Measures the lateness of entries that reach their maximum age.
fn retention(server: &Server, count: u64, spread: Duration) -> Result<Figures> {
    let mut client = server.client()?;
    let spread_ms = spread.as_millis() as u64;
    client.expect(&["DEL", "pb:aging"])?;
    client.expect(&["XGROUP", "CREATE", "pb:aging", "g", "0", "MKSTREAM"])?;
    client.expect(&["XRETAIN", "pb:aging", "MAXAGE", &AGE_MS.to_string()])?;
    let before = removed_entries(&mut client)?;
    let first_ms = keyload::load_due(&mut client, count, 1, "XADD", |first_ms, index, out| {
        let id = format!("{}-{index}", first_ms + index * spread_ms / count - AGE_MS);
        encode_command(out, &["XADD", "pb:aging", &id, "f", "value"]);
    })?;
    let due_us = |index: u64| (first_ms + index * spread_ms / count) * 1000;
    let (mut late, give_up_us) = (Late::new(count), due_us(count) + TIME_LIMIT_US);
    sleep_until(first_ms * 1000 - 20_000);
    while late.count() < count && unix_micros() < give_up_us {
        let gone = removed_entries(&mut client)? - before;
        let now_us = unix_micros();
        for index in late.count()..gone {
            late.record(now_us, due_us(index));
        }
        std::thread::sleep(Duration::from_micros(POLL_US));
    }
    let mut figures = Figures::default();
    late.put(&mut figures);
    Ok(figures)
}

/// Returns the number of entries that retention has removed since the server started.
fn removed_entries(client: &mut Client) -> Result<u64> {
    client.info_number("stats", "stream_entries_retained_out")
}

/// Measures the CPU time of an XREADGROUP and the XACK of its entries, and the growth of memory
/// while a consumer reads a whole stream.
fn groups(server: &Server, reads: u64, pending: u64) -> Result<Figures> {
    let mut client = server.client()?;
    fill(&mut client, "pb:group", reads * COUNT)?;
    let ((), cpu) = server.cpu_of(SETTLE, || read_and_acknowledge(&mut client, reads))?;
    client.expect(&["DEL", "pb:group"])?;
    fill(&mut client, "pb:pending", pending)?;
    // A large reply first, so that the buffers for replies already exist before the measurement.
    client.expect(&["XRANGE", "pb:pending", "-", "+", "COUNT", "1000"])?;
    let before = server.resident()?;
    let mut read = 0;
    while read < pending {
        let reply = client.expect(&read_group("pb:pending", "1000"))?;
        match entry_ids(&reply).len() {
            0 => return Err(Error::Invalid("XREADGROUP returned too few entries".into())),
            ids => read += ids as u64,
        }
    }
    let grown = server.resident()?.saturating_sub(before) as f64;
    client.expect(&["DEL", "pb:pending"])?;
    Ok(Figures::from([
        ("XREADGROUP of 10 + XACK, µs", cpu * 1e6 / reads as f64),
        ("of a pending entry, bytes", grown / pending as f64),
    ]))
}

/// Creates a stream of `count` entries with two small fields, and a group that has read no entries.
fn fill(client: &mut Client, key: &str, count: u64) -> Result<()> {
    client.expect(&["DEL", key])?;
    keyload::load(client, count, "XADD", |index, out| {
        let (id, number) = (format!("{}-1", index + 1), format!("{index:08}"));
        encode_command(out, &["XADD", key, &id, "name", &number, "size", &number]);
    })?;
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

/// Reads the whole stream in pieces of [`COUNT`], and acknowledges each piece.
fn read_and_acknowledge(client: &mut Client, reads: u64) -> Result<()> {
    let (count, mut bytes, mut done) = (COUNT.to_string(), Vec::new(), 0);
    while done < reads {
        let batch = PIPELINE.min(reads - done);
        bytes.clear();
        for _ in 0..batch {
            encode_command(&mut bytes, &read_group("pb:group", &count));
        }
        client.send(&bytes)?;
        bytes.clear();
        for _ in 0..batch {
            let ids = entry_ids(&client.reply()?);
            if ids.len() as u64 != COUNT {
                return Err(Error::Invalid("XREADGROUP returned too few entries".into()));
            }
            let mut words = vec![b"XACK".to_vec(), b"pb:group".to_vec(), b"g".to_vec()];
            words.extend(ids);
            encode_command(&mut bytes, &words);
        }
        client.send(&bytes)?;
        client.replies(batch as usize, "XACK")?;
        done += batch;
    }
    Ok(())
}
