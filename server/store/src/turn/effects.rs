//! Effects: what a turn has changed, as commands that replay to the same keyspace.
//!
//! While somebody reads the log of changes ([`Store::set_logged`]), a turn collects its effects and
//! hands them to [`Sink::log`](crate::events::Sink::log) before it unlocks anything, so the log's
//! order is an order in which the turns happened.
//!
//! - A command that has committed a change is its own effect, word by word. A handler whose words
//!   would not replay to the same keyspace sets its effects itself ([`Cx::effect`]): relative
//!   times, random choices, sums of floats, blocking pops.
//! - An entry that expires is a DEL or HDEL, before the command that met it.
//! - The effects of a transaction, a script, or a command with several are framed by MULTI and
//!   EXEC: all or none.
//!
//! Replay runs at an instant at which nothing is due ([`Now::replaying`](crate::Now::replaying)),
//! because the log says what expired and when.

use punctual_resp::{Args, Protocol, Reply};

use super::{Cx, Turn};
use crate::effects::Effects;
use crate::keyspace::shard::{Store, Writers};

impl Store {
    /// Tells turns whether somebody reads the log of changes, from the next time that they lock a
    /// shard. Only a turn that holds every shard may call this.
    pub fn set_logged(&self, logged: bool) {
        self.logged
            .store(logged, std::sync::atomic::Ordering::SeqCst);
    }

    /// Returns whether somebody reads the log of changes.
    pub fn is_logged(&self) -> bool {
        self.logged.load(std::sync::atomic::Ordering::SeqCst)
    }
}

impl Turn<'_> {
    /// Hands the effects so far to the sink. Whoever begins a snapshot that the log continues calls
    /// this first, with every shard held. Returns false, and does nothing, inside of a transaction
    /// or script, whose effects must not be divided.
    pub fn flush_effects(&mut self) -> bool {
        if self.effects.frame.depth > 0 {
            return false;
        }
        self.log();
        true
    }

    /// Returns whether there are effects that the sink does not have yet.
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Reads anew whether the log is read, which turns may write and whether changed keys are
    /// reported, for the turn that has changed that itself.
    pub fn renew_logged(&mut self) {
        self.logged = self.store.is_logged();
        self.writers = self.store.writers();
        self.notes = self.logged && self.store.notes_changes();
        self.reports = self.observed || self.notes || self.writers == Writers::Both;
    }

    #[inline]
    pub(super) fn log(&mut self) {
        if !self.effects.is_empty() {
            if self.effects.frame.depth > 0 {
                // The command goes on with other shards.
                self.effects.surround();
            }
            self.sink.log(&self.effects);
            self.effects.clear();
        }
    }

    /// Surrounds the effects until [`Turn::end_frame`] by MULTI and EXEC if they are several.
    /// Frames may contain others.
    pub fn begin_frame(&mut self) {
        let Effects { bytes, frame, .. } = &mut self.effects;
        if frame.depth == 0 {
            (frame.start, frame.commands) = (bytes.len(), 0);
        }
        frame.depth += 1;
    }

    /// Ends what [`Turn::begin_frame`] began.
    pub fn end_frame(&mut self) {
        self.effects.end_frame();
    }

    pub(super) fn begin_command(&mut self) {
        self.begin_frame();
        self.changed = false;
        self.explicit = false;
    }

    /// Adds the words of a command that has changed something, unless it has set its effects.
    #[inline(never)]
    pub(super) fn end_command(&mut self, db: usize, args: Args) {
        if self.changed && !self.explicit {
            self.effects.select(db);
            match args.encoded() {
                Some(command) => self.effects.bytes.extend_from_slice(command),
                None => self.effects.push(args.iter()),
            }
            self.effects.frame.commands += 1;
        }
        if !self.recorder.events.is_empty() {
            self.append_recorded();
        }
        self.end_frame();
    }

    /// Adds an effect of the running command, in database `db`.
    pub fn effect<W: AsRef<[u8]>>(&mut self, db: usize, words: impl ExactSizeIterator<Item = W>) {
        if self.logged {
            self.explicit = true;
            self.effects.select(db);
            self.effects.push(words);
            self.effects.frame.commands += 1;
        }
    }

    /// Adds a message that a client of database `db` has published, which replicas get and files do
    /// not. As in Redis, its database is selected before it.
    pub fn effect_for_replicas<W: AsRef<[u8]>>(
        &mut self,
        db: usize,
        words: impl ExactSizeIterator<Item = W>,
    ) {
        if self.store.is_logged() {
            self.effects.select(db);
            let start = self.effects.bytes.len();
            self.effects.push(words);
            let end = self.effects.bytes.len();
            self.effects.for_replicas.push((start, end));
            self.effects.frame.commands += 1;
        }
    }

    /// Adds that an entry expired. It need not be atomic with the command that met it.
    pub(super) fn expiry_effect(&mut self, db: usize, words: &[&[u8]]) {
        if self.logged {
            self.effects.select(db);
            self.effects.push(words.iter());
        }
    }
}

impl Cx<'_, '_> {
    /// Returns whether effects are collected.
    #[inline]
    pub(crate) fn is_logged(&self) -> bool {
        self.turn.logged
    }

    /// Adds an effect in place of the command's words.
    pub(crate) fn effect(&mut self, words: &[&[u8]]) {
        self.turn.effect(self.db, words.iter());
    }

    /// As [`Cx::effect`], followed by `count` more words, which are bulk strings in RESP already:
    /// members of a reply.
    pub(crate) fn effect_with_bulks(&mut self, words: &[&[u8]], count: usize, bulks: &[u8]) {
        if self.turn.logged {
            self.turn.explicit = true;
            let effects = &mut self.turn.effects;
            effects.select(self.db);
            Reply::new(&mut effects.bytes, Protocol::Resp2).array(words.len() + count);
            effects.push_words(words.iter());
            effects.bytes.extend_from_slice(bulks);
            effects.frame.commands += 1;
        }
    }

    /// As [`Cx::effect`], for a command on `key` that ends with a time or another number.
    pub(crate) fn effect_at(&mut self, command: &str, key: &[u8], number: u64) {
        let mut buffer = itoa::Buffer::new();
        self.effect(&[command.as_bytes(), key, buffer.format(number).as_bytes()]);
    }
}
