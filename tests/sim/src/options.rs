//! Options of a run: a lie of the system, a bug of the server, and parts of the plan that are left
//! out.

use crate::kernel::Lie;
use crate::limits::Evicts;
use crate::plan::Plan;

/// Options of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub lie: Option<Lie>,
    /// Number of a planted bug.
    #[cfg_attr(not(sim_bug), allow(dead_code))]
    pub bug: Option<usize>,
    pub without: Vec<Part>,
    /// Whether the nodes form a cluster.
    pub cluster: bool,
}

/// A part of a plan that a run can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Clients,
    Workers,
    Members,
    Noise,
    HalfOfClients,
    ThirdNode,
    Replicas,
    Partitions,
    Jumps,
    Drift,
    Chores,
    PowerCuts,
    FailedFiles,
    ShortWrites,
    Handovers,
    Slowness,
    Limits,
    Loops,
    /// Slots of a cluster that move.
    Moves,
    /// Replicas of a cluster that leave and come back.
    Rejoins,
    HalfOfTime,
    QuarterOfTime,
}

impl Part {
    pub const ALL: [Self; 22] = [
        Self::Noise,
        Self::Clients,
        Self::Workers,
        Self::Members,
        Self::HalfOfClients,
        Self::Replicas,
        Self::ThirdNode,
        Self::Chores,
        Self::Partitions,
        Self::Jumps,
        Self::Drift,
        Self::FailedFiles,
        Self::PowerCuts,
        Self::ShortWrites,
        Self::Handovers,
        Self::Slowness,
        Self::Limits,
        Self::Loops,
        Self::Moves,
        Self::Rejoins,
        Self::QuarterOfTime,
        Self::HalfOfTime,
    ];

    /// Leaves the part out of a plan. Returns whether the plan had it.
    pub fn leave_out(self, plan: &mut Plan) -> bool {
        let before = format!("{plan:?}");
        let weather = &mut plan.weather;
        match self {
            // A cluster has at least one client, whose slots move.
            Self::Clients => plan.clients = usize::from(plan.shape.is_some()),
            Self::Workers => plan.workers.clear(),
            Self::Members => plan.members = 0,
            Self::Noise => plan.noise = 0,
            Self::HalfOfClients => {
                plan.clients = plan.clients.div_ceil(2);
                plan.members = plan.members.div_ceil(2);
            }
            Self::ThirdNode | Self::Replicas if plan.shape.is_some() => {}
            Self::ThirdNode => plan.nodes = plan.nodes.min(2),
            Self::Replicas if plan.promotions || plan.failovers => {}
            Self::Replicas => plan.nodes = 1,
            Self::Partitions => plan.partitions = false,
            Self::Jumps => plan.clock_jumps = false,
            Self::Drift => weather.drift_ppm = 0,
            Self::Chores => plan.chores = false,
            Self::PowerCuts => plan.cuts_power = false,
            Self::FailedFiles => (weather.failed_writes, weather.failed_syncs) = (0, 0),
            Self::ShortWrites => weather.short_writes = 0,
            Self::Handovers => weather.preempts = 0,
            Self::Moves => plan.shape.iter_mut().for_each(|shape| shape.moves = false),
            Self::Rejoins => plan
                .shape
                .iter_mut()
                .for_each(|shape| shape.rejoins = false),
            Self::Slowness => plan.slow = 0,
            Self::Limits => plan.evicts = Evicts::Unlimited,
            Self::Loops => plan.loops = 1,
            Self::HalfOfTime => plan.storm /= 2,
            Self::QuarterOfTime => plan.storm /= 4,
        }
        before != format!("{plan:?}")
    }

    /// Returns the part with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|part| format!("{part:?}").eq_ignore_ascii_case(name))
    }
}
