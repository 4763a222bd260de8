//! Firing of due timers in the loop's shards. Such a timer is a key whose value is a command. In
//! cluster mode a timer waits while its slot moves.

use std::time::Duration;

use punctual_store::Turn;

use crate::dispatch::Dispatcher;
use crate::dispatch::timers::{Fired, Trigger};
use crate::event_loop::EventLoop;
use crate::node::scripts::Scripts;
use crate::world::Moment;

/// Maximum time for firing timers before the loop polls its sockets again.
const FIRING_MAX: Duration = Duration::from_micros(500);

impl EventLoop {
    /// Fires the timers that expiry has just returned. `began` is the time at which the first timer
    /// of the batch fired. Returns false if the loop must serve its clients first, or if a script
    /// prevents firing; the remaining timers stay due.
    pub(crate) fn fire_timers(&mut self, turn: &mut Turn, began: Moment) -> bool {
        let shared = self.shared();
        let (number, stopwatch) = (self.number, self.stopwatch.clone());
        let mut scripts = self
            .scripts
            .take()
            .unwrap_or_else(|| Scripts::new(&shared).into());
        let due = turn.take_due_timers();
        let max = usize::MAX;
        let clients = Some(&mut *self as _);
        let mut dispatcher = Dispatcher::new(
            &shared,
            number,
            turn,
            &mut scripts,
            &stopwatch,
            max,
            clients,
        );
        let continues = due.iter().all(|due| {
            let fired = dispatcher.fire(due, Trigger::Deadline);
            fired != Fired::Later && shared.world.since(began) < FIRING_MAX
        });
        self.scripts = Some(scripts);
        self.busy_is_over();
        continues
    }

    /// Lets timers fire that have waited for slots, if these are stable now.
    pub(super) fn resume_timers(&mut self) {
        let shared = self.shared();
        if shared.store.may_have_waiting_timers() {
            let own = (self.number..shared.store.shards()).step_by(shared.mailboxes.len());
            own.for_each(|shard| self.in_turn(|_, turn| turn.resume_timers(shard)));
        }
    }
}
