//! Compares `cmsgpack`, `struct` and `bit` with redis-server: corner cases, and random values.
//! Without a redis-server, the tests print a message and pass.

mod both;

use std::fmt::Write;

use both::{Both, random};
use rand::RngExt;
use rand::rngs::StdRng;

#[test]
fn corner_cases() {
    if let Some(mut both) = Both::start() {
        both.same_lines(include_str!("lines/packing.txt"));
    }
}

/// A script that calls a function with each argument, and returns its results or its error as text,
/// because the conversion to a reply would lose details.
const SHOW: &str = r"
local show
show = function(value)
  if type(value) == 'number' then return string.format('%.17g', value) end
  if type(value) ~= 'table' then return type(value) .. ':' .. tostring(value) end
  local parts = {}
  for k, v in pairs(value) do parts[#parts + 1] = show(k) .. '=' .. show(v) end
  return '{' .. table.concat(parts, ',') .. '}'
end
local results = {}
for i, arg in ipairs(ARGV) do
  results[i] = show({pcall(call, arg)})
end
return results";

fn compare(function: &str, draw: impl Fn(&mut StdRng) -> Vec<u8>) {
    let Some(mut both) = Both::start() else {
        return;
    };
    let mut random = random();
    let code = format!("local call = {function}\n{SHOW}");
    for _ in 0..20 {
        let values: Vec<Vec<u8>> = (0..100).map(|_| draw(&mut random)).collect();
        both.same(&code, &values);
    }
}

/// Returns a random number as Lua source, mostly near a power of two.
fn number(random: &mut StdRng) -> String {
    let power = (random.random_range(0..70) as f64).exp2();
    let near = power + f64::from(random.random_range(-2..=2));
    let sign = if random.random() { "-" } else { "" };
    match random.random_range(0..12) {
        0 => format!("{sign}{:e}", f64::from_bits(random.random()).abs()).replace("NaN", "0"),
        1 => format!("{sign}{}", random.random_range(0..1000) as f64 / 8.0),
        2 => format!("{sign}{}", f64::from(random.random::<f32>())),
        3 => ["1/0", "-1/0", "0/0", "-(0/0)", "-0.0"][random.random_range(0..5)].to_owned(),
        4 => format!("'{}'", random.random_range(0..300)),
        _ => format!("{sign}{near}"),
    }
    .replace("inf", "(1/0)")
}

fn text(random: &mut StdRng) -> String {
    let len = [0, 1, 5, 31, 32, 255, 256, 65_535, 65_536][random.random_range(0..9)];
    match random.random_range(0..8) {
        0 => format!("string.rep('x',{len})"),
        _ => format!("'{}'", &"abc\\0de"[..random.random_range(0..4)]),
    }
}

fn value(random: &mut StdRng, depth: u32) -> String {
    match random.random_range(0..if depth > 0 { 10 } else { 6 }) {
        0..3 => number(random),
        3..5 => text(random),
        5 => ["true", "false", "nil", "redis.call"][random.random_range(0..4)].to_owned(),
        6..8 => {
            let len = [0, 1, 3, 15, 16][random.random_range(0..5)];
            let mut table = "{".to_owned();
            for _ in 0..len {
                table += &value(random, depth - 1);
                table += ",";
            }
            table + "}"
        }
        _ => {
            let len = [1, 2, 4, 16][random.random_range(0..4)];
            let mut table = "{".to_owned();
            for n in 0..len {
                let key = match random.random_range(0..4) {
                    0 => format!("k{n}"),
                    1 => format!("[{}]", random.random_range(1..20)),
                    2 => format!("[{n}.5]"),
                    _ => format!("['{n}']"),
                };
                let _ = write!(table, "{key}={},", value(random, depth - 1));
            }
            table + "}"
        }
    }
}

#[test]
fn random_values_pack() {
    let function = "function(text)
        local packed = cmsgpack.pack(loadstring('return ' .. text)())
        return packed, cmsgpack.unpack(packed)
    end";
    compare(function, |random| {
        let values: Vec<String> = (0..random.random_range(1..4))
            .map(|_| value(random, 3))
            .collect();
        values.join(",").into_bytes()
    });
}

/// Returns random bytes that resemble MessagePack.
fn packed(random: &mut StdRng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.random_range(0..12) {
        match random.random_range(0..4) {
            0 => bytes.push(random.random()),
            1 => bytes.push(random.random_range(0x80..0xa4)),
            2 => bytes.push(random.random_range(0xc0..0xe0)),
            _ => {
                let len = random.random_range(0..4);
                bytes.extend((0..len).map(|_| random.random_range(0..3_u8)));
            }
        }
    }
    bytes
}

#[test]
fn random_bytes_unpack() {
    compare("cmsgpack.unpack", packed);
    let function = "function(text) return cmsgpack.unpack_limit(text, #text % 4, #text % 3) end";
    compare(function, packed);
}

/// Returns a random format of `struct`, and arguments for it.
fn format(random: &mut StdRng) -> (String, Vec<String>) {
    let (mut format, mut arguments) = (String::new(), Vec::new());
    for _ in 0..random.random_range(1..8) {
        let option = b"bBhHlLTiIiIcsfdx <>!!zc"[random.random_range(0..23)] as char;
        format.push(option);
        if matches!(option, 'i' | 'I' | 'c' | '!') && random.random_range(0..3) > 0 {
            let size = match random.random_range(0..10) {
                0 => random.random_range(0..40),
                1 => [2_147_483_647_u64, 2_147_483_648, 99_999_999_999][random.random_range(0..3)],
                _ => 1 << random.random_range(0..6),
            };
            format += &size.to_string();
        }
        match option {
            'x' | ' ' | '<' | '>' | '!' | 'z' => {}
            'c' | 's' => arguments.push(format!("string.rep('y',{})", random.random_range(0..40))),
            _ => arguments.push(number(random)),
        }
    }
    if random.random_range(0..20) == 0 {
        arguments.pop();
    }
    (format, arguments)
}

#[test]
fn random_structures_pack_and_unpack() {
    let function = "function(text) return loadstring('return ' .. text)() end";
    compare(function, |random| {
        let (format, mut arguments) = format(random);
        arguments.insert(0, format!("'{format}'"));
        let arguments = arguments.join(",");
        match random.random_range(0..5) {
            0 => format!("struct.pack({arguments})"),
            1 => format!("struct.size('{format}')"),
            2 => format!("struct.unpack('{format}',struct.pack({arguments}))"),
            _ => {
                let len = random.random_range(0..60);
                let data: String = (0..len)
                    .map(|_| {
                        let byte: u8 = random.random();
                        format!("\\{:03}", byte >> (random.random_range(0..3) * 3))
                    })
                    .collect();
                let position = random.random_range(-1..5);
                format!("struct.unpack('{format}','{data}',{position})")
            }
        }
        .into_bytes()
    });
}

#[test]
fn random_bits() {
    let function = "function(text) return loadstring('return bit.' .. text)() end";
    compare(function, |random| {
        let names = [
            "tobit", "tohex", "bnot", "band", "bor", "bxor", "lshift", "rshift", "arshift", "rol",
            "ror", "bswap",
        ];
        let name = names[random.random_range(0..names.len())];
        let arguments: Vec<String> = (0..random.random_range(1..4))
            .map(|_| match random.random_range(0..20) {
                0 => "'z'".to_owned(),
                _ => number(random),
            })
            .collect();
        format!("{name}({})", arguments.join(",")).into_bytes()
    });
}
