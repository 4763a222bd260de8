//! *Effects*: the changes of a turn as commands whose replay leads to the same keyspace.
//!
//! While the log of changes has a reader ([`Store::set_logged`]: the append-only file or a
//! replica), a turn passes its effects to [`Sink::log`](crate::events::Sink::log) before it unlocks
//! a shard. So the log has the changes of each key in their order.
//!
//! - The effect of a command that has committed a change is the command itself, word by word. If
//!   the same words would not lead to the same keyspace, the handler sets other effects
//!   ([`Cx::effect`]): for relative times, random choices, sums of floats and blocking pops.
//! - An expiry has the effect DEL or HDEL. It comes before the effects of the command whose look-up
//!   found the key or field due. So a replay runs at an instant at which nothing is due
//!   ([`Now::replaying`](crate::Now::replaying)).
//! - The effects of a transaction, of a script, and of a command with several effects are a
//!   *frame*: MULTI and EXEC surround them, so that a replay applies all of them or none.

use punctual_resp::{Args, Protocol, Reply};

use super::{Cx, Turn};
use crate::effects::Effects;
use crate::keyspace::shard::{Store, Writers};
use crate::planted::Bug;

impl Store {
    /// Sets whether the log of changes has a reader. A turn applies the setting when it next locks
    /// a shard. The caller must hold every shard.
    pub fn set_logged(&self, logged: bool) {
        self.logged
            .store(logged, std::sync::atomic::Ordering::SeqCst);
    }

    /// Returns whether the log of changes has a reader.
    pub fn is_logged(&self) -> bool {
        self.logged.load(std::sync::atomic::Ordering::SeqCst)
    }
}

impl Turn<'_> {
    /// Passes the effects so far to the sink. For example, a caller that holds every shard does so
    /// before it begins a snapshot, so that the log after the snapshot has only later changes.
    /// Returns false, and does nothing, inside a transaction or script, whose effects must not be
    /// divided.
    pub fn flush_effects(&mut self) -> bool {
        if self.effects.frame.depth > 0 {
            return false;
        }
        self.log();
        true
    }

    /// Returns whether there are effects that were not passed to the sink yet.
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Reads some settings of the store again: whether the log has a reader, which turns may write,
    /// and whether changed keys are reported. A turn that has changed a setting itself calls this.
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
                // The running command goes on with other shards, so its frame is logged in parts.
                self.effects.surround();
            }
            self.sink.log(&self.effects);
            self.effects.clear();
        }
    }

    /// Begins a frame: the effects until [`Turn::end_frame`] are surrounded by MULTI and EXEC if
    /// there are several. A frame inside another is a part of the outer frame.
    pub fn begin_frame(&mut self) {
        let Effects { bytes, frame, .. } = &mut self.effects;
        if frame.depth == 0 {
            (frame.start, frame.commands) = (bytes.len(), 0);
        }
        frame.depth += 1;
    }

    /// Ends the frame that [`Turn::begin_frame`] has begun.
    pub fn end_frame(&mut self) {
        self.effects.end_frame();
    }

    pub(super) fn begin_command(&mut self) {
        self.begin_frame();
        self.changed = false;
        self.explicit = false;
    }

    /// Adds the words of a command that has committed a change, unless its handler has set its
    /// effects.
    #[inline(never)]
    pub(super) fn add_words(&mut self, db: usize, args: Args) {
        if self.changed && !self.explicit {
            self.effects.select(db);
            match args.encoded() {
                Some(command) => self.effects.bytes.extend_from_slice(command),
                None => self.effects.push(args.iter()),
            }
            self.effects.frame.commands += 1;
        }
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

    /// Adds a message that a client of database `db` has published. Replicas receive the message;
    /// the append-only file does not contain it. As in Redis, a SELECT may precede the message.
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

    /// Adds the effect of an expiry, which need not be in one frame with the command that found the
    /// entry due.
    pub(super) fn expiry_effect(&mut self, db: usize, words: &[&[u8]]) {
        if self.logged && !Bug::ExpiryNotLogged.is_active() {
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

    /// Same as [`Cx::effect`], followed by `count` more words that are encoded already: `bulks` has
    /// them as bulk strings of RESP, such as members of a reply.
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

    /// Same as [`Cx::effect`], for a command on `key` that ends with a time or another number.
    pub(crate) fn effect_at(&mut self, command: &str, key: &[u8], number: u64) {
        let mut buffer = itoa::Buffer::new();
        self.effect(&[command.as_bytes(), key, buffer.format(number).as_bytes()]);
    }
}
