//! One seed: starts the node, lets clients work while faults happen, and checks that all heals.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicUsize, Ordering};

use ahash::random_state::RandomSource;
use punctual_resp::{Decoder, Value};
use punctual_server::Server;

use crate::chores::Chores;
use crate::clients::{Client, PORT};
use crate::kernel::draws::Draws;
use crate::kernel::streams::EndId;
use crate::kernel::{Kernel, Lie, MILLI, Nanos, NodeId, SECOND};
use crate::link::Link;
use crate::plan::Plan;
use crate::workers::{Ledger, Worker};
use crate::{baton, verdict, world};

/// Time within which everything must heal after the last fault.
const HEALING: Nanos = 60 * SECOND;

/// Something that the driver does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Act(usize),
    Work(usize),
    Fault,
    Restart(NodeId),
    EndStorm,
    EndPartition(NodeId, NodeId),
}

struct Driver {
    plan: Plan,
    draws: Draws,
    clients: Vec<Client>,
    workers: Vec<Worker>,
    ledger: Ledger,
    tasks: BinaryHeap<Reverse<(Nanos, u64, Task)>>,
    added: u64,
    /// Whether the time without faults has begun, in which clients send no new commands.
    heals: bool,
    /// Nodes that are killed and not yet started again.
    dead: Vec<NodeId>,
    chores: Chores,
    kills: u64,
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

fn start(node: NodeId, plan: &Plan) {
    let (loops, append_sync) = (plan.loops, plan.append_sync);
    let appends = node == 1 || plan.replicas_append;
    let appends = if appends { "yes" } else { "no" };
    let primary = if node == 1 {
        String::new()
    } else {
        format!("10.0.0.1 {PORT}")
    };
    world::start(node, move || {
        let server = Server::builder()
            .threads(loops)
            .option("bind", &format!("10.0.0.{node}"))
            .option("port", &PORT.to_string())
            .option("dir", &format!("/sim/{node}"))
            .option("appendonly", appends)
            .option(
                "replicaof",
                if primary.is_empty() {
                    "no one"
                } else {
                    &primary
                },
            )
            .option("repl-timeout", "5")
            .option("repl-ping-replica-period", "1")
            .option("repl-diskless-sync-delay", "0")
            .option("enable-debug-command", "yes")
            .option("appendfsync", append_sync)
            .option("protected-mode", "no")
            .option("seed", &(1_000 + node).to_string())
            .spawn();
        match server {
            Ok(server) => server.join(),
            // As a supervisor would, the driver starts the node again after a failure of its disk.
            Err(error) if is_disk_failure(&error.to_string()) => {
                world::with(|kernel| kernel.failed_starts.push(node));
            }
            Err(error) => verdict::stop(&format!("node {node} does not start: {error}")),
        }
    });
}

fn is_disk_failure(error: &str) -> bool {
    error.contains("(os error 5)") || error.contains("(os error 28)")
}

/// Runs a seed. Ends the process.
pub fn run(seed: u64, lie: Option<Lie>) -> ! {
    verdict::fail_on_panic();
    let mut plan = Plan::draw(seed);
    plan.weather.lie = lie;
    if std::env::var_os("SIM_PLAN").is_some() {
        eprintln!("{plan:?}");
    }
    let mut kernel = Kernel::new(seed, plan.nodes, plan.weather.clone());
    kernel.trace.prints = std::env::var_os("SIM_TRACE").is_some();
    baton::begin(kernel);
    let mut driver = Driver {
        draws: Draws::new(seed ^ 0x64_7269_7665),
        clients: (0..plan.clients)
            .map(|number| Client::new(number, plan.nodes, &plan.habits))
            .collect(),
        workers: plan
            .workers
            .iter()
            .map(|role| Worker::new(*role, plan.nodes))
            .collect(),
        ledger: Ledger::new(1),
        tasks: BinaryHeap::new(),
        added: 0,
        heals: false,
        dead: Vec::new(),
        chores: Chores::default(),
        kills: 0,
        plan,
    };
    driver.run();
    driver.report()
}

impl Driver {
    fn add(&mut self, at: Nanos, task: Task) {
        self.added += 1;
        self.tasks.push(Reverse((at, self.added, task)));
    }

    fn run(&mut self) {
        for node in 1..=self.plan.nodes {
            start(node, &self.plan);
        }
        // The server listens before its clients come.
        for client in 0..self.clients.len() {
            self.add(100 * MILLI, Task::Act(client));
        }
        for worker in 0..self.workers.len() {
            self.add(100 * MILLI, Task::Work(worker));
        }
        self.add_fault();
        self.add(self.plan.storm, Task::EndStorm);
        while self.step(Nanos::MAX) {}
        self.heal();
    }

    /// Waits for the next thing and handles it. Returns false at the end of the storm.
    fn step(&mut self, until: Nanos) -> bool {
        for node in world::with(|kernel| std::mem::take(&mut kernel.failed_starts)) {
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
                Task::Restart(node) => self.restart(node),
                Task::EndStorm => return false,
                Task::EndPartition(from, to) => {
                    world::with(|kernel| kernel.set_link(from, to, true));
                }
            }
        }
        true
    }

    fn changed(&mut self, end: EndId) {
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
        } else if let Some(worker) = self.workers.iter().position(|worker| worker.link.owns(end)) {
            if self.workers[worker].changed(&mut self.ledger, &mut self.draws) {
                self.add(world::now() + pause, Task::Work(worker));
            }
        } else {
            self.chores.changed(end);
        }
    }

    fn work(&mut self, worker: usize) {
        let later = match self.dead.contains(&self.workers[worker].link.node) {
            true => Some(50 * MILLI),
            false => self.workers[worker].act(&mut self.ledger, &mut self.draws),
        };
        if let Some(later) = later {
            self.add(world::now() + later, Task::Work(worker));
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

    fn add_fault(&mut self) {
        if self.plan.fault_every > 0 {
            let pause = self.draws.between(1, 2 * self.plan.fault_every);
            self.add(world::now() + pause, Task::Fault);
        }
    }

    fn fault(&mut self) {
        self.add_fault();
        let node = self.draws.between(1, self.plan.nodes as u64) as NodeId;
        if self.dead.contains(&node) {
            return;
        }
        match self.draws.below(8) {
            0 | 1 if self.plan.failovers => self.chores.fail_over(node),
            0 | 1 => self.kill(node),
            2 => {
                let time = self.draws.between(MILLI, 3 * SECOND);
                world::with(|kernel| kernel.freeze(node, time));
            }
            3 if self.plan.clock_jumps => {
                let most = self.draws.one_of(&[5 * MILLI, SECOND, 3 * 3_600 * SECOND]);
                let by = self.draws.between(1, most) as i64;
                let by = if self.draws.chance(300_000) { -by } else { by };
                world::with(|kernel| kernel.jump_clock(node, by));
            }
            4 | 5 if self.plan.partitions => self.partition(node),
            6 | 7 if self.plan.chores => self.chores.begin(node, &mut self.draws),
            _ => {
                let links = self.clients.iter().map(|client| &client.link);
                let links = links.chain(self.workers.iter().map(|worker| &worker.link));
                let links: Vec<_> = links.filter_map(Link::connection).collect();
                if !links.is_empty() {
                    let connection = links[self.draws.index(links.len())];
                    world::with(|kernel| kernel.cut(connection));
                }
            }
        }
    }

    fn partition(&mut self, node: NodeId) {
        // Node 0 has the clients.
        let other = self.draws.index(self.plan.nodes + 1);
        let pause = self.draws.between(MILLI, 20 * SECOND);
        let both = self.draws.chance(700_000);
        for (from, to) in [(node, other), (other, node)]
            .into_iter()
            .take(1 + usize::from(both))
        {
            world::with(|kernel| kernel.set_link(from, to, false));
            self.add(world::now() + pause, Task::EndPartition(from, to));
        }
    }

    fn kill(&mut self, node: NodeId) {
        self.kills += 1;
        // Only with `always` does an acknowledged write survive a power cut.
        let may_cut = self.plan.cuts_power && self.plan.append_sync == "always";
        let power = may_cut && self.draws.chance(500_000);
        world::with(|kernel| kernel.kill(node, power));
        self.dead.push(node);
        for client in 0..self.clients.len() {
            if self.clients[client].link.node == node {
                self.clients[client].lose();
                self.add(world::now() + MILLI, Task::Act(client));
            }
        }
        for worker in 0..self.workers.len() {
            if self.workers[worker].link.node == node {
                self.workers[worker].lose();
                self.add(world::now() + MILLI, Task::Work(worker));
            }
        }
        let pause = self.draws.between(MILLI, 2 * SECOND);
        self.add(world::now() + pause, Task::Restart(node));
    }

    fn restart(&mut self, node: NodeId) {
        self.dead.retain(|dead| *dead != node);
        world::with(|kernel| kernel.give_power(node));
        start(node, &self.plan);
    }

    /// The time without faults: every client gets all its replies, and every key has its value.
    fn heal(&mut self) {
        world::with(|kernel| kernel.calm_down());
        self.chores.end();
        self.tasks.retain(|task| task.0.2 != Task::Fault);
        self.heals = true;
        self.ledger.drains = true;
        world::with(|kernel| kernel.catch_up());
        let until = world::now() + HEALING;
        let mut asked = vec![false; self.clients.len()];
        loop {
            self.step(world::now() + 10 * MILLI);
            for (client, asked) in self.clients.iter_mut().zip(&mut asked) {
                if !*asked && client.is_idle() {
                    *asked = client.ask_all();
                }
            }
            let missing = self.ledger.missing().filter(|_| !self.workers.is_empty());
            let waiting = self.clients.iter().zip(&asked);
            let waiting = waiting
                .filter(|(client, asked)| !**asked || !client.is_idle())
                .count();
            if missing.is_none() && waiting == 0 {
                break;
            }
            if world::now() > until {
                verdict::stop(&format!(
                    "after the faults, {waiting} clients wait for replies; missing: {missing:?}"
                ));
            }
        }
        self.compare_nodes(until);
    }

    /// Waits until all nodes have the same data.
    fn compare_nodes(&mut self, until: Nanos) {
        loop {
            let digests: Vec<Option<Value>> = (1..=self.plan.nodes)
                .map(|node| self.ask(node, &["DEBUG", "DIGEST"]))
                .collect();
            if digests
                .iter()
                .all(|digest| digest.is_some() && *digest == digests[0])
            {
                return;
            }
            if world::now() > until {
                verdict::stop(&format!("the nodes differ after the faults: {digests:?}"));
            }
            self.step(world::now() + 200 * MILLI);
        }
    }

    /// Sends a command on a connection of its own, and waits for its reply.
    fn ask(&mut self, node: NodeId, command: &[&str]) -> Option<Value> {
        let end = world::connect(node, PORT);
        let mut line = Vec::new();
        punctual_resp::encode_command(&mut line, command);
        let until = world::now() + 5 * SECOND;
        let mut decoder = Decoder::new();
        while world::now() < until {
            for changed in world::next(until) {
                if changed != end {
                    self.changed(changed);
                    continue;
                }
                let found = world::read(end);
                if found.ended {
                    return None;
                }
                if found.connected && !line.is_empty() {
                    let sent = world::send(end, &line);
                    line.drain(..sent);
                }
                decoder.feed(&found.bytes);
                if let Ok(Some(reply)) = decoder.next_value() {
                    world::close(end);
                    return Some(reply);
                }
            }
        }
        world::close(end);
        None
    }

    fn report(&self) -> ! {
        let done: u64 = self.clients.iter().map(|client| client.done).sum();
        let refused: u64 = self.clients.iter().map(|client| client.refused).sum();
        let figures = world::with(|kernel| {
            format!(
                "hash {:016x} simulated_ms {} commands {done} refused {refused} calls {} \
                 handovers {} kills {}",
                kernel.trace.hash(),
                kernel.now / MILLI,
                kernel.calls,
                kernel.handovers,
                self.kills,
            )
        });
        verdict::pass(&figures)
    }
}
