//! Prints how many nanoseconds it takes to parse one command, to write one reply and to measure the
//! length of one reply. Run it with
//! `cargo run --release -p punctual-resp --example parse_speed`.
//!
//! Workload: one parser parses a read buffer of [`PIPELINE`] pipelined commands (16-byte keys,
//! 32-byte values) repeatedly. Another part writes [`PIPELINE`] replies into one buffer, and a
//! third part measures these replies. Each line shows the median of [`ROUNDS`] short rounds after a
//! warm-up, and the range without the fastest and the slowest tenth of the rounds.

use std::hint::black_box;
use std::time::Instant;

use punctual_resp::{Limits, Parser, Protocol, Reply, encode_command, reply_len};

const PIPELINE: usize = 64;
const ROUNDS: usize = 201;
const BUFFERS_A_ROUND: usize = 500;

fn measure(name: &str, mut one_buffer: impl FnMut()) {
    let mut ns: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..BUFFERS_A_ROUND {
                one_buffer();
            }
            start.elapsed().as_nanos() as f64 / (BUFFERS_A_ROUND * PIPELINE) as f64
        })
        .skip(1)
        .collect();
    ns.sort_by(f64::total_cmp);
    println!(
        "{name:<36} {:>6.1} ns  ({:.1} to {:.1})",
        ns[ROUNDS / 2],
        ns[ROUNDS / 10],
        ns[ROUNDS * 9 / 10]
    );
}

fn parse(name: &str, command: impl Fn(usize) -> Vec<String>) {
    let mut buf = Vec::new();
    for i in 0..PIPELINE {
        encode_command(&mut buf, &command(i));
    }
    let (mut parser, limits) = (Parser::new(), Limits::default());
    measure(name, || {
        let mut rest = &black_box(&buf)[..];
        while let Some(command) = parser.parse(rest, &limits).expect("valid commands") {
            // Reads the length of every argument, as a command handler would.
            black_box(command.args.iter().map(<[u8]>::len).sum::<usize>());
            rest = &rest[command.consumed..];
        }
        assert!(rest.is_empty());
    });
}

fn main() {
    let key = |i: usize| format!("key:{i:012}");
    let value = "v".repeat(32);
    parse("parse PING", |_| vec!["PING".into()]);
    parse("parse GET key", |i| vec!["GET".into(), key(i)]);
    parse("parse SET key value", |i| {
        vec!["SET".into(), key(i), value.clone()]
    });
    parse("parse SET key value PX 100000", |i| {
        vec![
            "SET".into(),
            key(i),
            value.clone(),
            "PX".into(),
            "100000".into(),
        ]
    });
    parse("parse MSET of 10 pairs", |i| {
        let pairs = (0..10).flat_map(|j| [key(i * 10 + j), value.clone()]);
        std::iter::once("MSET".into()).chain(pairs).collect()
    });

    let mut out = Vec::new();
    for (name, protocol) in [("RESP2", Protocol::Resp2), ("RESP3", Protocol::Resp3)] {
        measure(&format!("write bulk of 32 bytes, {name}"), || {
            out.clear();
            let mut reply = Reply::new(&mut out, protocol);
            for _ in 0..PIPELINE {
                reply.bulk(black_box(value.as_bytes()));
            }
        });
        measure(&format!("write double, {name}"), || {
            out.clear();
            let mut reply = Reply::new(&mut out, protocol);
            for i in 0..PIPELINE {
                reply.double(black_box(i as f64 + 0.1));
            }
        });
    }
    measure("write +OK", || {
        out.clear();
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        for _ in 0..PIPELINE {
            black_box(&mut reply).ok();
        }
    });
    measure("write integer of 6 digits", || {
        out.clear();
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        for i in 0..PIPELINE {
            reply.int(black_box(123_456 + i as i64));
        }
    });
    out.clear();
    for _ in 0..PIPELINE {
        Reply::new(&mut out, Protocol::Resp2).bulk(value.as_bytes());
    }
    measure("reply_len of a bulk of 32 bytes", || {
        let mut rest = &black_box(&out)[..];
        while let Some(len) = reply_len(rest).expect("valid replies") {
            rest = &rest[len..];
        }
        assert!(rest.is_empty());
    });
}
