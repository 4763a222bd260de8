//! Wrong commands: unknown, too short, too long, or with arguments of the wrong type.

use crate::command::{Command, Step};
use crate::draw::Draw;

/// Commands that may get any arguments: no arguments make them block or close a connection, turn
/// off replies, give a key a TTL, or allocate unbounded memory.
const ANY_ARGUMENTS: &str = "GET|SET|MGET|MSET|MSETNX|GETDEL|GETSET|SETNX|APPEND|STRLEN|GETRANGE|\
     SUBSTR|INCR|DECR|INCRBY|DECRBY|INCRBYFLOAT|DEL|UNLINK|EXISTS|TYPE|KEYS|SCAN|RANDOMKEY|RENAME|\
     RENAMENX|COPY|MOVE|TOUCH|OBJECT|TTL|PTTL|EXPIRETIME|PEXPIRETIME|PERSIST|PING|ECHO|SELECT|\
     DBSIZE|SWAPDB|TIME|PUBLISH|SPUBLISH|PUBSUB|LCS|MEMORY|LATENCY|SLOWLOG|ROLE";

/// Commands with a TTL as a numeric argument: they get a TTL from [`Draw::ttl`], so that no key
/// expires during the stream.
const DEADLINE_ARGUMENTS: &str = "EXPIRE|PEXPIRE|SETEX|PSETEX";

/// Names that are not a command in any version.
const UNKNOWN: &[&[u8]] = &[
    b"NOSUCHCOMMAND", b"nosuchcommand", b"GETT", b"", b" ", b"SE T", b"GET ", b"\x00", b"\xff\xfe", b"two\r\nlines", b"-ERR", b"'quoted'",
    b"a-name-longer-than-one-hundred-and-twenty-eight-bytes-which-is-where-the-error-text-stops-quoting-it-and-so-it-must-be-cut-right-there-not-later",
];

/// Appends one wrong command, or a group that begins with one. The command may be valid by chance.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    match draw.between(0..=9) {
        0..=4 => any_arguments(draw, ANY_ARGUMENTS, steps),
        5..=6 => mangled(draw, steps),
        7 => deadline_arguments(draw, steps),
        _ => unknown(draw, steps),
    }
}

/// Appends one of the commands with any arguments.
pub(super) fn any_arguments(draw: &mut Draw, names: &str, steps: &mut Vec<Step>) {
    let name = draw.one_of(names);
    let mut command = Command::new(draw.case(name));
    for _ in 0..draw.weighted(&[(4, 0), (5, 1), (5, 2), (5, 3), (3, 4), (2, 5), (1, 9)]) {
        let argument = match draw.between(0..=9) {
            0..=3 => draw.any_key(),
            4..=5 => draw.value(),
            6 => draw.element(),
            7 => draw.integer(),
            8 => draw.float(),
            _ => draw.one_of(
                "NX|XX|GET|KEEPTTL|REPLACE|DB|COUNT|MATCH|TYPE|NUMSUB|CHANNELS|ENCODING|LEFT|MIN|\
                 LIMIT|BYSCORE|BYLEX|REV|WITHSCORES|WEIGHTS|AGGREGATE|SUM|BEFORE|RANK|m|\
                 FROMMEMBER|BYRADIUS|AND|1|2",
            ).into(),
        };
        command.push(argument);
    }
    steps.push(command.into());
}

/// Sometimes makes a command invalid, or replaces it by a COMMAND query about it.
pub(super) fn spoil(draw: &mut Draw, command: &mut Command) {
    let name = command.name();
    match draw.between(0..=199) {
        // See `differences`.
        _ if matches!(&*name, "BITCOUNT" | "BITPOS" | "ZRANK" | "ZREVRANK") => {}
        // A changed command could add a member with another score, and ranges by members would be
        // undefined.
        _ if command
            .args()
            .get(1)
            .is_some_and(|key| key.starts_with(b"lex")) => {}
        0..=6 => mangle(draw, command, false),
        7..=9 if command.args().len() < if name == "PFMERGE" { 3 } else { 2 } => {}
        7..=9 => {
            let sub = draw.pick(&["GETKEYS", "GETKEYS", "GETKEYSANDFLAGS"]);
            let asked = std::mem::replace(command, Command::of(&["COMMAND", sub]));
            command.extend(asked.args());
        }
        10..=11 => *command = Command::of(&["COMMAND", "INFO"]).arg(&command.args()[0]),
        _ => {}
    }
}

fn deadline_arguments(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.one_of(DEADLINE_ARGUMENTS);
    let per_second = if name.starts_with('P') { 1000 } else { 1 };
    let mut command = Command::new(draw.case(name));
    for position in 0..draw.weighted(&[(1, 0), (2, 1), (3, 2), (3, 3), (2, 4), (1, 6)]) {
        let argument = match position {
            0 => draw.key(),
            1 => draw.ttl(per_second),
            _ => draw
                .pick(&["NX", "XX", "GT", "LT", "v", "", "12"])
                .as_bytes()
                .to_vec(),
        };
        command.push(argument);
    }
    steps.push(command.into());
}

/// Appends a group of valid commands, the first with one argument removed, doubled, replaced or
/// added.
fn mangled(draw: &mut Draw, steps: &mut Vec<Step>) {
    let first = steps.len();
    match draw.between(0..=2) {
        0 => super::strings::commands(draw, steps),
        1 => super::keys::commands(draw, steps),
        _ => super::expiry::commands(draw, steps),
    }
    // Later commands of the group may use the same key.
    let alone = steps.len() == first + 1;
    mangle(draw, &mut steps[first].command, alone);
}

/// Removes, doubles, replaces or adds an argument. Replaces the key only if the command is `alone`
/// in its group.
fn mangle(draw: &mut Draw, command: &mut Command, alone: bool) {
    let args = command.args_mut();
    match draw.between(0..=3) {
        0 => {
            args.pop();
            if args.is_empty() {
                args.push(b"GET".to_vec());
            }
        }
        1 => {
            // Doubles no key: the next argument would move, so a value could become a key, or a key
            // a TTL.
            if let Some(last) = args.get(2..).and_then(<[_]>::last).cloned() {
                args.push(last);
            }
        }
        2 => {
            let at = draw.count(0..=args.len() - 1);
            if at > 1 || (at == 1 && alone) {
                args[at] = draw.bad_integer();
            }
        }
        _ => args.push(
            draw.one_of("NX|XX|GT|LT|GET|KEEPTTL|PERSIST|nosuchoption|")
                .into(),
        ),
    }
}

fn unknown(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = Command::new(draw.pick(UNKNOWN));
    for _ in 0..draw.between(0..=4) {
        let argument = if draw.chance(10) {
            draw.big_value()[..300].to_vec()
        } else {
            draw.value()
        };
        command.push(argument);
    }
    steps.push(command.into());
}
