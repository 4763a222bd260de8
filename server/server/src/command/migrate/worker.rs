//! The thread that speaks to the target of one migration.

use std::sync::Arc;

use crate::migrate::moving::Migration;
use crate::node::Shared;
use crate::node::order::Order;

/// Starts a thread that sends the parcels, then returns the migration to event loop `loop_number`.
pub(crate) fn send(mut migration: Migration, shared: &Arc<Shared>, loop_number: usize) {
    migration.begin_transfer();
    let mut returning = Returning {
        shared: Arc::clone(shared),
        loop_number,
        migration: Some(Box::new(migration)),
    };
    // If there is no thread, or it panics, the migration returns all the same.
    let _ = shared.world.spawn("punctual-migrate", move || {
        if let Some(migration) = &mut returning.migration {
            migration.transfer(&returning.shared.clock);
        }
    });
}

/// Returns the migration to its event loop when it is dropped.
struct Returning {
    shared: Arc<Shared>,
    loop_number: usize,
    migration: Option<Box<Migration>>,
}

impl Drop for Returning {
    fn drop(&mut self) {
        if let Some(migration) = self.migration.take() {
            let order = Order::Migrated(migration);
            self.shared.mailboxes[self.loop_number].order(order);
        }
    }
}
