//! A redis-server that the test starts, and a Punctual keyspace in the test's process, which run
//! the same commands.

use punctual_harness::{Launch, Process, Wire};
use punctual_resp::{OwnedArgs, Protocol, Reply};
use punctual_store::events::{Classes, Silent};
use punctual_store::{Now, Store, StoreOptions, Turn, command};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Returns a generator of random numbers. Its seed comes from the environment variable `SEED` or,
/// in CI, `PROPTEST_RNG_SEED`, and is otherwise new in each run.
pub fn random() -> StdRng {
    StdRng::seed_from_u64(punctual_harness::seed(&["SEED", "PROPTEST_RNG_SEED"]))
}

/// A redis-server and a Punctual keyspace.
pub struct Both {
    redis: Wire,
    _process: Process,
    pub store: Store,
}

impl Both {
    /// Starts an empty redis-server. Prints a message and returns `None` if it is not installed.
    pub fn start() -> Option<Self> {
        let process = Launch::of("redis-server").options(["--save", ""]);
        let process = process.start_if_installed()?;
        Some(Self {
            redis: process.wire(),
            _process: process,
            store: Store::new(StoreOptions {
                shards: 3,
                databases: 1,
                cluster: false,
                seed: 1,
                nap: std::thread::sleep,
            }),
        })
    }

    /// Runs a command on redis-server and returns its reply in RESP.
    pub fn theirs<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Vec<u8> {
        self.redis.raw(words)
    }

    /// Runs a command on the Punctual keyspace and returns its reply in RESP.
    pub fn ours<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Vec<u8> {
        let args: OwnedArgs = words.iter().collect();
        let name = words[0].as_ref().to_ascii_lowercase();
        let command = command::find(&name).expect("a known command");
        let (mut out, mut sink) = (Vec::new(), Silent);
        let now = Now::from_ms(1_000_000);
        let mut turn = Turn::new(&self.store, now, &mut sink, Classes::none());
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        if let Err(error) = turn.run(command, 0, true, args.as_args(), &mut reply) {
            reply.error(error.bytes());
        }
        out
    }

    /// Runs a command on both, asserts that the replies are equal and returns them.
    #[track_caller]
    pub fn same<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Vec<u8> {
        let (theirs, ours) = (self.theirs(words), self.ours(words));
        if theirs != ours {
            let line: Vec<String> = words
                .iter()
                .map(|word| word.as_ref().escape_ascii().to_string())
                .collect();
            panic!(
                "{}\nredis-server: {}\nours:         {}",
                line.join(" "),
                theirs.escape_ascii(),
                ours.escape_ascii()
            );
        }
        theirs
    }

    /// Same as [`Both::same`], for a line of words separated by single spaces.
    #[track_caller]
    pub fn line(&mut self, line: &str) -> Vec<u8> {
        self.same(&line.split(' ').collect::<Vec<_>>())
    }
}
