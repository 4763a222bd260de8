//! Workers: what must happen once. Items of a list, timers that increment a counter, and jobs with
//! leases. Each worker sends one command at a time; the [`Ledger`] knows what was promised.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use punctual_resp::Value;

use crate::entries::{Entries, LEASE_MS};
use crate::kernel::draws::Draws;
use crate::kernel::{MILLI, Nanos, NodeId};
use crate::link::{Link, Prepared};
use crate::model::Span;
use crate::party::{Common, Party};
use crate::pops::{self, Times};
use crate::{verdict, world};

/// Number of timers that workers look at: the latest ones.
const LOOKED_AT: usize = 50;

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Pusher,
    Popper,
    /// Sets timers, and looks at their counters.
    Timers,
    Adder,
    Taker,
    /// Adds entries to a stream.
    Writer,
    Reader,
}

impl Role {
    pub const ALL: [Self; 7] = [
        Self::Pusher,
        Self::Popper,
        Self::Timers,
        Self::Adder,
        Self::Taker,
        Self::Writer,
        Self::Reader,
    ];
}

/// How far a reply can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// The reply shows nothing: it came from a node that others have replaced.
    Nothing,
    /// The node had everything that was certain, but its own change may be undone.
    Sight,
    /// No election can undo the change.
    Certain,
}

/// A command of a worker.
#[derive(Clone, Debug)]
pub enum Work {
    Push(u64),
    Pop,
    SetTimer(u64, u64),
    Count(u64),
    Add(u64, u64),
    Take(u64),
    Ack {
        id: u64,
        token: i64,
        stale: bool,
    },
    /// Creates the group of the stream, or sets its lease.
    Prepare(usize),
    AddEntry(u64),
    ReadEntry(u64),
    AckEntry(String, u64),
}

impl Work {
    /// Returns the command. `tag` is in front of each name.
    pub fn line(&self, tag: &str) -> String {
        match self {
            Self::Push(id) => format!("RPUSH {tag}list {id}"),
            Self::Pop => format!("BLPOP {tag}list 0.2"),
            Self::SetTimer(id, ms) => {
                format!("TIMER SET {tag}timer:{id} IN {ms} DO INCR {tag}fired:{id}")
            }
            Self::Count(id) => format!("GETEX {tag}fired:{id}"),
            Self::Add(id, ms) => format!("JOB ADD {tag}jobs p ID {id} DELAY {ms} RETRY 1000000"),
            Self::Take(ms) => format!("JOB TAKE {tag}jobs BLOCK 200 LEASE {ms}"),
            Self::Ack { id, token, .. } => format!("JOB ACK {tag}jobs {id} {token}"),
            Self::Prepare(0) => format!("XGROUP CREATE {tag}entries g 0 MKSTREAM"),
            Self::Prepare(_) => format!("XGROUP SETLEASE {tag}entries g {LEASE_MS}"),
            Self::AddEntry(id) => format!("XADD {tag}entries * n {id}"),
            Self::ReadEntry(reader) => {
                format!("XREADGROUP GROUP g c{reader} COUNT 1 BLOCK 200 STREAMS {tag}entries >")
            }
            Self::AckEntry(entry, _) => format!("XACK {tag}entries g {entry}"),
        }
    }
}

/// Number of jobs above which no more are added. On a disk with slow syncs, a worker acknowledges
/// about ten jobs a second, and in the end all of them must be done within a minute.
const MOST_JOBS: usize = 200;

#[derive(Debug, Default)]
struct Item {
    sent: Nanos,
    /// Times of the replies to RPUSH and to the pop.
    known: Option<Nanos>,
    delivered: Option<Nanos>,
}

#[derive(Debug)]
struct Timer {
    set: Span,
    ms: u64,
}

#[derive(Debug, Default)]
struct Job {
    known: bool,
    /// Time of the reply to the acknowledgement.
    done: Option<Nanos>,
    /// An acknowledgement has no reply.
    maybe_done: bool,
    added: Span,
    delay_ms: u64,
    /// Token of the latest lease, when the job was taken, and the lease's time.
    lease: Option<(i64, Span, u64)>,
}

impl Job {
    /// Returns whether the job must still be taken and acknowledged.
    fn is_open(&self) -> bool {
        self.known && self.done.is_none() && !self.maybe_done
    }
}

/// Everything that the workers know together. Ended works stay for the checks of later replies.
/// Open works also have lists of their own, because workers and the driver often ask for them.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Nodes whose clocks count.
    nodes: Range<NodeId>,
    next: u64,
    items: BTreeMap<u64, Item>,
    /// Items that were not delivered.
    open_items: BTreeSet<u64>,
    /// Times between which pops without a reply may have taken an item.
    lost_pops: Vec<Times>,
    /// Pops in a row that found nothing, during the time without faults.
    empty_pops: u64,
    timers: BTreeMap<u64, Timer>,
    /// Timers that were not counted, each with whether it is known to be set.
    open_timers: BTreeMap<u64, bool>,
    jobs: BTreeMap<u64, Job>,
    /// Number of open jobs.
    open_jobs: usize,
    entries: Entries,
    /// Whether nothing more is added.
    pub drains: bool,
}

/// Lowest and highest reading of the nodes' wall clocks in a span, in nanoseconds.
fn wall(nodes: &Range<NodeId>, from: Nanos, to: Nanos) -> (Nanos, Nanos) {
    world::with(|kernel| {
        let ranges = kernel.nodes[nodes.clone()].iter();
        let ranges = ranges.map(|node| node.wall_range(from, to));
        ranges.fold((Nanos::MAX, 0), |(low, high), range| {
            (low.min(range.0), high.max(range.1))
        })
    })
}

/// Lowest reading of the nodes' wall clocks while a command may have run. A clock may jump between
/// a command and its reply.
fn earliest(nodes: &Range<NodeId>, span: Span) -> Nanos {
    // Without a reply, the command may run even now.
    let end = world::with(|kernel| span.done.min(kernel.now));
    wall(nodes, span.sent, end).0
}

fn broken(what: &str, id: u64, detail: &dyn std::fmt::Debug) -> ! {
    verdict::stop(&format!("{what}: {id}, {detail:?}"))
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Bulk(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        Value::Int(value) => u64::try_from(*value).ok(),
        _ => None,
    }
}

impl Ledger {
    pub fn new(nodes: Range<NodeId>) -> Self {
        Self {
            nodes,
            ..Self::default()
        }
    }

    /// Returns whether a time of the wall clock may have come between `from` and `to`.
    fn may_be_over(&self, end: Nanos, from: Nanos, to: Nanos) -> bool {
        wall(&self.nodes, from, to).1 >= end
    }

    /// Draws the next command of a worker.
    pub fn draw(&mut self, role: Role, draws: &mut Draws) -> Option<Work> {
        self.next += 1;
        let id = self.next;
        let ms = draws.between(1, 2_000);
        match role {
            Role::Writer if self.entries.prepared < 2 => Some(Work::Prepare(self.entries.prepared)),
            Role::Pusher | Role::Adder | Role::Writer if self.drains => None,
            Role::Pusher => Some(Work::Push(id)),
            Role::Popper => Some(Work::Pop),
            Role::Timers if self.drains || draws.chance(400_000) => {
                // An unknown timer may never fire.
                let open = self.open_timers.iter().rev();
                let open = open.filter(|(_, known)| !self.drains || **known);
                let open: Vec<u64> = open.map(|(id, _)| *id).take(LOOKED_AT).collect();
                (!open.is_empty()).then(|| Work::Count(open[draws.index(open.len())]))
            }
            Role::Timers => Some(Work::SetTimer(id, ms)),
            Role::Adder if self.open_jobs > MOST_JOBS => Some(Work::Take(2_000)),
            Role::Adder => Some(Work::Add(id, draws.one_of(&[0, ms]))),
            Role::Taker => Some(Work::Take(draws.one_of(&[20, 200, 2_000]))),
            Role::Writer => Some(Work::AddEntry(id)),
            Role::Reader if self.entries.prepared < 2 => None,
            Role::Reader => Some(Work::ReadEntry(draws.below(3))),
        }
    }

    /// Notes that a command was sent, which may take effect from now on.
    pub fn sent(&mut self, work: &Work, now: Nanos) {
        let span = Span {
            sent: now,
            done: Nanos::MAX,
        };
        match *work {
            Work::Push(id) => {
                let item = Item {
                    sent: now,
                    ..Item::default()
                };
                self.items.insert(id, item);
                self.open_items.insert(id);
            }
            Work::AddEntry(id) => self.entries.sent(id),
            Work::SetTimer(id, ms) => {
                self.timers.insert(id, Timer { set: span, ms });
                self.open_timers.insert(id, false);
            }
            Work::Add(id, delay_ms) => {
                let job = Job {
                    added: span,
                    delay_ms,
                    ..Job::default()
                };
                self.jobs.insert(id, job);
            }
            _ => {}
        }
    }

    /// Checks a reply. Returns the next command of the worker, if it must be this one.
    pub fn reply(
        &mut self,
        work: &Work,
        reply: &Value,
        (span, trust): (Span, Trust),
        draws: &mut Draws,
    ) -> Option<Work> {
        let is_certain = trust == Trust::Certain;
        match *work {
            Work::Count(id) => self.counted(id, reply, span),
            _ if trust == Trust::Nothing => self.lost(work, (span.sent, span.done)),
            Work::Prepare(step) => self.entries.prepared = self.entries.prepared.max(step + 1),
            Work::Take(ms) => return self.taken(reply, ms, (span, is_certain), draws),
            Work::ReadEntry(_) => {
                let nodes = &self.nodes;
                // The clock may jump back between the delivery and its reply.
                let may_be_over = |lease: Span, at| {
                    wall(nodes, lease.sent, at).1 >= earliest(nodes, lease) + LEASE_MS * MILLI
                };
                let read = self.entries.read(reply, span, is_certain, &may_be_over);
                let (entry, id) = read?;
                let acknowledges = self.drains || draws.chance(700_000);
                return acknowledges.then_some(Work::AckEntry(entry, id));
            }
            Work::Ack { id, token, stale } => {
                self.acknowledged(id, token, stale, reply, span);
                let job = self.jobs.get_mut(&id)?;
                if !is_certain && job.done == Some(span.done) {
                    (job.done, job.maybe_done) = (None, true);
                }
            }
            _ if !is_certain => self.lost(work, (span.sent, span.done)),
            Work::Push(id) => self.items.get_mut(&id)?.known = Some(span.done),
            Work::Pop => self.popped(reply, span.done),
            Work::SetTimer(id, _) => {
                self.timers.get_mut(&id)?.set.done = span.done;
                *self.open_timers.get_mut(&id)? = true;
            }
            Work::Add(id, _) => self.change_job(id, |job| {
                job.known = true;
                job.added.done = span.done;
            }),
            Work::AddEntry(id) => self.entries.added(id),
            Work::AckEntry(_, id) => self.entries.acknowledged(id, Some((reply, span.done))),
        }
        None
    }

    /// The group of the stream is gone, so it must be created again.
    pub fn group_is_gone(&mut self) {
        self.entries.prepared = 0;
    }

    fn popped(&mut self, reply: &Value, done: Nanos) {
        let Value::Array(parts) = reply else {
            self.empty_pops += 1;
            return;
        };
        self.empty_pops = 0;
        let id = parts.get(1).and_then(number).unwrap_or(0);
        let Some(item) = self.items.get_mut(&id) else {
            broken("an item that nobody pushed", id, reply)
        };
        if item.delivered.replace(done).is_some() {
            broken("an item is delivered twice", id, item);
        }
        self.open_items.remove(&id);
    }

    /// Changes a job, if it exists, and counts it if it is open.
    fn change_job(&mut self, id: u64, change: impl FnOnce(&mut Job)) {
        if let Some(job) = self.jobs.get_mut(&id) {
            self.open_jobs -= usize::from(job.is_open());
            change(job);
            self.open_jobs += usize::from(job.is_open());
        }
    }

    fn counted(&mut self, id: u64, reply: &Value, span: Span) {
        let Some(timer) = self.timers.get(&id) else {
            return;
        };
        let Some(count) = number(reply) else { return };
        let first = earliest(&self.nodes, timer.set) + timer.ms * MILLI;
        if count > 1 || !self.may_be_over(first, timer.set.sent, span.done) {
            broken(
                "a timer has fired too early or too often",
                id,
                &(timer, count),
            );
        }
        // While draining, no crash can undo what the counter shows.
        if self.drains {
            self.open_timers.remove(&id);
        }
    }

    fn taken(
        &mut self,
        reply: &Value,
        ms: u64,
        (span, is_certain): (Span, bool),
        draws: &mut Draws,
    ) -> Option<Work> {
        let Value::Array(jobs) = reply else {
            return None;
        };
        let Some(Value::Array(fields)) = jobs.first() else {
            return None;
        };
        let id = fields.get(1).and_then(number)?;
        let Some(Value::Int(token)) = fields.get(2) else {
            return None;
        };
        let Some(job) = self.jobs.get(&id) else {
            broken("a job that nobody added", id, reply)
        };
        if let Some(done) = job.done {
            if done < span.sent {
                broken("a job comes back after its acknowledgement", id, job);
            }
            // The reply was read late.
            return None;
        }
        let due = earliest(&self.nodes, job.added) + job.delay_ms * MILLI;
        if !self.may_be_over(due, job.added.sent, span.done) {
            broken("a job comes before it is due", id, job);
        }
        if job.lease.is_some_and(|lease| lease.0 > *token) {
            // The reply about an earlier lease comes later.
            let (token, stale) = (*token, true);
            return Some(Work::Ack { id, token, stale });
        }
        if let Some((_, lease, lease_ms)) = job.lease {
            let end = earliest(&self.nodes, lease) + lease_ms * MILLI;
            if !self.may_be_over(end, lease.sent, span.done) {
                broken("a job is leased to two", id, job);
            }
        }
        if is_certain {
            self.jobs.get_mut(&id)?.lease = Some((*token, span, ms));
        }
        let acknowledges = self.drains || draws.chance(700_000);
        let (token, stale) = (*token, false);
        acknowledges.then_some(Work::Ack { id, token, stale })
    }

    fn acknowledged(&mut self, id: u64, token: i64, stale: bool, reply: &Value, span: Span) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        match reply {
            Value::Int(1) if stale || job.done.is_some() => {
                broken("a stale token is accepted", id, &(job, token));
            }
            Value::Int(1) => self.change_job(id, |job| job.done = Some(span.done)),
            _ => {
                let Some((current, lease, ms)) = job.lease else {
                    return;
                };
                let end = earliest(&self.nodes, lease) + ms * MILLI;
                let over = wall(&self.nodes, lease.sent, span.done).1 >= end;
                if current == token && !over {
                    broken("a valid token is refused", id, &(job, token));
                }
            }
        }
    }

    /// Considers a command that has no reply and that can no longer run.
    pub fn lost(&mut self, work: &Work, times: Times) {
        match *work {
            Work::Pop => self.lost_pops.push(times),
            Work::AckEntry(_, id) => self.entries.acknowledged(id, None),
            Work::Ack { id, .. } => self.change_job(id, |job| job.maybe_done = true),
            // Their effects stay unknown.
            _ => {}
        }
    }

    /// Returns the times between which the items that nobody got were taken: a later item is popped
    /// later.
    fn missing_items(&self) -> Vec<Times> {
        let open = self.open_items.iter().map(|id| &self.items[id]);
        let known = open.filter_map(|item| Some((item.sent, item.known?)));
        let until = |known: Nanos| {
            let later = self.items.values().rev();
            let later = later.take_while(|other| other.sent > known);
            later.filter_map(|other| other.delivered).min()
        };
        known
            .map(|(sent, known)| (sent, until(known).unwrap_or(Nanos::MAX)))
            .collect()
    }

    /// Returns whether the queue may still have jobs.
    pub fn may_have_jobs(&self) -> bool {
        self.jobs.values().any(|job| job.done.is_none())
    }

    /// Returns a text about the promises that are not yet kept, in the time without faults.
    pub fn missing(&self) -> Option<String> {
        let timers = self.open_timers.values().filter(|known| **known).count();
        let jobs = self.open_jobs;
        let items = self.missing_items();
        let taken = pops::explain(&items, &self.lost_pops);
        let entries = self.entries.missing();
        let popped = self.empty_pops >= 3 || self.items.is_empty();
        let all = taken && popped && timers == 0 && jobs == 0 && entries == 0;
        let (items, pops) = (items.len(), self.lost_pops.len());
        let text = || {
            format!(
                "{timers} timers, {jobs} jobs, {items} items, {pops} lost pops, {entries} entries"
            )
        };
        (!all).then(text)
    }
}

/// A worker with its connection.
pub struct Worker {
    role: Role,
    link: Link,
    done: u64,
    current: Option<(Work, Nanos)>,
    unknown: Option<(Work, Nanos)>,
    next: Option<Work>,
    /// Whether the worker closes its connection while its pop waits for an item.
    leaves: bool,
}

impl Worker {
    pub fn new(role: Role, nodes: usize) -> Self {
        Self {
            role,
            link: Link::new(nodes),
            done: 0,
            current: None,
            unknown: None,
            next: None,
            leaves: false,
        }
    }
}

impl Party for Worker {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    fn act(&mut self, common: &mut Common, draws: &mut Draws) -> Option<Nanos> {
        let ledger = &mut common.ledger;
        let prepared = self.link.prepare();
        if let Prepared::Ready { settled: true } | Prepared::Connecting { settled: true } = prepared
            && let Some((work, sent)) = self.unknown.take()
        {
            ledger.lost(&work, (sent, self.link.settled_at));
        }
        match prepared {
            Prepared::Later(pause) => return Some(pause),
            Prepared::Ready { .. } if self.current.is_none() => {}
            Prepared::Ready { .. } if std::mem::take(&mut self.leaves) => {
                self.lose();
                return Some(5 * MILLI);
            }
            _ => return None,
        }
        let work = self.next.take().or_else(|| ledger.draw(self.role, draws));
        let Some(work) = work else {
            return Some(50 * MILLI);
        };
        let line = work.line("");
        let arguments: Vec<&str> = line.split(' ').collect();
        self.link.push(&arguments);
        let now = world::now();
        ledger.sent(&work, now);
        self.leaves = matches!(work, Work::Pop) && !ledger.drains && draws.chance(100_000);
        self.current = Some((work, now));
        self.link.flush();
        self.leaves.then(|| draws.between(MILLI, 150 * MILLI))
    }

    fn changed(&mut self, common: &mut Common, draws: &mut Draws) -> bool {
        let ledger = &mut common.ledger;
        let arrived = self.link.read();
        let done = world::now();
        for reply in &arrived.replies {
            let Some((work, sent)) = self.current.take() else {
                verdict::stop(&format!("a reply without a command: {reply:.200?}"));
            };
            self.leaves = false;
            world::with(|kernel| kernel.trace.tell(|| format!("{work:?} {reply:?}")));
            self.done += 1;
            // The reply to an earlier attempt to create the group was lost.
            let exists = matches!(reply, Value::Error(text) if text.starts_with(b"BUSYGROUP"));
            if exists || !self.link.is_refused(reply, &work) {
                let span = (Span { sent, done }, Trust::Certain);
                self.next = ledger.reply(&work, reply, span, draws);
            }
        }
        if self.link.moves() || arrived.lost {
            self.lose();
        }
        arrived.lost || arrived.connected || !arrived.replies.is_empty()
    }

    fn lose(&mut self) {
        self.link.lose();
        self.leaves = false;
        // An acknowledgement that was not sent is given up: the lease ends by itself.
        self.next = None;
        if let Some(current) = self.current.take() {
            self.unknown = Some(current);
        }
    }

    fn done(&self) -> u64 {
        self.done
    }
}
