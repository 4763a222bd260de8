//! Libraries of functions. There are few names of libraries and of functions, so that calls find
//! functions and some loads collide.

use super::bodies::Script;
use super::named;
use crate::command::Step;
use crate::draw::Draw;

/// Bodies of functions with `keys` and `args`.
const BODIES: &[&str] = &[
    "return 1",
    "return {keys, args}",
    "return {#keys, #args}",
    "return redis.call('GET', keys[1])",
    "return redis.call('SET', keys[1], args[1])",
    "return redis.pcall('INCR', keys[1])",
    "error('in a function')",
    "error({err = 'MY error'})",
    "return redis.error_reply('MY error')",
    "return {double = 1.5}",
    "redis.setresp(3) return {true, {map = {a = 1}}}",
    "return redis.call('LPUSH')",
    "return redis.call('nosuch')",
    "return nosuch",
    "x = 1",
    "count = (count or 0) + 1",
    "return cjson.encode({keys, args})",
    "return KEYS",
    "return math.random(100)",
];

/// First lines of libraries that are refused.
const BAD_FIRST_LINES: &[&str] = &[
    "return 1",
    "#!lua",
    "#!lua name=a-b",
    "#!python name=lib0",
    "#!lua name=lib0 x=1",
    "#!lua name=",
    "",
];

/// Lines that fail while a library is loaded.
const BAD_LINES: &[&str] = &[
    "local x =",
    "error('while loading')",
    "redis.call('PING')",
    "x = 1",
    "local x = nosuch",
    "redis.register_function('f0')",
    "redis.register_function('a b', function() end)",
    "redis.register_function{function_name = 'f0', callback = function() end, flags = {'nosuch'}}",
    "redis.register_function{function_name = 'f0'}",
    "redis.register_function(5)",
    "redis.setresp(3)",
];

/// A payload of FUNCTION DUMP with two libraries.
const TWO_LIBRARIES: &[u8] = b"\xf5@B#!lua name=a\nredis.register_function(\"f\", function() return 6 end)\xf5@B#!lua name=b\nredis.register_function(\"g\", function() return 7 end)\x0a\x00\xa3\x13\x8b\xebgG\xd8\xbe";

/// Payloads for FUNCTION RESTORE: no library, one library, two libraries, a wrong checksum, and
/// other invalid payloads.
const PAYLOADS: &[&[u8]] = &[
    b"\x0a\x00]\x9b\\@\x0f\x7f\xa2\xda",
    b"\xf5@B#!lua name=b\nredis.register_function(\"g\", function() return 7 end)\x0a\x00d\xb8\xc4T\x90\x06\xebd",
    TWO_LIBRARIES,
    b"\xf5@B#!lua name=b\nredis.register_function(\"g\", function() return 7 end)\x0a\x00d\xb8\xc4T\x90\x06\xebe",
    b"\x00\x05hello\x0a\x00cr\xdfve4 \x0a",
    b"",
    b"short",
];

const LIBRARIES: &[&str] = &["lib0", "lib1", "lib2", "a", "b"];
const FUNCTIONS: &[&str] = &["f0", "f1", "f2", "f", "g"];

/// Appends a call of a function.
pub(super) fn call(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.weighted(&[(7, "FCALL"), (3, "FCALL_RO")]);
    let function = if draw.chance(97) {
        draw.pick(FUNCTIONS)
    } else {
        "nosuch"
    };
    let keys = if draw.chance(80) {
        draw.keys(2)
    } else {
        Vec::new()
    };
    let mut command = named(draw, name)
        .arg(draw.case(function))
        .arg(keys.len().to_string());
    command.extend(keys);
    for _ in 0..draw.between(0..=2) {
        command.push(draw.value());
    }
    steps.push(command.into());
}

/// Appends a command on libraries.
pub(super) fn manage(draw: &mut Draw, steps: &mut Vec<Step>) {
    let command = match draw.between(0..=99) {
        0..=54 => {
            let mut command = named(draw, "FUNCTION").arg(draw.case("LOAD"));
            if draw.chance(70) {
                command.push(draw.case("REPLACE"));
            }
            command.arg(library(draw))
        }
        55..=64 => named(draw, "FUNCTION")
            .arg(draw.case("DELETE"))
            .arg(draw.pick(LIBRARIES)),
        65..=79 => {
            let mut command = named(draw, "FUNCTION").arg(draw.case("LIST"));
            if draw.chance(60) {
                command = command
                    .arg(draw.case("LIBRARYNAME"))
                    .arg(draw.pick(&["lib0", "lib1", "lib*", "*", "a", "?", "nosuch", "LIB0"]));
            }
            if draw.chance(40) {
                command.push(draw.case("WITHCODE"));
            }
            command
        }
        80..=84 => named(draw, "FUNCTION").arg(draw.case("STATS")),
        85..=87 => {
            let mut command = named(draw, "FUNCTION").arg(draw.case("FLUSH"));
            if draw.chance(40) {
                command.push(draw.pick(&["SYNC", "ASYNC", "NOW"]));
            }
            command
        }
        88..=90 => named(draw, "FUNCTION").arg(draw.case("DUMP")),
        91..=97 => {
            let payload = PAYLOADS[draw.count(0..=PAYLOADS.len() - 1)];
            let mut command = named(draw, "FUNCTION")
                .arg(draw.case("RESTORE"))
                .arg(payload);
            if payload == TWO_LIBRARIES {
                // Without FLUSH, both libraries may exist already. The error would then name
                // the one that comes first in a hash table.
                command.push("FLUSH");
            } else if draw.chance(75) {
                command.push(draw.pick(&["FLUSH", "APPEND", "REPLACE", "replace", "NOSUCH"]));
            }
            command
        }
        _ => {
            named(draw, "FUNCTION").arg(draw.pick(&["KILL", "NOSUCH", "LOAD", "DELETE", "RESTORE"]))
        }
    };
    steps.push(command.into());
}

/// Returns the code of a library.
fn library(draw: &mut Draw) -> String {
    // A library's functions have its number in their names, so most loads do not collide with other
    // libraries.
    let number = draw.between(0..=2);
    let mut lines = vec![if draw.chance(92) {
        format!("#!lua name=lib{number}")
    } else {
        draw.pick(BAD_FIRST_LINES).to_owned()
    }];
    if draw.chance(50) {
        lines.push("local count = 0".to_owned());
    }
    let function = if draw.chance(93) {
        format!("f{number}")
    } else {
        draw.pick(FUNCTIONS).to_owned()
    };
    let body = if draw.chance(60) {
        draw.pick(BODIES).to_owned()
    } else {
        Script::draw_for_function(draw).text()
    };
    lines.push(if draw.chance(50) {
        format!("redis.register_function('{function}', function(keys, args) {body} end)")
    } else {
        let flags = draw.pick(&["'no-writes'", "'no-writes', 'allow-stale'", "'allow-oom'", "'allow-cross-slot-keys', 'no-cluster'", ""]);
        let description = draw.pick(&["", ", description = 'what it does'"]);
        format!(
            "redis.register_function{{function_name = '{function}', callback = function(keys, args) {body} end, flags = {{{flags}}}{description}}}"
        )
    });
    if draw.chance(12) {
        let at = draw.count(1..=lines.len());
        lines.insert(at, draw.pick(BAD_LINES).to_owned());
    }
    lines.join("\n")
}
