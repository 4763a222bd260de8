//! Clients in WAIT and WAITAOF, which wait for acknowledgements of replicas.
//!
//! A waiting client has a waiter like those of blocking commands, in no queue of a key: whoever claims it answers it. An
//! acknowledgement is recorded before the list is locked, and a client looks at the acknowledgements once more after it has joined the list
//! under that lock, so none is missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use punctual_resp::{Protocol, Reply};
use punctual_store::keyspace::waiters::Waiter;

use crate::client::waiting::{Completion, answer};
use crate::persist::aof::state::Phase;
use crate::shared::Shared;

/// `REPLCONF GETACK *`, which makes each replica acknowledge at once.
const GETACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Goal {
    /// Offset of the client's last write.
    pub(crate) offset: u64,
    /// Number of replicas that must have it.
    pub(crate) replicas: usize,
    /// The replicas must have it in their append-only files (WAITAOF), and perhaps this server too.
    pub(crate) file: Option<LocalFile>,
}

/// What WAITAOF asks of this server's append-only file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalFile {
    /// The file must have it.
    pub(crate) wanted: bool,
    /// Position of the file behind the client's last write.
    pub(crate) position: u64,
}

/// Who has what a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    replicas: usize,
    /// This server's append-only file has it on the device.
    file: bool,
}

impl Goal {
    /// Returns who has reached the goal.
    pub(crate) fn reached_by(&self, shared: &Shared) -> Reached {
        let (acked, in_files) = shared.replicas.count_acked(self.offset);
        let has = |file: LocalFile| {
            // Before the first base is complete, a start would not find the file.
            shared.persistence.aof.phase() == Phase::On
                && shared.changelog.synced() >= file.position
        };
        Reached {
            replicas: match self.file {
                Some(_) => in_files,
                None => acked,
            },
            file: self.file.is_some_and(has),
        }
    }

    /// Returns whether enough have reached it.
    pub(crate) fn is_met(&self, reached: Reached) -> bool {
        reached.replicas >= self.replicas && (reached.file || !self.file.is_some_and(|f| f.wanted))
    }

    /// Writes the reply of the command.
    pub(crate) fn reply(&self, reached: Reached, reply: &mut Reply<'_>) {
        if self.file.is_some() {
            reply.array(2);
            reply.int(reached.file.into());
        }
        reply.int(reached.replicas as i64);
    }
}

/// The waiting clients.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    waits: Mutex<Vec<(Arc<Waiter>, Goal)>>,
    /// Replicas should be asked to acknowledge.
    ask: AtomicBool,
}

impl Acks {
    /// Returns whether clients wait.
    pub(crate) fn any(&self) -> bool {
        !self.waits.lock().is_empty()
    }

    /// Removes a waiter that has been claimed, and returns its goal; `None` for one that waits for a key.
    pub(crate) fn remove(&self, waiter: &Arc<Waiter>) -> Option<Goal> {
        let mut waits = self.waits.lock();
        let at = waits
            .iter()
            .position(|(other, _)| Arc::ptr_eq(other, waiter))?;
        Some(waits.swap_remove(at).1)
    }
}

/// Returns the reply for this goal.
fn reply_bytes(goal: &Goal, reached: Reached, protocol: Protocol) -> Vec<u8> {
    let mut bytes = Vec::new();
    goal.reply(reached, &mut Reply::new(&mut bytes, protocol));
    bytes
}

impl Acks {
    /// Makes a loop ask the replicas for acknowledgements at the end of its turn.
    pub(crate) fn ask(&self) {
        self.ask.store(true, Ordering::Release);
    }
}

impl Shared {
    /// Adds a client that waits for acknowledgements. The replicas are asked for them at the end of the turn.
    pub(crate) fn wait_for_acks(&self, loop_number: usize, waiter: &Arc<Waiter>, goal: Goal) {
        let mut waits = self.replicas.acks.waits.lock();
        // Waiters of clients that have disconnected.
        waits.retain(|(waiter, _)| !waiter.has_ended());
        waits.push((Arc::clone(waiter), goal));
        drop(waits);
        self.replicas.acks.ask();
        self.answer_acked(loop_number);
    }

    /// Answers the clients whose goal is reached. Called on loop `loop_number` after each acknowledgement.
    pub(crate) fn answer_acked(&self, loop_number: usize) {
        let mut waits = self.replicas.acks.waits.lock();
        waits.retain(|(waiter, goal)| {
            let reached = goal.reached_by(self);
            if !goal.is_met(reached) {
                return !waiter.has_ended();
            }
            if waiter.claim() {
                answer(self, waiter, &reply_bytes(goal, reached, waiter.protocol()));
                let completion = Completion {
                    nanos: 0,
                    error: None,
                };
                completion.record(self, loop_number, self.clock.now(), waiter);
            }
            false
        });
    }

    /// Returns the reply of a claimed waiter at its timeout; `None` for one that waits for a key.
    pub(crate) fn reply_without_acks(&self, waiter: &Arc<Waiter>) -> Option<Vec<u8>> {
        let goal = self.replicas.acks.remove(waiter)?;
        Some(reply_bytes(&goal, goal.reached_by(self), waiter.protocol()))
    }

    /// Asks the replicas to acknowledge, if a client has begun to wait for that since the last call.
    #[inline]
    pub(crate) fn ask_for_acks(&self) {
        let ask = &self.replicas.acks.ask;
        if ask.load(Ordering::Relaxed) && ask.swap(false, Ordering::AcqRel) {
            self.append_to_stream(GETACK);
        }
    }
}
