//! Starts a real redis-server to compare with.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use punctual_harness::{Launch, Process};

/// A redis-server that is killed on drop. Its folder is temporary, unless the options set another.
pub struct Redis(Process);

impl Redis {
    /// Starts redis-server with these options. Panics if it is not installed.
    #[track_caller]
    pub fn start(options: &[&str]) -> Self {
        Self::start_program("redis-server".into(), options)
    }

    /// Starts a server that `scripts/setup peers` installs. Returns `None` if it is not installed.
    pub fn start_peer(program: &str) -> Option<Self> {
        let target = Path::new(env!("CARGO_BIN_EXE_punctual"))
            .ancestors()
            .nth(2)?;
        let program = target.join("peers").join(program);
        if !program.exists() {
            eprintln!(
                "skipped without {}: scripts/setup peers installs it",
                program.display()
            );
            return None;
        }
        Some(Self::start_program(program, &[]))
    }

    #[track_caller]
    fn start_program(program: PathBuf, options: &[&str]) -> Self {
        let launch = Launch::of(program)
            .options(["--bind", "127.0.0.1", "--save", ""])
            .options(options);
        Self(launch.start().unwrap_or_else(|error| panic!("{error}")))
    }
}

impl Deref for Redis {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.0
    }
}
