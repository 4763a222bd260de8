//! Publishing and subscribing: sessions on a separate connection, and messages to these sessions.

use crate::command::{Command, Step};
use crate::draw::Draw;

const CHANNELS: &[&[u8]] = &[
    b"ch:a",
    b"ch:b",
    b"ch:c",
    b"news.art",
    b"news.it",
    b"",
    b"\xff\x00",
    b"__keyspace@0__:k0",
];

#[rustfmt::skip]
const PATTERNS: &[&[u8]] = &[
    b"ch:*", b"ch:[ab]", b"news.*", b"*", b"?h:a", b"__key*__:*", b"nothing", b"", b"\\c*",
];

/// A connection that subscribes, in several rounds. At the end it is unsubscribed from all
/// channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The rounds in order.
    pub rounds: Vec<Round>,
}

/// Commands of the session's connection, then commands of the main connection, such as PUBLISH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Commands on the session's connection. The number of replies depends on the subscriptions, so
    /// the replies are compared as one sequence.
    pub commands: Vec<Command>,
    /// Commands on the main connection afterwards.
    pub publish: Vec<Step>,
}

fn channel(draw: &mut Draw) -> Vec<u8> {
    draw.pick(CHANNELS).to_vec()
}

/// Appends one command that publishes or counts subscribers.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    let command = match draw.between(0..=19) {
        0..=9 => Command::new(draw.case("PUBLISH"))
            .arg(channel(draw))
            .arg(draw.value()),
        10..=12 => Command::new(draw.case("SPUBLISH"))
            .arg(channel(draw))
            .arg(draw.value()),
        13 => Command::of(draw.pick(&[
            &["PUBLISH", "ch:a"][..],
            &["PUBLISH", "ch:a", "m", "x"],
            &["PUBSUB"],
            &["PUBSUB", "NOSUCH"],
            &["PUBSUB", "NUMPAT", "x"],
            &["PUBSUB", "CHANNELS", "*", "x"],
            &["SPUBLISH", "ch:a"],
        ])),
        14..=15 => {
            let name = draw.pick(&["CHANNELS", "SHARDCHANNELS"]);
            let mut command = Command::new(draw.case("PUBSUB")).arg(draw.case(name));
            if draw.chance(60) {
                command.push(draw.pick(PATTERNS));
            }
            command
        }
        16..=18 => {
            let name = draw.pick(&["NUMSUB", "SHARDNUMSUB"]);
            let mut command = Command::new(draw.case("PUBSUB")).arg(draw.case(name));
            for _ in 0..draw.between(0..=3) {
                command.push(channel(draw));
            }
            command
        }
        _ => Command::of(&["PUBSUB", "NUMPAT"]),
    };
    steps.push(command.into());
}

/// Returns a session of up to four rounds.
pub(super) fn session(draw: &mut Draw) -> Session {
    let rounds = draw.count(1..=4);
    Session {
        rounds: (0..rounds).map(|_| round(draw)).collect(),
    }
}

/// Returns one round, without `RESET` and HELLO.
fn round(draw: &mut Draw) -> Round {
    let mut sent = Vec::new();
    for _ in 0..draw.between(1..=8) {
        let command = match draw.between(0..=99) {
            0..=24 => several(draw, "SUBSCRIBE", CHANNELS),
            25..=39 => several(draw, "PSUBSCRIBE", PATTERNS),
            40..=49 => several(draw, "SSUBSCRIBE", CHANNELS),
            50..=59 => several(draw, "UNSUBSCRIBE", CHANNELS),
            60..=67 => several(draw, "PUNSUBSCRIBE", PATTERNS),
            68..=72 => several(draw, "SUNSUBSCRIBE", CHANNELS),
            73..=79 => Command::new(draw.pick(&["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"])),
            80..=84 => Command::new(draw.case("PING")),
            85..=88 => Command::new(draw.case("PING")).arg(draw.value()),
            89..=92 => Command::new("PUBLISH").arg(channel(draw)).arg(draw.value()),
            _ => Command::of(draw.pick(&[
                &["SUBSCRIBE"][..],
                &["PSUBSCRIBE"],
                &["SSUBSCRIBE"],
                &["PING", "a", "b"],
                &["GET", "k0"],
                &["get"],
                &["PUBSUB", "NUMPAT"],
                &["NOSUCHCOMMAND"],
                &["CLIENT", "GETNAME"],
                &["ECHO", "x"],
                &["SET", "k0", "from the session"],
            ])),
        };
        sent.push(command);
    }
    let mut publish = Vec::new();
    for _ in 0..draw.between(2..=12) {
        if draw.chance(80) {
            commands(draw, &mut publish);
        } else {
            super::strings::commands(draw, &mut publish);
        }
    }
    Round {
        commands: sent,
        publish,
    }
}

fn several(draw: &mut Draw, name: &str, of: &[&'static [u8]]) -> Command {
    let mut command = Command::new(draw.case(name));
    for _ in 0..draw.between(1..=3) {
        command.push(draw.pick(of));
    }
    command
}
