//! What a seed draws for a run of a cluster, besides the plan that all kinds of runs have.

use crate::kernel::draws::Draws;
use crate::kernel::{MILLI, Nanos, SECOND};
use crate::plan::Plan;

/// The cluster of a run.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Number of nodes that own slots at first. The others are replicas.
    pub primaries: usize,
    /// `cluster-node-timeout`. A failed primary that nobody replaces is accepted after two of them,
    /// and may be found to have failed a second after the faults. So slots are served again in
    /// time only with 2 s or less.
    pub timeout: Nanos,
    /// Whether slots move between primaries.
    pub moves: bool,
    /// Whether only agreed failovers and moves happen, so that no acknowledged write may be lost.
    pub strict: bool,
    /// `cluster-allow-replica-migration`.
    pub replicas_migrate: bool,
    /// `cluster-require-full-coverage`.
    pub full_coverage: bool,
    /// Number of hash tags of a client.
    pub tags: usize,
    /// Number of keys of a tag.
    pub keys: usize,
    /// Length of the padding of a value.
    pub padding: usize,
    /// Maximum time for which a killed node is dead.
    pub death: Nanos,
    /// Whether all nodes are started again at the end.
    pub restarts: bool,
    /// Whether replicas leave the cluster and come back.
    pub rejoins: bool,
}

impl Plan {
    /// Draws the plan of a cluster.
    pub fn draw_cluster(seed: u64) -> Self {
        let mut plan = Self::draw(seed ^ 0x0063_6c75_7374);
        let mut draws = Draws::new(seed ^ 0x7368_6170_6521);
        plan.nodes = draws.one_of(&[3, 4, 5, 5, 6, 6, 6, 7]);
        let primaries = match plan.nodes {
            7 => draws.one_of(&[3, 3, 4, 5]),
            _ => 3,
        };
        plan.loops = draws.one_of(&[1, 1, 2, 3]);
        plan.clients = draws.between(2, 5) as usize;
        plan.storm = draws.between(10, 30) * SECOND;
        plan.fault_every = draws.one_of(&[500 * MILLI, SECOND, 3 * SECOND]);
        plan.clock_jumps = draws.chance(400_000);
        plan.partitions = draws.chance(700_000);
        plan.cuts_power = plan.append_sync == "always" && draws.chance(600_000);
        plan.workers = super::crew::ROLES.repeat(draws.one_of(&[0, 1, 1, 2]));
        plan.weather.drift_ppm = draws.one_of(&[0, 0, 50, 500]);
        (plan.writable, plan.failovers, plan.promotions) = (false, false, false);
        let strict = draws.chance(200_000);
        if strict {
            // A server ends if it cannot save its nodes.conf, and a replica may be elected.
            (plan.weather.failed_writes, plan.weather.failed_syncs) = (0, 0);
        }
        plan.shape = Some(Shape {
            primaries,
            timeout: draws.one_of(&[SECOND, 1_500 * MILLI, 2 * SECOND]),
            moves: draws.chance(700_000),
            strict,
            replicas_migrate: draws.chance(500_000),
            full_coverage: draws.chance(700_000),
            tags: draws.between(1, 4) as usize,
            keys: draws.between(2, 8) as usize,
            padding: draws.one_of(&[0, 0, 10, 2_000]),
            death: draws.one_of(&[200 * MILLI, 3 * SECOND, 10 * SECOND]),
            restarts: draws.chance(300_000),
            rejoins: draws.chance(333_333),
        });
        plan
    }
}
