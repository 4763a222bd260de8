//! Scenes: several connections. Some block or watch keys while others run commands.
//!
//! A scene uses its own databases, which are empty before and after it, so it is independent of the
//! rest of the stream. Its moves run one after the other. The generator decides which clients send
//! blocking commands; the servers decide which clients they serve.

use super::{blocking, named};
use crate::command::Command;
use crate::draw::Draw;

/// The main database of scenes.
pub const SCENE_DATABASE: &str = "9";

/// The database that scenes swap with the main one, and to which they move keys.
const OTHER_DATABASE: &str = "10";

/// A scene; connection 0 never blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// Number of connections.
    pub connections: usize,
    /// The moves in order.
    pub moves: Vec<Move>,
}

/// One move of a scene. The first number is the number of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Runs commands that do not block.
    Run(usize, Vec<Command>),
    /// Sends a command that may block, and a PING after it.
    Block(usize, Command),
    /// Reads the replies of the blocking command and of the PING: the client was served, or its
    /// timeout has expired.
    ReadReplies(usize),
    /// Sends CLIENT UNBLOCK, with this option if any.
    Unblock(usize, Option<&'static str>),
    /// Closes the connection, and waits until the servers have noticed.
    Disconnect(usize),
}

impl Scene {
    /// Returns the number of commands in all moves.
    pub fn commands(&self) -> usize {
        self.moves
            .iter()
            .map(|step| match step {
                Move::Run(_, commands) => commands.len(),
                Move::Block(..) => 2,
                Move::Unblock(..) => 1,
                Move::ReadReplies(_) | Move::Disconnect(_) => 0,
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

/// The kind of values in a scene, or in a part of one.
#[derive(Clone, Copy)]
struct SceneKind {
    /// True for sorted sets, false for lists.
    zsets: bool,
    /// If true, commands such as SORT STORE store whole collections; if false, keys sometimes have
    /// values of other types. A scene with blocked clients never has both: Redis does not serve
    /// these clients when a stored collection replaces a value of another type.
    stores: bool,
}

impl SceneKind {
    fn draw(draw: &mut Draw) -> Self {
        Self {
            zsets: draw.chance(40),
            stores: draw.chance(50),
        }
    }
}

/// Returns a scene in which several clients block on lists or sorted sets, and others push and pop.
///
/// Redis 7.0 serves a client that blocks on several keys from the key that was filled first. 7.2
/// serves it from the first non-empty key, or replies with an error if that key has another type.
/// So either each client blocks on one key, or only one key is filled at a time.
pub(super) fn queue(draw: &mut Draw) -> Scene {
    let single = draw.chance(60);
    let waiters = draw.count(1..=4);
    let mut moves = Vec::new();
    let mut waiting: Vec<usize> = Vec::new();
    let mut fresh = (2..2 + waiters).rev().collect::<Vec<_>>();
    let kind = SceneKind::draw(draw);
    for _ in 0..draw.between(6..=16) {
        match draw.between(0..=99) {
            0..=34 if !fresh.is_empty() => {
                let Some(client) = fresh.pop() else { continue };
                let short = draw.chance(12);
                let timeout = if short {
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
                let command = if kind.zsets != (single && draw.chance(8)) {
                    blocking::on_zsets(draw, wanted, timeout)
                } else {
                    blocking::on_lists(draw, wanted, timeout)
                };
                moves.push(Move::Block(client, command));
                if short {
                    moves.push(Move::ReadReplies(client));
                } else {
                    waiting.push(client);
                }
            }
            35..=39 if !waiting.is_empty() => {
                let client = waiting[draw.count(0..=waiting.len() - 1)];
                let how = [None, Some("TIMEOUT"), Some("ERROR")][draw.count(0..=2)];
                moves.push(Move::Unblock(client, how));
            }
            40..=42 if !waiting.is_empty() => {
                let at = draw.count(0..=waiting.len() - 1);
                moves.push(Move::Disconnect(waiting.remove(at)));
            }
            _ => {
                let client = draw.count(0..=1);
                let commands = if single {
                    other_commands(draw, kind)
                } else {
                    vec![fill_one(draw, kind)]
                };
                moves.push(Move::Run(client, commands));
            }
        }
    }
    Scene {
        connections: 2 + waiters,
        moves,
    }
}

/// Returns the commands of a connection while others block: one command, or a transaction.
fn other_commands(draw: &mut Draw, kind: SceneKind) -> Vec<Command> {
    if !draw.chance(20) {
        return vec![change(draw, kind)];
    }
    let mut commands = vec![named(draw, "MULTI")];
    for _ in 0..draw.between(1..=4) {
        commands.push(change(draw, kind));
    }
    let end = draw.weighted(&[(9, "EXEC"), (1, "DISCARD")]);
    commands.push(named(draw, end));
    commands
}

/// Returns a command from [`change`] that fills at most one key, and gives no key another type.
fn fill_one(draw: &mut Draw, kind: SceneKind) -> Command {
    loop {
        let command = change(draw, kind);
        let wrong = match command.name().as_str() {
            "SET" | "SWAPDB" | "FLUSHDB" | "SORT" => true,
            "RPUSH" => kind.zsets,
            "ZADD" => !kind.zsets,
            _ => false,
        };
        if !wrong {
            return command;
        }
    }
}

/// Returns a command that changes, deletes, moves or reads one or two of the keys, or one that
/// empties or swaps the databases.
fn change(draw: &mut Draw, kind: SceneKind) -> Command {
    let SceneKind { zsets, stores } = kind;
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
        // A value of the other type of collection.
        95..=97 if zsets && !stores => named(draw, "RPUSH").arg(one).arg("x"),
        95..=97 if !stores => named(draw, "ZADD").arg(one).arg("1").arg("x"),
        _ => named(draw, "EXISTS").arg(one),
    }
}

/// Returns a scene in which one connection watches keys, another may change them, and the first
/// runs EXEC.
pub(super) fn watch(draw: &mut Draw) -> Scene {
    let mut moves = Vec::new();
    for _ in 0..draw.between(1..=4) {
        let kind = SceneKind::draw(draw);
        for _ in 0..draw.between(0..=2) {
            moves.push(Move::Run(1, other_commands(draw, kind)));
        }
        let mut watch = named(draw, "WATCH");
        watch.extend(keys(draw, 3));
        let mut commands = vec![watch];
        if draw.chance(20) {
            // Keys are watched in one database, and the transaction runs in another.
            commands.push(Command::of(&["SELECT", OTHER_DATABASE]));
        }
        moves.push(Move::Run(0, commands));
        for _ in 0..draw.between(0..=2) {
            let client = draw.weighted(&[(4, 1), (1, 0)]);
            moves.push(Move::Run(client, other_commands(draw, kind)));
        }
        if draw.chance(15) {
            let end = draw.pick(&["UNWATCH", "DISCARD", "RESET"]);
            moves.push(Move::Run(0, vec![named(draw, end)]));
        }
        let mut commands = vec![named(draw, "MULTI")];
        for _ in 0..draw.between(0..=3) {
            commands.push(change(draw, kind));
        }
        if draw.chance(30) {
            // Changes of watched keys between MULTI and EXEC count as well.
            moves.push(Move::Run(0, std::mem::take(&mut commands)));
            moves.push(Move::Run(1, other_commands(draw, kind)));
        }
        commands.push(named(draw, "EXEC"));
        commands.push(Command::of(&["SELECT", SCENE_DATABASE]));
        moves.push(Move::Run(0, commands));
    }
    Scene {
        connections: 2,
        moves,
    }
}
