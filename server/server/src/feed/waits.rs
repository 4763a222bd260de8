//! Replies to clients that wait in WAIT and WAITAOF.

use std::sync::Arc;

use punctual_resp::{Protocol, Reply};
use punctual_store::keyspace::waiters::Waiter;

use crate::durability::aof::Phase;
use crate::node::Shared;
use crate::node::waiting::{Completion, answer};
use crate::replication::acks::{Goal, LocalFile, Reached};

/// `REPLCONF GETACK *`, which makes each replica acknowledge at once.
const GETACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

/// Encodes the reply of WAIT or WAITAOF.
fn reply_bytes(goal: &Goal, reached: Reached, protocol: Protocol) -> Vec<u8> {
    let mut bytes = Vec::new();
    goal.reply(reached, &mut Reply::new(&mut bytes, protocol));
    bytes
}

impl Shared {
    /// Returns the number of replicas that have reached a goal, and whether the local file has
    /// reached it.
    pub(crate) fn reached(&self, goal: &Goal) -> Reached {
        let (acked, synced) = self.replication.replicas.count_acked(goal.offset);
        let has = |file: LocalFile| {
            // Until the first base file is complete, a restarted server would not load the file.
            self.durability.aof.phase() == Phase::On
                && self.durability.changelog.synced() >= file.position
        };
        Reached {
            replicas: match goal.file {
                Some(_) => synced,
                None => acked,
            },
            file: goal.file.is_some_and(has),
        }
    }

    /// Adds a client that waits for acknowledgements. The server requests them from the replicas at
    /// the end of the turn.
    pub(crate) fn wait_for_acks(&self, loop_number: usize, waiter: &Arc<Waiter>, goal: Goal) {
        let mut waits = self.replication.replicas.acks.waits.lock();
        // Removes the waiters of clients that have disconnected.
        waits.retain(|(waiter, _)| !waiter.has_ended());
        waits.push((Arc::clone(waiter), goal));
        drop(waits);
        self.replication.replicas.acks.request();
        self.answer_acked(loop_number);
    }

    /// Answers the clients whose goal is reached. Loop `loop_number` calls this when a client
    /// begins to wait, and when a goal may have been reached, for example after an acknowledgement
    /// or a sync of the append-only file. O(clients that wait · replicas).
    pub(crate) fn answer_acked(&self, loop_number: usize) {
        let mut waits = self.replication.replicas.acks.waits.lock();
        waits.retain(|(waiter, goal)| {
            let reached = self.reached(goal);
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

    /// Returns the reply for a client whose wait ends before its goal is reached, or `None` if the
    /// waiter is not in WAIT or WAITAOF.
    pub(crate) fn reply_without_acks(&self, waiter: &Arc<Waiter>) -> Option<Vec<u8>> {
        let goal = self.replication.replicas.acks.remove(waiter)?;
        Some(reply_bytes(&goal, self.reached(&goal), waiter.protocol()))
    }

    /// Requests acknowledgements from the replicas if a client has begun to wait since the last
    /// call.
    #[inline]
    pub(crate) fn ask_for_acks(&self) {
        if self.replication.replicas.acks.take_request() {
            self.append_to_stream(GETACK);
        }
    }
}
