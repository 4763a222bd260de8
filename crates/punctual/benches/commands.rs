//! Instructions of commands on the keyspace, counted under Valgrind as the queues' are: without a reader of the log of changes,
//! and with one.
#![allow(missing_docs)] // the macros make items without them

use gungraun::Callgrind;
use gungraun::prelude::*;
use punctual_resp::{OwnedArgs, Protocol, Reply};
use punctual_store::events::{Classes, Silent};
use punctual_store::{Now, Store, StoreOptions, Turn, command};
use std::hint::black_box;

/// Number of commands in each benchmark, each on another key.
const OPS: usize = 1_000;

/// A keyspace, and the commands to run on it.
struct Stage {
    store: Store,
    commands: Vec<OwnedArgs>,
}

/// Runs commands in one turn, as a loop does for a pipeline.
fn run(store: &Store, commands: &[OwnedArgs]) -> Vec<u8> {
    let (mut sink, mut out) = (Silent, Vec::with_capacity(1 << 20));
    let mut turn = Turn::new(store, Now::from_ms(1_000), &mut sink, Classes::none());
    for args in commands {
        let args = args.as_args();
        let row = command::find(args.at(0)).expect("a known command");
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        turn.run(row, 0, true, args, &mut reply)
            .expect("it succeeds");
    }
    turn.release();
    drop(turn);
    out
}

/// Returns a keyspace on which the command has run once for each key, and the same commands again.
fn stage(line: &str, logged: bool) -> Stage {
    let store = Store::new(StoreOptions {
        shards: 1,
        databases: 16,
    });
    let words = |key: usize| line.replace("{}", &format!("key:{key:06}"));
    let commands: Vec<OwnedArgs> = (0..OPS)
        .map(|key| words(key).split(' ').collect())
        .collect();
    if line.starts_with("get") || line.starts_with("pexpire") {
        let strings: Vec<OwnedArgs> = commands
            .iter()
            .map(|args| [b"set", args.as_args().at(1), b"value"].iter().collect())
            .collect();
        run(&store, &strings);
    }
    store.set_logged(logged);
    run(&store, &commands);
    Stage { store, commands }
}

macro_rules! benchmark {
    ($name:ident, $line:literal) => {
        #[library_benchmark]
        #[bench::unlogged(stage($line, false))]
        #[bench::logged(stage($line, true))]
        fn $name(stage: Stage) -> Stage {
            black_box(run(&stage.store, &stage.commands));
            stage
        }
    };
}

benchmark!(get, "get {}");
benchmark!(set, "set {} value");
benchmark!(set_px, "set {} value px 100000");
benchmark!(incr, "incr {}");
benchmark!(pexpire, "pexpire {} 100000");
benchmark!(hset, "hset {} field value");
benchmark!(lpush, "lpush {} value");
benchmark!(zincrby, "zincrby {} 1.5 member");

library_benchmark_group!(
    name = commands,
    benchmarks = [get, set, set_px, incr, pexpire, hset, lpush, zincrby]
);

main!(
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["cache-sim=no"])),
    library_benchmark_groups = commands
);
