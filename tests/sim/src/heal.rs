//! The end of a run: faults have ended, and everything must heal.

use punctual_resp::{Decoder, Value};

use crate::clients::PORT;
use crate::kernel::{MILLI, Nanos, NodeId, SECOND};
use crate::run::{Driver, Task, start};
use crate::{verdict, world};

/// Time within which everything must heal after the last fault.
const HEALING: Nanos = 60 * SECOND;

/// Returns a line for each key: database, name, type, deadline and a digest of the value.
const DUMP: [&str; 3] = [
    "EVAL",
    "local out = {} \
     for db = 0, 9 do redis.call('SELECT', db) \
     for _, key in ipairs(redis.call('KEYS', '*')) do \
     out[#out + 1] = db .. ' ' .. key .. ' ' .. redis.call('TYPE', key).ok .. ' ' .. \
     redis.call('PEXPIRETIME', key) .. ' ' .. redis.sha1hex(redis.call('DUMP', key)) \
     end end return out",
    "0",
];

/// Returns the lines that two dumps do not share.
fn difference(before: Option<Value>, after: Option<Value>) -> String {
    let lines = |dump| match dump {
        Some(Value::Array(lines)) => lines,
        other => other.into_iter().collect(),
    };
    let (before, after) = (lines(before), lines(after));
    let shown = |line: &Value| match line {
        Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    };
    let only = |some: &[Value], other: &[Value]| -> Vec<String> {
        let some = some.iter().filter(|line| !other.contains(line));
        some.take(5).map(shown).collect()
    };
    format!("{:?}, {:?}", only(&before, &after), only(&after, &before))
}

impl Driver {
    /// The time without faults: every client gets all its replies, and every key has its value.
    pub fn heal(&mut self) {
        world::with(|kernel| kernel.calm_down());
        self.chores.end();
        self.tasks
            .retain(|task| !matches!(task.0.2, Task::Fault | Task::Inspect));
        self.heals = true;
        self.common.ledger.drains = true;
        self.common.drains = true;
        if let Some(isolation) = self.common.promises.isolated {
            self.end_isolation(isolation.node);
        }
        world::with(|kernel| kernel.catch_up());
        let until = world::now() + HEALING;
        let (mut look_at, mut order_at) = (0, 0);
        let mut asked = vec![false; self.clients.len()];
        loop {
            self.step(world::now() + 10 * MILLI);
            if world::now() >= order_at {
                if self.plan.promotions {
                    self.order_roles();
                }
                // A node that was frozen may have read an earlier limit later.
                self.end_limits();
                order_at = world::now() + 2 * SECOND;
            }
            for (client, asked) in self.clients.iter_mut().zip(&mut asked) {
                if !*asked && client.is_idle() {
                    *asked = client.ask_all();
                }
            }
            // It looks at everything that was ever promised, so not after each reply.
            if world::now() < look_at {
                continue;
            }
            look_at = world::now() + 20 * MILLI;
            let missing = self.missing();
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
        self.compare_nodes(until + HEALING);
        (1..=self.plan.nodes).for_each(|node| self.inspect_now(node));
        if !self.plan.failovers && !self.plan.promotions {
            self.compare_replay();
            self.inspect_now(1);
        }
    }

    /// Sends the commands of promotions again. A node may have been starting, or a partition may
    /// have lost them.
    fn order_roles(&mut self) {
        self.chores.send(self.primary, &["REPLICAOF", "NO", "ONE"]);
        for node in (1..=self.plan.nodes).filter(|node| *node != self.primary) {
            self.chores.follow(node, self.primary);
        }
    }

    /// Returns a text about what is missing in the time without faults.
    fn missing(&self) -> Option<String> {
        let works = !self.plan.workers.is_empty();
        let ledger = self.common.ledger.missing().filter(|_| works);
        ledger.or_else(|| self.parties.iter().find_map(|party| party.missing()))
    }

    /// Lets everything fall due, and then compares the data of the first node with what it loads
    /// from its append-only file.
    fn compare_replay(&mut self) {
        const HOUR: i64 = 3_600 * SECOND as i64;
        for node in 1..=self.plan.nodes {
            world::with(|kernel| kernel.jump_clock(node, HOUR));
        }
        // A limit that was sent before may have been read after its end was sent.
        self.end_limits();
        let settled = world::now() + 3 * SECOND;
        while world::now() < settled {
            self.step(settled);
        }
        let before = self.ask(1, &["DEBUG", "DIGEST"]);
        let dump = self.ask(1, &DUMP);
        world::with(|kernel| kernel.kill(1, false));
        // Nothing else falls due meanwhile.
        world::with(|kernel| kernel.jump_clock(1, -HOUR / 2));
        start(1, 1, &self.plan);
        let until = world::now() + HEALING;
        loop {
            self.step(world::now() + 100 * MILLI);
            let after = self.ask(1, &["DEBUG", "DIGEST"]);
            match after {
                Some(Value::Simple(_)) if after == before => return,
                // What fell due without an effect falls due again after the load.
                Some(Value::Simple(_)) if world::now() > until - HEALING + 2 * SECOND => {
                    let difference = difference(dump, self.ask(1, &DUMP));
                    verdict::stop(&format!("the replayed file has other data: {difference}"))
                }
                _ if world::now() > until => verdict::stop("the last start does not end"),
                _ => {}
            }
        }
    }

    /// Waits until all nodes have the same data.
    fn compare_nodes(&mut self, until: Nanos) {
        loop {
            // Digests leave out what is due; the number of keys does not.
            let digests: Vec<Option<(Value, Value)>> = (1..=self.plan.nodes)
                .map(|node| {
                    let digest = self.ask(node, &["DEBUG", "DIGEST"])?;
                    Some((digest, self.ask(node, &["DBSIZE"])?))
                })
                .collect();
            world::with(|kernel| kernel.trace.tell(|| format!("{digests:?}")));
            if digests
                .iter()
                .all(|digest| digest.is_some() && *digest == digests[0])
            {
                return;
            }
            if world::now() > until {
                let dumps: Vec<_> = (1..=self.plan.nodes)
                    .map(|node| self.ask(node, &DUMP))
                    .collect();
                let other = digests.iter().position(|digest| *digest != digests[0]);
                let other = other.unwrap_or(0);
                let difference = difference(dumps[0].clone(), dumps[other].clone());
                verdict::stop(&format!(
                    "the nodes differ after the faults: 1 and {}: {difference}",
                    other + 1
                ));
            }
            self.step(world::now() + 200 * MILLI);
        }
    }

    /// Sends a command on a connection of its own, and waits for its reply.
    pub fn ask(&mut self, node: NodeId, command: &[&str]) -> Option<Value> {
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
}
