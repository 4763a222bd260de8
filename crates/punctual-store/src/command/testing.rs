//! A small fixture for the families' tests: command lines in, replies and events out, at any instant.

use punctual_resp::{Args, OwnedArgs, Protocol, Reply};

use punctual_rdb::{Event, Reader, VERSION_FIELD_EXPIRY, Writer};

use crate::command;
use crate::error::Error;
use crate::events::{Classes, Sink};
use crate::keyspace::db::Db;
use crate::keyspace::shard::{Store, StoreOptions};
use crate::snapshot::{Format, Snapshot};
use crate::time::Now;
use crate::turn::{Command, Stats, Turn};
use crate::value::decode::read_value;
use crate::{RestoreBatch, Restored};

/// A keyspace, an instant and a client.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) now: Now,
    /// The client's database.
    pub(crate) db: usize,
    pub(crate) protocol: Protocol,
    /// Which events are told; all of them, misses and new keys included, unless a test says otherwise.
    pub(crate) classes: Classes,
    /// What was counted since the start.
    pub(crate) stats: Stats,
    told: Told,
}

/// A sink that keeps what it is told.
#[derive(Default)]
struct Told {
    events: Vec<String>,
    last_values: Vec<String>,
}

impl Sink for Told {
    fn keyspace(&mut self, db: usize, _: Classes, event: &str, key: &[u8]) {
        let key = key.escape_ascii();
        self.events.push(match db {
            0 => format!("{event} {key}"),
            _ => format!("{event} {key} @{db}"),
        });
    }

    fn expired(&mut self, _: Now, _: usize, key: &[u8], value: Option<&[u8]>, deadline_ms: u64) {
        let key = key.escape_ascii();
        let value = value.unwrap_or(b"(none)").escape_ascii();
        self.last_values
            .push(format!("{key}={value} at {deadline_ms}"));
    }

    fn field_expired(&mut self, _: Now, _: usize, key: &[u8], field: &[u8], deadline_ms: u64) {
        let (key, field) = (key.escape_ascii(), field.escape_ascii());
        self.last_values
            .push(format!("{key}.{field} at {deadline_ms}"));
    }

    fn wake(&mut self, _: usize, _: u64) {}
}

/// A file of a snapshot's records, which `next` gives.
pub(crate) fn written(
    snapshot: &mut Snapshot,
    mut next: impl FnMut(&mut Snapshot, &mut Vec<u8>) -> Option<usize>,
) -> Vec<u8> {
    let (mut file, mut records) = (Vec::new(), Vec::new());
    let mut writer = Writer::new(&mut file, VERSION_FIELD_EXPIRY, true);
    while let Some(db) = next(snapshot, &mut records) {
        writer.select_db(&mut file, db as u64);
        writer.feed(&records);
        file.append(&mut records);
    }
    assert_eq!(snapshot.written(), snapshot.keys());
    writer.finish(&mut file);
    file
}

impl Fixture {
    /// One shard, sixteen databases, 1,000,000 ms after the epoch, RESP2.
    pub(crate) fn new() -> Self {
        Self::sharded(1)
    }

    /// As [`Fixture::new`], with so many shards.
    pub(crate) fn sharded(shards: usize) -> Self {
        Self {
            store: Store::new(StoreOptions {
                shards,
                databases: 16,
            }),
            now: Now::from_ms(1_000_000),
            db: 0,
            protocol: Protocol::Resp2,
            classes: Classes::parse(b"KEAmn").expect("known letters"),
            stats: Stats::default(),
            told: Told::default(),
        }
    }

    /// As [`Fixture::new`], for a client that said `HELLO 3`.
    pub(crate) fn resp3() -> Self {
        Self {
            protocol: Protocol::Resp3,
            ..Self::new()
        }
    }

    /// Runs one line, words split at spaces (`""` is the empty word); the reply's bytes with line ends as
    /// single spaces: `+OK`, `$1 v`, `*2 $1 a :1`, `-ERR syntax error`.
    pub(crate) fn run(&mut self, line: &str) -> String {
        let words: OwnedArgs = line
            .split_whitespace()
            .map(|word| if word == "\"\"" { "" } else { word })
            .collect();
        self.shown(words.as_args())
    }

    /// Runs a line by this row, whose container is the server's.
    pub(crate) fn run_row(&mut self, row: &Command, line: &str) -> String {
        let words: OwnedArgs = line.split_whitespace().collect();
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, self.protocol);
        let mut turn = Turn::new(&self.store, self.now, &mut self.told, self.classes);
        turn.run(row, self.db, false, words.as_args(), &mut reply)
            .expect("it answers");
        String::from_utf8_lossy(&out)
            .trim_end()
            .replace("\r\n", " ")
    }

    /// As [`Fixture::run`], of words that may hold any bytes.
    pub(crate) fn run_words<W: AsRef<[u8]>>(&mut self, words: &[W]) -> String {
        let words: OwnedArgs = words.iter().collect();
        self.shown(words.as_args())
    }

    fn shown(&mut self, args: Args<'_>) -> String {
        let reply = String::from_utf8_lossy(&self.reply(args)).into_owned();
        reply
            .strip_suffix("\r\n")
            .expect("a whole reply")
            .replace("\r\n", " ")
    }

    /// The reply to one command as the client gets it; subcommand and arity are checked as the server does.
    pub(crate) fn reply(&mut self, args: Args<'_>) -> Vec<u8> {
        let name = args[0].to_ascii_lowercase();
        let mut command = command::find(&name).expect("a known command");
        if command.handler.is_none() {
            let wanted = args.get(1).unwrap_or_default().to_ascii_lowercase();
            let of_that_name = |row: &&Command| row.name.as_bytes() == wanted;
            command = command
                .subcommands
                .iter()
                .find(of_that_name)
                .expect("a known subcommand");
        }
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, self.protocol);
        let mut turn = Turn::new(&self.store, self.now, &mut self.told, self.classes);
        let done = if command.takes(args.len()) {
            turn.run(command, self.db, true, args, &mut reply)
        } else {
            Err(Error::Arity(command.name.into()))
        };
        if let Err(error) = done {
            reply.error(error.bytes());
        }
        let counted = turn.stats;
        drop(turn);
        self.add(counted);
        out
    }

    /// Does something with a turn of its own.
    pub(crate) fn with_turn<T>(&mut self, act: impl FnOnce(&mut Turn<'_>) -> T) -> T {
        let mut turn = Turn::new(&self.store, self.now, &mut self.told, self.classes);
        let done = act(&mut turn);
        let counted = turn.stats;
        drop(turn);
        self.add(counted);
        done
    }

    /// A snapshot of everything, as a file.
    pub(crate) fn snapshot(&mut self) -> Vec<u8> {
        let mut turn = Turn::new(&self.store, self.now, &mut self.told, self.classes);
        let mut snapshot = Snapshot::begin(&mut turn, Format { compress: true });
        let file = written(&mut snapshot, |snapshot, out| {
            snapshot.next_held(&mut turn, out)
        });
        assert!(
            turn.held_shards()
                .all(|(_, shard)| !shard.dbs.iter().any(Db::has_walk))
        );
        file
    }

    /// Adds the keys of a file that are not due.
    pub(crate) fn load(&mut self, file: &[u8]) {
        let mut turn = Turn::new(&self.store, self.now, &mut self.told, self.classes);
        let mut reader = Reader::new(file);
        let (mut db, mut batch) = (0, RestoreBatch::default());
        loop {
            match reader.next().expect("a whole file") {
                Event::SelectDb(number) => db = number as usize,
                Event::Key(record) => {
                    let deadline = record.meta.expire_ms.map(|ms| ms as u64);
                    if deadline.is_some_and(|at| turn.now.is_due(at)) {
                        continue;
                    }
                    let contents = record.value.read().expect("a whole value");
                    let value = read_value(contents, &turn.limits).expect("a good value");
                    let restored = Restored {
                        db,
                        key: record.key,
                        value: value.expect("no empty values"),
                        deadline,
                        idle_s: None,
                        freq: None,
                    };
                    turn.restore(&mut batch, restored, false)
                        .expect("each key once");
                }
                Event::End { verified } => {
                    assert!(verified);
                    turn.restore_all(&mut batch, false).expect("each key once");
                    break;
                }
                _ => {}
            }
        }
    }

    /// Writes a snapshot, empties everything, and reads it again.
    pub(crate) fn reload(&mut self) {
        let file = self.snapshot();
        Turn::new(&self.store, self.now, &mut self.told, self.classes).clear();
        self.load(&file);
    }

    /// Goes to another instant; what is due stays until [`Fixture::expire`] or a command meets it.
    pub(crate) fn advance(&mut self, ms: u64) {
        self.now = Now::from_micros(self.now.micros() + ms * 1000);
    }

    /// Expires all that is due, as the event loop does.
    pub(crate) fn expire(&mut self) {
        let mut turn = Turn::new(&self.store, self.now, &mut self.told, self.classes);
        for shard in 0..self.store.shards() {
            while !turn.expire(shard, &mut 1000) {}
        }
        let counted = turn.stats;
        drop(turn);
        self.add(counted);
    }

    /// Moves the clock to `ms` after the epoch and expires all that is due by then in exact order, as CLOCK ADVANCE.
    pub(crate) fn jump(&mut self, ms: u64) {
        let mut turn = Turn::new(&self.store, self.now, &mut self.told, self.classes);
        turn.advance(Now::from_ms(ms));
        self.now = turn.now;
        let counted = turn.stats;
        drop(turn);
        self.add(counted);
    }

    /// The events since the last call, as `set k`, or `set k @3` outside of database 0, comma between them.
    pub(crate) fn events(&mut self) -> String {
        std::mem::take(&mut self.told.events).join(", ")
    }

    /// What the sink was told of expired keys and fields since the last call: `key=last value at deadline`,
    /// `key.field at deadline`.
    pub(crate) fn last_values(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told.last_values)
    }

    /// Runs the commands of a transcript, which says what a real server answered and told; what comes must be the same.
    /// Lines: `command => reply | event key, event key`, or a remark behind `#`.
    #[track_caller]
    pub(crate) fn replay(&mut self, transcript: &str) {
        for line in transcript.lines().filter(|line| !line.starts_with('#')) {
            let (command, expected) = line.split_once(" => ").expect("a command and its reply");
            let reply = self.run(command);
            let events = self.events();
            let told = if events.is_empty() {
                String::new()
            } else {
                format!(" | {events}")
            };
            assert_eq!(format!("{reply}{told}"), expected, "{command}");
        }
    }

    fn add(&mut self, counted: Stats) {
        self.stats.hits += counted.hits;
        self.stats.misses += counted.misses;
        self.stats.expired += counted.expired;
        self.stats.expired_on_touch += counted.expired_on_touch;
        self.stats.expired_fields += counted.expired_fields;
        self.stats.dirty += counted.dirty;
    }
}

#[test]
fn a_line_goes_in_and_a_reply_comes_out() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.run("SET k \"\" PX 100"), "+OK");
    assert_eq!(fixture.events(), "new k, set k, expire k");
    assert_eq!(fixture.run("GET k"), "$0 ");
    assert_eq!(
        fixture.run("GET"),
        "-ERR wrong number of arguments for 'get' command"
    );
    fixture.advance(100);
    fixture.expire();
    assert_eq!(fixture.events(), "expired k");
    assert_eq!(fixture.last_values(), ["k= at 1000100"]);
    assert_eq!(
        (fixture.stats.expired, fixture.stats.expired_on_touch),
        (1, 0)
    );
    assert_eq!(fixture.stats.dirty, 1);
}
