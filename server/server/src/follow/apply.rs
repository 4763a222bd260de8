//! The connection to the primary, which loop 0 serves. The primary's stream runs like the commands
//! of a client, without replies.
//!
//! Ground rules: the turn holds every shard during a *stretch*, the commands of one piece of input.
//! So no other thread sees data that does not belong to the announced offset, and the role changes
//! only between two commands. The offset advances when a stretch ends, or before the turn releases
//! the shards within a stretch.

use punctual_resp::Args;
use punctual_store::{Error, Turn};

use crate::acl::user::User;
use crate::durability::aof::Phase;
use crate::log;
use crate::node::Shared;
use crate::persist::aof::switch;
use crate::replication::applied::Applied;
use crate::replication::attachment::{Attachment, Start};
use crate::session::{ReplyMode, Session};

impl Applied {
    /// Returns the offset up to which the stream is applied.
    pub(crate) fn offset(&self, shared: &Shared) -> u64 {
        shared.replication.offset() + self.complete().len() as u64
    }
}

impl Session {
    /// Turns the session into the session of the primary.
    pub(crate) fn follow(&mut self, generation: u64, db: usize) {
        self.upstream = Some(Box::new(Applied::new(generation)));
        self.set_user(User::internal());
        self.authenticated = true;
        self.reply_mode = ReplyMode::Off;
        self.info
            .primary
            .store(true, std::sync::atomic::Ordering::Relaxed);
        self.select(db);
    }

    /// Records that a command of the primary, or an empty line, has run.
    #[inline]
    pub(crate) fn applied(&mut self, bytes: &[u8]) {
        let in_transaction = self.multi.is_some();
        // With `closing`, the command was refused or belongs to an earlier primary, and was not
        // applied.
        if !self.closing
            && let Some(applied) = &mut self.upstream
        {
            applied.note(bytes, in_transaction);
        }
    }

    /// Ends a stretch of the stream: advances the offset and releases the shards.
    pub(crate) fn end_stretch(&mut self, shared: &Shared, turn: &mut Turn) {
        if let Some(applied) = &mut self.upstream {
            if !applied.complete().is_empty() {
                shared.append_to_stream(applied.complete());
                applied.forget_complete();
            }
            shared.replication.upstream.set_db(self.db);
            turn.end_whole();
            turn.release();
        }
    }
}

/// Writes REPLCONF ACK with `offset`. If the server has an append-only file, adds FACK with the
/// offset up to which that file is synced.
pub(crate) fn acknowledge(shared: &Shared, applied: &mut Applied, offset: u64, out: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    let mut words = vec![
        b"REPLCONF".as_slice(),
        b"ACK",
        digits.format(offset).as_bytes(),
    ];
    let mut in_file = itoa::Buffer::new();
    if shared.durability.aof.phase() == Phase::On {
        let log = &shared.durability.changelog;
        // The log has the changes up to this offset, but not the changes of a running stretch.
        let (end, offset) = (log.file_end(), shared.replication.offset());
        let synced = applied.in_file.update(end, offset, log.synced());
        words.extend([b"FACK".as_slice(), in_file.format(synced).as_bytes()]);
    }
    punctual_resp::encode_command(out, &words);
}

/// Prepares the keyspace and the replication history for the start of the stream. Returns false if
/// the primary has changed since the attempt to connect began, or the server stops. Afterwards the
/// turn holds every shard.
pub(crate) fn begin(shared: &Shared, turn: &mut Turn, attachment: &mut Attachment) -> bool {
    turn.lock_all();
    if !shared
        .replication
        .upstream
        .is_current(attachment.attempt.generation)
    {
        return false;
    }
    let start = std::mem::replace(&mut attachment.start, Start::Continued(None));
    match start {
        Start::Full(data) => {
            turn.replace_all(data.store);
            let libraries = data.libraries;
            let Ok(()) = shared.scripting.functions.change(|all| {
                *all = libraries;
                Ok::<_, std::convert::Infallible>(())
            });
            switch::restart(shared, turn);
            shared.replication.adopt(data.id, data.offset);
            shared.restart_stream();
            attachment.attempt.db = data.db;
            log::notice!(
                shared.logger,
                "MASTER <-> REPLICA sync: Finished with success"
            );
        }
        Start::Continued(id) => {
            if let Some(id) = id
                && shared.replication.continue_as(id)
            {
                log::notice!(shared.logger, "Master replication ID changed to {id}");
                shared.disconnect_replicas();
            }
            if shared.replication.replicas.stream().backlog.is_none() {
                shared.restart_stream();
            }
            log::notice!(
                shared.logger,
                "MASTER <-> REPLICA sync: Master accepted a Partial Resynchronization."
            );
        }
    }
    shared.replication.upstream.set_db(attachment.attempt.db);
    true
}

/// Logs an error of a command in the stream. From now on, the data may differ from the primary's.
pub(crate) fn report(shared: &Shared, error: &Error, args: Args) {
    log::warning!(
        shared.logger,
        "== CRITICAL == This replica is sending an error to its master: '{}' after processing the command '{}'",
        error.bytes().escape_ascii(),
        args.at(0).escape_ascii()
    );
}
