//! `bench attacks`: what other clients see while one does its worst.
//!
//! One connection sends one GET after the other. Meanwhile a client sends commands that cost much, connections that never
//! finish a command stay open, or clients do not read their replies. The server's growth shows what it keeps for them.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_resp::encode_command;

use crate::client::connect;
use crate::error::{Error, Result};
use crate::idle::raise_descriptor_limit;
use crate::launch::{self, Server};
use crate::options::{AttackOptions, AttackTest};
use crate::report::{self, Report, describe};
use crate::sheet::{Bound, Sheet, ratios, spreads};
use crate::stall::{self, Stall, mib};
use crate::table::millis;
use crate::{bars, keyload};

/// Number of keys that the other client reads.
const KEYS: u64 = 1_000;
/// Number of keys that an attack on patterns searches, and of elements that it sorts.
const MANY: u64 = 50_000;
/// Number of connections that never finish a command.
const SLOW: usize = 500;
/// Descriptors for everything else.
const SPARE: u64 = 200;
/// Pause between two bytes of these connections together.
const SLOW_PAUSE: Duration = Duration::from_micros(200);
/// Replies of 1 MB that a client requests and does not read.
const UNREAD: usize = 64;
const MB: usize = 1 << 20;

/// An attack.
struct Attack {
    test: AttackTest,
    name: &'static str,
    about: &'static str,
    /// Writes what the attack needs.
    prepare: fn(&Server) -> Result<()>,
    /// Attacks until it is stopped.
    run: fn(&Server, &AtomicBool) -> Result<()>,
}

/// All attacks.
const ATTACKS: &[Attack] = &[
    Attack {
        test: AttackTest::Keys,
        name: "keys",
        about: "KEYS with ten stars among 50,000 long names",
        prepare: long_names,
        run: |server, stop| repeat(server, stop, &[&[b"KEYS", STARS]]),
    },
    Attack {
        test: AttackTest::Lcs,
        name: "lcs",
        about: "LCS of two strings of 8 KB",
        prepare: |server| {
            let text = [b"ab".repeat(4 << 10), b"ba".repeat(4 << 10)];
            set(server, &[(b"pb:a", &text[0]), (b"pb:b", &text[1])])
        },
        run: |server, stop| repeat(server, stop, &[&[b"LCS", b"pb:a", b"pb:b", b"LEN"]]),
    },
    Attack {
        test: AttackTest::Sort,
        name: "sort",
        about: "SORT ALPHA of 50,000 elements",
        prepare: elements,
        run: |server, stop| {
            let words: &[&[u8]] = &[b"SORT", b"pb:list", b"ALPHA", b"LIMIT", b"0", b"1"];
            repeat(server, stop, &[words])
        },
    },
    Attack {
        test: AttackTest::Bitop,
        name: "bitop",
        about: "BITOP XOR of two strings of 16 MB",
        prepare: |server| {
            let text = vec![b'x'; 16 * MB];
            set(server, &[(b"pb:a", &text), (b"pb:b", &text)])
        },
        run: |server, stop| {
            repeat(
                server,
                stop,
                &[&[b"BITOP", b"XOR", b"pb:c", b"pb:a", b"pb:b"]],
            )
        },
    },
    Attack {
        test: AttackTest::Setrange,
        name: "setrange",
        about: "SETRANGE at 100 MB, and DEL",
        prepare: |_| Ok(()),
        run: |server, stop| {
            let grow: &[&[u8]] = &[b"SETRANGE", b"pb:a", b"100000000", b"x"];
            repeat(server, stop, &[grow, &[b"DEL", b"pb:a"]])
        },
    },
    Attack {
        test: AttackTest::SlowLoris,
        name: "slow-loris",
        about: "500 connections that send a command byte by byte",
        prepare: |_| Ok(()),
        run: slow_loris,
    },
    Attack {
        test: AttackTest::Unread,
        name: "unread",
        about: "a client that requests 64 MB again and again, and reads nothing until the end",
        prepare: |server| set(server, &[(b"pb:a", &vec![b'x'; MB])]),
        run: unread,
    },
    Attack {
        test: AttackTest::SlowSubscriber,
        name: "slow-subscriber",
        about: "a subscriber that reads nothing of messages of 32 KB",
        prepare: |_| Ok(()),
        run: slow_subscriber,
    },
    Attack {
        test: AttackTest::Connections,
        name: "connections",
        about: "connections that are closed at once",
        prepare: |_| Ok(()),
        run: |server, stop| {
            while !stop.load(Ordering::Relaxed) {
                drop(connect(server.addr)?);
            }
            Ok(())
        },
    },
];

const STARS: &[u8] = b"a*a*a*a*a*a*a*a*a*a*b";

/// Runs the benchmark on every server and prints the report.
pub(crate) fn run(options: &AttackOptions, report: &mut Report) -> Result<()> {
    raise_descriptor_limit(SLOW as u64 + SPARE)?;
    let (candidates, mut notes) = launch::candidates(&options.target)?;
    let servers = launch::open_all(&candidates, &[])?;
    let attacks: Vec<&Attack> = ATTACKS.iter().filter(|one| options.has(one.test)).collect();
    notes.push("latency of another client's GETs, before and during the attack".into());
    notes.extend(
        attacks
            .iter()
            .map(|one| format!("{}: {}", one.name, one.about)),
    );
    let title = format!(
        "Attacks of {} s each; {} round(s)",
        options.duration().as_secs_f64(),
        options.rounds()
    );
    let described: Vec<String> = servers.iter().map(describe).collect();
    report.header(&title, &described, &notes);
    let mut sheet = Sheet::new("GETs of another client", &servers);
    let base = launch::reference(&servers);
    for attack in attacks {
        let mut stalls: Vec<Vec<Stall>> = servers.iter().map(|_| Vec::new()).collect();
        for round in 1..=options.rounds() {
            for (server, stalls) in servers.iter().zip(&mut stalls) {
                let stall = once(options, server, attack)?;
                record(report, server, attack, round, &stall)?;
                stalls.push(stall);
            }
        }
        print(&mut sheet, report, attack, &stalls, base);
    }
    say!("{sheet}");
    Ok(())
}

fn p99_ms(stall: &Stall) -> f64 {
    stall::ms(stall.during.value_at_quantile(0.99))
}

fn once(options: &AttackOptions, server: &Server, attack: &Attack) -> Result<Stall> {
    stall::load(server, KEYS)?;
    (attack.prepare)(server)?;
    let bar = report::progress(1, &format!("{}: {}", server.label, attack.name));
    let stop = AtomicBool::new(false);
    let stall = std::thread::scope(|scope| {
        let mut attacker = None;
        let end = Cell::new(Instant::now());
        let measured = stall::measure(
            server,
            KEYS,
            false,
            || {
                attacker = Some(scope.spawn(|| (attack.run)(server, &stop)));
                end.set(Instant::now() + options.duration());
                Ok(())
            },
            || Ok((Instant::now() >= end.get()).then_some(0)),
        );
        stop.store(true, Ordering::Relaxed);
        let died = || Error::Options("a thread of the benchmark has panicked".into());
        attacker.map_or(Ok(()), |one| one.join().map_err(|_| died())?)?;
        measured
    });
    bar.finish_and_clear();
    server.client()?.expect(&["FLUSHALL"])?;
    stall
}

fn record(
    report: &mut Report,
    server: &Server,
    attack: &Attack,
    round: u32,
    stall: &Stall,
) -> Result<()> {
    let figures = [
        ("get_p99", "ms", p99_ms(stall)),
        ("get_max", "ms", stall::ms(stall.during.max())),
    ];
    report.record_all("attacks", &server.product, attack.name, round, figures)?;
    Ok(())
}

fn print(
    sheet: &mut Sheet,
    report: &mut Report,
    attack: &Attack,
    stalls: &[Vec<Stall>],
    base: Option<usize>,
) {
    let name = attack.name;
    let calm = spreads(stalls, |s| Some(stall::ms(s.calm.value_at_quantile(0.99))));
    sheet.shown(&format!("{name}: p99 before, ms"), &calm, millis);
    let during = spreads(stalls, |s| Some(p99_ms(s)));
    sheet.shown(&format!("{name}: p99 during, ms"), &during, millis);
    let longest = spreads(stalls, |s| Some(stall::ms(s.during.max())));
    sheet.shown(&format!("{name}: longest, ms"), &longest, millis);
    let grown = spreads(stalls, |s| s.resident.map(|(_, grown)| grown as f64));
    let show = |bytes: f64| mib(bytes as u64);
    sheet.shown(&format!("{name}: growth, MiB"), &grown, show);
    let of_base = |at: usize| base.filter(|base| *base != at);
    // Between two long commands there is time for many GETs, so percentiles hide what a client waits for.
    let ratio = ratios(stalls, of_base, |one, base| {
        Some(one.during.max() as f64 / base.during.max() as f64)
    });
    let bound = Bound::AtMost(bars::ATTACK_RATIO);
    sheet.ratio(report, &format!("{name}: longest, ratio"), &ratio, bound);
}

/// Sets strings.
fn set(server: &Server, pairs: &[(&[u8], &[u8])]) -> Result<()> {
    let mut client = server.client()?;
    for (key, text) in pairs {
        client.expect(&[&b"SET"[..], key, text])?;
    }
    Ok(())
}

fn long_names(server: &Server) -> Result<()> {
    let bar = indicatif::ProgressBar::hidden();
    keyload::load(&mut server.client()?, MANY, "SET", &bar, |index, out| {
        let name = format!("{}{index}", "a".repeat(40));
        encode_command(out, &[&b"SET"[..], name.as_bytes(), b"x"]);
    })
}

fn elements(server: &Server) -> Result<()> {
    let bar = indicatif::ProgressBar::hidden();
    keyload::load(&mut server.client()?, MANY, "RPUSH", &bar, |index, out| {
        let text = format!("{:016x}", index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        encode_command(out, &[&b"RPUSH"[..], b"pb:list", text.as_bytes()]);
    })
}

/// Sends commands one by one. An error reply ends the run.
fn repeat(server: &Server, stop: &AtomicBool, commands: &[&[&[u8]]]) -> Result<()> {
    let mut client = server.client()?;
    while !stop.load(Ordering::Relaxed) {
        for words in commands {
            client.expect(words)?;
        }
    }
    Ok(())
}

fn slow_loris(server: &Server, stop: &AtomicBool) -> Result<()> {
    const TEXT: &[u8] = b"*3\r\n$3\r\nSET\r\n$4\r\npb:a\r\n$1000000\r\n";
    let mut connections = Vec::new();
    for _ in 0..SLOW {
        connections.push(connect(server.addr)?);
    }
    for at in 0.. {
        for connection in &mut connections {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let byte = TEXT.get(at).copied().unwrap_or(b'x');
            // The server may disconnect such a client.
            let _ = connection.write_all(&[byte]);
            std::thread::sleep(SLOW_PAUSE);
        }
    }
    Ok(())
}

/// Requests replies in bulk, and reads them when all are requested and the server is stuck.
fn unread(server: &Server, stop: &AtomicBool) -> Result<()> {
    let mut request = Vec::new();
    for _ in 0..UNREAD {
        encode_command(&mut request, &["GET", "pb:a"]);
    }
    let mut buffer = vec![0; MB];
    while !stop.load(Ordering::Relaxed) {
        let mut stream = connect(server.addr)?;
        let sent = stream.write_all(&request);
        // One byte shows that the replies have been made.
        let read = sent.and_then(|()| stream.read_exact(&mut buffer[..1]));
        if read.is_ok() {
            drain(&mut stream, &mut buffer, UNREAD * MB);
        }
    }
    Ok(())
}

/// Reads up to `count` bytes.
fn drain(stream: &mut TcpStream, buffer: &mut [u8], count: usize) {
    let mut left = count;
    while left > 0 {
        match stream.read(buffer) {
            Ok(0) | Err(_) => return,
            Ok(n) => left = left.saturating_sub(n),
        }
    }
}

fn slow_subscriber(server: &Server, stop: &AtomicBool) -> Result<()> {
    let mut publisher = server.client()?;
    let message = vec![b'x'; 32 << 10];
    let mut subscribers = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let heard = publisher.expect(&[&b"PUBLISH"[..], b"pb:channel", &message])?;
        // The server has disconnected the last one.
        if heard.as_int() == Some(0) {
            let mut subscriber = server.client()?;
            subscriber.expect(&["SUBSCRIBE", "pb:channel"])?;
            subscribers.push(subscriber);
        }
    }
    Ok(())
}
