//! One seed: starts the node, lets clients work while faults happen, and checks that all heals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicUsize, Ordering};

use ahash::random_state::RandomSource;
use punctual_server::Server;

use crate::chores::Chores;
use crate::clients::{Client, PORT};
use crate::inspection::Inspections;
use crate::kernel::draws::Draws;
use crate::kernel::streams::EndId;
use crate::kernel::{Kernel, MILLI, Nanos, NodeId, SECOND};
use crate::noise::Noise;
use crate::options::Options;
use crate::party::{Common, Party};
use crate::plan::Plan;
use crate::promises::{self, Keeper, Promises};
use crate::registers::{Member, Registers};
use crate::workers::{Ledger, Worker};
use crate::{baton, cluster, recording, verdict, world};

/// Something that the driver does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    Act(usize),
    Work(usize),
    Fault,
    /// DEBUG CHECK on all nodes that run.
    Inspect,
    Restart(NodeId),
    EndStorm,
    EndPartition(NodeId, NodeId),
    /// All nodes reach this one again, which was the primary.
    EndIsolation(NodeId),
    /// A node freezes for a time.
    Freeze(NodeId, Nanos),
    /// A client reads what has arrived earlier.
    Look(EndId),
}

/// The only simulated thread that is not a server's.
pub struct Driver {
    pub plan: Plan,
    pub draws: Draws,
    pub clients: Vec<Client>,
    pub parties: Vec<Box<dyn Party>>,
    pub common: Common,
    pub tasks: BinaryHeap<Reverse<(Nanos, u64, Task)>>,
    added: u64,
    /// Whether the time without faults has begun, in which clients send no new commands.
    pub heals: bool,
    /// Nodes that are killed and not yet started again.
    pub dead: Vec<NodeId>,
    /// The node that the others follow when they start.
    pub primary: NodeId,
    pub chores: Chores,
    pub inspections: Inspections,
    pub kills: u64,
    pub promotions: u64,
}

/// A source of ahash's states that depends on no address.
struct States(AtomicUsize);

impl RandomSource for States {
    fn gen_hasher_seed(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Initializes static variables of the process before seeds run in copies of it.
pub fn warm_up() {
    let _ = ahash::random_state::set_random_source(States(AtomicUsize::new(1)));
    // The clock of durations measures the processor's counter against real time.
    let server = Server::builder().port(0).option("seed", "1").spawn();
    server
        .expect("a server starts outside of the simulation")
        .shutdown();
}

/// Returns the word of a directive.
fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// Starts a server.
pub fn start(node: NodeId, primary: NodeId, plan: &Plan) {
    let (loops, append_sync, policy) = (plan.loops, plan.append_sync, plan.policy);
    let appends = yes_or_no(node == 1 || plan.replicas_append);
    let read_only = yes_or_no(!plan.writable);
    let primary = match node == primary {
        true => "no one".to_owned(),
        false => format!("10.0.0.{primary} {PORT}"),
    };
    let min_replicas = u8::from(plan.promotions).to_string();
    let max_lag = (promises::MAX_LAG / SECOND).to_string();
    world::start(node, move || {
        let server = Server::builder()
            .threads(loops)
            .option("bind", &format!("10.0.0.{node}"))
            .option("port", &PORT.to_string())
            .option("dir", &format!("/sim/{node}"))
            .option("appendonly", appends)
            .option("replicaof", &primary)
            .option("replica-read-only", read_only)
            .option("min-replicas-to-write", &min_replicas)
            .option("min-replicas-max-lag", &max_lag)
            .option("repl-timeout", "5")
            .option("repl-ping-replica-period", "1")
            .option("repl-diskless-sync-delay", "0")
            .option("enable-debug-command", "yes")
            .option("appendfsync", append_sync)
            .option("protected-mode", "no")
            .option("maxmemory-policy", policy)
            // With less tenacity, a step of eviction ends by real time.
            .option("maxmemory-eviction-tenacity", "100")
            // The slow log measures real time, which differs between two runs.
            .option("slowlog-log-slower-than", "-1")
            .option("seed", &(1_000 + node).to_string())
            .logger(world::logger(node))
            .spawn();
        match server {
            Ok(server) => server.join(),
            // As a supervisor would, the driver starts the node again after a failure of its disk.
            Err(error) if is_disk_failure(&error.to_string()) => {
                world::server_ended(node);
            }
            Err(error) => verdict::stop(&format!("node {node} does not start: {error}")),
        }
    });
}

/// Returns whether a start has failed because a write or a sync has.
pub fn is_disk_failure(error: &str) -> bool {
    error.contains("(os error 5)") || error.contains("(os error 28)")
}

/// Runs a seed. Ends the process.
pub fn run(seed: u64, options: &Options) -> ! {
    verdict::fail_on_panic();
    recording::begin(seed);
    let mut plan = Plan::of(seed, options.cluster);
    plan.weather.lie = options.lie;
    for part in &options.without {
        part.leave_out(&mut plan);
    }
    #[cfg(sim_bug)]
    if let Some(bug) = options.bug {
        crate::bugs::plant(bug);
    }
    if std::env::var_os("SIM_PLAN").is_some() {
        eprintln!("{plan:?}");
    }
    let mut kernel = Kernel::new(seed, plan.nodes, plan.weather.clone());
    kernel
        .nodes
        .iter_mut()
        .for_each(|node| node.evicts = plan.evicts);
    kernel.trace.prints = std::env::var_os("SIM_TRACE").is_some();
    baton::begin(kernel);
    if let Some(shape) = plan.shape.take() {
        cluster::run(seed, plan, shape);
    }
    let mut driver = Driver::new(seed, plan);
    driver.run();
    driver.report()
}

/// Creates the clients of all kinds besides [`Client`].
fn parties(plan: &Plan, draws: &mut Draws) -> Vec<Box<dyn Party>> {
    let nodes = plan.nodes;
    let mut all: Vec<Box<dyn Party>> = Vec::new();
    for role in &plan.workers {
        all.push(Box::new(Worker::new(*role, nodes)));
    }
    for _ in 0..plan.members {
        all.push(Box::new(Member::new(nodes)));
    }
    for number in 0..plan.keepers {
        all.push(Box::new(Keeper::new(number, nodes)));
    }
    for _ in 0..plan.noise {
        all.push(Box::new(Noise::new(nodes, draws)));
    }
    all
}

impl Driver {
    fn new(seed: u64, plan: Plan) -> Self {
        let mut draws = Draws::new(seed ^ 0x64_7269_7665);
        let promises = Promises {
            isolated: None,
            min_replicas: plan.promotions,
        };
        Self {
            clients: (0..plan.clients)
                .map(|number| Client::new(number, plan.nodes, &plan.habits))
                .collect(),
            parties: parties(&plan, &mut draws),
            draws,
            common: Common {
                ledger: Ledger::new(1..2),
                registers: Registers::new(plan.habits.files_fail, plan.failovers),
                promises,
                drains: false,
            },
            tasks: BinaryHeap::new(),
            added: 0,
            heals: false,
            dead: Vec::new(),
            primary: 1,
            chores: Chores::default(),
            inspections: Inspections::default(),
            kills: 0,
            promotions: 0,
            plan,
        }
    }

    pub fn add(&mut self, at: Nanos, task: Task) {
        self.added += 1;
        self.tasks.push(Reverse((at, self.added, task)));
    }

    fn run(&mut self) {
        for node in 1..=self.plan.nodes {
            start(node, self.primary, &self.plan);
        }
        // The server listens before its clients come.
        for client in 0..self.clients.len() {
            self.add(100 * MILLI, Task::Act(client));
        }
        for worker in 0..self.parties.len() {
            self.add(100 * MILLI, Task::Work(worker));
        }
        self.add_fault();
        self.add(self.plan.storm, Task::EndStorm);
        while self.step(Nanos::MAX) {}
        self.heal();
    }

    /// Waits for the next thing and handles it. Returns false at the end of the storm.
    pub fn step(&mut self, until: Nanos) -> bool {
        for node in world::with(|kernel| std::mem::take(&mut kernel.ended_servers)) {
            self.dead.push(node);
            self.add(world::now() + SECOND, Task::Restart(node));
        }
        let next = self.tasks.peek().map_or(until, |next| next.0.0.min(until));
        for end in world::next(next) {
            self.changed(end);
        }
        while let Some(Reverse((at, _, _))) = self.tasks.peek()
            && *at <= world::now()
        {
            let Some(Reverse((_, _, task))) = self.tasks.pop() else {
                break;
            };
            match task {
                Task::Act(client) => self.act(client),
                Task::Work(worker) => self.work(worker),
                Task::Fault => self.fault(),
                Task::Inspect => self.inspect(),
                Task::Restart(node) => self.restart(node),
                Task::EndStorm => return false,
                Task::EndPartition(from, to) => self.end_partition(from, to),
                Task::EndIsolation(node) => self.end_isolation(node),
                Task::Freeze(node, time) => world::with(|kernel| kernel.freeze(node, time)),
                Task::Look(end) => self.look(end),
            }
        }
        true
    }

    /// Handles a change of a client's connection, perhaps later.
    pub fn changed(&mut self, end: EndId) {
        if !self.heals && self.draws.chance(self.plan.slow) {
            let pause = self.draws.between(MILLI, 300 * MILLI);
            self.add(world::now() + pause, Task::Look(end));
        } else {
            self.look(end);
        }
    }

    fn look(&mut self, end: EndId) {
        let most = if self.heals {
            MILLI
        } else {
            self.plan.habits.pause
        };
        let pause = self.draws.between(0, most);
        if let Some(client) = self.clients.iter().position(|client| client.link.owns(end)) {
            if self.clients[client].changed() {
                self.add(world::now() + pause, Task::Act(client));
            }
        } else if let Some(at) = self
            .parties
            .iter_mut()
            .position(|party| party.link().owns(end))
        {
            if self.parties[at].changed(&mut self.common, &mut self.draws) {
                self.add(world::now() + pause, Task::Work(at));
            }
        } else if !self.inspections.changed(end) {
            self.chores.changed(end);
        }
    }

    fn work(&mut self, at: usize) {
        let party = &mut self.parties[at];
        let later = match self.dead.contains(&party.link().node) {
            true => {
                if self.plan.promotions {
                    party.link().turn_away();
                }
                Some(50 * MILLI)
            }
            false => party.act(&mut self.common, &mut self.draws),
        };
        if let Some(later) = later {
            self.add(world::now() + later, Task::Work(at));
        }
    }

    fn act(&mut self, client: usize) {
        if self.dead.contains(&self.clients[client].link.node) {
            // Its connection attempt would fail, so the client waits for the restart.
            self.add(world::now() + 50 * MILLI, Task::Act(client));
            return;
        }
        if self.heals && self.clients[client].is_idle() {
            return;
        }
        if let Some(later) = self.clients[client].act(&mut self.draws, &self.plan.habits) {
            self.add(world::now() + later, Task::Act(client));
        }
    }

    fn report(&self) -> ! {
        let done: u64 = self.clients.iter().map(|client| client.done).sum();
        let done = done + self.parties.iter().map(|party| party.done()).sum::<u64>();
        let refused: u64 = self.clients.iter().map(|client| client.refused).sum();
        let figures = world::with(|kernel| {
            format!(
                "hash {:016x} simulated_ms {} commands {done} refused {refused} calls {} \
                 handovers {} kills {} promotions {}",
                kernel.trace.hash(),
                kernel.now / MILLI,
                kernel.calls,
                kernel.handovers,
                self.kills,
                self.promotions,
            )
        });
        verdict::pass(&figures)
    }
}
