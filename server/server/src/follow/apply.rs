//! The primary's connection on loop 0: its stream runs as a client's commands do, without replies.
//!
//! Ground rules: from the first command of a stretch of input to the last one, the turn holds every shard. So nobody
//! sees the data at an offset that is not the announced one, and a change of the role falls between two commands. The
//! offset advances when a stretch ends, or before the shards are released within it.

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
    /// Makes the session that of the primary.
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

    /// Notes that a command of the primary, or an empty line, has run.
    #[inline]
    pub(crate) fn applied(&mut self, bytes: &[u8]) {
        let in_transaction = self.multi.is_some();
        // The command that ends the link has not run.
        if !self.closing
            && let Some(applied) = &mut self.upstream
        {
            applied.note(bytes, in_transaction);
        }
    }

    /// Ends a stretch of the stream: the offset advances, and the shards are released.
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

/// Writes the acknowledgement of everything up to `offset`, and of what the append-only file has.
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
        // The changes up to this offset are appended, those of a running stretch are not.
        let (end, offset) = (log.file_end(), shared.replication.offset());
        let synced = applied.in_file.update(end, offset, log.synced());
        words.extend([b"FACK".as_slice(), in_file.format(synced).as_bytes()]);
    }
    punctual_resp::encode_command(out, &words);
}

/// Brings the keyspace and the history to the point at which the stream begins. Returns false if the link is not wanted
/// any more. The turn holds every shard afterwards.
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

/// Logs an error of a command of the stream: the data may differ from the primary's from here on.
pub(crate) fn report(shared: &Shared, error: &Error, args: Args) {
    log::warning!(
        shared.logger,
        "== CRITICAL == This replica is sending an error to its master: '{}' after processing the command '{}'",
        error.bytes().escape_ascii(),
        args.at(0).escape_ascii()
    );
}
