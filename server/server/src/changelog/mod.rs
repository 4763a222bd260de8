//! The log of changes gives the changes of all event loops one order, and feeds its two readers:
//! the append-only file and the replicas.
//!
//! A turn appends its effects (commands that replay its changes) under its shard locks
//! ([`Sink::log`](punctual_store::events::Sink::log)). Both readers get the same bytes; published
//! messages go to the replicas only. A position is the number of bytes that were appended for the
//! file before it. Loops never write files: the file's thread takes the bytes, and *releases* a
//! position when all bytes before it are written (with `appendfsync always`: synced). A reply that
//! could reveal a change after the released position is held ([`Hold`]), so a killed process loses
//! nothing that a client has seen. Messages, events, invalidations and the replicas' stream are not
//! held. If a write fails, clients with held output are disconnected.
//!
//! Ground rules: only a turn that holds every shard attaches or detaches a reader, or begins a
//! snapshot that the log continues. It appends its own effects first. So the snapshot contains
//! exactly the changes that were appended earlier. An append only copies memory.

mod holding;
mod room;
mod unreleased;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread::Thread;

use parking_lot::Mutex;
use punctual_store::check::Check;
use punctual_store::lock_order::{OrderedMutex, Rank};
use punctual_store::{Effects, KeyHash, Turn, write_select};

pub(crate) use holding::{Hold, THIS_TURN};
use room::Room;
pub(crate) use room::UNSYNCED_MAX;
use unreleased::Unreleased;

/// The log of changes.
pub(crate) struct ChangeLog {
    state: OrderedMutex<State>,
    /// Number of bytes appended for the file since the server started.
    file_end: AtomicU64,
    /// Number of bytes of the file that are on the device.
    synced: AtomicU64,
    /// Number of bytes of the file whose changes replies may reveal.
    released: AtomicU64,
    /// Whether replies wait until their changes are released.
    holds: AtomicBool,
    /// Whether the file cannot be written. Then writes are refused, and replies to reads do not
    /// wait.
    failing: AtomicBool,
    unreleased: OnceLock<Unreleased>,
    /// Changed keys whose changes are appended but not recorded in `unreleased`. With one loop the
    /// recording is put off to the next turn, which skips the recording if the changes have been
    /// released.
    recent: Mutex<Vec<KeyHash>>,
    room: Room,
    /// Whether bytes were appended for which no thread of the file was woken.
    needs_wake: AtomicBool,
    /// Total capacity of the file's buffers in bytes, including the buffers of its threads.
    buffers: AtomicI64,
}

#[derive(Default)]
struct State {
    /// Database selected at the end of the log; `None` if the next effect must select one.
    db: Option<usize>,
    file: Option<File>,
    /// Whether the replication stream receives the log.
    replicas: bool,
    /// Bytes that were appended before the file was detached, and that the file's thread has not
    /// taken.
    detached: Option<Pending>,
}

/// The append-only file, as a reader of the log.
struct File {
    /// Bytes that the file's threads have not taken.
    pending: Vec<u8>,
    /// Marks, each with the number of pending bytes before it.
    marks: Vec<(usize, FileMark)>,
    /// Thread that handles marks, and also bytes if no other thread is idle.
    writer: Thread,
    /// Threads that found no bytes and are parked until bytes arrive.
    idle: Vec<Thread>,
}

/// Bytes and marks that the file's thread takes from the log in one call.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) bytes: Vec<u8>,
    /// Position after the bytes.
    pub(crate) end: u64,
    /// Marks, each with the number of bytes before it.
    pub(crate) marks: Vec<(usize, FileMark)>,
}

/// Instruction for the append-only file's thread at a position of the log.
pub(crate) enum FileMark {
    /// Continue in the next incremental file, and send the result.
    NextFile(Sender<Result<(), String>>),
    /// End, because the file was detached from the log.
    Close,
}

impl File {
    fn mark(&mut self, mark: FileMark) {
        self.marks.push((self.pending.len(), mark));
        self.writer.unpark();
    }

    fn wake(&mut self) {
        // The thread that parked last is the quickest to wake.
        self.idle.pop().unwrap_or(self.writer.clone()).unpark();
    }

    fn take(&mut self, end: u64, empty: Vec<u8>) -> Pending {
        Pending {
            bytes: std::mem::replace(&mut self.pending, empty),
            end,
            marks: std::mem::take(&mut self.marks),
        }
    }
}

impl Default for ChangeLog {
    fn default() -> Self {
        Self {
            state: OrderedMutex::new(Rank::Log, State::default()),
            file_end: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            released: AtomicU64::new(0),
            holds: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            unreleased: OnceLock::new(),
            recent: Mutex::default(),
            room: Room::default(),
            needs_wake: AtomicBool::new(false),
            buffers: AtomicI64::new(0),
        }
    }
}

impl ChangeLog {
    /// Returns the total capacity of the buffers for the append-only file, in bytes.
    pub(crate) fn file_buffer_bytes(&self) -> u64 {
        u64::try_from(self.buffers.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Records that a buffer of the file was freed.
    pub(crate) fn file_buffer_freed(&self, capacity: usize) {
        self.buffers.fetch_sub(capacity as i64, Ordering::Relaxed);
    }

    /// Appends the effects of a turn, and passes them to `stream` if there are replicas. The turn
    /// still holds its shards. The loop calls [`ChangeLog::wake_for_bytes`] before it sleeps.
    pub(crate) fn append(&self, effects: &Effects, mut stream: impl FnMut(&[u8])) {
        let mut state = self.state.lock();
        let State {
            db, file, replicas, ..
        } = &mut *state;
        let mut select = Vec::new();
        if let Some((first, last)) = effects.dbs() {
            if *db != Some(first) {
                write_select(&mut select, first);
            }
            *db = Some(last);
        }
        if *replicas {
            if !select.is_empty() {
                stream(&select);
            }
            stream(effects.bytes());
        }
        if let Some(file) = file {
            let (before, capacity) = (file.pending.len(), file.pending.capacity());
            file.pending.extend_from_slice(&select);
            for part in effects.parts_for_files() {
                file.pending.extend_from_slice(part);
            }
            let grown = file.pending.capacity() - capacity;
            if grown > 0 {
                self.buffers.fetch_add(grown as i64, Ordering::Relaxed);
            }
            let appended = (file.pending.len() - before) as u64;
            // Only the holder of the lock writes `file_end`.
            let end = self.file_end.load(Ordering::Relaxed) + appended;
            self.file_end.store(end, Ordering::Release);
            if before == 0 && appended > 0 {
                self.needs_wake.store(true, Ordering::Release);
            }
        }
    }

    /// Wakes a thread of the file if bytes were appended for which no thread was woken.
    #[inline]
    pub(crate) fn wake_for_bytes(&self) {
        if self.needs_wake.load(Ordering::Acquire)
            && self.needs_wake.swap(false, Ordering::AcqRel)
            && let Some(file) = &mut self.state.lock().file
        {
            file.wake();
        }
    }

    /// Takes the bytes appended for the file since the last call; `empty` becomes the buffer for
    /// later bytes. Only the file's threads call this. If there are no bytes, the calling thread is
    /// unparked when some arrive.
    pub(crate) fn take_file(&self, empty: Vec<u8>) -> Pending {
        let mut state = self.state.lock();
        if let Some(detached) = state.detached.take() {
            return detached;
        }
        let end = self.file_end();
        let Some(file) = state.file.as_mut() else {
            return Pending::default();
        };
        let caller = std::thread::current();
        file.idle.retain(|thread| thread.id() != caller.id());
        if file.pending.is_empty() && file.marks.is_empty() {
            file.idle.push(caller);
        }
        file.take(end, empty)
    }

    /// Returns the number of bytes appended for the file.
    pub(crate) fn file_end(&self) -> u64 {
        self.file_end.load(Ordering::Acquire)
    }

    /// Returns the number of bytes of the file that are on the device.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::SeqCst)
    }

    /// Records that the file is on the device up to `position`.
    pub(crate) fn set_synced(&self, position: u64) {
        self.synced.store(position, Ordering::SeqCst);
    }

    /// Returns the number of bytes of the file that replies may reveal.
    pub(crate) fn released(&self) -> u64 {
        self.released.load(Ordering::SeqCst)
    }

    /// Allows replies to reveal changes before `position`. The caller must then wake the loops that
    /// wait for the position.
    pub(crate) fn set_released(&self, position: u64) {
        self.released.store(position, Ordering::SeqCst);
    }

    /// Records that no byte before `position` is kept in memory for the file any longer.
    pub(crate) fn set_kept_from(&self, position: u64) {
        self.room.set_from(position);
    }

    /// Returns true if so many bytes are kept for the file that the loops must wait.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.room.is_full(self.file_end()) && !self.failing.load(Ordering::SeqCst)
    }

    /// Blocks until fewer bytes are kept for the file, for at most 20 ms. The caller must hold no
    /// locks, and checks [`ChangeLog::is_full`] again.
    pub(crate) fn wait_for_room(&self) {
        self.room.wait();
    }

    /// Sets whether replies wait for the file. The turn holds every shard. The caller must then
    /// send `Order::Released` to the loops, so that they write replies that no longer wait.
    pub(crate) fn set_holds(&self, turn: &mut Turn, holds: bool) {
        if holds {
            self.unreleased.get_or_init(Unreleased::default);
        }
        turn.store.set_notes_changes(holds);
        turn.renew_logged();
        self.holds.store(holds, Ordering::SeqCst);
    }

    /// Returns whether replies wait for the file.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        self.holds.load(Ordering::SeqCst)
    }

    /// Returns the position that is released now, for [`Hold::new`], or `None` if replies do not
    /// wait. A turn asks when it begins.
    pub(crate) fn released_for_turn(&self) -> Option<u64> {
        if !self.holds() {
            return None;
        }
        let released = self.released();
        if released < self.file_end() {
            self.note_recent();
        } else {
            self.recent.lock().clear();
        }
        let failing = self.failing.load(Ordering::SeqCst);
        Some(if failing { Hold::WRITES_ONLY } else { released })
    }

    /// Records whether the file cannot be written. While it cannot be written, only replies of
    /// writes wait.
    pub(crate) fn set_failing(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    /// Returns true if output that is held until `position` must still wait.
    #[inline]
    pub(crate) fn is_held(&self, position: u64) -> bool {
        position > 0 && self.holds() && position > self.released()
    }

    /// Records that the key with this hash has changed and that the change is not appended yet.
    #[inline]
    pub(crate) fn note_change(&self, key: KeyHash) {
        self.note_position(key, self.file_end() + 1);
    }

    /// Records that the changes of these keys were appended. With `at_once` the record is visible
    /// to other loops at once; otherwise it is put off to the next turn.
    pub(crate) fn note_appended(&self, keys: &mut Vec<KeyHash>, at_once: bool) {
        if at_once {
            let end = self.file_end();
            keys.drain(..).for_each(|key| self.note_position(key, end));
        } else {
            self.recent.lock().append(keys);
        }
    }

    /// Records the positions of the keys that [`ChangeLog::note_appended`] has put off.
    pub(crate) fn note_recent(&self) {
        let end = self.file_end();
        let mut recent = self.recent.lock();
        recent
            .drain(..)
            .for_each(|key| self.note_position(key, end));
    }

    /// Records that the last change of a key was appended before `position`.
    #[inline]
    fn note_position(&self, key: KeyHash, position: u64) {
        if let Some(unreleased) = self.unreleased.get() {
            unreleased.note(key, position);
        }
    }

    /// Returns an upper bound of the position of a key's last change.
    fn position_of(&self, key: KeyHash) -> u64 {
        let unreleased = self.unreleased.get();
        unreleased.map_or(0, |table| table.position(key))
    }

    /// Checks the positions of the file's readers. The caller holds every shard, so nothing is
    /// appended meanwhile.
    pub(crate) fn check(&self, to: &mut Check) {
        let state = self.state.lock();
        let end = self.file_end();
        let pending = state
            .file
            .as_ref()
            .map_or(0, |file| file.pending.len() as u64);
        // The readers' threads have taken all bytes but the pending ones.
        let taken = end.saturating_sub(pending);
        to.holds("the file's end counts the pending bytes", pending <= end);
        to.holds("what is released was written", self.released() <= taken);
        to.holds("what is synced was written", self.synced() <= taken);
        if let Some(file) = &state.file {
            let places = || file.marks.iter().map(|(place, _)| *place);
            let in_order = places().is_sorted() && places().all(|place| place as u64 <= pending);
            to.holds("marks are among the pending bytes", in_order);
        }
    }

    /// Makes the next effect select its database, for a reader that starts here and has seen no
    /// earlier SELECT. The turn holds every shard.
    pub(crate) fn force_select(&self) {
        self.state.lock().db = None;
    }

    /// Returns the database selected at the end of the log, or 0 if the next effect must select
    /// one.
    pub(crate) fn db(&self) -> usize {
        self.state.lock().db.unwrap_or(0)
    }

    /// Attaches the thread that writes the append-only file, or detaches it with a
    /// [`FileMark::Close`]. The turn holds every shard, and runs neither a transaction nor a
    /// script.
    pub(crate) fn set_file(&self, turn: &mut Turn, writer: Option<Thread>) {
        let end = self.file_end();
        self.room.reset(writer.is_some().then_some(end));
        // A new thread starts with new buffers.
        self.buffers.store(0, Ordering::Relaxed);
        self.change(turn, |state| {
            if let Some(mut old) = state.file.take() {
                old.mark(FileMark::Close);
                state.detached = Some(old.take(end, Vec::new()));
            }
            state.file = writer.map(|writer| File {
                pending: Vec::new(),
                marks: Vec::new(),
                writer,
                idle: Vec::new(),
            });
        });
    }

    /// Makes the append-only file continue in its next incremental file. The same conditions hold
    /// as for [`ChangeLog::set_file`].
    pub(crate) fn begin_file(&self, turn: &mut Turn, done: Sender<Result<(), String>>) {
        self.change(turn, |state| {
            if let Some(file) = &mut state.file {
                file.mark(FileMark::NextFile(done));
            }
        });
    }

    /// Attaches or detaches the replicas. The same conditions hold as for [`ChangeLog::set_file`].
    pub(crate) fn set_replicas(&self, turn: &mut Turn, on: bool) {
        self.change(turn, |state| state.replicas = on);
    }

    /// Wakes the file's thread after a change of its settings.
    pub(crate) fn wake_file(&self) {
        if let Some(file) = &self.state.lock().file {
            file.writer.unpark();
        }
    }

    fn change(&self, turn: &mut Turn, change: impl FnOnce(&mut State)) {
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

    /// Runs each line as a command in database 0. A line may begin with another database (`2:GET
    /// a`). A line with `!` is not run: its command goes to the replicas only (`! PUBLISH c x`).
    fn run(turn: &mut Turn, lines: &[&str]) {
        for line in lines {
            let (db, line) = line.split_once(':').unwrap_or(("0", line));
            let args: punctual_resp::OwnedArgs = line.split(' ').collect();
            let args = args.as_args();
            if args.at(0) == b"!" {
                turn.effect_for_replicas(db.parse().unwrap(), args.skip(1).iter());
                continue;
            }
            let row = command::find(&args.at(0).to_ascii_lowercase()).unwrap();
            let mut out = Vec::new();
            let mut reply = punctual_resp::Reply::new(&mut out, punctual_resp::Protocol::Resp2);
            turn.run(row, db.parse().unwrap(), true, args, &mut reply)
                .unwrap();
        }
    }

    /// Returns the words of encoded commands, one command per line.
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
                cluster: false,
                seed: 1,
                nap: std::thread::sleep,
            }),
            ChangeLog::default(),
        );
        let mut sink = Sink(&log, Vec::new());
        let now = Now::from_ms(1_000);
        let mut turn = Turn::new(&store, now, &mut sink, Classes::none());
        run(&mut turn, &["SET unlogged 1", "! PUBLISH nobody x"]);
        turn.lock_all();
        log.set_file(&mut turn, Some(std::thread::current()));
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
            &["2:! PUBLISH c in", "2:LPUSH l x", "3:GETDEL none"],
        );
        turn.end_frame();
        turn.begin_frame();
        run(&mut turn, &["LPUSH m x"]);
        turn.end_frame();
        turn.now = Now::from_ms(60_000);
        run(&mut turn, &["2:SETNX b 2"]);
        drop(turn);
        let all = "SELECT 0\nSET a 1\nSELECT 2\nSET b 1 PXAT 1100\nPEXPIREAT b 8000\nSELECT 0\nPUBLISH c hello\n\
                   SELECT 2\nSET f 0.5 KEEPTTL\nMULTI\nPUBLISH c in\nLPUSH l x\nEXEC\nSELECT 0\nLPUSH m x\nSELECT 2\n\
                   DEL b\nSETNX b 2";
        assert_eq!(lines(&sink.1), all);
        let file = log.take_file(Vec::new());
        assert_eq!(file.end, file.bytes.len() as u64);
        let without = all
            .replace("PUBLISH c hello\n", "")
            .replace("PUBLISH c in\n", "");
        assert_eq!(lines(&file.bytes), without);
    }
}
