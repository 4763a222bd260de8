//! Compares `cjson` with the library in a redis-server. Without a redis-server, the tests print a
//! message and pass.

mod both;

use both::{Both, random};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};

/// Number of texts that one script converts.
const BATCH: usize = 200;
const BATCHES: usize = 40;

/// Lua code that describes any value: its elements in the order of `next`, and its length by `#`.
const SHOW: &str = r"
local function show(v)
  local t = type(v)
  if t == 'number' then return string.format('%.17g', v) end
  if t == 'string' then return string.format('%q', v) end
  if t == 'table' then
    local parts = {}
    for k, e in next, v do parts[#parts + 1] = show(k) .. '=' .. show(e) end
    return '{#' .. #v .. ' ' .. table.concat(parts, ',') .. '}'
  end
  if v == cjson.null then return 'null' end
  if t == 'function' then return t end
  return tostring(v)
end
local function all(...)
  local parts = {}
  for i = 1, select('#', ...) do parts[i] = show((select(i, ...))) end
  return table.concat(parts, ' ')
end
";

/// A script that decodes each argument, and encodes the result.
const DECODE: &str = r"
local out = {}
for i, text in ipairs(ARGV) do
  local ok, v = pcall(cjson.decode, text)
  out[i] = all(ok, v, pcall(function() return cjson.decode(text) end))
  if ok then out[i] = out[i] .. all(pcall(cjson.encode, v)) end
end
return out
";

/// A script that evaluates each argument, and encodes the result.
const ENCODE: &str = r"
local out = {}
for i, text in ipairs(ARGV) do
  local v = loadstring('return ' .. text)()
  out[i] = all(pcall(cjson.encode, v))
end
return out
";

/// A script that calls a function of the library for each argument, then uses the changed settings.
const CONFIGURE: &str = r#"
local out = {}
for i, text in ipairs(ARGV) do
  local ok, f = pcall(loadstring, 'local cjson, mine = ... return ' .. text)
  local mine = cjson.new()
  out[i] = all(pcall(f, cjson, mine))
  for _, c in ipairs({cjson, mine}) do
    for _, v in ipairs({{[9] = 1}, {[11] = 1}, {[40] = 1, [2] = 2}, 1/3, 1e15, 1/0, -1/0, 0/0, {{{{}}}}, {[1/0] = 1}}) do
      out[i] = out[i] .. ' ' .. all(pcall(c.encode, v))
    end
    for _, v in ipairs({'[[[[]]]]', '{"a":{"a":{"a":1}}}', '0x10', '+1', '01', '-01', '-0x1', 'inf', '-inf', 'nan', '-NaN', '[1]'}) do
      out[i] = out[i] .. ' ' .. all(pcall(c.decode, v))
    end
  end
end
return out
"#;

fn script(code: &str) -> String {
    format!("{SHOW}{code}")
}

fn pick<'a, T>(random: &mut impl Rng, from: &'a [T]) -> &'a T {
    &from[random.random_range(0..from.len())]
}

fn number(random: &mut StdRng) -> String {
    match random.random_range(0..12) {
        0 => random.random_range(-20..200).to_string(),
        1 => random.random::<i64>().to_string(),
        2 => f64::from_bits(random.random()).to_string(),
        3 => format!("{:e}", f64::from_bits(random.random())),
        4 => format!("{}.{}", random.random::<u8>(), random.random::<u32>()),
        5 => format!(
            "{}e{}",
            random.random::<u64>(),
            random.random_range(-340..330)
        ),
        6 => format!("{}{}", random.random::<u128>(), random.random::<u128>()),
        7 => format!(
            "{:.*}",
            random.random_range(0..18),
            random.random_range(-1e3..1e3)
        ),
        8 => format!(
            "0x{:x}.{:x}p{}",
            random.random::<u32>(),
            random.random::<u64>(),
            random.random_range(-1200..1100)
        ),
        9 => {
            #[rustfmt::skip]
            let odd = [
                "-0", "0", "-0.0", "1e999", "-1e999", "1e-999", "00", "012", "-012", "+1", "+", "-",
                "--1", "1.", "-.5", ".5", "1e", "1e+", "1E5", "1.e3", "0x", "0xg", "0x1p", "0x.8",
                "-0x1F", "0X1P+3", "0x1.", "0x.", "inf", "-Infinity", "infinit", "+inf", "nan",
                "-nan", "NaN(12)", "nan(", "nan(x y)", "9007199254740993", "18446744073709551616",
                "99999999999999", "100000000000000", "999999999999995", "0.1", "1e22", "1e23",
                "5e-324", "2.5e-324", "2.2250738585072014e-308", "0.00001", "0.0001",
                "123456789.123456789", "1e0000000000000000000001",
            ];
            (*pick(random, &odd)).to_owned()
        }
        10 => format!("0.{}", random.random::<u64>()),
        _ => {
            let letters = b"0123456789.eExXpP+-infaN";
            let len = random.random_range(1..9);
            (0..len)
                .map(|_| char::from(*pick(random, letters)))
                .collect()
        }
    }
}

fn json_string(random: &mut StdRng, out: &mut Vec<u8>) {
    out.push(b'"');
    let len = match random.random_range(0..20) {
        0 => 300,
        1..5 => 0,
        _ => 6,
    };
    for _ in 0..random.random_range(0..=len) {
        match random.random_range(0..14) {
            0 => out.extend_from_slice(
                format!("\\u{:04x}", random.random_range(0..0x1_0000)).as_bytes(),
            ),
            1 => {
                let (high, low) = (
                    random.random_range(0xd7f0..0xdc10),
                    random.random_range(0xdbf0..0xe010),
                );
                out.extend_from_slice(format!("\\u{high:04X}\\u{low:04x}").as_bytes());
            }
            2 => out.extend_from_slice(&[b'\\', *pick(random, b"\"\\/bfnrt")]),
            3 => out.extend_from_slice(&[b'\\', random.random()]),
            4 => out.push(random.random_range(1..255)),
            5 => out.extend_from_slice("ü€😀".as_bytes()),
            6 => out.extend_from_slice(b"\\u12"),
            7 => out.extend_from_slice(b"a longer run of plain characters, 'as texts have it'"),
            _ => out.push(*pick(random, b"abcxyz0189 /\x7f\x01")),
        }
    }
    out.push(b'"');
}

fn space(random: &mut StdRng, out: &mut Vec<u8>) {
    if random.random_range(0..6) == 0 {
        out.extend_from_slice(pick(random, &[" ", "\n", "\t", "\r\n  "]).as_bytes());
    }
}

fn json(random: &mut StdRng, depth: u32, out: &mut Vec<u8>) {
    space(random, out);
    let kinds = if depth == 0 { 6 } else { 10 };
    match random.random_range(0..kinds) {
        0 => out.extend_from_slice(pick(random, &["true", "false", "null"]).as_bytes()),
        1 | 2 => json_string(random, out),
        3..6 => out.extend_from_slice(number(random).as_bytes()),
        6 | 7 => list(random, *b"[]", out, |random, out| {
            json(random, depth - 1, out)
        }),
        _ => list(random, *b"{}", out, |random, out| {
            if random.random_range(0..3) == 0 {
                json_string(random, out);
            } else {
                out.extend_from_slice(format!("\"k{}\"", random.random_range(0..40)).as_bytes());
            }
            space(random, out);
            out.push(b':');
            json(random, depth - 1, out);
        }),
    }
    space(random, out);
}

fn list(
    random: &mut StdRng,
    brackets: [u8; 2],
    out: &mut Vec<u8>,
    mut element: impl FnMut(&mut StdRng, &mut Vec<u8>),
) {
    out.push(brackets[0]);
    let len = match random.random_range(0..8) {
        0 => random.random_range(0..40),
        _ => random.random_range(0..5),
    };
    for n in 0..len {
        if n > 0 {
            out.push(b',');
        }
        element(random, out);
    }
    out.push(brackets[1]);
}

/// Replaces, removes or adds a byte, or truncates the text.
fn damage(random: &mut StdRng, text: &mut Vec<u8>) {
    let at = random.random_range(0..=text.len());
    let byte = match random.random_range(0..3) {
        0 => random.random(),
        _ => *pick(random, b"[]{},:\"\\ tfnuI0-+e.\0\n"),
    };
    match random.random_range(0..4) {
        0 => text.truncate(at),
        1 => text.insert(at, byte),
        _ if at == text.len() => text.push(byte),
        2 => text[at] = byte,
        _ => {
            text.remove(at);
        }
    }
}

/// Returns a Lua expression for a random value.
fn value(random: &mut StdRng, depth: u32) -> String {
    let kinds = if depth == 0 { 5 } else { 10 };
    match random.random_range(0..kinds) {
        0 => (*pick(random, &["true", "false", "cjson.null"])).to_owned(),
        1 | 2 => lua_string(random),
        3 | 4 => lua_number(random),
        5 => {
            let len = random.random_range(0..20);
            let elements: Vec<_> = (0..len).map(|_| value(random, depth - 1)).collect();
            format!("{{{}}}", elements.join(","))
        }
        _ => {
            let len = match random.random_range(0..8) {
                0 => random.random_range(0..60),
                _ => random.random_range(0..6),
            };
            let base = random.random_range(0..3);
            let pairs: Vec<_> = (0..len)
                .map(|_| {
                    let key = match base {
                        0 => lua_string(random),
                        1 => random.random_range(1..30).to_string(),
                        _ => key(random),
                    };
                    format!("[{key}]={}", value(random, depth - 1))
                })
                .collect();
            format!("{{{}}}", pairs.join(","))
        }
    }
}

fn key(random: &mut StdRng) -> String {
    match random.random_range(0..12) {
        0..5 => random.random_range(1..16).to_string(),
        5..8 => lua_string(random),
        8 => random.random_range(-3..100).to_string(),
        9 => lua_number(random).replace("0/0", "1/0"),
        10 => format!("{:?}", random.random_range(0..9).to_string()),
        // Tables and functions are not used as keys, because their position in the order of `next`
        // depends on their address.
        _ => (*pick(
            random,
            &[
                "true",
                "2^31",
                "2^31-1",
                "2^53",
                "1.5",
                "0",
                "-1",
                "1e300",
                "cjson.null",
            ],
        ))
        .to_owned(),
    }
}

fn lua_number(random: &mut StdRng) -> String {
    match random.random_range(0..5) {
        0 => random.random_range(-100..1000).to_string(),
        1 => (*pick(
            random,
            &[
                "1/0",
                "-1/0",
                "0/0",
                "-0",
                "1/3",
                "2^53",
                "1e14",
                "99999999999999",
                "1e15",
                "0.1",
                "1e-5",
            ],
        ))
        .to_owned(),
        2 => format!("{:e}", random.random_range(-1e9..1e9)),
        3 => format!("{}/16", random.random::<i32>()),
        _ => {
            let value = f64::from_bits(random.random());
            if value.is_finite() {
                format!("{value:e}")
            } else {
                "7".to_owned()
            }
        }
    }
}

fn lua_string(random: &mut StdRng) -> String {
    let len = match random.random_range(0..10) {
        0 => random.random_range(0..200),
        _ => random.random_range(0..6),
    };
    let bytes: Vec<u8> = (0..len)
        .map(|_| match random.random_range(0..3) {
            0 => random.random(),
            _ => *pick(random, b"abc\"\\/\x7f\n\0 -"),
        })
        .collect();
    let escaped: String = bytes.iter().map(|b| format!("\\{b:03}")).collect();
    format!("'{escaped}'")
}

#[test]
fn texts_decode_as_in_redis() {
    let Some(mut both) = Both::start() else {
        return;
    };
    let mut random = random();
    let code = script(DECODE);
    for _ in 0..BATCHES {
        let texts: Vec<_> = (0..BATCH)
            .map(|_| {
                let mut text = Vec::new();
                let depth = random.random_range(0..6);
                json(&mut random, depth, &mut text);
                while random.random_range(0..3) == 0 {
                    damage(&mut random, &mut text);
                }
                text
            })
            .collect();
        both.same(&code, &texts);
    }
    let numbers: Vec<_> = (0..20 * BATCH).map(|_| number(&mut random)).collect();
    for numbers in numbers.chunks(BATCH) {
        both.same(&code, numbers);
    }
}

#[test]
fn values_encode_as_in_redis() {
    let Some(mut both) = Both::start() else {
        return;
    };
    let mut random = random();
    let code = script(ENCODE);
    for _ in 0..BATCHES {
        let values: Vec<_> = (0..BATCH)
            .map(|_| {
                let depth = random.random_range(0..5);
                value(&mut random, depth)
            })
            .collect();
        both.same(&code, &values);
    }
    both.same(
        &code,
        &[
            "nil",
            "function() end",
            "cjson.encode",
            "coroutine.create(cjson.encode)",
            "{[{}]=1}",
            "{[cjson.encode]=1}",
            "{a=cjson.decode}",
            "{1,2,nil,4}",
            "{[11]=1}",
            "{[10]=1}",
            "{[2^31]=1}",
            "{[2^32+1]=1,2}",
            "{[1e300]=1}",
            "{['1']=1,2}",
            "setmetatable({}, {__index={1,2}})",
            "('x'):rep(100000)",
            "('\\0/'):rep(100000)",
        ],
    );
}

#[test]
fn settings_stay_as_in_redis() {
    let Some(mut both) = Both::start() else {
        return;
    };
    let mut random = random();
    let code = script(CONFIGURE);
    const FUNCTIONS: &[&str] = &[
        "encode_sparse_array",
        "encode_max_depth",
        "decode_max_depth",
        "encode_number_precision",
        "encode_keep_buffer",
        "encode_invalid_numbers",
        "decode_invalid_numbers",
        "encode",
        "decode",
    ];
    #[rustfmt::skip]
    const ARGUMENTS: &[&str] = &[
        "nil", "true", "false", "0", "1", "2", "3", "14", "15", "-1", "1.9", "2^31", "1e300",
        "-1/0", "0/0", "'3'", "'0x2'", "'on'", "'off'", "'null'", "'nul'", "'on\\0x'", "'x\\0y'",
        "{}", "cjson.null", "1000",
    ];
    for _ in 0..BATCHES {
        let calls: Vec<_> = (0..20)
            .map(|_| {
                let count = random.random_range(0..5).min(random.random_range(0..5));
                let arguments: Vec<_> = (0..count).map(|_| *pick(&mut random, ARGUMENTS)).collect();
                let library = pick(&mut random, &["cjson.", "cjson.", "mine.", "cjson:"]);
                let function = pick(&mut random, FUNCTIONS);
                format!("{library}{function}({})", arguments.join(","))
            })
            .collect();
        both.same(&code, &calls);
    }
    both.same(
        &code,
        &[
            "cjson",
            "mine",
            "cjson.new(1, 2)",
            "cjson._VERSION",
            "rawset(cjson, 'x', 1)",
            "rawset(mine, 'x', 1)",
        ],
    );
}

#[test]
fn nesting_ends_as_in_redis() {
    let Some(mut both) = Both::start() else {
        return;
    };
    let depths = [
        "999", "1000", "1001", "3995", "3996", "3997", "3998", "3999", "4000", "7993", "7994",
        "7995", "7996", "7997", "7998", "7999", "8000",
    ];
    for max in ["1000", "1000000"] {
        for (array, code) in [
            (
                "true",
                "pcall(cjson.decode, ('['):rep(depth) .. (']'):rep(depth))",
            ),
            ("true", "pcall(cjson.decode, ('['):rep(depth))"),
            (
                "true",
                "pcall(cjson.decode, ('{\"\":'):rep(depth) .. '[]' .. ('}'):rep(depth))",
            ),
            ("true", "pcall(cjson.decode, ('[{\"\":'):rep(depth / 2))"),
            ("true", "pcall(cjson.encode, nested)"),
            ("false", "pcall(cjson.encode, nested)"),
        ] {
            let code = format!(
                "{SHOW} cjson.decode_max_depth({max}) cjson.encode_max_depth({max})
                 local out = {{}}
                 for i, depth in ipairs(ARGV) do
                   local nested = {{}}
                   for _ = 2, depth do nested = {array} and {{nested}} or {{a = nested}} end
                   local ok, v = {code}
                   out[i] = tostring(ok) .. (type(v) == 'string' and #v < 1000 and v or type(v))
                 end
                 return out"
            );
            both.same(&code, &depths);
        }
    }
}
