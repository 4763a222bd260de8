//! The load at startup. Until it ends, the event loops reply LOADING, and a node of a cluster
//! follows no primary.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_store::Turn;
use punctual_store::events::{Classes, Silent};

use super::{LoadError, load};
use crate::durability::files::AofFiles;
use crate::node::Shared;
use crate::node::gate::Reason;
use crate::node::order::Order;
use crate::persist::aof;
use crate::persist::aof::load::{Loaded, Runner};
use crate::persist::save;
use crate::reclaim::rounds;

/// Result of [`begin_start`]: the files that the server loads at startup.
pub(crate) struct Start {
    /// Manifest of the append-only file if `appendonly` is on; its files need not exist yet.
    append_only: Option<AofFiles>,
}

/// Decides which files [`at_start`] loads: the append-only file if `appendonly` is on and it
/// exists, otherwise the snapshot. If it returns `Some`, commands are rejected until [`at_start`]
/// has ended. Called before the event loops start.
///
/// # Errors
/// The manifest of the append-only file cannot be read.
pub(crate) fn begin_start(shared: &Shared) -> Result<Option<Start>, LoadError> {
    let (disk, settings) = (&shared.durability.disk, shared.settings());
    let files = settings
        .append_only
        .then(|| AofFiles::find(disk, &settings));
    let append_only = files.transpose()?;
    let wanted = append_only.is_some() || disk.exists(&save::path(&settings));
    let loading = &shared.durability.loading;
    loading.active.store(wanted, Ordering::Release);
    shared.gate.set(Reason::Loading, wanted);
    Ok(wanted.then_some(Start { append_only }))
}

/// Loads the files of `start`; with `appendonly`, begins to append. `runner` runs the commands of
/// an append-only file. The event loops reply LOADING meanwhile.
pub(crate) fn at_start(
    shared: &Arc<Shared>,
    start: Start,
    runner: &mut dyn Runner,
) -> Result<(), LoadError> {
    let mut sink = Silent;
    let mut turn = Turn::new(
        &shared.store,
        shared.clock.now(),
        &mut sink,
        Classes::none(),
    );
    let done = load_and_append(shared, start, &mut turn, runner);
    shared.claim_loaded_slots(&mut turn);
    if done.is_ok() {
        shared.follow_after_load(&mut turn);
    }
    drop(turn);
    let loading = &shared.durability.loading;
    loading.active.store(false, Ordering::Release);
    shared.gate.set(Reason::Loading, false);
    rounds::report_freed(shared, 0);
    shared.order_all(|| Order::Resume);
    // Loop 0 does what the cluster's table has asked for during the load.
    shared.mailboxes[0].order(Order::Cluster);
    done
}

fn load_and_append(
    shared: &Arc<Shared>,
    start: Start,
    turn: &mut Turn,
    runner: &mut dyn Runner,
) -> Result<(), LoadError> {
    let path = save::path(&shared.settings());
    let mut loaded = Loaded::default();
    match &start.append_only {
        Some(files) if files.exist() => loaded = files.load(shared, turn, runner, Turn::release)?,
        // Redis would ignore the snapshot, because `appendonly` is on, and start without keys.
        _ if shared.durability.disk.exists(&path) => {
            let now = turn.now;
            if shared.replication.is_replica() {
                // The primary may have changed the deadlines since then, and deletes what is due.
                turn.now = now.replaying();
            }
            let loaded = load(shared, &path, turn, false, Turn::release);
            turn.now = now;
            let extras = loaded?;
            if let Some(position) = extras.position {
                shared.resume_history(turn, position, extras.expired);
            }
        }
        _ => {}
    }
    if let Some(files) = start.append_only {
        aof::switch::start(shared, turn, files, loaded)?;
    }
    Ok(())
}
