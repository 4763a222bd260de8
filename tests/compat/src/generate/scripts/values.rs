//! Lua expressions for values of every type that a reply can have.

use crate::draw::Draw;

/// Numbers at the limits of conversions, in Lua's syntax.
#[rustfmt::skip]
const NUMBERS: &[&str] = &[
    "0", "-0", "1", "-1", "0.5", "-0.5", "1.5", "-1.5", "3.99", "-3.99", "0.1", "1/3", "1e3",
    "1e15", "-1e15", "1e17", "2^31", "-2^31", "2^32", "2^53", "-2^53", "9007199254740993",
    "123456789.123", "1e100", "-1e100", "1e-5", "1/0", "-1/0", "0/0", "2^63", "-2^63", "1e19",
    "100", "255", "256", "65536",
];

/// Numbers that all versions write with the same digits.
const DOUBLES: &[&str] = &[
    "0", "-0", "1", "-1.5", "0.25", "1024.125", "1e15", "-123456", "1/0", "-1/0",
];

/// Returns bytes as a Lua string literal.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from("'");
    for &byte in bytes {
        match byte {
            b'\'' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\{byte:03}")),
        }
    }
    out.push('\'');
    out
}

/// Returns an expression for a number.
pub(super) fn number(draw: &mut Draw) -> String {
    match draw.between(0..=9) {
        0..=3 => draw.between(-300..=300).to_string(),
        4 => draw.between(-5_000_000_000..=5_000_000_000).to_string(),
        5 => format!("{}.{}", draw.between(-99..=99), draw.between(0..=999)),
        _ => draw.pick(NUMBERS).to_owned(),
    }
}

/// Returns an expression for a string.
pub(super) fn string(draw: &mut Draw) -> String {
    match draw.between(0..=9) {
        0..=6 => quoted(&draw.value()),
        7 => format!("string.rep('x', {})", draw.between(0..=300)),
        8 => quoted(&draw.element()),
        _ => draw
            .pick(&[
                "''",
                "'ok'",
                "'err'",
                "'ERR x'",
                "'-ERR x'",
                "'two words'",
                "'line\\r\\nbreak'",
                "'\\0'",
                "'\\255\\254'",
                "'1e3'",
                "'0x10'",
                "'nan'",
            ])
            .to_owned(),
    }
}

/// Returns an expression for a value to encode as JSON or MessagePack, which may be impossible.
pub(super) fn data(draw: &mut Draw, depth: u32) -> String {
    match draw.between(0..=if depth == 0 { 5 } else { 9 }) {
        0..=1 => number(draw),
        2..=3 => string(draw),
        4 => draw.pick(&["true", "false"]).to_owned(),
        5 => draw.pick(&["nil", "cjson.null"]).to_owned(),
        6..=7 => list(draw, depth, data),
        8 => fields(draw, depth, data),
        _ => mixed(draw, depth, data),
    }
}

/// Returns an expression for a value of a reply, with every form of a table.
pub(super) fn reply(draw: &mut Draw, depth: u32) -> String {
    match draw.between(0..=if depth == 0 { 9 } else { 21 }) {
        0..=2 => number(draw),
        3..=5 => string(draw),
        6 => draw.pick(&["true", "false"]).to_owned(),
        7 => "nil".to_owned(),
        8 => draw
            .pick(&[
                "cjson.null",
                "function() end",
                "redis.call",
                "coroutine.create(type)",
            ])
            .to_owned(),
        9 => draw
            .pick(&[
                "redis.status_reply('FINE')",
                "redis.error_reply('MY x')",
                "redis.error_reply('x')",
            ])
            .to_owned(),
        10..=12 => list(draw, depth, reply),
        13 => mixed(draw, depth, reply),
        14 => format!("{{ok = {}}}", special(draw)),
        15 => format!("{{err = {}}}", special(draw)),
        16 => format!("{{double = {}}}", draw.pick(DOUBLES)),
        17 => format!("{{map = {}}}", fields(draw, depth, reply)),
        18 => {
            let members: Vec<String> = (0..draw.between(0..=3))
                .map(|_| {
                    format!(
                        "[{}] = {}",
                        key(draw),
                        draw.pick(&["true", "true", "false", "1"])
                    )
                })
                .collect();
            format!("{{set = {{{}}}}}", members.join(", "))
        }
        19 => format!(
            "{{big_number = {}}}",
            // The texts are valid big numbers in the protocol; the corpus has invalid ones.
            draw.pick(&["'123456789012345678901234567890'", "'-1'", "5", "true"])
        ),
        20 => format!(
            "{{verbatim_string = {{format = {}, string = {}}}}}",
            draw.pick(&["'txt'", "'mkd'", "'longer'", "'x'", "''", "nil", "5"]),
            string(draw)
        ),
        _ => {
            // A table with two forms of replies: the server must choose the right one.
            let first = draw.pick(&[
                "ok = 'a'",
                "err = 'ERR b'",
                "double = 1.5",
                "map = {a = 1}",
                "set = {a = true}",
            ]);
            let second = draw.pick(&[
                "big_number = '5'",
                "double = 2",
                "ok = 5",
                "err = true",
                "map = 5",
                "1, 2",
            ]);
            format!("{{{first}, {second}}}")
        }
    }
}

/// Returns an expression for the text of a status or an error, sometimes of another type.
fn special(draw: &mut Draw) -> String {
    match draw.between(0..=9) {
        0..=5 => string(draw),
        6 => number(draw),
        _ => draw
            .pick(&[
                "'ERR mine'",
                "'MY x'",
                "'-ERR x'",
                "true",
                "false",
                "nil",
                "{}",
            ])
            .to_owned(),
    }
}

/// Returns a key of a table. The order in which `pairs` returns such keys is the same in every run.
fn key(draw: &mut Draw) -> String {
    match draw.between(0..=9) {
        0..=6 => quoted(&draw.element()),
        7..=8 => draw.between(-2..=12).to_string(),
        _ => draw.pick(&["1.5", "true", "2^40", "'1'"]).to_owned(),
    }
}

type Maker = fn(&mut Draw, u32) -> String;

fn list(draw: &mut Draw, depth: u32, make: Maker) -> String {
    let items: Vec<String> = (0..draw.between(0..=5))
        .map(|_| make(draw, depth - 1))
        .collect();
    format!("{{{}}}", items.join(", "))
}

fn fields(draw: &mut Draw, depth: u32, make: Maker) -> String {
    let items: Vec<String> = (0..draw.between(0..=4))
        .map(|_| format!("[{}] = {}", key(draw), make(draw, depth - 1)))
        .collect();
    format!("{{{}}}", items.join(", "))
}

fn mixed(draw: &mut Draw, depth: u32, make: Maker) -> String {
    let first = make(draw, depth - 1);
    format!(
        "{{{first}, [{}] = {}, {}}}",
        key(draw),
        make(draw, depth - 1),
        make(draw, depth - 1)
    )
}

/// Bytes to insert into a JSON text, which may make it invalid.
const BYTES: &[&[u8; 1]] = &[
    b"[", b"]", b"{", b"}", b",", b":", b"\"", b"\\", b"0", b"-", b".", b"e", b" ", b"n", b"\0",
    b"\xff",
];

/// Returns a JSON text, which is often invalid.
pub(super) fn json(draw: &mut Draw) -> String {
    let mut text = json_value(draw, 3);
    for _ in 0..draw.weighted(&[(6, 0), (3, 1), (1, 3)]) {
        let at = draw.count(0..=text.len());
        if draw.chance(50) && at < text.len() {
            text.remove(at);
        } else {
            let [byte] = *draw.pick(BYTES);
            text.insert(at, byte);
        }
    }
    quoted(&text)
}

fn json_value(draw: &mut Draw, depth: u32) -> Vec<u8> {
    match draw.between(0..=if depth == 0 { 6 } else { 10 }) {
        0..=2 => draw
            .pick(&[
                &b"0"[..],
                b"1",
                b"-1",
                b"1.5",
                b"-0",
                b"1e5",
                b"1E-3",
                b"123456789012345678",
                b"0.1",
                b"01",
                b"1.",
                b".5",
                b"0x1F",
                b"1e400",
                b"inf",
                b"nan",
                b"-Infinity",
            ])
            .to_vec(),
        3..=4 => draw
            .pick(&[
                &b"\"\""[..],
                b"\"text\"",
                b"\"\\u0041\\n\"",
                b"\"\\ud83d\\ude00\"",
                b"\"\\u12\"",
                b"\"a\\\"b\\\\\\/\"",
                b"\"\xc3\xa9\xff\"",
                b"\"\\ud83d\"",
                b"\"\\q\"",
                b"\"a\nb\"",
            ])
            .to_vec(),
        5 => draw
            .pick(&[&b"true"[..], b"false", b"null", b"True", b"nul"])
            .to_vec(),
        6 => draw.between(-99_999..=99_999).to_string().into_bytes(),
        7..=8 => {
            let items: Vec<Vec<u8>> = (0..draw.between(0..=4))
                .map(|_| json_value(draw, depth - 1))
                .collect();
            [&b"["[..], &items.join(&b", "[..]), b"]"].concat()
        }
        _ => {
            let items: Vec<Vec<u8>> = (0..draw.between(0..=3))
                .map(|_| {
                    let name = draw.pick(&[
                        &b"\"a\""[..],
                        b"\"b\"",
                        b"\"name\"",
                        b"\"1\"",
                        b"\"\"",
                        b"a",
                        b"1",
                    ]);
                    [name, b":", &json_value(draw, depth - 1)].concat()
                })
                .collect();
            [&b"{"[..], &items.join(&b","[..]), b"}"].concat()
        }
    }
}
