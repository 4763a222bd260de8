//! Bodies of scripts: a few statements, each of which adds results or raises an error.

use super::called;
use super::values::{data, json, number, quoted, reply, string};
use crate::command::Command;
use crate::compare::Rule;
use crate::draw::Draw;

/// A Lua function that formats any value: with its type, all its digits, and its fields in order.
const SHOW: &str = "local function show(v) local t = type(v) if t == 'table' then local a = {} for k, w in pairs(v) do a[#a + 1] = \
    show(k) .. '=' .. show(w) end table.sort(a) return '{' .. table.concat(a, ',') .. '}' end if t == 'number' then return \
    v ~= v and 'nan' or string.format('%.17g', v) end if t == 'string' then return '\"' .. v .. '\"' end if t == 'nil' or t == \
    'boolean' then return tostring(v) end return v == cjson.null and 'null' or t end";

/// A Lua function that sorts the elements of a reply that come in the order of a hash table.
const BAG: &str = "local function bag(r) local a = {} for k, v in pairs(r.map or r.set or r) do a[#a + 1] = (type(k) == \
    'number' and '' or show(k)) .. show(v) end table.sort(a) return a end";

/// A Lua function that sorts the pairs of a flat list.
const PAIRS: &str = "local function twos(r) if r.map then return bag(r) end local a = {} for i = 1, #r, 2 do a[#a + 1] = \
    show(r[i]) .. show(r[i + 1]) end table.sort(a) return a end";

/// A Lua function that formats the numbers of a reply with 17 digits: the versions write the same
/// number with different digits.
const SCORES: &str = "local function scores(r) if type(r) == 'table' then if r.double then return scores(r.double) end local \
    a = {} for i, v in ipairs(r) do a[i] = scores(v) end return a end local n = tonumber(r) return n and show(n + 0) or r end";

/// A script and its keys and arguments.
pub(super) struct Script {
    statements: Vec<String>,
    /// Separators between the statements. Some are line breaks, so that errors have different
    /// lines.
    separators: Vec<&'static str>,
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) arguments: Vec<Vec<u8>>,
    /// True for the body of a function, which has no KEYS and ARGV.
    in_function: bool,
}

impl Script {
    /// Draws a script for EVAL.
    pub(super) fn draw(draw: &mut Draw) -> Self {
        let keys = if draw.chance(50) {
            draw.any_keys(3)
        } else {
            Vec::new()
        };
        let arguments = (0..draw.weighted(&[(5, 0), (3, 1), (2, 3)]))
            .map(|_| draw.value())
            .collect();
        Self {
            statements: Vec::new(),
            separators: Vec::new(),
            keys,
            arguments,
            in_function: false,
        }
        .filled(draw)
    }

    /// Draws the body of a function.
    pub(super) fn draw_for_function(draw: &mut Draw) -> Self {
        Self {
            statements: Vec::new(),
            separators: Vec::new(),
            keys: Vec::new(),
            arguments: Vec::new(),
            in_function: true,
        }
        .filled(draw)
    }

    fn filled(mut self, draw: &mut Draw) -> Self {
        let script = &mut self;
        if draw.chance(12) {
            // The script only returns a value.
            script.add(draw, |draw, _| format!("return {}", reply(draw, 3)));
            return self;
        }
        script.statements.push("local out = {}".to_owned());
        script.separators.push("\n");
        if draw.chance(30) {
            let version = draw.pick(&["3", "3", "2"]);
            script.add(draw, |_, _| format!("redis.setresp({version})"));
        }
        for _ in 0..draw.weighted(&[(4, 1), (4, 2), (2, 4), (1, 8)]) {
            script.add(draw, statement);
        }
        let end = match draw.between(0..=9) {
            0..=5 => "return out".to_owned(),
            6..=7 => format!("return {{out, {}}}", reply(draw, 2)),
            8 => format!("return {}", reply(draw, 3)),
            _ => String::new(),
        };
        script.add(draw, |_, _| end);
        self
    }

    fn add(&mut self, draw: &mut Draw, make: impl FnOnce(&mut Draw, &mut Self) -> String) {
        let statement = make(draw, self);
        self.statements.push(statement);
        self.separators.push(draw.weighted(&[
            (4, "\n"),
            (3, " "),
            (1, "\n\n"),
            (1, " -- comment\n"),
        ]));
    }

    /// Returns the script's text.
    pub(super) fn text(&self) -> String {
        let body: String = self
            .statements
            .iter()
            .zip(&self.separators)
            .map(|(text, end)| format!("{text}{end}"))
            .collect();
        // Only the functions that the script calls are defined: compilation takes most of a short
        // script's time.
        let calls = |function: &str| body.contains(function);
        let (twos, scores) = (calls("twos("), calls("scores("));
        let bag = twos || calls("bag(");
        let show = bag || scores || calls("show(");
        [(show, SHOW), (bag, BAG), (twos, PAIRS), (scores, SCORES)]
            .into_iter()
            .filter(|(called, _)| *called)
            .map(|(_, function)| format!("{function} "))
            .chain([body.clone()])
            .collect()
    }

    /// Returns an expression for an argument of a command: a literal, or an element of KEYS or
    /// ARGV.
    fn argument(&mut self, draw: &mut Draw, bytes: &[u8]) -> String {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        if draw.chance(30)
            && text
                .parse::<i32>()
                .is_ok_and(|number| number.to_string() == text)
        {
            return text.to_owned();
        }
        if !self.in_function && draw.chance(25) {
            let (list, name) = match draw.chance(50) {
                true => (&mut self.keys, "KEYS"),
                false => (&mut self.arguments, "ARGV"),
            };
            list.push(bytes.to_vec());
            return format!("{name}[{}]", list.len());
        }
        quoted(bytes)
    }

    /// Returns a call of the command.
    fn call(&mut self, draw: &mut Draw, function: &str, command: &Command) -> String {
        let arguments: Vec<String> = command
            .args()
            .iter()
            .map(|word| self.argument(draw, word))
            .collect();
        format!("redis.{function}({})", arguments.join(", "))
    }
}

fn statement(draw: &mut Draw, script: &mut Script) -> String {
    match draw.between(0..=99) {
        0..=49 => commands(draw, script),
        50..=59 => conversion(draw),
        60..=79 => library(draw),
        80..=86 => lua(draw),
        87..=93 => api(draw),
        _ => failure(draw),
    }
}

/// Returns Lua code that calls a group of commands of another family, and keeps the part of each
/// reply that must be equal on both servers.
fn commands(draw: &mut Draw, script: &mut Script) -> String {
    let commands = called(draw);
    let alone = commands.len() == 1;
    let mut out = Vec::new();
    for command in commands {
        // A function may be called several times. The result of GT and LT with a relative TTL then
        // depends on the time.
        if script.in_function
            && (2..command.args().len()).any(|at| matches!(&*command.word(at), "GT" | "LT"))
        {
            continue;
        }
        // An error must not end the script before later commands of the group, which may remove
        // random data.
        let function = if alone && draw.chance(40) {
            "call"
        } else {
            "pcall"
        };
        let call = script.call(draw, function, &command);
        let kept = match Rule::of(&command) {
            // In Lua, the elements of a set are keys of a table. If they are tables themselves, as
            // in COMMAND, their order depends on their addresses. Replies of GEO commands contain
            // doubles, which the versions write with different digits.
            Rule::Exact if command.name() == "COMMAND" || command.name().starts_with("GEO") => {
                "show(r)"
            }
            Rule::Exact => draw.weighted(&[
                (3, "r"),
                (3, "show(r)"),
                (1, "cjson.encode(r)"),
                (1, "type(r)"),
            ]),
            Rule::AnyOrder => "bag(r)",
            Rule::PairsInAnyOrder => "twos(r)",
            Rule::Scores => "scores(r)",
            _ => "type(r)",
        };
        // A reply may contain a double that JSON cannot express, so the encoding may fail.
        let kept = if kept.starts_with("cjson") {
            "select(2, pcall(cjson.encode, r))"
        } else {
            kept
        };
        out.push(format!(
            "do local r = {call} out[#out + 1] = type(r) == 'table' and r.err or {kept} end"
        ));
    }
    out.join(" ")
}

/// Returns Lua code that returns a value, or passes it through a conversion.
fn conversion(draw: &mut Draw) -> String {
    match draw.between(0..=4) {
        0..=2 => format!("out[#out + 1] = {}", reply(draw, 2)),
        3 => format!("out[#out + 1] = show({})", reply(draw, 2)),
        _ => {
            let argument = match draw.between(0..=2) {
                0 => number(draw),
                1 => string(draw),
                _ => reply(draw, 1),
            };
            format!(
                "out[#out + 1] = redis.{}('ECHO', {argument})",
                draw.pick(&["call", "pcall", "pcall"])
            )
        }
    }
}

/// Returns Lua code that calls a library such as cjson. Its errors are results as well.
fn library(draw: &mut Draw) -> String {
    let call = match draw.between(0..=13) {
        0..=2 => format!("cjson.encode, {}", data(draw, 3)),
        3..=5 => format!("cjson.decode, {}", json(draw)),
        6 => format!(
            "function(v) return cjson.decode(cjson.encode(v)) end, {}",
            data(draw, 2)
        ),
        7..=8 => format!("cmsgpack.pack, {}, {}", data(draw, 3), data(draw, 1)),
        9 => format!(
            "function(...) return cmsgpack.unpack(cmsgpack.pack(...)) end, {}",
            data(draw, 3)
        ),
        10 => {
            let length = draw.count(0..=12);
            let bytes: Vec<u8> = (0..length).map(|_| packed_byte(draw)).collect();
            format!(
                "cmsgpack.{}, {}",
                draw.pick(&["unpack", "unpack_one"]),
                quoted(&bytes)
            )
        }
        11 => {
            let (format, values) = structure(draw);
            format!("struct.pack, '{format}'{values}")
        }
        12 => {
            let (format, _) = structure(draw);
            let length = draw.count(0..=24);
            let bytes: Vec<u8> = (0..length).map(|_| draw.bits().to_le_bytes()[0]).collect();
            format!("struct.unpack, '{format}', {}", quoted(&bytes))
        }
        _ => {
            let name = draw.pick(&[
                "tobit", "tohex", "bnot", "band", "bor", "bxor", "lshift", "rshift", "arshift",
                "rol", "ror", "bswap",
            ]);
            let arguments: Vec<String> = (0..draw.between(0..=3)).map(|_| number(draw)).collect();
            let comma = if arguments.is_empty() { "" } else { ", " };
            format!("bit.{name}{comma}{}", arguments.join(", "))
        }
    };
    format!("out[#out + 1] = show({{pcall({call})}})")
}

/// Returns a byte that often starts a value of MessagePack.
fn packed_byte(draw: &mut Draw) -> u8 {
    let any = draw.bits().to_le_bytes()[0];
    match draw.between(0..=9) {
        0..=3 => any % 8,
        4..=5 => 0xc0 + any % 32,
        6 => 0x90 + any % 4,
        7 => 0x80 + any % 3,
        8 => 0xa0 + any % 4,
        _ => any,
    }
}

/// Returns a format of `struct`, and values for it with a comma before each.
fn structure(draw: &mut Draw) -> (String, String) {
    let (mut format, mut values) = (String::new(), String::new());
    for _ in 0..draw.between(0..=5) {
        let item = draw.pick(&[
            "b", "B", "h", "H", "i", "I", "l", "L", "T", "f", "d", "s", "x", ">", "<", "=", "!",
            "!4", "!2", "i3", "I8", "i16", "c3", "c0", "c9", " ", "I0", "i40", "y", "!3",
        ]);
        format.push_str(item);
        let value = match item.as_bytes().first() {
            Some(b's' | b'c') => quoted(&draw.element()),
            Some(b'f' | b'd') => draw.pick(&["1.5", "-0.25", "0", "1e10", "0.1"]).to_owned(),
            // The conversion of a number beyond 64 bits to an integer is undefined.
            Some(b'b' | b'B' | b'h' | b'H' | b'i' | b'I' | b'l' | b'L' | b'T') => {
                draw.between(-70_000..=5_000_000_000).to_string()
            }
            _ => continue,
        };
        values.push_str(", ");
        values.push_str(&value);
    }
    (format, values)
}

/// Returns Lua code that computes a value with Lua's own operators and functions.
fn lua(draw: &mut Draw) -> String {
    let value = match draw.between(0..=9) {
        0..=1 => format!(
            "{} {} {}",
            number(draw),
            draw.pick(&["+", "-", "*", "/", "%", "^", "<", "<=", "==", ".."]),
            number(draw)
        ),
        2 => format!("tostring({})", number(draw)),
        3 => format!("tonumber({})", string(draw)),
        4 => format!(
            "string.format('{}', {})",
            draw.pick(&[
                "%d", "%5.2f", "%g", "%.17g", "%x", "%s", "%q", "%c", "%e", "%-8s|", "%05d"
            ]),
            draw.between(-3..=300)
        ),
        5 => format!(
            "string.format('{}', {})",
            draw.pick(&["%s", "%q", "%.3s", "%10s", "%d"]),
            string(draw)
        ),
        6 => format!(
            "{{string.gsub({}, '{}', '{}')}}",
            string(draw),
            draw.pick(&["%d", "[a-e]", "(.)(.)", "%s*", ".-", "%"]),
            draw.pick(&["", "%0", "%1", "<%1>", "%2"])
        ),
        7 => format!(
            "{{string.{}({}, {})}}",
            draw.pick(&["sub", "byte", "rep"]),
            string(draw),
            draw.between(-5..=5)
        ),
        8 => format!("math.random({})", draw.between(1..=1000)),
        _ => format!(
            "table.concat({}, ',')",
            draw.pick(&["KEYS", "ARGV", "{1, 2.5, 'x'}", "{}", "{1, {}, 3}"])
        ),
    };
    format!("out[#out + 1] = show({value})")
}

/// Returns Lua code that calls a function of the table `redis`.
fn api(draw: &mut Draw) -> String {
    let call = match draw.between(0..=9) {
        0 => format!("redis.sha1hex({})", string(draw)),
        1 => format!("redis.status_reply({})", string(draw)),
        2 => format!("redis.error_reply({})", string(draw)),
        3 => format!("redis.log(redis.LOG_DEBUG, {})", string(draw)),
        4 => format!("redis.setresp({})", draw.pick(&["2", "3", "3", "4", "'x'"])),
        5 => format!(
            "redis.set_repl({})",
            draw.pick(&["redis.REPL_ALL", "redis.REPL_NONE", "9"])
        ),
        6 => format!(
            "redis.acl_check_cmd('{}', 'k')",
            draw.pick(&["get", "set", "nosuch", "config"])
        ),
        7 => "redis.replicate_commands()".to_owned(),
        8 => "{redis.call('TIME')[1] == redis.call('TIME')[1], #KEYS, #ARGV}".to_owned(),
        _ => format!(
            "redis.{}({})",
            draw.pick(&["status_reply", "error_reply", "sha1hex", "log", "call"]),
            reply(draw, 0)
        ),
    };
    format!("out[#out + 1] = {call}")
}

/// Returns Lua code that raises an error, which the script may catch.
fn failure(draw: &mut Draw) -> String {
    let raise = match draw.between(0..=9) {
        0..=1 => format!("error({})", string(draw)),
        2 => format!("error({}, {})", string(draw), draw.between(0..=3)),
        // Other error tables crash redis-server: see the corpus.
        3 => format!("error({{err = {}}})", string(draw)),
        4 => format!("error(redis.error_reply({}))", string(draw)),
        5 => format!(
            "redis.call({})",
            draw.pick(&[
                "'nosuch'",
                "'GET'",
                "'EVAL', 'return 1', '0'",
                "'MULTI'",
                "'CLIENT', 'ID'",
                "",
                "{}",
                "'SUBSCRIBE', 'c'",
                "'SET', 'k0', {}"
            ])
        ),
        6 => draw
            .pick(&[
                "nosuch = 1",
                "local x = nosuch",
                "redis.x = 1",
                "string.format = nil",
                "rawset(_G, 'x', 1)",
                "setmetatable(_G, {})",
            ])
            .to_owned(),
        7 => draw
            .pick(&[
                "local x = nil; x.y = 1",
                "local x = 1 + {}",
                "local x = #nil",
                "local x = {} < {}",
                "local x = ('x'):nosuch()",
                "local x = 'a' .. nil",
            ])
            .to_owned(),
        8 => format!("assert(false, {})", string(draw)),
        _ => draw
            .pick(&[
                "local function f() return 1 + f() end f()",
                "string.rep()",
                "unpack()",
                "tonumber()",
                "ipairs()",
                "coroutine.yield()",
            ])
            .to_owned(),
    };
    match draw.between(0..=9) {
        0..=5 => format!("out[#out + 1] = show({{pcall(function() {raise} end)}})"),
        6 => format!("out[#out + 1] = select(2, pcall(function() {raise} end))"),
        7 => format!("coroutine.wrap(function() {raise} end)()"),
        _ => format!("do {raise} end"),
    }
}
