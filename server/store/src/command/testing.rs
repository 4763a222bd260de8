//! Fixture for tests of commands. It runs command lines and returns replies and events, and only
//! the test moves its clock.

use punctual_resp::{Args, OwnedArgs, Parser, Protocol, Reply};

use punctual_rdb::{Event, Own, Reader, VERSION_FIELD_EXPIRY, Writer};

use crate::check::Check;
use crate::command;
use crate::effects::Effects;
use crate::error::Error;
use crate::events::{Classes, Silent, Sink};
use crate::keyspace::db::Db;
use crate::keyspace::shard::{Store, StoreOptions};
use crate::snapshot::{Format, Snapshot};
use crate::source::Source;
use crate::time::Now;
use crate::turn::stats::Stats;
use crate::turn::{Command, Turn};
use crate::value::SETTINGS_FIELD;
use crate::value::decode::read_value;
use crate::{RestoreBatch, Restored};

/// A keyspace, a clock and a client that runs commands.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) now: Now,
    /// The client's database.
    pub(crate) db: usize,
    pub(crate) protocol: Protocol,
    /// Enabled events; by default all of them, including misses and new keys.
    pub(crate) classes: Classes,
    /// Commands hide due entries and do not expire them, as on a replica.
    pub(crate) frozen: bool,
    /// The commands come from a log of changes.
    replays: bool,
    /// Statistics since the start.
    pub(crate) stats: Stats,
    sink: RecordingSink,
}

impl Drop for Fixture {
    /// Each test ends with the checks of the keyspace.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
    }
}

/// A sink that records events and expired values.
#[derive(Default)]
struct RecordingSink {
    events: Vec<String>,
    subkeys: Vec<String>,
    last_values: Vec<String>,
    /// Bytes of the log of changes, if logging is on.
    log: Vec<u8>,
}

impl Sink for RecordingSink {
    fn keyspace(&mut self, db: usize, _: Classes, event: &str, key: &[u8]) {
        let key = key.escape_ascii();
        self.events.push(match db {
            0 => format!("{event} {key}"),
            _ => format!("{event} {key} @{db}"),
        });
    }

    fn subkeys(&mut self, db: usize, event: &str, key: &[u8], subkeys: &[&[u8]]) {
        let words = [&[key], subkeys].concat();
        let words: Vec<String> = words.iter().map(|w| w.escape_ascii().to_string()).collect();
        let words = words.join(" ");
        self.subkeys.push(match db {
            0 => format!("{event} {words}"),
            _ => format!("{event} {words} @{db}"),
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

    fn log(&mut self, effects: &Effects) {
        self.log.extend_from_slice(effects.bytes());
    }
}

/// Returns a snapshot file of the records that `next` appends to its buffer. `next` returns the
/// database of these records, or `None` at the end.
pub(crate) fn snapshot_file(
    snapshot: &mut Snapshot,
    mut next: impl FnMut(&mut Snapshot, &mut Vec<u8>) -> Option<usize>,
) -> Vec<u8> {
    let (mut file, mut records) = (Vec::new(), Vec::new());
    let mut writer = Writer::new(&mut file, VERSION_FIELD_EXPIRY, true);
    let mut selected = None;
    while let Some(db) = next(snapshot, &mut records) {
        // Several calls of `next` write a large record. They return the same database, which is
        // selected only once.
        if selected.replace(db) != Some(db) {
            writer.select_db(&mut file, db as u64);
        }
        writer.feed(&records);
        file.append(&mut records);
    }
    assert_eq!(snapshot.written(), snapshot.keys());
    writer.finish(&mut file);
    file
}

impl Fixture {
    /// Creates a fixture with one shard, sixteen databases, a RESP2 client, and a clock at
    /// 1,000,000 ms after the epoch.
    pub(crate) fn new() -> Self {
        Self::sharded(1)
    }

    /// Creates a fixture like [`Fixture::new`], with several shards.
    pub(crate) fn sharded(shards: usize) -> Self {
        Self::seeded(shards, 1)
    }

    /// Returns a fixture whose store has this seed; see [`Fixture::sharded`].
    pub(crate) fn seeded(shards: usize, seed: u64) -> Self {
        Self::with_store(shards, seed, false)
    }

    /// Returns a fixture in cluster mode; see [`Fixture::sharded`].
    pub(crate) fn clustered(shards: usize) -> Self {
        Self::with_store(shards, 1, true)
    }

    fn with_store(shards: usize, seed: u64, cluster: bool) -> Self {
        Self {
            store: Store::new(StoreOptions {
                shards,
                databases: 16,
                cluster,
                seed,
                nap: std::thread::sleep,
            }),
            now: Now::from_ms(1_000_000),
            db: 0,
            protocol: Protocol::Resp2,
            classes: Classes::parse(b"KEAmn").expect("known letters"),
            frozen: false,
            replays: false,
            stats: Stats::default(),
            sink: RecordingSink::default(),
        }
    }

    /// Creates a fixture like [`Fixture::new`], with a RESP3 client.
    pub(crate) fn resp3() -> Self {
        let mut fixture = Self::new();
        fixture.protocol = Protocol::Resp3;
        fixture
    }

    /// Runs a command line, with words split at spaces (`""` is the empty word). Returns the reply
    /// with line ends replaced by spaces: `+OK`, `$1 v`, `*2 $1 a :1`, `-ERR syntax error`.
    pub(crate) fn run(&mut self, line: &str) -> String {
        let words: OwnedArgs = line
            .split_whitespace()
            .map(|word| if word == "\"\"" { "" } else { word })
            .collect();
        self.reply_line(words.as_args())
    }

    /// Runs a command line with the given row, for rows that are in no family.
    pub(crate) fn run_row(&mut self, row: &Command, line: &str) -> String {
        let words: OwnedArgs = line.split_whitespace().collect();
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, self.protocol);
        let mut turn = Turn::new(&self.store, self.now, &mut self.sink, self.classes);
        turn.run(row, self.db, false, words.as_args(), &mut reply)
            .expect("the command succeeds");
        String::from_utf8_lossy(&out)
            .trim_end()
            .replace("\r\n", " ")
    }

    /// Does the same as [`Fixture::run`], for words of any bytes.
    pub(crate) fn run_words<W: AsRef<[u8]>>(&mut self, words: &[W]) -> String {
        let words: OwnedArgs = words.iter().collect();
        self.reply_line(words.as_args())
    }

    fn reply_line(&mut self, args: Args) -> String {
        let reply = String::from_utf8_lossy(&self.reply(args)).into_owned();
        reply
            .strip_suffix("\r\n")
            .expect("a whole reply")
            .replace("\r\n", " ")
    }

    /// Returns the reply to a command; checks subcommand and arity as the server does.
    pub(crate) fn reply(&mut self, args: Args) -> Vec<u8> {
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
        let mut turn = Turn::new(&self.store, self.now, &mut self.sink, self.classes);
        turn.frozen = self.frozen;
        if self.replays {
            let _ = turn.enter(Source::File);
        }
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
        self.stats += counted;
        out
    }

    /// Runs lines and compares their replies.
    #[track_caller]
    pub(crate) fn expect(&mut self, lines: &[(&str, &str)]) {
        for (line, reply) in lines {
            assert_eq!(self.run(line), *reply, "{line}");
        }
    }

    /// Runs lines and compares the subkeys that each publishes.
    #[track_caller]
    pub(crate) fn expect_subkeys(&mut self, lines: &[(&str, &str)]) {
        for (line, subkeys) in lines {
            let reply = self.run(line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
            assert_eq!(self.subkeys(), *subkeys, "{line}");
        }
    }

    /// Checks that indexes and counters agree with the data.
    pub(crate) fn check(&mut self) {
        let mut found = Check::default();
        self.with_turn(|turn| turn.check(&mut found));
        found.assert_none();
    }

    /// Calls `act` with a new turn.
    pub(crate) fn with_turn<T>(&mut self, act: impl FnOnce(&mut Turn) -> T) -> T {
        let mut turn = Turn::new(&self.store, self.now, &mut self.sink, self.classes);
        let done = act(&mut turn);
        let counted = turn.stats;
        drop(turn);
        self.stats += counted;
        done
    }

    /// Returns a snapshot file of all databases.
    pub(crate) fn snapshot(&mut self) -> Vec<u8> {
        let mut turn = Turn::new(&self.store, self.now, &mut self.sink, self.classes);
        let mut snapshot = Snapshot::begin(
            &mut turn,
            Format {
                compress: true,
                ..Format::default()
            },
        );
        let file = snapshot_file(&mut snapshot, |snapshot, out| {
            snapshot.next_held(&mut turn, out)
        });
        assert!(
            turn.held_shards()
                .all(|(_, shard)| !shard.dbs.iter().any(Db::has_walk))
        );
        file
    }

    /// Loads the keys of a snapshot file, except due keys that are not timers.
    pub(crate) fn load(&mut self, file: &[u8]) {
        let mut turn = Turn::new(&self.store, self.now, &mut self.sink, self.classes);
        let mut reader = Reader::new(file);
        let (mut db, mut batch, mut settings) = (0, RestoreBatch::default(), None);
        loop {
            match reader.next().expect("a whole file") {
                Event::SelectDb(number) => db = number as usize,
                Event::Aux { name, text } if name == SETTINGS_FIELD => {
                    settings = Some(text.to_vec());
                }
                Event::Key(record) => {
                    let deadline = record.meta.expire_ms.map(|ms| ms as u64);
                    let acts = matches!(record.value.own(), Some(Own::Timer | Own::Jobs));
                    if !acts && deadline.is_some_and(|at| turn.now.is_due(at)) {
                        continue;
                    }
                    let contents = record.value.read().expect("a whole value");
                    let value = read_value(contents, &turn.limits).expect("a good value");
                    let value = value.map(|mut value| {
                        let settings = settings.take();
                        assert!(settings.is_none_or(|text| value.apply_settings(&text)));
                        value
                    });
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

    /// Writes a snapshot, clears all databases and loads the snapshot.
    pub(crate) fn reload(&mut self) {
        let file = self.snapshot();
        Turn::new(&self.store, self.now, &mut self.sink, self.classes).clear();
        self.load(&file);
    }

    /// Advances the clock. Due keys stay until [`Fixture::expire`] or a command finds them.
    pub(crate) fn advance(&mut self, ms: u64) {
        self.now = Now::from_micros(self.now.micros() + ms * 1000);
    }

    /// Starts or stops logging changes.
    pub(crate) fn set_logged(&mut self, logged: bool) {
        self.store.set_logged(logged);
    }

    /// Returns the bytes logged since the last call: commands in RESP, without SELECT. All of them
    /// should belong to one database.
    pub(crate) fn take_log(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.sink.log)
    }

    /// Applies a log of changes, as a replica does, or a server that starts.
    pub(crate) fn apply(&mut self, mut log: &[u8]) {
        let now = self.now;
        self.now = now.replaying();
        let mut parser = Parser::new();
        while !log.is_empty() {
            let command = parser
                .parse(log, &punctual_resp::Limits::default())
                .expect("RESP")
                .expect("whole commands");
            log = &log[command.consumed..];
            let name = command.args[0].to_ascii_lowercase();
            if !matches!(&name[..], b"multi" | b"exec") {
                self.replays = true;
                let reply = self.reply(command.args);
                assert_ne!(reply.first(), Some(&b'-'), "{}", reply.escape_ascii());
            }
        }
        (self.now, self.replays) = (now, false);
    }

    /// Expires all due keys and fields, as the event loop does.
    pub(crate) fn expire(&mut self) {
        let mut turn = Turn::new(&self.store, self.now, &mut self.sink, self.classes);
        for shard in 0..self.store.shards() {
            while !turn.expire(shard, &mut 1000) {}
        }
        let counted = turn.stats;
        drop(turn);
        self.stats += counted;
    }

    /// Returns the number of fields and members with a deadline in all databases.
    pub(crate) fn parts_with_deadline(&self) -> usize {
        let mut sink = Silent;
        let mut turn = Turn::new(&self.store, self.now, &mut sink, Classes::none());
        turn.lock_all();
        (0..16)
            .map(|db| {
                turn.held_dbs(db)
                    .map(|(_, part)| part.parts_with_deadline())
                    .sum::<usize>()
            })
            .sum()
    }

    /// Moves the clock to `ms` after the epoch and expires due keys in the order of their
    /// deadlines, as CLOCK ADVANCE does.
    pub(crate) fn jump(&mut self, ms: u64) {
        let mut turn = Turn::new(&self.store, self.now, &mut self.sink, self.classes);
        assert!(turn.advance(Now::from_ms(ms)), "a timer is due");
        self.now = turn.now;
        let counted = turn.stats;
        drop(turn);
        self.stats += counted;
    }

    /// Returns the events since the last call, separated by commas: `set k`, or `set k @3` for
    /// database 3.
    pub(crate) fn events(&mut self) -> String {
        std::mem::take(&mut self.sink.events).join(", ")
    }

    /// Returns the events with subkeys since the last call, separated by commas: `hset key field`.
    pub(crate) fn subkeys(&mut self) -> String {
        std::mem::take(&mut self.sink.subkeys).join(", ")
    }

    /// Returns the expired keys and fields since the last call: `key=last value at deadline`,
    /// `key.field at deadline`.
    pub(crate) fn last_values(&mut self) -> Vec<String> {
        std::mem::take(&mut self.sink.last_values)
    }

    /// Runs the commands of a transcript, and compares their replies and events with redis-server's
    /// in the transcript. Lines: `command => reply | event key, event key`, or a comment after `#`.
    #[track_caller]
    pub(crate) fn replay(&mut self, transcript: &str) {
        for line in transcript.lines().filter(|line| !line.starts_with('#')) {
            let (command, expected) = line.split_once(" => ").expect("a command and its reply");
            let reply = self.run(command);
            let events = self.events();
            let suffix = if events.is_empty() {
                String::new()
            } else {
                format!(" | {events}")
            };
            let actual = format!("{reply}{suffix}");
            assert_eq!(actual.trim_end(), expected.trim_end(), "{command}");
        }
    }
}
