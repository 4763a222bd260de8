//! Blocking commands on the main connection: with data, with short timeouts, and with invalid ones.

use super::{line, lists, named, zsets};
use crate::command::{Command, Step};
use crate::draw::{Draw, Kind};

/// Returns a timeout in seconds: some milliseconds, or invalid. The timeout is never 0, which would
/// block forever.
fn timeout(draw: &mut Draw) -> Vec<u8> {
    match draw.between(0..=9) {
        0..=6 => draw.pick(&["0.001", "0.002", "1e-3", ".001", "0x1p-9"]),
        _ => draw.pick(&["-1", "-0.5", "abc", "", "nan", "1 ", "1e5000"]),
    }
    .as_bytes()
    .to_vec()
}

/// Returns a command that blocks on lists, with this timeout.
pub(super) fn on_lists(draw: &mut Draw, keys: Vec<Vec<u8>>, timeout: Vec<u8>) -> Command {
    let first = keys[0].clone();
    let last = keys[keys.len() - 1].clone();
    match draw.between(0..=9) {
        0..=3 => {
            let name = draw.pick(&["BLPOP", "BRPOP"]);
            let mut command = named(draw, name);
            command.extend(keys);
            command.arg(timeout)
        }
        4..=5 => named(draw, "BLMOVE")
            .arg(first)
            .arg(last)
            .arg(lists::end(draw))
            .arg(lists::end(draw))
            .arg(timeout),
        6 => named(draw, "BRPOPLPUSH").arg(first).arg(last).arg(timeout),
        _ => {
            let mut command = named(draw, "BLMPOP")
                .arg(timeout)
                .arg(draw.announced(keys.len()));
            command.extend(keys);
            command.push(lists::end(draw));
            line::append(draw, &mut command, "40% COUNT how-many");
            command
        }
    }
}

/// Returns a command that blocks on sorted sets, with this timeout.
pub(super) fn on_zsets(draw: &mut Draw, keys: Vec<Vec<u8>>, timeout: Vec<u8>) -> Command {
    if draw.chance(60) {
        let name = draw.pick(&["BZPOPMIN", "BZPOPMAX"]);
        let mut command = named(draw, name);
        command.extend(keys);
        return command.arg(timeout);
    }
    let mut command = named(draw, "BZMPOP")
        .arg(timeout)
        .arg(draw.announced(keys.len()));
    command.extend(keys);
    command.push(zsets::end(draw));
    line::append(draw, &mut command, "40% COUNT how-many");
    command
}

/// Appends one blocking command, usually after a command that adds an element to one of its keys.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    let timeout = timeout(draw);
    let lists = draw.chance(60);
    let kind = if lists { Kind::List } else { Kind::Zset };
    let keys = draw.keys_of(kind, 3);
    if draw.chance(70) {
        let key = &keys[draw.count(0..=keys.len() - 1)];
        let fill = match kind {
            Kind::List => Command::new("RPUSH").arg(key),
            _ => Command::new("ZADD").arg(key).arg("1"),
        };
        steps.push(fill.arg(draw.element()).into());
    }
    let mut command = if lists {
        on_lists(draw, keys, timeout)
    } else {
        on_zsets(draw, keys, timeout)
    };
    if draw.chance(3) {
        remove_last(&mut command);
    }
    steps.push(command.into());
}

/// Removes the last argument. A BLPOP of several keys then has a key in the position of the
/// timeout. A key that is a number would be a valid timeout, perhaps of minutes; then nothing is
/// removed.
fn remove_last(command: &mut Command) {
    let args = command.args_mut();
    let before_last = String::from_utf8_lossy(&args[args.len() - 2]);
    if before_last.parse::<f64>().is_err() {
        args.pop();
    }
}
