//! Clusters: nodes in cluster mode with their bus, clients that follow redirections, slots that
//! move, failovers and elections.
//!
//! [`watch`] reads the bus, and has the rules that hold at every step. [`tag`] has the values that
//! clients may see. [`heal`] has the end of a run.
//!
//! A write that its owner alone has acknowledged stays until a replica is elected or takes over. A
//! write that all replicas have acknowledged (WAIT) stays then, unless the operator lets a replica
//! take over that may not have its primary's data. While a slot moves, its state is not
//! replicated, as in Redis before Valkey 8: if a replica of the old or new owner is elected then,
//! or one of both loses its power, the slot's keys are *doubtful*, and only checked again after the
//! operator has repaired the slot.

mod client;
mod crew;
mod errand;
mod faults;
mod heal;
mod mover;
mod operator;
pub mod plan;
mod redirect;
mod rejoin;
mod tag;
mod view;
mod watch;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use punctual_resp::Value;
use punctual_server::Server;

use crate::chores::Chores;
use crate::clients::PORT;
use crate::faults::replicas_of;
use crate::kernel::draws::Draws;
use crate::kernel::streams::EndId;
use crate::kernel::{MILLI, Nanos, NodeId, SECOND, Weather};
use crate::plan::Plan;
use crate::run::is_disk_failure;
use crate::{verdict, world};
use client::Client;
use crew::Crew;
use mover::{Mover, Progress};
use operator::Question;
use plan::Shape;
use rejoin::Rejoin;
use watch::{Taken, Watch};

/// Port of the bus.
const BUS: u16 = PORT + 10_000;
/// Time after which a client gives up a connection without a reply.
const TIMEOUT: Nanos = 1_500 * MILLI;

/// Something that the driver does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Client(usize),
    /// A worker of a crew.
    Hand(usize, usize),
    Move,
    Rejoin,
    Fault,
    Kill(NodeId),
    Restart(NodeId),
    EndPartition(NodeId, NodeId),
    EndStorm,
}

/// The driver of a run.
pub struct Cluster {
    plan: Plan,
    shape: Shape,
    draws: Draws,
    clients: Vec<Client>,
    crews: Vec<Crew>,
    mover: Mover,
    rejoin: Option<Rejoin>,
    watch: Watch,
    chores: Chores,
    question: Option<Question>,
    tasks: BinaryHeap<Reverse<(Nanos, u64, Task)>>,
    added: u64,
    /// Time at which a client or the mover acts next. Earlier plans do not count.
    wakes: BTreeMap<Task, Nanos>,
    dead: Vec<NodeId>,
    /// IDs of the nodes.
    names: Vec<String>,
    /// Time at which faults have ended.
    heals_at: Option<Nanos>,
    kills: u64,
    /// Number of replicas that were reset.
    rejoined: u64,
    /// Number of servers that have ended by themselves.
    ends: u64,
}

/// Who may carry out the commands of a slot.
struct Rights<'a> {
    watch: &'a Watch,
    mover: &'a Mover,
}

impl Rights<'_> {
    /// Returns whether a node rightfully serves a slot, or a client that asks for it.
    fn may(&self, slot: u16, node: NodeId, asking: bool) -> bool {
        let arrives = asking && self.target(slot) == Some(node);
        self.watch.owner(slot) == Some(node) || arrives
    }

    /// Returns whether a node may see itself as the owner of a slot. Others may know better.
    fn may_own(&self, slot: u16, node: NodeId) -> bool {
        let named = self.watch.named.get(&slot) == Some(&node);
        let named = named || self.mover.names(slot, node);
        named || self.watch.announces(node, slot) || self.watch.may_take_over(node)
    }

    /// Returns whether all nodes that can be elected instead of a node have its last write, from
    /// its replies to WAIT and ROLE. WAIT counts replicas. ROLE tells which ones: a replica that
    /// follows the node may not have announced it yet, and would stand for one that has not
    /// acknowledged.
    fn all_have(&self, node: NodeId, heirs: &BTreeSet<NodeId>, replies: &[Value]) -> bool {
        let [Value::Int(count), role] = replies else {
            return false;
        };
        let replicas = replicas_of(role).into_iter().map(|(replica, _)| replica);
        let replicas: Vec<NodeId> = replicas.collect();
        let all = *count as usize >= replicas.len();
        if all {
            self.watch.have_data(&replicas, node);
        }
        let knows_all = *heirs == self.watch.heirs(node);
        all && knows_all && heirs.iter().all(|heir| replicas.contains(heir))
    }

    /// Fails the run if a node has carried out a command of a slot that is not its own. `could`
    /// tells whether it could see itself as the owner when the command was sent.
    fn expect_owner(&self, slot: u16, node: NodeId, could: bool) {
        if !could && !self.may_own(slot, node) {
            verdict::stop(&format!(
                "node {node} serves slot {slot}, which it does not own"
            ));
        }
    }

    /// Returns the node at which a slot arrives.
    fn target(&self, slot: u16) -> Option<NodeId> {
        let moving = self.mover.now.as_ref();
        moving
            .filter(|moving| moving.slot == slot)
            .map(|moving| moving.to)
    }

    /// Returns whether a slot moves.
    fn moves(&self, slot: u16) -> bool {
        self.target(slot).is_some()
    }
}

/// Returns whether a start may have failed because a write or a sync has. A node that cannot save
/// its `nodes.conf` stops, also while it loads.
fn is_failure_of_files(error: &str) -> bool {
    is_disk_failure(error) || error.contains("the server stops")
}

/// Runs a seed. Ends the process.
pub fn run(seed: u64, plan: Plan, shape: Shape) -> ! {
    world::with(|kernel| kernel.network.tap.port = Some(BUS));
    let fails = plan.weather.fails_files();
    let clients = (0..plan.clients).map(|number| Client::new(number, plan.nodes, &shape, fails));
    let crews = plan.workers.chunks(crew::ROLES.len()).enumerate();
    let crews = crews.map(|(number, roles)| Crew::new(number, roles, plan.nodes, shape.strict));
    let mut cluster = Cluster {
        clients: clients.collect(),
        crews: crews.collect(),
        mover: Mover::default(),
        rejoin: None,
        watch: Watch::new(plan.nodes),
        chores: Chores::default(),
        draws: Draws::new(seed ^ 0x6275_7321),
        question: None,
        tasks: BinaryHeap::new(),
        added: 0,
        wakes: BTreeMap::new(),
        dead: Vec::new(),
        names: Vec::new(),
        heals_at: None,
        kills: 0,
        rejoined: 0,
        ends: 0,
        plan,
        shape,
    };
    let Weather {
        failed_writes,
        failed_syncs,
        ..
    } = cluster.plan.weather;
    let set_failures = |writes, syncs| {
        world::with(|kernel| {
            (kernel.weather.failed_writes, kernel.weather.failed_syncs) = (writes, syncs);
        });
    };
    set_failures(0, 0);
    cluster.create();
    set_failures(failed_writes, failed_syncs);
    cluster.storm();
    cluster.heal();
    cluster.report()
}

impl Cluster {
    fn add(&mut self, at: Nanos, task: Task) {
        self.added += 1;
        self.tasks.push(Reverse((at, self.added, task)));
    }

    /// Plans the next time at which a client or the mover acts.
    fn wake(&mut self, at: Nanos, task: Task) {
        if self.wakes.insert(task, at) != Some(at) {
            self.add(at, task);
        }
    }

    /// Starts a server.
    fn start(&self, node: NodeId) {
        let (loops, append_sync) = (self.plan.loops, self.plan.append_sync);
        let shape = self.shape.clone();
        let word = |yes: bool| if yes { "yes" } else { "no" };
        world::start(node, move || {
            let server = Server::builder()
                .threads(loops)
                .option("bind", &format!("10.0.0.{node}"))
                .option("port", &PORT.to_string())
                .option("dir", &format!("/sim/{node}"))
                .option("appendonly", "yes")
                .option("appendfsync", append_sync)
                .option("cluster-enabled", "yes")
                .option("cluster-bus-port-protected-mode", "no")
                .option("cluster-node-timeout", &(shape.timeout / MILLI).to_string())
                .option(
                    "cluster-allow-replica-migration",
                    word(shape.replicas_migrate),
                )
                .option("cluster-require-full-coverage", word(shape.full_coverage))
                .option("repl-timeout", "5")
                .option("repl-ping-replica-period", "1")
                .option("repl-diskless-sync-delay", "0")
                .option("enable-debug-command", "yes")
                .option("protected-mode", "no")
                // The slow log measures real time, which differs between two runs.
                .option("slowlog-log-slower-than", "-1")
                .option("seed", &(1_000 + node).to_string())
                .logger(world::logger(node))
                .spawn();
            match server {
                Ok(server) => {
                    server.join();
                    world::server_ended(node);
                }
                Err(error) if is_failure_of_files(&error.to_string()) => {
                    world::server_ended(node);
                }
                Err(error) => verdict::stop(&format!("node {node} does not start: {error}")),
            }
        });
    }

    /// The time with faults.
    fn storm(&mut self) {
        for client in 0..self.clients.len() {
            self.wake(world::now(), Task::Client(client));
        }
        for crew in 0..self.crews.len() {
            for hand in 0..crew::ROLES.len() {
                self.wake(world::now(), Task::Hand(crew, hand));
            }
        }
        self.wake(world::now() + SECOND, Task::Move);
        if self.plan.fault_every > 0 {
            self.add_fault();
        }
        if self.shape.rejoins {
            let pause = self.draws.between(0, self.plan.storm / 2);
            self.wake(world::now() + pause, Task::Rejoin);
        }
        self.add(world::now() + self.plan.storm, Task::EndStorm);
        while self.step(Nanos::MAX) {}
    }

    /// Waits for the next thing and handles it. Returns false at the end of the storm.
    fn step(&mut self, until: Nanos) -> bool {
        self.look_for_ends();
        let next = self.tasks.peek().map_or(until, |next| next.0.0.min(until));
        for end in world::next(next) {
            self.watch_bus();
            self.changed(end);
        }
        self.watch_bus();
        while let Some(Reverse((at, _, _))) = self.tasks.peek()
            && *at <= world::now()
        {
            let Some(Reverse((at, _, task))) = self.tasks.pop() else {
                break;
            };
            if self.wakes.get(&task).is_some_and(|wake| *wake != at) {
                continue;
            }
            self.wakes.remove(&task);
            match task {
                Task::Client(client) => self.act(client),
                Task::Hand(crew, hand) => self.work(crew, hand),
                Task::Move => self.act_move(),
                Task::Rejoin => self.act_rejoin(),
                Task::Fault => self.fault(),
                Task::Kill(node) => self.kill(node),
                Task::Restart(node) => self.restart(node),
                Task::EndPartition(from, to) => {
                    world::with(|kernel| kernel.set_link(from, to, true));
                }
                Task::EndStorm => return false,
            }
        }
        true
    }

    fn act(&mut self, client: usize) {
        let rights = Rights {
            watch: &self.watch,
            mover: &self.mover,
        };
        if let Some(at) = self.clients[client].act(&rights, &mut self.draws) {
            self.wake(at, Task::Client(client));
        }
    }

    fn work(&mut self, crew: usize, hand: usize) {
        let rights = Rights {
            watch: &self.watch,
            mover: &self.mover,
        };
        if let Some(at) = self.crews[crew].act(hand, &rights, &mut self.draws) {
            self.wake(at, Task::Hand(crew, hand));
        }
    }

    fn changed(&mut self, end: EndId) {
        let rights = Rights {
            watch: &self.watch,
            mover: &self.mover,
        };
        if let Some(at) = self.clients.iter().position(|client| client.owns(end)) {
            if self.clients[at].changed(end, &rights, &mut self.draws) {
                let pause = self.draws.between(0, self.plan.habits.pause / 2);
                self.wake(world::now() + pause, Task::Client(at));
            }
        } else if let Some((at, hand)) = self.hand_of(end) {
            self.crews[at].changed(hand, &rights, &mut self.draws);
            self.wake(world::now(), Task::Hand(at, hand));
        } else if self.mover.owns(end) {
            let progress = self.mover.changed(&mut self.watch);
            self.progress(progress);
        } else if self.rejoin.as_ref().is_some_and(|rejoin| rejoin.owns(end)) {
            self.changed_rejoin();
        } else if let Some(question) = self.question.as_mut().filter(|asked| asked.owns(end)) {
            question.changed();
        } else {
            self.chores.changed(end);
        }
    }

    /// Returns the crew and the number of the worker with this connection.
    fn hand_of(&self, end: EndId) -> Option<(usize, usize)> {
        let hands = self.crews.iter().map(|crew| crew.owner_of(end));
        hands.enumerate().find_map(|(at, hand)| Some((at, hand?)))
    }

    /// Returns the slots of all clients and crews.
    fn slots(&self) -> Vec<u16> {
        let tags = self.clients.iter().flat_map(|client| &client.tags);
        let crews = self.crews.iter().map(|crew| crew.slot);
        tags.map(|tag| tag.slot).chain(crews).collect()
    }

    /// Begins a move, or its next step.
    fn act_move(&mut self) {
        if self.mover.now.is_none() {
            if !self.shape.moves || self.heals_at.is_some() {
                return;
            }
            let slots = self.slots();
            if !self.mover.begin(&slots, &self.watch, &mut self.draws) {
                self.wake(world::now() + SECOND, Task::Move);
                return;
            }
            if let Some(moving) = &self.mover.now {
                let slot = moving.slot;
                self.each_tag(slot, tag::Tag::moves);
                let now = world::now();
                self.each_crew(slot, |crew| crew.exposed = Some(now));
            }
        }
        let progress = self.mover.act(&self.names);
        if let Some(to) = self.mover.named_now() {
            self.watch.needs_no_votes(to);
        }
        self.progress(progress);
    }

    fn progress(&mut self, progress: Progress) {
        let pause = self.draws.between(MILLI, 3 * SECOND);
        match progress {
            Progress::At(at) => self.wake(at, Task::Move),
            Progress::Ended(_) => self.wake(world::now() + pause, Task::Move),
            Progress::GivenUp(slot) => {
                self.doubt(slot);
                self.wake(world::now() + pause, Task::Move);
            }
        }
    }

    fn each_tag(&mut self, slot: u16, change: impl Fn(&mut tag::Tag)) {
        let tags = self.clients.iter_mut().flat_map(|client| &mut client.tags);
        tags.filter(|tag| tag.slot == slot).for_each(change);
    }

    fn each_crew(&mut self, slot: u16, change: impl Fn(&mut Crew)) {
        let crews = self.crews.iter_mut();
        crews.filter(|crew| crew.slot == slot).for_each(change);
    }

    /// Notes that the keys of a slot may be in two places.
    fn doubt(&mut self, slot: u16) {
        world::with(|kernel| kernel.trace.tell(|| format!("doubt {slot}")));
        self.each_tag(slot, tag::Tag::doubt);
        self.each_crew(slot, |crew| crew.is_doubtful = true);
        if let Some(moving) = self.mover.now.as_mut().filter(|moving| moving.slot == slot) {
            moving.is_doubtful = true;
        }
    }

    /// Reads the bus, and lets the clients know which promises are left.
    fn watch_bus(&mut self) {
        for taken in self.watch.look() {
            self.taken(&taken);
        }
    }

    fn taken(&mut self, taken: &Taken) {
        let moving = self.mover.now.clone();
        // SETSLOT NODE gives the node an epoch for all its slots, not just for the one that moves.
        let may_share =
            |node: NodeId| self.watch.may_be_unvoted(node) || self.mover.named_now() == Some(node);
        if taken.shared && ![taken.by, taken.from].into_iter().any(may_share) {
            let Taken { by, from, .. } = taken;
            verdict::stop(&format!("a slot has two owners in one epoch: {from}, {by}"));
        }
        for slot in self
            .slots()
            .into_iter()
            .filter(|slot| taken.slots.contains(*slot))
        {
            let arrives = moving
                .as_ref()
                .is_some_and(|m| m.slot == slot && m.to == taken.by);
            let named = self.watch.named.get(&slot) == Some(&taken.by);
            if taken.elected {
                if !self.shape.strict {
                    self.each_tag(slot, tag::Tag::elected);
                    self.each_crew(slot, Crew::elected);
                }
            } else if taken.stolen || !arrives && !named {
                self.doubt(slot);
            }
        }
        // The new owner of a slot that moves has no replica that has promised to keep its keys, and
        // the old owner's replicas do not know that the slot moves.
        if let Some(moving) = moving
            && (taken.elected || taken.stolen)
            && [moving.from, moving.to].contains(&taken.from)
        {
            self.doubt(moving.slot);
        }
    }

    fn report(&self) -> ! {
        let done: u64 = self.clients.iter().map(|client| client.done).sum();
        let works: u64 = self.crews.iter().map(|crew| crew.done).sum();
        let doubtful = self.crews.iter().filter(|crew| crew.is_doubtful).count();
        let done = done + works;
        let redirected: u64 = self.clients.iter().map(|client| client.redirected).sum();
        let figures = world::with(|kernel| {
            format!(
                "hash {:016x} simulated_ms {} commands {done} redirected {redirected} \
                 works {works} doubtful {doubtful} packets {} elections {} takeovers {} moves {} open {} rejoined {} kills {} ends {} calls {} handovers {}",
                kernel.trace.hash(),
                kernel.now / MILLI,
                self.watch.packets,
                self.watch.elections,
                self.watch.takeovers,
                self.mover.done,
                self.mover.open.len(),
                self.rejoined,
                self.kills,
                self.ends,
                kernel.calls,
                kernel.handovers,
            )
        });
        verdict::pass(&figures)
    }
}
