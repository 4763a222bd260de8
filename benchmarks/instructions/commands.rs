//! Instructions of commands on the keyspace, counted under Valgrind. Each command is measured
//! without and with the log of changes, which the append-only file and replicas read.
//! (`instructions.rs` counts the queues' instructions.)
#![allow(missing_docs)] // the macros generate items without docs

use gungraun::Callgrind;
use gungraun::prelude::*;
use punctual_resp::{Args, Limits, Parser, Protocol, Reply, encode_command};
use punctual_store::events::{Classes, Silent};
use punctual_store::{Command, Now, Store, StoreOptions, Turn, command};
use std::hint::black_box;

/// Number of commands in each benchmark, or of jobs in the benchmark `job`, which runs three
/// commands for each job. All commands use one key.
const OPS: usize = 1_000;

/// Seed of the keyspaces. Hashes, and so the counts, are the same in each run.
const SEED: u64 = 1;

/// A keyspace, and the encoded commands to run on it.
struct Stage {
    store: Store,
    pipeline: Vec<u8>,
}

/// Returns the entry of a command, or of its subcommand, in the command table.
fn row_of(args: Args<'_>) -> &'static Command {
    let row = command::find(args.at(0)).expect("a known command");
    let named = |sub: &&Command| sub.name.as_bytes() == args.at(1);
    row.subcommands.iter().find(named).unwrap_or(row)
}

/// Parses and runs a pipeline in one turn (a pass that holds its locks), as an event loop does.
fn run(store: &Store, mut pipeline: &[u8]) -> Vec<u8> {
    let (mut sink, mut out) = (Silent, Vec::with_capacity(1 << 20));
    let (mut parser, limits) = (Parser::new(), Limits::default());
    let mut turn = Turn::new(store, Now::from_ms(1_000), &mut sink, Classes::none());
    while let Some(parsed) = parser.parse(pipeline, &limits).expect("commands") {
        let row = row_of(parsed.args);
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        turn.run(row, 0, true, parsed.args, &mut reply)
            .expect("it succeeds");
        pipeline = &pipeline[parsed.consumed..];
    }
    turn.release();
    drop(turn);
    out
}

/// Returns a keyspace in which the command has already run, and a pipeline with [`OPS`] copies of
/// the command.
fn stage(line: &str, logged: bool, cluster: bool) -> Stage {
    let store = Store::new(StoreOptions {
        shards: 1,
        databases: 16,
        cluster,
        seed: SEED,
        nap: std::thread::sleep,
    });
    let mut command = Vec::new();
    if line.starts_with("get") || line.starts_with("pexpire") {
        encode_command(&mut command, &["set", "key:000001", "value"]);
        run(&store, &command);
        command.clear();
    }
    encode_command(&mut command, &line.split(' ').collect::<Vec<_>>());
    store.set_logged(logged);
    run(&store, &command);
    Stage {
        store,
        pipeline: command.repeat(OPS),
    }
}

/// Returns a keyspace, and a pipeline that adds, takes and acknowledges [`OPS`] jobs of one queue.
/// The pipeline adds `at_once` jobs before it takes them, and takes them before it acknowledges
/// them.
fn jobs(at_once: usize, logged: bool) -> Stage {
    let store = Store::new(StoreOptions {
        shards: 1,
        databases: 16,
        cluster: false,
        seed: SEED,
        nap: std::thread::sleep,
    });
    let (mut pipeline, payload) = (Vec::new(), "p".repeat(100));
    // IDs and tokens come from one sequence of numbers, which begins at the time in µs.
    let mut id = 1_000_000;
    for start in (0..OPS).step_by(at_once) {
        let count = at_once.min(OPS - start);
        for _ in 0..count {
            encode_command(&mut pipeline, &["job", "add", "queue", &payload]);
        }
        for _ in 0..count {
            encode_command(&mut pipeline, &["job", "take", "queue"]);
        }
        for _ in 0..count {
            let (name, token) = (id.to_string(), (id + count).to_string());
            encode_command(&mut pipeline, &["job", "ack", "queue", &name, &token]);
            id += 1;
        }
        id += count;
    }
    // Checks that the predicted IDs and tokens are right: the last job is acknowledged.
    let out = run(&store, &pipeline);
    assert!(out.ends_with(b":1\r\n"));
    let store = Store::new(StoreOptions {
        shards: 1,
        databases: 16,
        cluster: false,
        seed: SEED,
        nap: std::thread::sleep,
    });
    store.set_logged(logged);
    // These commands create the queue, so that its creation is not measured, and use no ID.
    let mut pause = Vec::new();
    for word in ["pause", "resume"] {
        encode_command(&mut pause, &["job", word, "queue"]);
    }
    run(&store, &pause);
    Stage { store, pipeline }
}

macro_rules! benchmark {
    ($name:ident, $line:literal) => {
        #[library_benchmark]
        #[bench::unlogged(stage($line, false, false))]
        #[bench::logged(stage($line, true, false))]
        fn $name(stage: Stage) -> Stage {
            black_box(run(&stage.store, &stage.pipeline));
            stage
        }
    };
}

benchmark!(get, "get key:000001");
benchmark!(set, "set key:000001 value");
benchmark!(set_px, "set key:000001 value px 100000");
benchmark!(incr, "incr key:000001");
benchmark!(pexpire, "pexpire key:000001 100000");
benchmark!(hset, "hset key:000001 field value");
benchmark!(lpush, "lpush key:000001 value");
benchmark!(zincrby, "zincrby key:000001 1.5 member");

// Commands in cluster mode.
#[library_benchmark]
#[bench::get(stage("get key:000001", false, true))]
#[bench::set(stage("set key:000001 value", false, true))]
#[bench::incr(stage("incr key:000001", false, true))]
fn cluster(stage: Stage) -> Stage {
    black_box(run(&stage.store, &stage.pipeline));
    stage
}

#[library_benchmark]
#[bench::unlogged(jobs(16, false))]
#[bench::logged(jobs(16, true))]
fn job(stage: Stage) -> Stage {
    black_box(run(&stage.store, &stage.pipeline));
    stage
}

library_benchmark_group!(
    name = commands,
    benchmarks = [
        get, set, set_px, incr, pexpire, hset, lpush, zincrby, cluster, job
    ]
);

main!(
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["cache-sim=no"])),
    library_benchmark_groups = commands
);
