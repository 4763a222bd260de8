//! What a seed draws before its run: servers, clients, faults and their rates.

use crate::clients::Habits;
use crate::kernel::draws::Draws;
use crate::kernel::{MICRO, MILLI, Nanos, SECOND, Weather};
use crate::workers::Role;

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of nodes. The first one is the primary of the others.
    pub nodes: usize,
    /// Whether replicas have an append-only file.
    pub replicas_append: bool,
    /// Number of event loops of a server.
    pub loops: usize,
    pub append_sync: &'static str,
    pub clients: usize,
    pub habits: Habits,
    /// Clients whose commands must happen once.
    pub workers: Vec<Role>,
    pub weather: Weather,
    /// Time with faults, and mean time between two faults; 0 without faults.
    pub storm: Nanos,
    pub fault_every: Nanos,
    /// Whether a killed node also loses its power.
    pub cuts_power: bool,
    pub clock_jumps: bool,
    /// Whether links between nodes go down.
    pub partitions: bool,
    /// Whether snapshots, rewrites and changes of settings happen.
    pub chores: bool,
    /// Whether primary and replica change places, by FAILOVER. Such a run kills no node, and its
    /// clocks agree.
    pub failovers: bool,
}

impl Plan {
    /// Draws the plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut draws = Draws::new(seed ^ 0x706c_616e);
        let latency = draws.one_of(&[5 * MICRO, 50 * MICRO, 500 * MICRO, 5 * MILLI]);
        let sync_time = draws.one_of(&[20 * MICRO, 200 * MICRO, 2 * MILLI, 20 * MILLI]);
        let fails = draws.one_of(&[0, 0, 0, 1_000, 20_000]);
        let weather = Weather {
            preempts: draws.one_of(&[0, 1_000, 20_000]),
            short_writes: draws.one_of(&[0, 0, 10_000, 200_000]),
            latency,
            jitter: latency * draws.below(4),
            sync_time,
            sync_jitter: sync_time * draws.one_of(&[0, 1, 10]),
            failed_writes: fails * draws.below(2),
            failed_syncs: fails * draws.below(2),
            lie: None,
        };
        let nodes = draws.one_of(&[1, 1, 2, 3]);
        let failovers = nodes > 1 && draws.chance(400_000);
        let files_fail = weather.failed_writes + weather.failed_syncs > 0;
        Self {
            nodes,
            failovers,
            replicas_append: draws.chance(500_000),
            loops: draws.between(1, 4) as usize,
            append_sync: draws.one_of(&["always", "always", "everysec", "no"]),
            clients: draws.between(1, 8) as usize,
            habits: Habits::draw(&mut draws, files_fail, failovers),
            workers: match draws.below(3) {
                0 => Vec::new(),
                copies => Role::ALL.repeat(copies as usize),
            },
            weather,
            storm: draws.between(2, 30) * SECOND,
            fault_every: draws.one_of(&[0, 200 * MILLI, SECOND, 5 * SECOND]),
            cuts_power: draws.chance(500_000),
            clock_jumps: !failovers && draws.chance(400_000),
            partitions: draws.chance(500_000),
            chores: draws.chance(500_000),
        }
    }
}
