//! Scenes in which clients block on streams, with XREAD and with XREADGROUP.

use crate::command::Command;
use crate::draw::Draw;
use crate::generate::{Move, SCENE_DATABASE, Scene, named};

const KEYS: &[&str] = &["q0", "q1"];

fn key(draw: &mut Draw) -> Vec<u8> {
    draw.pick(KEYS).as_bytes().to_vec()
}

/// Returns a scene in which several clients block on one stream each, and other clients change the
/// streams and their groups.
/// Without `with_groups`, no client reads for a group: redis-server 7.0 creates a consumer only
/// when it delivers an entry.
pub(in crate::generate) fn scene(draw: &mut Draw, with_groups: bool) -> Scene {
    let waiters = draw.count(1..=4);
    let mut moves = Vec::new();
    let prepare = KEYS.iter().map(|key| {
        let create = Command::of(&["XGROUP", "CREATE"]).arg(key);
        create.arg("g").arg("0").arg("MKSTREAM")
    });
    moves.push(Move::Run(0, prepare.collect()));
    let mut waiting: Vec<usize> = Vec::new();
    let mut fresh = (2..2 + waiters).rev().collect::<Vec<_>>();
    for _ in 0..draw.between(6..=18) {
        match draw.between(0..=99) {
            0..=34 if !fresh.is_empty() => {
                let Some(client) = fresh.pop() else { continue };
                let short = draw.chance(12);
                let timeout = if short {
                    "20"
                } else {
                    draw.pick(&["0", "100000"])
                };
                moves.push(Move::Block(client, block(draw, timeout, with_groups)));
                if short {
                    moves.push(Move::ReadReplies(client));
                } else {
                    waiting.push(client);
                }
            }
            35..=38 if !waiting.is_empty() => {
                let client = waiting[draw.count(0..=waiting.len() - 1)];
                let how = [None, Some("TIMEOUT"), Some("ERROR")][draw.count(0..=2)];
                moves.push(Move::Unblock(client, how));
            }
            39..=40 if !waiting.is_empty() => {
                let at = draw.count(0..=waiting.len() - 1);
                moves.push(Move::Disconnect(waiting.remove(at)));
            }
            _ => moves.push(Move::Run(draw.count(0..=1), others(draw, with_groups))),
        }
    }
    Scene {
        connections: 2 + waiters,
        moves,
    }
}

fn block(draw: &mut Draw, timeout: &str, with_groups: bool) -> Command {
    let of_group = draw.chance(60) && with_groups;
    let mut command = if of_group {
        let consumer = draw.pick(&["alice", "bob"]);
        let read = named(draw, "XREADGROUP").arg(draw.case("GROUP"));
        read.arg("g").arg(consumer)
    } else {
        named(draw, "XREAD")
    };
    if draw.chance(40) {
        command = command.arg("COUNT").arg(draw.how_many());
    }
    if of_group && draw.chance(15) {
        command.push(draw.case("NOACK"));
    }
    let from = match of_group {
        true => ">".to_owned(),
        false if draw.chance(60) => "$".to_owned(),
        false => draw.between(0..=20).to_string(),
    };
    let block = command.arg(draw.case("BLOCK")).arg(timeout);
    block.arg(draw.case("STREAMS")).arg(key(draw)).arg(from)
}

/// Returns the commands of a connection while others block: one command, or a transaction on one
/// key.
fn others(draw: &mut Draw, with_groups: bool) -> Vec<Command> {
    let key = key(draw);
    if !draw.chance(20) {
        return vec![change(draw, &key, with_groups)];
    }
    let mut commands = vec![named(draw, "MULTI")];
    for _ in 0..draw.between(1..=4) {
        commands.push(change(draw, &key, with_groups));
    }
    commands.push(named(draw, "EXEC"));
    commands
}

fn change(draw: &mut Draw, key: &[u8], with_groups: bool) -> Command {
    match draw.between(0..=99) {
        0..=49 => {
            let new = format!("{}-*", draw.weighted(&[(6, 20), (2, 21), (1, 10), (1, 5)]));
            let add = named(draw, "XADD").arg(key).arg(new);
            add.arg("f").arg(draw.element())
        }
        50..=55 => {
            let script = "return redis.call('XADD', KEYS[1], '21-*', 'f', 'v')";
            named(draw, "EVAL").arg(script).arg("1").arg(key)
        }
        56..=63 if with_groups => {
            let read = named(draw, "XREADGROUP").arg("GROUP").arg("g").arg("carol");
            read.arg("COUNT").arg("1").arg("STREAMS").arg(key).arg(">")
        }
        64..=67 => named(draw, "XTRIM").arg(key).arg("MAXLEN").arg("1"),
        68..=71 => named(draw, "XDEL").arg(key).arg("20-0").arg("20-1"),
        72..=75 => named(draw, "DEL").arg(key),
        76..=80 => {
            let create = named(draw, "XGROUP").arg("CREATE").arg(key).arg("g");
            create.arg("0").arg("MKSTREAM")
        }
        81..=84 => named(draw, "XGROUP").arg("DESTROY").arg(key).arg("g"),
        85..=86 => named(draw, "SET").arg(key).arg("a text"),
        87..=88 => named(draw, "PEXPIRE").arg(key).arg("-1"),
        89..=90 => named(draw, "FLUSHDB"),
        91..=93 => Command::of(&["SWAPDB", SCENE_DATABASE, "10"]),
        94..=95 => named(draw, "RENAME").arg(key).arg("q3"),
        _ => named(draw, "XPENDING").arg(key).arg("g"),
    }
}
