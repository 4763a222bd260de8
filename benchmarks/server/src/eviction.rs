//! `bench eviction`: SETs into a store that has reached `maxmemory`. Measures CPU, memory, and the
//! latency of GETs at the same time.

use std::time::Duration;

use punctual_resp::encode_command;

use crate::clock::unix_micros;
use crate::error::Result;
use crate::keyload;
use crate::launch::{Program, Server};
use crate::load::{Generator, Load};
use crate::options::Common;
use crate::report::Report;
use crate::sheet::{self, Bar, Figures, Sheet};
use crate::table::thousands;
use crate::workload::{Template, key_name};

const POLICIES: [&str; 7] = [
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
];
/// Time until the first deadline in ms. The deadlines are spread over the following [`SPREAD_MS`].
const FAR_MS: u64 = 10_000_000;
const SPREAD_MS: u64 = 100_000_000;
/// Until 2033, a deadline in Unix milliseconds is this number plus a number of twelve digits.
const EPOCH_MS: u64 = 1_000_000_000_000;
/// Delay until the server sleeps and the kernel has updated its CPU time.
const SETTLE: Duration = Duration::from_millis(20);
/// Interval at which the used memory is read.
const POLL: Duration = Duration::from_millis(3);
/// Number of connections that send the SETs whose CPU is measured. With few connections, a server
/// would mostly use CPU time for waking up.
const WRITERS: u32 = 50;
/// Duration of the GETs in each state of the store.
const PROBE: Duration = Duration::from_secs(2);

/// Runs the benchmark and prints the report.
pub(crate) fn run(common: &Common, programs: &[Program], report: &mut Report) -> Result<()> {
    let keys = common.keys(50_000, 1_000_000);
    let policies = common.parts(&POLICIES)?;
    let title = format!(
        "SETs of new keys into a full store of {} keys",
        thousands(keys as f64)
    );
    report.header(
        &title,
        programs,
        &["keys of 16 bytes with values of 16 bytes; 50 SETs in flight on each of 50 connections"],
    );
    let bars = [
        ("CPU per SET, µs", Bar::RatioAtMost(0.7)),
        ("most above maxmemory, %", Bar::Never(1.0)),
        ("GET p99 by not full, x", Bar::AtMost(1.3)),
    ];
    let mut sheet = Sheet::new("eviction", sheet::columns(programs));
    for policy in policies {
        sheet.measure(report, policy, &bars, common.rounds(1, 3), |at, _| {
            let server = programs[at].start(&[("maxmemory-policy", policy)])?;
            once(
                &server,
                keys,
                common.usual(50_000, 500_000),
                policy.starts_with("volatile"),
            )
        })?;
    }
    sheet.show(report)?;
    Ok(())
}

fn once(server: &Server, keys: u64, requests: u64, volatile: bool) -> Result<Figures> {
    let mut client = server.client()?;
    // The number of a key is also the twelve-digit part of its deadline, because a template has one
    // number per command.
    let first = unix_micros() / 1000 - EPOCH_MS + FAR_MS;
    keyload::load(&mut client, keys, "SET", |index, out| {
        let at_ms = EPOCH_MS + first + index * 7_919_003 % SPREAD_MS;
        let (name, at) = (key_name(first + index), at_ms.to_string());
        let words = [b"SET", &name[..], keyload::VALUE, b"PXAT", at.as_bytes()];
        encode_command(out, &words[..if volatile { 5 } else { 3 }]);
    })?;
    let words = ["SET", "key:{i}", "{data}", "PXAT", "1{n}"];
    let set = Template::new(&words[..if volatile { 5 } else { 3 }], 16);
    let get = Template::new(&["GET", "key:{n}"], 16);
    let (mut writers, mut writer) = (
        Generator::connect(server.addr, WRITERS)?,
        Generator::connect(server.addr, 1)?,
    );
    let mut reader = Generator::connect(server.addr, 1)?;
    let mut next = first + keys;
    let sets = |from: u64, requests| Load {
        template: &set,
        pipeline: WRITERS,
        requests,
        keys: from..from + SPREAD_MS,
        seed: 1,
        stop: None,
    };
    // GETs of recently written keys, with SETs of new keys at the same time. Returns the number of
    // SETs and the p99 of the GETs.
    let mut p99 = |next: u64| -> Result<(u64, f64)> {
        let gets = Load {
            template: &get,
            pipeline: 1,
            keys: next - keys / 4..next,
            ..sets(next, 0)
        };
        let (((), gets), written) = writer.run_while(&sets(next, 0), || {
            reader.run_while(&gets, || {
                std::thread::sleep(PROBE);
                Ok(())
            })
        })?;
        Ok((written.requests, gets.ms(99.0)))
    };
    // First without a limit.
    let (written, calm) = p99(next)?;
    next += written;
    let most = client.info_number("memory", "used_memory")?;
    client.expect(&["CONFIG", "SET", "maxmemory", &most.to_string()])?;
    // These SETs fill the store up to the limit, and cause the first evictions.
    next += writers.run(&sets(next, keys / 20))?.requests;
    let load = sets(next, requests);
    // Another connection reads the used memory. The CPU time of its commands is in the figures of
    // all servers.
    let (greatest, cpu) = server.cpu_of(SETTLE, || {
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| writers.run(&load));
            let mut greatest = 0;
            while !writing.is_finished() {
                greatest = greatest.max(client.info_number("memory", "used_memory")?);
                std::thread::sleep(POLL);
            }
            let written = writing
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            next += written?.requests;
            Ok(greatest)
        })
    })?;
    let (_, full) = p99(next)?;
    Ok(Figures::from([
        ("CPU per SET, µs", cpu * 1e6 / requests as f64),
        (
            "most above maxmemory, %",
            (greatest as f64 / most as f64 - 1.0) * 100.0,
        ),
        ("GET p99 before, ms", calm),
        ("GET p99 full, ms", full),
        ("GET p99 by not full, x", full / calm),
    ]))
}
