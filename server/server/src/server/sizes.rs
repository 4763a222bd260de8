//! Sizes that are chosen when a server starts.

use crate::config::{Config, Settings};
use crate::log::Logger;
use crate::net::open_files::make_room_for;
use crate::start_error::StartError;

/// Lowers `maxclients` to the number that the limit of open files allows.
pub(super) fn limit_clients(config: &mut Config, logger: &Logger) -> Result<(), StartError> {
    let wanted = config.settings().max_clients;
    let possible = make_room_for(&config.settings(), logger)?;
    if possible < wanted {
        let line = format!("maxclients {possible}\n");
        config.load(line.as_bytes(), "the limit of open files")?;
    }
    Ok(())
}

/// Returns the number of shards: the configured number, otherwise one shard for each of one or two
/// loops, or `PER_LOOP` for each of more loops (rounded up to a power of two), so that two commands
/// rarely need the same lock. A pipeline of one of two loops would need most of the locks anyway,
/// and few locks cost less (docs/threads.md).
pub(super) fn shard_count(settings: &Settings) -> usize {
    const PER_LOOP: usize = 16;
    match (settings.shards, settings.threads) {
        (0, threads @ 0..=2) => threads.max(1),
        (0, threads) => (threads * PER_LOOP).next_power_of_two(),
        (shards, _) => shards,
    }
}

/// Returns the number of databases. In cluster mode there is one: commands for others are refused.
pub(super) fn databases(settings: &Settings) -> usize {
    match settings.cluster.enabled {
        true => 1,
        false => settings.databases,
    }
}
