//! Scenes: several connections, some of which wait while others speak.
//!
//! A scene plays in databases of its own that begin and end empty, so nothing outside it depends on it. Its moves are
//! made one after the other; who waits is known from the moves alone, but who is served is for the servers to tell.

use super::{blocking, named};
use crate::command::Command;
use crate::draw::Draw;

/// Where scenes play.
pub const SCENE_DATABASE: &str = "9";

/// What scenes swap it with and move keys to.
const OTHER_DATABASE: &str = "10";

/// A scene; connection 0 never waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// How many connections take part.
    pub connections: usize,
    /// In order.
    pub moves: Vec<Move>,
}

/// One move of a scene; the numbers are connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Commands that are answered at once.
    Say(usize, Vec<Command>),
    /// A command that may wait, and one behind it that is answered afterwards.
    Wait(usize, Command),
    /// Its answers are read: something has been pushed for it, or its timeout runs out.
    Hear(usize),
    /// CLIENT UNBLOCK, with this option if any.
    Unblock(usize, Option<&'static str>),
    /// The connection is closed, and the servers have noticed.
    Leave(usize),
}

impl Scene {
    /// How many commands its connections send.
    pub fn commands(&self) -> usize {
        self.moves
            .iter()
            .map(|step| match step {
                Move::Say(_, commands) => commands.len(),
                Move::Wait(..) => 2,
                Move::Unblock(..) => 1,
                Move::Hear(_) | Move::Leave(_) => 0,
            })
            .sum()
    }
}

const KEYS: &[&str] = &["q0", "q1", "q2", "q3"];

fn key(draw: &mut Draw) -> Vec<u8> {
    draw.pick(KEYS).as_bytes().to_vec()
}

fn keys(draw: &mut Draw, most: usize) -> Vec<Vec<u8>> {
    (0..draw.count(1..=most)).map(|_| key(draw)).collect()
}

/// What is drawn in a scene, or in a part of one.
#[derive(Clone, Copy)]
struct Play {
    /// Sorted sets; otherwise lists.
    zsets: bool,
    /// Whole collections are stored; otherwise keys have values of other types at times. Not both: Redis does not serve
    /// those who wait when what is stored replaces a value of another type.
    stores: bool,
}

impl Play {
    fn draw(draw: &mut Draw) -> Self {
        Self {
            zsets: draw.chance(40),
            stores: draw.chance(50),
        }
    }
}

/// Several wait for lists or sorted sets, others push and pop.
///
/// Who waits for several keys is served from the one that was filled first in 7.0, and from the first of them that has
/// something in 7.2, or refused if it has another type. So either each waits for one key, or only one key is filled at
/// a time.
pub(super) fn queue(draw: &mut Draw) -> Scene {
    let single = draw.chance(60);
    let waiters = draw.count(1..=4);
    let mut moves = Vec::new();
    let mut waiting: Vec<usize> = Vec::new();
    let mut fresh = (2..2 + waiters).rev().collect::<Vec<_>>();
    let play = Play::draw(draw);
    for _ in 0..draw.between(6..=16) {
        match draw.between(0..=99) {
            0..=34 if !fresh.is_empty() => {
                let Some(who) = fresh.pop() else { continue };
                let brief = draw.chance(12);
                let timeout = if brief {
                    "0.02"
                } else {
                    draw.pick(&["0", "0", "100", "99.5"])
                };
                let timeout = timeout.as_bytes().to_vec();
                let wanted = if single {
                    vec![key(draw)]
                } else {
                    keys(draw, 3)
                };
                let command = if play.zsets != (single && draw.chance(8)) {
                    blocking::on_zsets(draw, wanted, timeout)
                } else {
                    blocking::on_lists(draw, wanted, timeout)
                };
                moves.push(Move::Wait(who, command));
                if brief {
                    moves.push(Move::Hear(who));
                } else {
                    waiting.push(who);
                }
            }
            35..=39 if !waiting.is_empty() => {
                let who = waiting[draw.count(0..=waiting.len() - 1)];
                let how = [None, Some("TIMEOUT"), Some("ERROR")][draw.count(0..=2)];
                moves.push(Move::Unblock(who, how));
            }
            40..=42 if !waiting.is_empty() => {
                let at = draw.count(0..=waiting.len() - 1);
                moves.push(Move::Leave(waiting.remove(at)));
            }
            _ => {
                let who = draw.count(0..=1);
                let said = if single {
                    say(draw, play)
                } else {
                    vec![fill_one(draw, play)]
                };
                moves.push(Move::Say(who, said));
            }
        }
    }
    Scene {
        connections: 2 + waiters,
        moves,
    }
}

/// What a connection says while others wait: one command, or a transaction.
fn say(draw: &mut Draw, play: Play) -> Vec<Command> {
    if !draw.chance(20) {
        return vec![change(draw, play)];
    }
    let mut commands = vec![named(draw, "MULTI")];
    for _ in 0..draw.between(1..=4) {
        commands.push(change(draw, play));
    }
    let end = draw.weighted(&[(9, "EXEC"), (1, "DISCARD")]);
    commands.push(named(draw, end));
    commands
}

/// A command that fills or empties one of the keys and gives none another type.
fn fill_one(draw: &mut Draw, play: Play) -> Command {
    loop {
        let command = change(draw, play);
        let wrong = match command.name().as_str() {
            "SET" | "SWAPDB" | "FLUSHDB" | "SORT" => true,
            "RPUSH" => play.zsets,
            "ZADD" => !play.zsets,
            _ => false,
        };
        if !wrong {
            return command;
        }
    }
}

/// A command that makes, fills, empties or replaces one of the keys.
fn change(draw: &mut Draw, play: Play) -> Command {
    let Play { zsets, stores } = play;
    let (one, other) = (key(draw), key(draw));
    let few = |draw: &mut Draw| {
        (0..draw.between(1..=3))
            .map(|_| draw.element())
            .collect::<Vec<_>>()
    };
    match draw.between(0..=99) {
        0..=49 if zsets => {
            let mut command = named(draw, "ZADD").arg(one);
            for member in few(draw) {
                command.push(draw.between(-5..=5).to_string());
                command.push(member);
            }
            command
        }
        0..=49 => {
            let name = draw.weighted(&[(5, "LPUSH"), (5, "RPUSH"), (1, "RPUSHX")]);
            let mut command = named(draw, name).arg(one);
            command.extend(few(draw));
            command
        }
        50..=53 => named(draw, "LLEN").arg(one),
        54..=57 => named(draw, "DEL").arg(one),
        58..=60 if !stores => named(draw, "SET").arg(one).arg("a text"),
        61..=64 => named(draw, "RENAME").arg(one).arg(other),
        65..=67 => named(draw, "COPY").arg(one).arg(other).arg("REPLACE"),
        68..=70 if zsets => named(draw, "ZPOPMIN").arg(one),
        68..=70 => named(draw, "LPOP").arg(one),
        71..=74 if zsets && stores => named(draw, "ZUNIONSTORE").arg(one).arg("1").arg(other),
        71..=74 if !zsets => named(draw, "LMOVE")
            .arg(one)
            .arg(other)
            .arg("LEFT")
            .arg("RIGHT"),
        75..=77 if zsets => named(draw, "ZINCRBY").arg(one).arg("1").arg(draw.element()),
        75..=77 => named(draw, "RPOPLPUSH").arg(one).arg(other),
        78..=80 => named(draw, "PEXPIRE").arg(one).arg("-1"),
        81..=83 => named(draw, "MOVE").arg(one).arg(OTHER_DATABASE),
        84..=86 => Command::of(&["SWAPDB", SCENE_DATABASE, OTHER_DATABASE]),
        87..=88 => named(draw, "FLUSHDB"),
        89..=92 if zsets && stores => named(draw, "ZRANGESTORE")
            .arg(one)
            .arg(other)
            .arg("0")
            .arg("-1"),
        89..=92 if !zsets && stores => named(draw, "SORT")
            .arg(one)
            .arg("ALPHA")
            .arg("STORE")
            .arg(other),
        93..=94 => named(draw, "EXPIRE").arg(one).arg("5000"),
        // The other kind of collection.
        95..=97 if zsets && !stores => named(draw, "RPUSH").arg(one).arg("x"),
        95..=97 if !stores => named(draw, "ZADD").arg(one).arg("1").arg("x"),
        _ => named(draw, "EXISTS").arg(one),
    }
}

/// One connection watches keys, another changes them or does not, the first executes.
pub(super) fn watch(draw: &mut Draw) -> Scene {
    let mut moves = Vec::new();
    for _ in 0..draw.between(1..=4) {
        let play = Play::draw(draw);
        for _ in 0..draw.between(0..=2) {
            moves.push(Move::Say(1, say(draw, play)));
        }
        let mut watch = named(draw, "WATCH");
        watch.extend(keys(draw, 3));
        let mut said = vec![watch];
        if draw.chance(20) {
            // Seen from one database, changed in another.
            said.push(Command::of(&["SELECT", OTHER_DATABASE]));
        }
        moves.push(Move::Say(0, said));
        for _ in 0..draw.between(0..=2) {
            let who = draw.weighted(&[(4, 1), (1, 0)]);
            moves.push(Move::Say(who, say(draw, play)));
        }
        if draw.chance(15) {
            let end = draw.pick(&["UNWATCH", "DISCARD", "RESET"]);
            moves.push(Move::Say(0, vec![named(draw, end)]));
        }
        let mut said = vec![named(draw, "MULTI")];
        for _ in 0..draw.between(0..=3) {
            said.push(change(draw, play));
        }
        if draw.chance(30) {
            // Between MULTI and EXEC it counts too.
            moves.push(Move::Say(0, std::mem::take(&mut said)));
            moves.push(Move::Say(1, say(draw, play)));
        }
        said.push(named(draw, "EXEC"));
        said.push(Command::of(&["SELECT", SCENE_DATABASE]));
        moves.push(Move::Say(0, said));
    }
    Scene {
        connections: 2,
        moves,
    }
}
