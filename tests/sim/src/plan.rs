//! What a seed draws before its run: servers, clients, faults and their rates.

use crate::clients::Habits;
use crate::cluster::plan::Shape;
use crate::kernel::draws::Draws;
use crate::kernel::{MICRO, MILLI, Nanos, SECOND, Weather};
use crate::limits::Evicts;
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
    /// Rate per million at which the next fault follows at once.
    pub bursts: u64,
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
    /// Whether a replica is promoted when the primary dies or is isolated. Such a run may lose
    /// writes that WAIT has not promised.
    pub promotions: bool,
    /// Clients that use WAIT, in a run with promotions.
    pub keepers: usize,
    /// Clients that share registers.
    pub members: usize,
    /// Clients that run random commands of all families.
    pub noise: usize,
    /// Whether clients may write to replicas.
    pub writable: bool,
    /// What nodes evict at a limit of memory, and the policy's name.
    pub evicts: Evicts,
    pub policy: &'static str,
    /// Rate per million at which a client reads late what has arrived.
    pub slow: u64,
    /// The cluster that the nodes form, in a run of this kind.
    pub shape: Option<Shape>,
}

impl Plan {
    /// Draws the plan of a seed, of a cluster or of another kind.
    pub fn of(seed: u64, cluster: bool) -> Self {
        match cluster {
            true => Self::draw_cluster(seed),
            false => Self::draw(seed),
        }
    }

    /// Draws the plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut draws = Draws::new(seed ^ 0x706c_616e);
        let latency = draws.one_of(&[5 * MICRO, 50 * MICRO, 500 * MICRO, 5 * MILLI]);
        let sync_time = draws.one_of(&[20 * MICRO, 200 * MICRO, 2 * MILLI, 20 * MILLI]);
        let fails = draws.one_of(&[0, 0, 0, 1_000, 20_000]);
        let (fail_writes, fail_syncs) = draws.one_of(&[(1, 1), (1, 1), (1, 0), (0, 1)]);
        let weather = Weather {
            preempts: draws.one_of(&[0, 1_000, 20_000]),
            short_writes: draws.one_of(&[0, 0, 10_000, 200_000]),
            latency,
            jitter: latency * draws.below(4),
            sync_time,
            sync_jitter: sync_time * draws.one_of(&[0, 1, 10]),
            failed_writes: fails * fail_writes,
            failed_syncs: fails * fail_syncs,
            drift_ppm: draws.one_of(&[0, 0, 50, 500]),
            lie: None,
        };
        let most = draws.one_of(&[4, 8, 20]);
        let nodes = draws.one_of(&[1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 5, 7]);
        let kind = if nodes > 1 { draws.below(10) } else { 9 };
        let (failovers, promotions) = (kind < 3, (3..6).contains(&kind));
        let alone = !failovers && !promotions;
        let mut weather = weather;
        if !alone {
            weather.drift_ppm = 0;
        }
        let (evicts, policy) = Evicts::draw(&mut draws, !promotions);
        let files_fail = weather.fails_files();
        Self {
            nodes,
            failovers,
            promotions,
            keepers: usize::from(promotions) * draws.between(2, 5) as usize,
            evicts,
            policy,
            members: match draws.below(2) {
                1 if !promotions && evicts != Evicts::All => draws.between(2, 5) as usize,
                _ => 0,
            },
            noise: draws.one_of(&[0, 1, 2]),
            writable: alone && draws.chance(500_000),
            slow: draws.one_of(&[0, 0, 0, 10_000, 200_000]),
            replicas_append: draws.chance(500_000),
            loops: draws.between(1, 4) as usize,
            append_sync: draws.one_of(&["always", "always", "everysec", "no"]),
            clients: match promotions {
                true => 0,
                false => draws.between(1, 6) as usize,
            },
            habits: Habits::draw(&mut draws, files_fail, failovers),
            workers: match draws.below(3) {
                0 => Vec::new(),
                _ if promotions || evicts == Evicts::All => Vec::new(),
                copies => Role::ALL.repeat(copies as usize),
            },
            weather,
            // Many short runs meet more combinations than few long ones.
            storm: draws.between(2, most) * SECOND,
            fault_every: match promotions {
                true => draws.one_of(&[SECOND, 2 * SECOND, 5 * SECOND]),
                false => draws.one_of(&[0, 200 * MILLI, SECOND, 5 * SECOND]),
            },
            bursts: draws.one_of(&[0, 300_000, 600_000]),
            cuts_power: draws.chance(if files_fail { 800_000 } else { 500_000 }),
            clock_jumps: alone && draws.chance(400_000),
            partitions: draws.chance(500_000),
            chores: draws.chance(500_000),
            shape: None,
        }
    }
}
