//! `punctual-bench`: what `punctual bench` runs, without the server. For work on the benchmarks.

use std::process::ExitCode;

fn main() -> ExitCode {
    punctual_bench::run(std::env::args_os().skip(1))
}
