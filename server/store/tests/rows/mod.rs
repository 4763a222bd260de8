//! Runs random commands with random arguments through `Turn::run`, and checks properties of every
//! command. The input bytes decide all choices, so a fuzz target and a seeded test use this file.
//!
//! - A command appends one whole reply, or returns an error and appends nothing.
//! - A complete SCAN returns as many keys as DBSIZE counts.
//! - Indexes and counters agree with the data ([`Turn::check`]).
//! - RESTORE of a DUMP creates a value with the digest of the original.
//! - The log of changes, applied to a second store, leads to the same digest of all databases.

mod text;
mod words;

use punctual_resp::{Args, OwnedArgs, Parser, Protocol, Reply, Value, decode};
use punctual_store::check::Check;
use punctual_store::command::digest::{DEBUG_DIGEST, DEBUG_DIGEST_VALUE};
use punctual_store::events::{Classes, Sink};
use punctual_store::{Command, Effects, Now, Source, Store, StoreOptions, Turn};
use punctual_store::{command, write_select};

use words::Words;

const DATABASES: usize = 2;
/// Key for RESTORE, which no random command names.
const COPY: &[u8] = b"restored";

/// Collects the log of changes.
#[derive(Default)]
struct Log {
    bytes: Vec<u8>,
    selected: Option<usize>,
}

impl Sink for Log {
    fn keyspace(&mut self, _: usize, _: Classes, _: &str, _: &[u8]) {}

    fn expired(&mut self, _: Now, _: usize, _: &[u8], _: Option<&[u8]>, _: u64) {}

    fn wake(&mut self, _: usize, _: u64) {}

    fn log(&mut self, effects: &Effects) {
        if let Some((first, last)) = effects.dbs() {
            if self.selected != Some(first) {
                write_select(&mut self.bytes, first);
            }
            self.selected = Some(last);
        }
        self.bytes.extend_from_slice(effects.bytes());
    }
}

/// The commands so far. They are printed if the test panics.
#[derive(Default)]
struct Trace(Vec<String>);

impl Drop for Trace {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0.join("\n"));
        }
    }
}

/// A store, a second store to which the log of the first is applied, and the clock.
struct World {
    store: Store,
    follower: Store,
    followed_db: usize,
    log: Log,
    now: Now,
    protocol: Protocol,
    trace: Trace,
}

/// Runs the commands that `input` chooses.
pub fn run(input: &[u8]) {
    let is_text = input.first() == Some(&text::MARK);
    let mut words = Words::new(if is_text { &[] } else { input });
    let shards = match is_text {
        true => text::shards(input),
        false if words.one_in(2) => 1,
        false => 8,
    };
    let protocol = if words.one_in(2) {
        Protocol::Resp2
    } else {
        Protocol::Resp3
    };
    let store = |shards| {
        Store::new(StoreOptions {
            shards,
            databases: DATABASES,
            cluster: false,
            seed: 1,
            nap: std::thread::sleep,
        })
    };
    let mut world = World {
        store: store(shards),
        follower: store(1),
        followed_db: 0,
        log: Log::default(),
        now: Now::from_ms(1_000_000),
        protocol,
        trace: Trace::default(),
    };
    world.store.set_logged(true);
    if is_text {
        for store in [&world.store, &world.follower] {
            store.set_string_max(text::STRING_MAX);
        }
        world.run_text(input);
    }
    while !words.is_empty() {
        world.turn(&mut words);
        world.follow();
        if words.one_in(8) {
            world.compare_sizes();
            world.compare_followers();
        }
        if words.one_in(4) {
            let db = words.below(DATABASES);
            let key = words.key();
            world.restore(db, &key);
        }
    }
    world.compare_sizes();
    world.compare_followers();
}

impl World {
    /// Moves the clock, perhaps takes a step of expiry, and runs some commands in one turn.
    fn turn(&mut self, words: &mut Words) {
        let jump = [0, 0, 1, 900, 50_000, 1_000_000, 90_000_000_000][words.below(7)];
        self.now = Now::from_micros(self.now.micros() + jump);
        let mut turn = Turn::new(&self.store, self.now, &mut self.log, Classes::none());
        if words.one_in(3) {
            let shard = words.below(self.store.shards());
            let budget = words.below(64);
            self.trace.0.push(format!(
                "{:?}: expiry of shard {shard} by {budget}",
                self.now
            ));
            turn.expire(shard, &mut { budget });
            Self::fire(&mut turn);
        }
        let source = match words.below(8) {
            0 => Source::Exec,
            1 => Source::Script,
            2 => Source::Stream,
            _ => Source::Client,
        };
        let db = words.below(DATABASES);
        if source != Source::Client || words.one_in(4) {
            turn.pin(None);
        }
        let outer = turn.enter(source);
        if source.is_log() {
            turn.now = self.now.replaying();
        }
        for _ in 0..=words.below(4) {
            let (row, args) = words.command(self.now);
            let line: Vec<_> = args.as_args().iter().map(<[u8]>::escape_ascii).collect();
            let line: Vec<_> = line.iter().map(ToString::to_string).collect();
            self.trace.0.push(format!(
                "{:?} @{db} {source:?}: {}",
                turn.now,
                line.join(" ")
            ));
            if row.takes(args.as_args().len()) {
                run_checked(&mut turn, row, db, args.as_args(), self.protocol);
            }
        }
        turn.leave(outer);
        turn.unpin();
    }

    /// Fires the timers that are due, without their commands.
    fn fire(turn: &mut Turn) {
        for due in turn.take_due_timers() {
            turn.pin(None);
            if let Some(firing) = turn.begin_firing(&due) {
                turn.end_firing(firing, None);
            }
            turn.unpin();
        }
    }

    /// Runs a command of a client and returns its reply.
    fn ask(&mut self, row: &Command, db: usize, args: &[&[u8]]) -> Option<Vec<u8>> {
        let args: OwnedArgs = args.iter().collect();
        let mut turn = Turn::new(&self.store, self.now, &mut self.log, Classes::none());
        run_checked(&mut turn, row, db, args.as_args(), Protocol::Resp2)
    }

    fn ask_named(&mut self, db: usize, args: &[&[u8]]) -> Option<Value> {
        let reply = self.ask(command::find(args[0]).expect("a command"), db, args)?;
        Some(decode(&reply).expect("RESP").expect("a whole reply").0)
    }

    fn compare_sizes(&mut self) {
        for store in [&self.store, &self.follower] {
            let (mut sink, mut found) = (Log::default(), Check::default());
            Turn::new(store, self.now, &mut sink, Classes::none()).check(&mut found);
            found.assert_none();
        }
        for db in 0..DATABASES {
            // DBSIZE runs before SCAN, because DBSIZE expires hashes whose fields are due and SCAN
            // returns them. It runs twice, because a rule of NOTIFY may append the events of the
            // first run to a new stream.
            self.ask_named(db, &[b"dbsize"]);
            let size = self.ask_named(db, &[b"dbsize"]);
            let (mut cursor, mut found) = (b"0".to_vec(), std::collections::BTreeSet::new());
            loop {
                let page = self.ask_named(db, &[b"scan", &cursor, b"count", b"100"]);
                let Some(Value::Array(page)) = page else {
                    panic!("SCAN replies {page:?}");
                };
                let [Value::Bulk(next), Value::Array(names)] = &page[..] else {
                    panic!("SCAN replies {page:?}");
                };
                found.extend(names.iter().map(|name| format!("{name:?}")));
                cursor = next.to_vec();
                if cursor == b"0" {
                    break;
                }
            }
            assert_eq!(size, Some(Value::Int(found.len() as i64)), "@{db}");
        }
    }

    fn restore(&mut self, db: usize, key: &[u8]) {
        // DUMP replies null if the key does not exist.
        let Some(Value::Bulk(payload)) = self.ask_named(db, &[b"dump", key]) else {
            return;
        };
        let ttl = match self.ask_named(db, &[b"pttl", key]) {
            Some(Value::Int(-1)) => 0,
            Some(Value::Int(ttl)) => ttl.max(1),
            other => panic!("PTTL replies {other:?}"),
        };
        let before = self.digest_of(db, key);
        let ttl = ttl.to_string();
        let line = [b"restore", COPY, ttl.as_bytes(), &payload, b"replace"];
        self.trace
            .0
            .push(format!("DUMP {} and RESTORE @{db}", key.escape_ascii()));
        if self.ask_named(db, &line).is_some() {
            assert_eq!(
                self.digest_of(db, COPY).escape_ascii().to_string(),
                before.escape_ascii().to_string()
            );
        }
        self.ask_named(db, &[b"del", COPY]);
    }

    fn digest_of(&mut self, db: usize, key: &[u8]) -> Vec<u8> {
        self.ask(&DEBUG_DIGEST_VALUE, db, &[b"debug", b"digest-value", key])
            .expect("a digest")
    }

    /// Applies the collected log to the second store.
    fn follow(&mut self) {
        let log = std::mem::take(&mut self.log.bytes);
        let (mut rest, mut parser) = (&log[..], Parser::new());
        let mut sink = Log::default();
        let now = self.now.replaying();
        let mut turn = Turn::new(&self.follower, now, &mut sink, Classes::none());
        let _ = turn.enter(Source::Stream);
        while !rest.is_empty() {
            let parsed = parser.parse(rest, &punctual_resp::Limits::default());
            let parsed = parsed.expect("RESP").expect("whole commands");
            rest = &rest[parsed.consumed..];
            let name = parsed.args[0].to_ascii_lowercase();
            match &name[..] {
                b"multi" | b"exec" => {}
                b"select" => self.followed_db = usize::from(parsed.args[1][0] - b'0'),
                _ => {
                    let row = row_of(parsed.args).expect("a known command");
                    let done = run_checked(
                        &mut turn,
                        row,
                        self.followed_db,
                        parsed.args,
                        Protocol::Resp2,
                    );
                    assert!(done.is_some(), "{:?}", parsed.args);
                }
            }
        }
    }

    fn compare_followers(&mut self) {
        self.follow();
        let mut digests = self.digests();
        if digests[0] != digests[1] && self.has_queues() {
            // Ends of delays and leases of jobs are not logged: each store computes them.
            Self::expire_all(&self.store, self.now, &mut self.log);
            self.follow();
            Self::expire_all(&self.follower, self.now, &mut Log::default());
            digests = self.digests();
        }
        assert_eq!(digests[0], digests[1], "the follower differs");
    }

    fn has_queues(&self) -> bool {
        let mut sink = Log::default();
        let mut turn = Turn::new(&self.store, self.now, &mut sink, Classes::none());
        turn.lock_all();
        (0..DATABASES).any(|db| turn.held_dbs(db).any(|(_, part)| part.queue_count() > 0))
    }

    /// Expires everything that is due.
    fn expire_all(store: &Store, now: Now, sink: &mut Log) {
        let mut turn = Turn::new(store, now, sink, Classes::none());
        for shard in 0..store.shards() {
            // Each call takes a bounded number of steps.
            for _ in 0..100 {
                let ended = turn.expire(shard, &mut 1_000);
                Self::fire(&mut turn);
                if ended {
                    break;
                }
            }
        }
    }

    fn digests(&self) -> [String; 2] {
        let args: OwnedArgs = ["debug", "digest"].iter().collect();
        [&self.store, &self.follower].map(|store| {
            let mut sink = Log::default();
            // The digest includes due entries whose removal is not logged yet.
            let now = self.now.replaying();
            let mut turn = Turn::new(store, now, &mut sink, Classes::none());
            let reply = run_checked(&mut turn, &DEBUG_DIGEST, 0, args.as_args(), Protocol::Resp2);
            reply.expect("a digest").escape_ascii().to_string()
        })
    }
}

/// Returns the row of a command line.
fn row_of(args: Args) -> Option<&'static Command> {
    let row = command::find(&args[0].to_ascii_lowercase())?;
    if row.handler.is_some() {
        return Some(row);
    }
    let wanted = args.get(1)?.to_ascii_lowercase();
    let mut subcommands = row.subcommands.iter();
    subcommands.find(|row| row.name.as_bytes() == wanted)
}

/// Runs a command and checks what it appends. Returns the reply, or `None` after an error or if the
/// command waits.
fn run_checked(
    turn: &mut Turn,
    row: &Command,
    db: usize,
    args: Args,
    protocol: Protocol,
) -> Option<Vec<u8>> {
    const BEFORE: &[u8] = b"+before\r\n";
    let mut out = BEFORE.to_vec();
    let done = turn.run(row, db, true, args, &mut Reply::new(&mut out, protocol));
    let reply = out.split_off(BEFORE.len());
    assert_eq!(out, BEFORE);
    match done {
        Err(error) => {
            assert!(reply.is_empty(), "{} before an error", reply.escape_ascii());
            assert!(!error.bytes().is_empty());
            None
        }
        Ok(()) if turn.wait.take().is_some() => {
            assert!(reply.is_empty(), "{} before a wait", reply.escape_ascii());
            None
        }
        Ok(()) => {
            let whole = decode(&reply).ok().flatten();
            let len = whole.map(|(_, len)| len);
            assert_eq!(len, Some(reply.len()), "{}", reply.escape_ascii());
            Some(reply)
        }
    }
}
