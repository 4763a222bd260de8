//! Firing of due timers in the loop's shards. Such a timer is a key whose value is a command.

use punctual_store::Turn;

use crate::dispatch::Dispatcher;
use crate::dispatch::timers::{Fired, Trigger};
use crate::event_loop::EventLoop;
use crate::node::scripts::Scripts;

/// Maximum time in nanoseconds for firing timers before the loop polls its sockets again.
const FIRING_MAX_NS: u64 = 500_000;

impl EventLoop {
    /// Fires the timers that expiry has just returned. `began` is the stopwatch's reading at the
    /// start of the batch. Returns false if the loop must serve its clients first, or if a script
    /// prevents firing; the remaining timers stay due.
    pub(crate) fn fire_timers(&mut self, turn: &mut Turn, began: u64) -> bool {
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
            let nanos = stopwatch.delta_as_nanos(began, stopwatch.raw());
            fired != Fired::Later && nanos < FIRING_MAX_NS
        });
        self.scripts = Some(scripts);
        self.busy_is_over();
        continues
    }
}
