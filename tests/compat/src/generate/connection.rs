//! Commands on the connection: HELLO, database, names, suppressed replies.

use super::line;
use crate::command::{Command, Step};
use crate::draw::Draw;
use crate::generate::Protocol;

/// Appends a group of connection commands. The group ends with the connection in `protocol`.
pub(super) fn commands(draw: &mut Draw, protocol: Protocol, steps: &mut Vec<Step>) {
    match draw.between(0..=99) {
        0..=9 => ping(draw, steps),
        10..=14 => steps.push(line::command(draw, "ECHO value").into()),
        15..=49 => steps.push(line::command(draw, "SELECT database").into()),
        50..=59 => hello(draw, protocol, steps),
        60..=62 => reset(draw, protocol, steps),
        63..=67 => auth(draw, steps),
        68..=74 => silence(draw, steps),
        _ => client(draw, steps),
    }
}

fn ping(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = Command::new(draw.case("PING"));
    for _ in 0..draw.weighted(&[(5, 0), (5, 1), (1, 2)]) {
        command.push(draw.value());
    }
    steps.push(command.into());
}

/// Appends a HELLO, and at the end of the group the HELLO that restores the protocol.
fn hello(draw: &mut Draw, protocol: Protocol, steps: &mut Vec<Step>) {
    let version = draw.one_of("2|3|2|3|1|4|-1|abc||3.0|9223372036854775808");
    let mut command = Command::new(draw.case("HELLO"));
    if draw.chance(85) {
        command.push(version);
        match draw.between(0..=9) {
            0..=3 => {}
            4 => command.extend(["SETNAME", "greeted"]),
            5 => command.extend(["SETNAME", "bad name"]),
            6 => command.extend(["AUTH", "default", "anything"]),
            7 => command.extend(["AUTH", "nobody", "anything", "SETNAME", "n"]),
            8 => command.extend(["AUTH", "default"]),
            _ => command.extend(["NOSUCH", "option"]),
        }
    }
    steps.push(command.into());
    // Commands whose replies differ between the protocols: nulls and maps.
    for words in [
        &["GET", "no such key"][..],
        &["MGET", "no such key", "k0"],
        &["CONFIG", "GET", "databases"],
    ] {
        if draw.chance(40) {
            steps.push(Command::of(words).into());
        }
    }
    steps.push(protocol.hello().into());
}

fn reset(draw: &mut Draw, protocol: Protocol, steps: &mut Vec<Step>) {
    steps.push(Command::new(draw.case("RESET")).into());
    steps.push(Command::of(&["CLIENT", "NO-EVICT", "OFF"]).into());
    if draw.chance(50) {
        steps.push(Command::of(&["CLIENT", "GETNAME"]).into());
        steps.push(Command::of(&["GET", "no such key"]).into());
    }
    steps.push(protocol.hello().into());
}

fn auth(draw: &mut Draw, steps: &mut Vec<Step>) {
    let command = match draw.between(0..=4) {
        0 => Command::of(&["AUTH", "secret"]),
        1 => Command::of(&["AUTH", "default", "secret"]),
        2 => Command::of(&["AUTH", "nobody", "secret"]),
        3 => Command::of(&["AUTH", "a", "b", "c"]),
        _ => Command::of(&["AUTH"]),
    };
    steps.push(command.into());
}

fn silence(draw: &mut Draw, steps: &mut Vec<Step>) {
    let silent = |command| Step {
        command,
        answered: false,
    };
    let some_command = |draw: &mut Draw| match draw.between(0..=3) {
        0 => Command::new("SET").arg(draw.key()).arg(draw.value()),
        1 => Command::new("GET").arg(draw.key()),
        2 => Command::of(&["NOSUCHCOMMAND"]),
        _ => Command::new("INCR").arg(draw.key()),
    };
    if draw.chance(50) {
        steps.push(silent(Command::of(&["CLIENT", "REPLY", "OFF"])));
        for _ in 0..draw.between(1..=4) {
            steps.push(silent(some_command(draw)));
        }
        steps.push(Command::of(&["CLIENT", "REPLY", "ON"]).into());
    } else {
        steps.push(silent(Command::of(&["CLIENT", "REPLY", "SKIP"])));
        steps.push(silent(some_command(draw)));
        steps.push(some_command(draw).into());
    }
}

/// Subcommands of CLIENT with arguments. KILL and UNBLOCK match no open connection.
const CLIENT: &[&[&str]] = &[
    &["GETNAME"],
    &["GETNAME"],
    &["GETNAME", "x"],
    &["SETNAME", "worker"],
    &["SETNAME", ""],
    &["SETNAME", "bad name"],
    &["SETNAME", "bad\nname"],
    &["SETNAME", "ünicode"],
    &["SETNAME"],
    &["ID"],
    &["ID", "x"],
    &["INFO"],
    &["INFO", "x"],
    &["LIST"],
    &["LIST", "TYPE", "normal"],
    &["LIST", "TYPE", "nosuch"],
    &["LIST", "TYPE"],
    &["LIST", "ID", "abc"],
    &["LIST", "ID", "999999999"],
    &["LIST", "ID"],
    &["LIST", "NOSUCH"],
    &["KILL", "ID", "999999999"],
    &["KILL", "ID", "0"],
    &["KILL", "ID", "abc"],
    &["KILL", "1.2.3.4:5"],
    &["KILL", "ADDR", "1.2.3.4:5"],
    &["KILL", "LADDR", "1.2.3.4:5"],
    &["KILL", "TYPE", "nosuch"],
    &["KILL", "USER", "nobody"],
    &["KILL", "ADDR", "1.2.3.4:5", "SKIPME", "maybe"],
    &["KILL", "ADDR", "1.2.3.4:5", "SKIPME", "yes"],
    &["KILL", "NOSUCH", "x"],
    &["KILL"],
    &["KILL", "ID", "1", "ADDR"],
    &["PAUSE", "abc"],
    &["PAUSE", "-1"],
    &["PAUSE", "1.5"],
    &["PAUSE", "1", "SOMETIMES"],
    &["PAUSE"],
    &["UNPAUSE"],
    &["UNPAUSE", "x"],
    &["UNBLOCK", "999999999"],
    &["UNBLOCK", "999999999", "TIMEOUT"],
    &["UNBLOCK", "999999999", "ERROR"],
    &["UNBLOCK", "abc"],
    &["UNBLOCK", "1", "NOSUCH"],
    &["UNBLOCK"],
    &["NO-EVICT", "on"],
    &["NO-EVICT", "OFF"],
    &["NO-EVICT", "maybe"],
    &["NO-EVICT"],
    &["REPLY", "ON"],
    &["REPLY", "MAYBE"],
    &["REPLY"],
    &["NOSUCH"],
    &["NOSUCH", "x"],
    &[""],
];

fn client(draw: &mut Draw, steps: &mut Vec<Step>) {
    if draw.chance(3) {
        // The pause of writes does not delay reads, and ends before the next write.
        steps.push(Command::of(&["CLIENT", "PAUSE", "1000", "WRITE"]).into());
        steps.push(Command::new("GET").arg(draw.key()).into());
        steps.push(Command::of(&["CLIENT", "UNPAUSE"]).into());
        return;
    }
    let words = CLIENT[draw.count(0..=CLIENT.len() - 1)];
    let mut command = Command::new(draw.case("CLIENT"));
    if let Some((first, rest)) = words.split_first() {
        command.push(draw.case(first));
        command.extend(rest);
    }
    steps.push(command.into());
}
