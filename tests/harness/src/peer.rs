//! Servers of other projects, which tests and benchmarks compare with.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::{Launch, LaunchError, Process};

/// A server of another project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// The redis-server on the PATH, which is 7.0 in Debian 12.
    Redis7,
    /// redis-server 8.2, from `scripts/setup peers`.
    Redis8,
    /// valkey-server 9.1, from `scripts/setup peers`.
    Valkey9,
}

impl Peer {
    /// Every peer.
    pub const ALL: [Self; 3] = [Self::Redis7, Self::Redis8, Self::Valkey9];

    /// Returns the name that options and messages have.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis7 => "redis7",
            Self::Redis8 => "redis8",
            Self::Valkey9 => "valkey9",
        }
    }

    /// Returns the program's path; for [`Peer::Redis7`], a name on the PATH.
    ///
    /// `scripts/setup peers` installs programs in the folder of builds, which contains the running
    /// test or benchmark.
    pub fn program(self) -> PathBuf {
        let file = match self {
            Self::Redis7 => return "redis-server".into(),
            Self::Redis8 => "redis8/redis-server",
            Self::Valkey9 => "valkey9/valkey-server",
        };
        let own = std::env::current_exe().unwrap_or_default();
        let in_folder = |folder: &Path| folder.join("peers").join(file);
        let mut paths = own.ancestors().skip(2).take(3).map(in_folder);
        let found = paths.clone().find(|path| path.is_file());
        found.or_else(|| paths.next()).unwrap_or_default()
    }

    /// Prepares a start without save points.
    pub fn launch(self) -> Launch {
        Launch::of(self.program()).options(["--bind", "127.0.0.1", "--save", ""])
    }

    /// Starts the server with options. If it is not installed, prints a message and returns `None`.
    /// [`Peer::Redis7`] must be installed, so that no test passes without any comparison.
    ///
    /// # Panics
    /// If the server does not start.
    #[track_caller]
    pub fn start(self, options: &[&str]) -> Option<Process> {
        match self.launch().options(options).start() {
            Err(LaunchError::NotInstalled(path)) if self != Self::Redis7 => {
                let path = path.display();
                eprintln!("skipped without {path}: scripts/setup peers installs it");
                None
            }
            other => Some(other.unwrap_or_else(|error| panic!("{error}"))),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|peer| peer.name() == name);
        found.ok_or_else(|| {
            format!("there is no server '{name}'; there are redis7, redis8, valkey9")
        })
    }
}
