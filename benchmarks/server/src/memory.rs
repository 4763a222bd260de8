//! `bench server --memory`: resident bytes per key, and per member of collections.
//!
//! Each measurement starts a new server, opens connections and uses them. The result is the growth
//! of resident memory during loading, divided by the number of keys, members or items.

mod loads;

use std::time::Duration;

use punctual_resp::encode_command;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, Result};
use crate::keyload;
use crate::launch::Program;
use crate::options::ServerOptions;
use crate::report::Report;
use crate::sheet::{self, Figures, Sheet};
use crate::table::thousands;
use crate::workload::key_name;

use loads::{LOADS, Load, Writer};

/// Number of connections that are opened and used before the first reading, as on a production
/// server.
const CONNECTIONS: usize = 50;

/// Size of values in bytes.
const SIZE: usize = 16;

/// Delay after the last reply, in which a server may rehash or release memory.
const SETTLE: Duration = Duration::from_millis(1500);

/// Runs the benchmark and prints the report.
pub(crate) fn run(
    options: &ServerOptions,
    programs: &[Program],
    report: &mut Report,
) -> Result<()> {
    let common = &options.common;
    let keys = common.keys(200_000, 1_000_000);
    let mut known: Vec<&str> = LOADS.iter().map(|load| load.test).collect();
    known.dedup();
    let wanted = common.parts(&known)?;
    let title = format!(
        "Resident memory: {} keys of 16 bytes with values of {SIZE} bytes; as many hashes, members and items",
        thousands(keys as f64)
    );
    report.header(
        &title,
        programs,
        &["growth of resident memory / number; a fresh server each time; bars hold for 1M"],
    );
    let mut sheet = Sheet::new("memory", sheet::columns(programs));
    for load in LOADS.iter().filter(|load| wanted.contains(&load.test)) {
        let bars = [("each, bytes", load.bar)];
        let bars = if keys == 1_000_000 { &bars[..] } else { &[] };
        sheet.measure(report, load.name, bars, common.rounds(1, 3), |at, round| {
            once(&programs[at], load, keys, round)
        })?;
    }
    sheet.show(report)?;
    let title = format!(
        "Memory: {} of each, values of {SIZE} bytes (medians)",
        thousands(keys as f64)
    );
    sheet.plot(report, "server-memory.svg", &title, "each, bytes")
}

/// Returns the resident memory per loaded element on a new server, in bytes.
fn once(program: &Program, load: &Load, keys: u64, round: u32) -> Result<Figures> {
    let server = program.start(&[])?;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = server.client()?;
        client.expect(&["PING"])?;
        connections.push(client);
    }
    // Loads some keys on the loading connection first, so that its buffers reach their final size.
    let mut client = server.client()?;
    keyload::load(&mut client, 2_000, "SET", |index, out| {
        encode_command(
            out,
            &[
                b"SET",
                &key_name(index)[..],
                keyload::VALUE,
                b"PX",
                b"3600000",
            ],
        );
    })?;
    keyload::load(&mut client, 2_000, "DEL", |index, out| {
        encode_command(out, &[b"DEL", &key_name(index)[..]]);
    })?;
    std::thread::sleep(Duration::from_millis(200));
    let before = server.resident()?;
    let mut writer = Writer::new(ChaCha8Rng::seed_from_u64(round.into()), SIZE);
    keyload::load(&mut client, keys, load.command, |index, out| {
        (load.write)(&mut writer, index, out)
    })?;
    let there = client.integer(load.count)?;
    if there.cast_unsigned() != keys {
        return Err(Error::Invalid(format!(
            "{there} {} exist after loading {keys}",
            load.name
        )));
    }
    std::thread::sleep(SETTLE);
    let grown = server.resident()? as f64 - before as f64;
    Ok(Figures::from([("each, bytes", grown / keys as f64)]))
}
