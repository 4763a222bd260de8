//! The program `punctual-bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    punctual_bench::run(std::env::args_os().skip(1))
}
