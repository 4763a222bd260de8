//! Workers of a cluster: items of a list, timers, jobs and entries of a stream. Their keys have one
//! hash tag, and so one slot, which moves and fails over. The [`Ledger`] has the checks.
//!
//! A change is certain if the slot's owner and all replicas that can be elected have it (WAIT).
//! While the slot moves, or if the owner has no replica, the owner's reply is enough; the slot is
//! *exposed* then, and an election ends its checks.

use std::collections::BTreeSet;

use punctual_resp::Value;

use super::redirect::Redirect;
use super::{Rights, TIMEOUT};
use crate::kernel::draws::Draws;
use crate::kernel::streams::EndId;
use crate::kernel::{MILLI, Nanos, NodeId};
use crate::link::{Link, Prepared};
use crate::model::Span;
use crate::workers::{Ledger, Role, Trust, Work};
use crate::{verdict, world};

/// The workers of a crew.
pub const ROLES: [Role; 10] = [
    Role::Pusher,
    Role::Popper,
    Role::Popper,
    Role::Timers,
    Role::Adder,
    Role::Taker,
    Role::Taker,
    Role::Writer,
    Role::Reader,
    Role::Reader,
];

/// Workers with keys of one slot, and what they know.
pub struct Crew {
    tag: String,
    pub slot: u16,
    pub ledger: Ledger,
    hands: Vec<Hand>,
    nodes: usize,
    /// Whether no acknowledged write may be lost.
    is_strict: bool,
    /// Something that is certain may be at the owner only: the last time at which such a thing was
    /// learned.
    pub exposed: Option<Nanos>,
    /// Time of the election of an owner that has acknowledged no write since. Its file may not
    /// have what is certain.
    unsaved: Option<Nanos>,
    /// A failure has met a move of the slot, so its keys may be in two places.
    pub is_doubtful: bool,
    /// Whether nobody works any more.
    pub has_ended: bool,
    pub done: u64,
}

/// A worker with its connection, its next command and the command without a reply.
struct Hand {
    role: Role,
    link: Link,
    /// The node that served the slot last.
    owner: NodeId,
    asks: bool,
    /// The next command: a node has refused it, or it follows from an earlier reply.
    next: Option<Work>,
    current: Option<Sent>,
    unknown: Option<(Work, Nanos)>,
    /// Time of the next command, and the time at which the connection is given up.
    at: Nanos,
    until: Nanos,
}

struct Sent {
    work: Work,
    at: Nanos,
    /// Number of replies, and whether WAIT and ROLE are the last commands.
    count: usize,
    waits: bool,
    replies: Vec<Value>,
    rightful: bool,
    may_own: bool,
    moves: bool,
    heirs: BTreeSet<NodeId>,
}

impl Crew {
    pub fn new(number: usize, roles: &[Role], nodes: usize, is_strict: bool) -> Self {
        let hand = |role: &Role| Hand {
            role: *role,
            link: Link::new(1),
            owner: 1,
            asks: false,
            next: None,
            current: None,
            unknown: None,
            at: 0,
            until: 0,
        };
        let tag = format!("{{w{number}}}");
        Self {
            slot: punctual_cluster::slot::of_key(tag.as_bytes()),
            tag,
            ledger: Ledger::new(1..nodes + 1),
            hands: roles.iter().map(hand).collect(),
            nodes,
            is_strict,
            exposed: Some(0),
            unsaved: None,
            is_doubtful: false,
            has_ended: false,
            done: 0,
        }
    }

    /// A replica was elected: what its old owner alone has is lost.
    pub fn elected(&mut self) {
        self.is_doubtful |= self.exposed.is_some();
        self.unsaved = Some(world::now());
        // The new owner may lack the group, or the group's lease.
        self.ledger.group_is_gone();
    }

    /// The owner, whose file may have failed, starts again with its file.
    pub fn restarts(&mut self) {
        self.is_doubtful |= self.unsaved.is_some();
    }

    /// Returns the worker with this connection.
    pub fn owner_of(&self, end: EndId) -> Option<usize> {
        self.hands.iter().position(|hand| hand.link.owns(end))
    }

    /// Does the worker's next thing. Returns the time at which to call this again; `None` at the
    /// end.
    pub fn act(&mut self, at: usize, rights: &Rights, draws: &mut Draws) -> Option<Nanos> {
        let now = world::now();
        let hand = &mut self.hands[at];
        if self.is_doubtful || self.has_ended {
            hand.link.lose();
            return None;
        }
        let prepared = hand.link.prepare();
        if let Prepared::Ready { settled: true } | Prepared::Connecting { settled: true } = prepared
            && let Some((work, sent)) = hand.unknown.take()
        {
            self.ledger.lost(&work, (sent, hand.link.settled_at));
        }
        match prepared {
            Prepared::Later(pause) => return Some(now + pause),
            Prepared::Ready { .. } if hand.current.is_none() => {
                if now < hand.at {
                    return Some(hand.at);
                }
            }
            _ if now < hand.until => return Some(hand.until),
            _ => {
                hand.lose();
                hand.turn_to(draws.between(1, self.nodes as u64) as NodeId, 0);
                return Some(now + 5 * MILLI);
            }
        }
        let work = hand.next.take();
        let Some(work) = work.or_else(|| self.ledger.draw(hand.role, draws)) else {
            hand.at = now + 50 * MILLI;
            return Some(hand.at);
        };
        let node = hand.link.node;
        let heirs = rights.watch.heirs(node);
        let waits = !heirs.is_empty() && !self.ledger.drains;
        if hand.asks {
            hand.link.push(&["ASKING"]);
        }
        let line = work.line(&self.tag);
        hand.link.push(&line.split(' ').collect::<Vec<_>>());
        if waits {
            hand.link.push(&["WAIT", &heirs.len().to_string(), "300"]);
            hand.link.push(&["ROLE"]);
        }
        hand.link.flush();
        self.ledger.sent(&work, now);
        // Some clients are gone while their pop waits for an item.
        let may_leave = matches!(work, Work::Pop) && !self.ledger.drains;
        let time = if may_leave && draws.chance(100_000) {
            draws.between(MILLI, 150 * MILLI)
        } else {
            TIMEOUT
        };
        hand.current = Some(Sent {
            work,
            at: now,
            count: 1 + usize::from(hand.asks) + 2 * usize::from(waits),
            waits,
            replies: Vec::new(),
            rightful: rights.may(self.slot, node, hand.asks),
            may_own: rights.may_own(self.slot, node),
            moves: rights.moves(self.slot),
            heirs,
        });
        hand.until = now + time;
        Some(hand.until)
    }

    /// Handles a change of a worker's connection.
    pub fn changed(&mut self, at: usize, rights: &Rights, draws: &mut Draws) {
        let hand = &mut self.hands[at];
        let arrived = hand.link.read();
        for reply in arrived.replies {
            let Some(sent) = &mut hand.current else {
                verdict::stop(&format!("a reply without a command: {reply:.200?}"));
            };
            sent.replies.push(reply);
        }
        let has_all = |sent: &mut Sent| sent.replies.len() == sent.count;
        if let Some(sent) = hand.current.take_if(has_all) {
            self.ended(at, sent, rights, draws);
        }
        if arrived.lost {
            let hand = &mut self.hands[at];
            hand.lose();
            hand.turn_to(draws.between(1, self.nodes as u64) as NodeId, 20 * MILLI);
        }
    }

    /// Handles all replies to a command.
    fn ended(&mut self, at: usize, mut sent: Sent, rights: &Rights, draws: &mut Draws) {
        let hand = &mut self.hands[at];
        let (node, slot, now) = (hand.link.node, self.slot, world::now());
        let asked = std::mem::take(&mut hand.asks);
        let main = sent.replies.len() - 2 * usize::from(sent.waits);
        let waited = sent.replies.split_off(main);
        let reply = sent.replies.pop().unwrap_or(Value::NullBulk);
        world::with(|kernel| {
            let work = &sent.work;
            let tell = || format!("{} {work:?} at {node} {asked}: {reply:.300?}", self.tag);
            kernel.trace.tell(tell);
        });
        if let Value::Error(text) = &reply
            && !text.starts_with(b"BUSYGROUP")
        {
            let text = String::from_utf8_lossy(text);
            if text.starts_with("NOGROUP") || text.starts_with("ERR The XGROUP subcommand") {
                // An election has undone its creation.
                self.ledger.group_is_gone();
                return hand.turn_to(if asked { hand.owner } else { node }, 10 * MILLI);
            }
            let other = draws.between(1, self.nodes as u64) as NodeId;
            hand.next = Some(sent.work);
            match Redirect::of(&text, false) {
                Redirect::Moved(to) => hand.turn_to(to, 0),
                Redirect::Ask(to) => {
                    hand.owner = node;
                    hand.turn_to(to, 0);
                    hand.asks = true;
                }
                Redirect::Later if asked => hand.turn_to(hand.owner, 10 * MILLI),
                Redirect::Later => hand.turn_to(node, 10 * MILLI),
                Redirect::Elsewhere => hand.turn_to(other, 20 * MILLI),
            }
            return;
        }
        self.done += 1;
        if !asked {
            rights.expect_owner(slot, node, sent.may_own);
        }
        let rightful = sent.rightful && rights.may(slot, node, asked);
        let moves = sent.moves || rights.moves(slot);
        let has_heirs = !rights.watch.heirs(node).is_empty();
        // These commands surely write, so WAIT and the owner's file cover all earlier writes.
        let writes = matches!(
            sent.work,
            Work::Push(_) | Work::Add(..) | Work::SetTimer(..) | Work::AddEntry(_)
        );
        self.unsaved
            .take_if(|at| rightful && writes && *at <= sent.at);
        let trust = if !rightful {
            Trust::Nothing
        } else if rights.all_have(node, &sent.heirs, &waited) && !moves {
            self.exposed.take_if(|at| writes && *at <= sent.at);
            Trust::Certain
        } else if self.ledger.drains || self.is_strict || moves || !has_heirs {
            self.exposed = Some(now);
            Trust::Certain
        } else {
            Trust::Sight
        };
        let span = Span {
            sent: sent.at,
            done: now,
        };
        hand.next = self.ledger.reply(&sent.work, &reply, (span, trust), draws);
        let most = if self.ledger.drains { 5 } else { 50 };
        hand.at = now + draws.between(0, most * MILLI);
        if asked {
            hand.turn_to(hand.owner, 0);
        }
    }

    /// Returns the name of the queue of jobs.
    pub fn queue(&self) -> String {
        format!("{}jobs", self.tag)
    }

    /// Returns whether jobs may have leases in the end.
    pub fn may_lease(&self) -> bool {
        self.is_doubtful || self.ledger.may_have_jobs()
    }

    /// Returns a text about the promises that are not yet kept.
    pub fn missing(&self) -> Option<String> {
        let missing = self.ledger.missing().filter(|_| !self.is_doubtful);
        missing.map(|missing| {
            let hands: Vec<String> = self.hands.iter().map(Hand::state).collect();
            format!("{} {missing}; {}", self.tag, hands.join("; "))
        })
    }
}

impl Hand {
    /// Gives up the connection, on which a command may still run.
    fn lose(&mut self) {
        self.link.lose();
        (self.next, self.asks) = (None, false);
        if let Some(sent) = self.current.take() {
            self.unknown = Some((sent.work, sent.at));
        }
    }

    /// Returns a text about what the worker does.
    fn state(&self) -> String {
        let work = self.current.as_ref().map(|sent| &sent.work);
        let (role, node, next) = (self.role, self.link.node, &self.next);
        format!(
            "{role:?} at node {node}: {work:?}, next {next:?} at {}",
            self.at
        )
    }

    /// Sends the next command to a node, after a pause.
    fn turn_to(&mut self, node: NodeId, pause: Nanos) {
        if node != self.link.node {
            self.link.lose();
            self.link.node = node;
        }
        self.at = world::now() + pause;
        self.until = self.at + TIMEOUT;
    }
}
