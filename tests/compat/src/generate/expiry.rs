//! Deadlines: setting, reading and removing them.

use super::line;
use crate::command::{Command, Step};
use crate::draw::Draw;

/// Appends one command on deadlines. A deadline is far in the future, in the past, or invalid.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    match draw.between(0..=99) {
        0..=49 => set_deadline(draw, steps),
        50..=89 => {
            let name = draw.weighted(&[
                (3, "TTL"),
                (4, "PTTL"),
                (3, "EXPIRETIME"),
                (4, "PEXPIRETIME"),
            ]);
            steps.push(Command::new(draw.case(name)).arg(draw.any_key()).into());
        }
        _ => steps.push(line::command(draw, "PERSIST any-key").into()),
    }
}

fn set_deadline(draw: &mut Draw, steps: &mut Vec<Step>) {
    let (name, absolute, per_second) = draw.weighted(&[
        (3, ("EXPIRE", false, 1)),
        (3, ("PEXPIRE", false, 1000)),
        (3, ("EXPIREAT", true, 1)),
        (3, ("PEXPIREAT", true, 1000)),
    ]);
    let deadline = if absolute {
        draw.deadline(per_second)
    } else {
        draw.ttl(per_second)
    };
    let mut command = Command::new(draw.case(name))
        .arg(draw.any_key())
        .arg(deadline);
    // For GT and LT, two deadlines of a key must not differ by only a few milliseconds, because the
    // servers' clocks differ by that. Relative TTLs are far apart, and absolute deadlines are equal
    // on both servers.
    for _ in 0..draw.weighted(&[(10, 0), (9, 1), (2, 2), (1, 3)]) {
        let option = draw.pick(&["NX", "XX", "GT", "LT", "NX", "XX", "GT", "LT", "KEEPTTL"]);
        command.push(draw.case(option));
    }
    steps.push(command.into());
}
