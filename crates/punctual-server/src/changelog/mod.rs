//! The log of changes: one order for what all event loops change, and its two readers.
//!
//! A turn appends its effects under its shard locks ([`Sink::log`](punctual_store::events::Sink::log)). The append-only file and
//! the replicas get the same bytes; published messages go to the replicas only. Each reader has its own position: a count of
//! the bytes that were appended for it.
//!
//! Ground rules: a reader is attached or detached, and a snapshot that the log continues begins, by a turn that holds every shard
//! and has [flushed its effects](Turn::flush_effects); so the snapshot has what was appended before, and nothing of what follows.
//! The lock comes after those of shards and the configuration. An append copies memory and does nothing else.

use punctual_store::lock_order::{OrderedMutex, Rank};
use punctual_store::{Effects, Turn, write_select};

/// The log of changes.
pub(crate) struct ChangeLog {
    state: OrderedMutex<State>,
}

#[derive(Default)]
struct State {
    /// Database that is selected at the end of the log; `None` if the next effect must select one.
    db: Option<usize>,
    file: Option<Reader>,
    /// The replication stream is fed.
    replicas: bool,
}

/// What one reader has not taken yet.
#[derive(Default)]
struct Reader {
    pending: Vec<u8>,
    /// Bytes appended since the server started.
    end: u64,
}

impl Reader {
    fn append(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        self.end += bytes.len() as u64;
    }
}

impl Default for ChangeLog {
    fn default() -> Self {
        Self {
            state: OrderedMutex::new(Rank::Log, State::default()),
        }
    }
}

impl ChangeLog {
    /// Appends what a turn has changed, to the replicas by `stream`. The turn still holds its shards.
    pub(crate) fn append(&self, effects: &Effects, mut stream: impl FnMut(&[u8])) {
        let mut state = self.state.lock();
        let State { db, file, replicas } = &mut *state;
        let mut select = Vec::new();
        if let Some((first, last)) = effects.dbs() {
            if *db != Some(first) {
                write_select(&mut select, first);
            }
            *db = Some(last);
        }
        if let Some(file) = file {
            file.append(&select);
            effects.parts_for_files().for_each(|part| file.append(part));
        }
        if *replicas {
            if !select.is_empty() {
                stream(&select);
            }
            stream(effects.bytes());
        }
    }

    /// Makes the next effect select its database: whoever reads from here on knows of no earlier SELECT. The turn holds every
    /// shard.
    pub(crate) fn force_select(&self) {
        self.state.lock().db = None;
    }

    /// Attaches or detaches the append-only file. The turn holds every shard, and is outside of transactions and scripts.
    pub(crate) fn set_file(&self, turn: &mut Turn<'_>, on: bool) {
        self.change(turn, |state| state.file = on.then(Reader::default));
    }

    /// As [`ChangeLog::set_file`], for the replicas.
    pub(crate) fn set_replicas(&self, turn: &mut Turn<'_>, on: bool) {
        self.change(turn, |state| state.replicas = on);
    }

    fn change(&self, turn: &mut Turn<'_>, change: impl FnOnce(&mut State)) {
        turn.flush_effects();
        let mut state = self.state.lock();
        change(&mut state);
        state.db = None;
        let logged = state.file.is_some() || state.replicas;
        turn.store.set_logged(logged);
        turn.renew_logged();
    }
}

#[cfg(test)]
mod tests {
    use punctual_store::events::Classes;
    use punctual_store::{Now, Store, StoreOptions, command};

    use super::*;

    struct Sink<'l>(&'l ChangeLog, Vec<u8>);

    impl punctual_store::events::Sink for Sink<'_> {
        fn keyspace(&mut self, _: usize, _: Classes, _: &str, _: &[u8]) {}
        fn expired(&mut self, _: Now, _: usize, _: &[u8], _: Option<&[u8]>, _: u64) {}
        fn wake(&mut self, _: usize, _: u64) {}
        fn log(&mut self, effects: &Effects) {
            let Self(log, stream) = self;
            log.append(effects, |bytes| stream.extend_from_slice(bytes));
        }
    }

    /// Runs commands in database 0 or the one that `number:` before the line names; `!` publishes a message.
    fn run(turn: &mut Turn<'_>, lines: &[&str]) {
        for line in lines {
            let (db, line) = line.split_once(':').unwrap_or(("0", line));
            let args: punctual_resp::OwnedArgs = line.split(' ').collect();
            let args = args.as_args();
            if args.at(0) == b"!" {
                turn.effect_for_replicas(args.skip(1).iter());
                continue;
            }
            let row = command::find(&args.at(0).to_ascii_lowercase()).unwrap();
            let mut out = Vec::new();
            let mut reply = punctual_resp::Reply::new(&mut out, punctual_resp::Protocol::Resp2);
            turn.run(row, db.parse().unwrap(), true, args, &mut reply)
                .unwrap();
        }
    }

    /// Returns the words of commands, one a line.
    fn lines(mut bytes: &[u8]) -> String {
        let mut lines = Vec::new();
        while !bytes.is_empty() {
            let (value, len) = punctual_resp::decode(bytes)
                .unwrap()
                .expect("whole commands");
            let punctual_resp::Value::Array(words) = value else {
                panic!("a command is an array");
            };
            let words = words.iter().map(|word| match word {
                punctual_resp::Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
                other => panic!("{other:?}"),
            });
            lines.push(words.collect::<Vec<_>>().join(" "));
            bytes = &bytes[len..];
        }
        lines.join("\n")
    }

    #[test]
    fn both_readers_get_the_same_commands_and_replicas_the_messages() {
        let (store, log) = (
            Store::new(StoreOptions {
                shards: 4,
                databases: 4,
            }),
            ChangeLog::default(),
        );
        let mut sink = Sink(&log, Vec::new());
        let now = Now::from_ms(1_000);
        let mut turn = Turn::new(&store, now, &mut sink, Classes::none());
        run(&mut turn, &["SET unlogged 1", "! PUBLISH nobody x"]);
        turn.lock_all();
        log.set_file(&mut turn, true);
        log.set_replicas(&mut turn, true);
        run(
            &mut turn,
            &[
                "SET a 1",
                "GET a",
                "2:SET b 1 PX 100",
                "2:EXPIRE b 7",
                "! PUBLISH c hello",
                "DEL none",
                "2:INCRBYFLOAT f 0.5",
            ],
        );
        turn.begin_frame();
        run(
            &mut turn,
            &["! PUBLISH c in", "2:LPUSH l x", "3:GETDEL none"],
        );
        turn.end_frame();
        turn.begin_frame();
        run(&mut turn, &["LPUSH m x"]);
        turn.end_frame();
        turn.now = Now::from_ms(60_000);
        run(&mut turn, &["2:SETNX b 2"]);
        drop(turn);
        let mut state = log.state.lock();
        let all = "SELECT 0\nSET a 1\nSELECT 2\nSET b 1 PXAT 1100\nPEXPIREAT b 8000\nPUBLISH c hello\n\
                   SET f 0.5 KEEPTTL\nMULTI\nPUBLISH c in\nLPUSH l x\nEXEC\nSELECT 0\nLPUSH m x\nSELECT 2\n\
                   DEL b\nSETNX b 2";
        assert_eq!(lines(&sink.1), all);
        let file = state.file.take().unwrap();
        assert_eq!(file.end, file.pending.len() as u64);
        let without = all
            .replace("PUBLISH c hello\n", "")
            .replace("PUBLISH c in\n", "");
        assert_eq!(lines(&file.pending), without);
    }
}
