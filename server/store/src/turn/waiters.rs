//! Blocking commands in a turn: beginning a wait, and running the waiting commands again.
//!
//! A blocking command reads its keys and joins their queues (`keyspace/waiters.rs`) under the same
//! locks, so no push can come between. [`Turn::commit`] notes a key as *ready* if a client waits
//! for it. When the command that made the change, or its whole transaction, has ended, the event
//! loop calls [`Turn::serve_next`], which runs the waiting commands again, first come, first
//! served.

use std::sync::Arc;

use punctual_resp::{OwnedArgs, Reply};

use crate::error::Error;
use crate::keyspace::waiters::{Wait, Waiter, WaiterId, WaitingClient};
use crate::turn::{Command, Turn};

/// A key whose waiting clients may be served.
pub(crate) struct ReadyKey {
    db: usize,
    key: Box<[u8]>,
    /// Ticket of the last waiter that was processed; 0 before the first.
    after: u64,
}

impl ReadyKey {
    pub(crate) fn new(db: usize, key: &[u8]) -> Self {
        Self {
            db,
            key: key.into(),
            after: 0,
        }
    }
}

impl Turn<'_> {
    /// Adds the command that has just set [`Turn::wait`] to the queues of its keys. The locks that
    /// it ran under must still be held. O(keys · log waiters).
    ///
    /// # Panics
    /// If the turn was released since the command ran.
    pub fn begin_waiting(
        &mut self,
        mut wait: Wait,
        args: OwnedArgs,
        client: &WaitingClient,
    ) -> Arc<Waiter> {
        let args = wait.resolve(args);
        let ticket = self.store.next_ticket();
        let waiter = Arc::new(Waiter::new(ticket, args, wait, client));
        for key in waiter.keys() {
            let number = self.store.shard_of(key);
            let queued = Arc::clone(&waiter);
            if self.shard_mut(number).waiters.add(client.db, key, queued) {
                self.store.count_waiting_keys(1);
            }
        }
        self.observe();
        waiter
    }

    /// Removes a waiter that has ended from the queues of its keys. O(keys · log waiters).
    pub fn stop_waiting(&mut self, waiter: &Waiter) {
        if waiter.is_queued() {
            self.lock_keys(waiter.keys());
            self.leave_queues(waiter);
        }
    }

    fn leave_queues(&mut self, waiter: &Waiter) {
        for key in waiter.keys() {
            let number = self.store.shard_of(key);
            let waiters = &mut self.shard_mut(number).waiters;
            if waiters.remove(waiter.client().db, key, waiter.ticket()) {
                self.store.count_waiting_keys(-1);
            }
        }
        waiter.set_unqueued();
    }

    /// Returns whether [`Turn::serve_next`] may find a waiter to serve. O(1).
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Runs the command of the next waiter whose key has become ready, and appends its reply, or
    /// its error's text, to `out`. `command_of` returns the command of a waiter. Returns `None` if
    /// no waiter is left that can be served.
    ///
    /// A served command may make further keys ready, so the caller repeats the call until it
    /// returns `None`. Locks the shards that the commands need.
    pub fn serve_next(
        &mut self,
        command_of: impl Fn(&WaiterId) -> &'static Command,
        out: &mut Vec<u8>,
    ) -> Option<(Arc<Waiter>, Result<(), Error>)> {
        loop {
            let ReadyKey { db, after, .. } = *self.ready.front()?;
            let ready = self.ready.front_mut()?;
            let key = std::mem::take(&mut ready.key);
            let found = self.next_waiter(db, &key, after);
            let ready = self.ready.front_mut()?;
            ready.key = key;
            let Some(waiter) = found else {
                self.ready.pop_front();
                continue;
            };
            let (command, args) = (command_of(waiter.id()), waiter.args().as_args());
            // Keeps the key's lock if possible, so that no other command can take the element
            // first.
            if !self.try_lock_for(command, args) && self.lock_for(command, args) {
                // The key was unlocked meanwhile, so the waiter is looked up again.
                continue;
            }
            if let Some(ready) = self.ready.front_mut() {
                ready.after = waiter.ticket();
            }
            if !waiter.claim() {
                continue;
            }
            let result = self.run_again(command, &waiter, out);
            self.leave_queues(&waiter);
            return Some((waiter, result));
        }
    }

    /// Returns the next waiter of a key whose wait the key's value ends. Locks the key's shard.
    fn next_waiter(&mut self, db: usize, key: &[u8], after: u64) -> Option<Arc<Waiter>> {
        let number = self.store.shard_of(key);
        self.lock_one(number);
        let now = self.now;
        let shard = self.shard_mut(number);
        if after == 0 {
            // A push after this point makes the key ready again.
            shard.waiters.clear_ready(db, key);
        }
        let part = &shard.dbs[db];
        let id = part.find(key);
        if let Some(id) = id.filter(|id| part.get(*id).has_expired(now)) {
            // The expiry may make the key ready again.
            self.expire_touched(db, key, id);
            return None;
        }
        let value = id.map(|id| &part.get(id).value);
        let next = shard.waiters.next(db, key, after, value, now);
        if next.is_none() {
            self.renew_claims(number, db, key);
        }
        next
    }

    fn run_again(
        &mut self,
        command: &Command,
        waiter: &Waiter,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let start = out.len();
        let client = waiter.client();
        let mut reply = Reply::new(out, client.protocol);
        let args = waiter.args().as_args();
        self.sink.serves(waiter);
        let by = std::mem::replace(&mut self.client, client.id.client);
        let result = self.run(command, client.db, client.touch, args, &mut reply);
        self.client = by;
        match &result {
            Err(error) => reply.error(error.bytes()),
            // Only a safeguard: the value was checked under the same locks, so the command must
            // have replied.
            Ok(()) if self.wait.take().is_some() || reply.len() == start => reply.null_array(),
            Ok(()) => {}
        }
        result
    }
}
