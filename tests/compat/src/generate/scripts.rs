//! Scripts and functions: EVAL and its relatives, the cache of scripts, libraries of functions.
//!
//! Scripts call commands of the other families and pass values through every conversion. Results
//! that depend on an address, on time or on the order of a hash table are normalised in the script
//! itself, so that replies can be compared exactly.

mod bodies;
mod libraries;
mod values;

use sha1::{Digest, Sha1};

use super::{Family, Move, Scene, group, named, scenes};
use crate::command::{Command, Step};
use crate::draw::Draw;

use bodies::Script;

/// Small scripts that are loaded, called by their digest and flushed.
const CACHED: &[&str] = &[
    "return 1",
    "return {KEYS[1], ARGV[1], #KEYS, #ARGV}",
    "return redis.call('INCR', 'k0')",
    "return redis.call('SET', KEYS[1], ARGV[1])",
    "return redis.pcall('GET', 'k1')",
    "error('cached')",
    "return nosuch",
    "return )",
    "#!lua\nreturn redis.call('GET', 'k0')",
    "#!lua flags=no-writes\nreturn redis.call('SET', 'k0', 'v')",
    "#!lua flags=nosuch\nreturn 1",
    "",
];

/// First lines of scripts, some of which are refused.
const SHEBANGS: &[&str] = &[
    "#!lua",
    "#!lua flags=no-writes",
    "#!lua flags=allow-oom",
    "#!lua flags=allow-stale,no-cluster",
    "#!lua flags=no-writes,allow-oom,allow-cross-slot-keys",
    "#!lua flags=",
    "#!lua flags=nosuch",
    "#!lua name=x",
    "#!python",
    "#!",
    "# a comment",
];

/// Families whose commands scripts call.
const CALLED: &[(u32, Family)] = &[
    (10, Family::Strings),
    (6, Family::Lists),
    (6, Family::Hashes),
    (6, Family::Sets),
    (8, Family::Zsets),
    (3, Family::Bitmaps),
    (1, Family::Hyperloglog),
    (2, Family::Geo),
    (6, Family::Keys),
    (5, Family::Expiry),
    (2, Family::Dumps),
];

/// Appends one command on scripts or functions, which may be invalid.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    match draw.between(0..=99) {
        0..=63 => eval(draw, steps),
        64..=71 => cached(draw, steps),
        72..=75 => cache(draw, steps),
        76..=78 => wrong(draw, steps),
        79..=89 => libraries::call(draw, steps),
        _ => libraries::manage(draw, steps),
    }
}

/// Appends EVAL or EVAL_RO with a random script.
fn eval(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.weighted(&[(9, "EVAL"), (1, "EVAL_RO")]);
    let script = Script::draw(draw);
    let mut text = script.text();
    if draw.chance(8) {
        text = format!("{}\n{text}", draw.pick(SHEBANGS));
    }
    let mut command = named(draw, name).arg(text);
    command.push(script.keys.len().to_string());
    command.extend(&script.keys);
    command.extend(&script.arguments);
    steps.push(command.into());
}

/// Appends a call of one of the small scripts, by its text or by its digest.
fn cached(draw: &mut Draw, steps: &mut Vec<Step>) {
    let script = draw.pick(CACHED);
    let (name, subject) = match draw.between(0..=9) {
        0..=3 => ("EVALSHA", digest(draw, script)),
        4..=5 => ("EVALSHA_RO", digest(draw, script)),
        6..=8 => ("EVAL", script.to_owned()),
        _ => ("EVAL_RO", script.to_owned()),
    };
    let mut command = named(draw, name).arg(subject);
    match draw.between(0..=9) {
        0..=5 => {
            command.push("1");
            command.push(draw.key());
            command.push(draw.value());
        }
        6..=7 => command.push("0"),
        _ => {
            let keys = draw.any_keys(3);
            command.push(keys.len().to_string());
            command.extend(keys);
        }
    }
    steps.push(command.into());
}

/// Appends SCRIPT LOAD, EXISTS or FLUSH.
fn cache(draw: &mut Draw, steps: &mut Vec<Step>) {
    let script = draw.pick(CACHED);
    let command = match draw.between(0..=9) {
        0..=4 => named(draw, "SCRIPT").arg(draw.case("LOAD")).arg(script),
        5..=7 => {
            let mut command = named(draw, "SCRIPT").arg(draw.case("EXISTS"));
            for _ in 0..draw.between(0..=3) {
                let script = draw.pick(CACHED);
                command.push(digest(draw, script));
            }
            command
        }
        _ => {
            let mut command = named(draw, "SCRIPT").arg(draw.case("FLUSH"));
            if draw.chance(50) {
                let mode = draw.pick(&["SYNC", "ASYNC", "NOW"]);
                command.push(draw.case(mode));
            }
            command
        }
    };
    steps.push(command.into());
}

/// Appends a command with random arguments, which may be valid by chance.
fn wrong(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.one_of("EVAL|EVALSHA|EVAL_RO|EVALSHA_RO|FCALL|FCALL_RO");
    let mut command = named(draw, name);
    let digest = digest(draw, "return 1");
    let subject = match name {
        "EVAL" | "EVAL_RO" => draw.pick(&["return 1", "return", "x", "return {...}"]),
        "FCALL" | "FCALL_RO" => draw.pick(&["f0", "f1", "nosuch", ""]),
        _ => &digest,
    };
    for position in 0..draw.weighted(&[(1, 0), (2, 1), (6, 2), (4, 3), (2, 5)]) {
        match position {
            0 => command.push(subject),
            1 => command.push(draw.integer()),
            _ => command.push(draw.key()),
        }
    }
    steps.push(command.into());
}

/// Returns the digest of a script in hexadecimal, sometimes in capitals or of another length.
fn digest(draw: &mut Draw, script: &str) -> String {
    let digest: String = Sha1::digest(script)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    match draw.between(0..=19) {
        0 => digest.to_uppercase(),
        1 => digest[1..].to_owned(),
        2 => format!("{digest}0"),
        _ => digest,
    }
}

/// Returns a group of commands of another family.
fn called(draw: &mut Draw) -> Vec<Command> {
    let family = draw.weighted(CALLED);
    let mut steps = Vec::new();
    group(draw, family, &mut steps);
    steps
        .into_iter()
        .map(|step| step.command)
        // These commands need another command before them (see `differences`), which a read-only
        // script cannot run.
        .filter(|command| !matches!(&*command.name(), "BITCOUNT" | "BITPOS"))
        .collect()
}

/// Runs `ARGV` as one command.
const RUN_ONE: &str = "return redis.call(unpack(ARGV))";

/// Runs `ARGV` as two commands. The number of keys is the number of words of the first one.
const RUN_TWO: &str =
    "local n = #KEYS redis.pcall(unpack(ARGV, 1, n)) return redis.pcall(unpack(ARGV, n + 1))";

/// Returns a scene with blocked clients or watched keys, in which scripts make most of the changes.
pub(super) fn scene(draw: &mut Draw) -> Scene {
    let mut scene = if draw.chance(70) {
        scenes::queue(draw)
    } else {
        scenes::watch(draw)
    };
    for step in &mut scene.moves {
        let Move::Run(_, commands) = step else {
            continue;
        };
        for command in commands {
            let name = command.name();
            let plain = matches!(
                name.as_str(),
                "MULTI" | "EXEC" | "DISCARD" | "WATCH" | "UNWATCH" | "RESET" | "SELECT"
            );
            // Blocking commands in scripts are a known difference: see `differences`.
            let blocks = name.starts_with('B');
            if !plain && !blocks && draw.chance(60) {
                *command = in_script(draw, command);
            }
        }
    }
    scene
}

/// Returns a script that runs the command, perhaps twice.
fn in_script(draw: &mut Draw, command: &Command) -> Command {
    let words = command.args();
    let mut script = Command::new("EVAL");
    if draw.chance(70) {
        script.extend([RUN_ONE, "0"]);
    } else {
        script.extend([RUN_TWO, &words.len().to_string()]);
        script.extend(std::iter::repeat_n("q0", words.len()));
        script.extend(words);
    }
    script.extend(words);
    script
}
