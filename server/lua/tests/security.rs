//! Scripts that exploited vulnerabilities of Redis. Each test has the number of the report;
//! README.md describes the reports.

use punctual_lua::{Call, Failure, Host, Interpreter, LogLevel, Options};
use punctual_resp::{Args, OwnedArgs, Protocol, Reply};

struct Nothing;

impl Host for Nothing {
    fn call(&mut self, _: Args<'_>, _: Protocol, _: &mut Vec<u8>) {
        unreachable!("the scripts run no command");
    }
    fn log(&mut self, _: LogLevel, _: &[u8]) {}
    fn interrupt(&mut self) -> Option<&'static str> {
        None
    }
}

/// Runs a script, and returns its reply.
fn reply(code: &str) -> Result<Vec<u8>, Failure> {
    let mut lua = Interpreter::new(Options::default());
    let script = lua.compile(code.as_bytes()).expect("a script");
    let none = OwnedArgs::default();
    let call = Call {
        name: "f",
        keys: none.as_args(),
        argv: none.as_args(),
    };
    let mut out = Vec::new();
    let mut reply = Reply::new(&mut out, Protocol::Resp2);
    lua.run(&script, &call, &mut Nothing, &mut reply)
        .map(|()| out)
}

/// Runs the body of a function. Returns the string that the body returns, or its error message
/// without the place.
fn run(body: &str) -> String {
    let code = format!(
        "local ok, text = pcall(function() {body} end)
        return (tostring(text):gsub('^[^:]*:%d+: ', ''))"
    );
    let out = reply(&code).unwrap();
    let (value, _) = punctual_resp::decode(&out).unwrap().expect("a reply");
    match value {
        punctual_resp::Value::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{other:?}"),
    }
}

/// Runs each body, and asserts that its result or error message is the second string.
#[track_caller]
fn assert_all(cases: &[(&str, &str)]) {
    for (body, result) in cases {
        assert_eq!(run(body), *result, "{body}");
    }
}

#[test]
fn cve_2014_5461() {
    // A new coroutine's stack has no room for so many parameters.
    let names: Vec<String> = (0..190).map(|n| format!("a{n}")).collect();
    let body = format!(
        "local function f({}, ...) return select('#', ...) end
        local results = {{}}
        for i = 0, 40 do results[#results + 1] = coroutine.wrap(f)(unpack({{}}, 1, i * 10)) end
        return table.concat(results, ' ', 18, 22)",
        names.join(",")
    );
    assert_eq!(run(&body), "0 0 0 10 20");
}

#[test]
fn cve_2015_4335() {
    assert_all(&[
        (
            "return type(loadstring(string.dump(function() end)))",
            "nil",
        ),
        (
            "local sent return type(load(function() if not sent then sent = 1 return string.dump(function() end) end end))",
            "nil",
        ),
    ]);
}

#[test]
fn cve_2015_8080_and_2020_14147() {
    for option in ["c", "i", "I", "!"] {
        for size in ["2147483648", "4294967297", "18446744073709551617"] {
            for function in ["pack", "unpack", "size"] {
                let body = format!("return struct.{function}('{option}{size}', 'x')");
                assert_eq!(run(&body), "integral size overflow", "{body}");
            }
        }
    }
}

#[test]
fn cve_2018_11218() {
    assert_all(&[
        (
            "return cmsgpack.unpack(string.rep('\\145', 1e6))",
            "stack overflow (in function mp_decode_to_lua_array)",
        ),
        (
            "return cmsgpack.unpack(string.rep('\\129', 1e6))",
            "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)",
        ),
    ]);
}

#[test]
fn cve_2018_11219_and_2020_14147() {
    const SHORT: &str = "bad argument #2 to 'unpack' (data string too short)";
    assert_all(&[
        ("return struct.unpack('b', 'a', -1)", SHORT),
        ("return struct.unpack('b', 'a', -2^63)", SHORT),
        (
            "return struct.unpack('c2147483647', 'a', 2^63 - 1024)",
            SHORT,
        ),
        ("return struct.unpack('!8 l', 'a', -7)", SHORT),
        ("return struct.unpack('lc0', ('\\255'):rep(8))", SHORT),
        (
            "return struct.unpack('dc0', struct.pack('d', 2^63) .. 'x')",
            SHORT,
        ),
        (
            "return struct.unpack('dc0', struct.pack('d', 0/0) .. 'x')",
            SHORT,
        ),
    ]);
}

#[test]
fn cve_2021_32626() {
    // The libraries are called with a full stack.
    assert_all(&[
        (
            "local t = {} for i = 1, 4000 do t[i] = {1} end return cmsgpack.pack(unpack(t))",
            "stack overflow (in function table_is_an_array)",
        ),
        (
            "return struct.unpack(('b'):rep(9000), ('x'):rep(9000))",
            "stack overflow (too many results)",
        ),
        (
            "local t = {} for i = 1, 7990 do t[i] = 1 end return cmsgpack.pack(unpack(t))",
            "bad argument #0 to 'pack' (Too many arguments for MessagePack pack.)",
        ),
    ]);
}

#[test]
fn cve_2022_0543_and_2022_24735_and_2025_46818() {
    const REFUSED: &str = "Attempt to modify a readonly table";
    for statement in [
        "x = 1",
        "_G.x = 1",
        "redis.call = nil",
        "string.rep = nil",
        "bit.x = 1",
        "struct.x = 1",
        "cmsgpack.x = 1",
        "cjson.x = 1",
        "os.x = 1",
        "coroutine.x = 1",
        "rawset(_G, 'x', 1)",
        "rawset(table, 'x', 1)",
        "table.insert(_G, 1)",
        "setmetatable(_G, nil)",
        "setmetatable(string, {})",
        "getmetatable('').__index = nil",
        "rawset(getmetatable(''), '__index', nil)",
        "setmetatable(getmetatable(''), {})",
        "getmetatable(_G).__index = nil",
    ] {
        assert_eq!(run(statement), REFUSED, "{statement}");
    }
    assert_all(&[
        (
            "local found = '' for _, v in ipairs({1, true, true, cjson.null, tostring}) do
                if getmetatable(v) then found = found .. type(v) end
            end return found",
            "",
        ),
        (
            "local missing = '' for _, name in ipairs({'debug', 'getfenv', 'setfenv', 'newproxy', 'package', 'io', 'require'}) do
                missing = missing .. tostring(rawget(_G, name))
            end return missing",
            "nilnilnilnilnilnilnil",
        ),
    ]);
}

#[test]
fn cve_2024_31449() {
    assert_all(&[
        ("return bit.tohex(65535, -2147483648)", "0000FFFF"),
        ("return bit.tohex(65535, 2147483648)", "0000FFFF"),
    ]);
}

#[test]
fn cve_2024_46981() {
    // Lua 5.1 does not call finalizers of tables, and scripts cannot make other values with
    // finalizers.
    assert_all(&[(
        "local called = 'none'
        setmetatable({}, {__gc = function() called = 'finalizer' end})
        collectgarbage()
        return called",
        "none",
    )]);
}

#[test]
fn cve_2025_46817() {
    for range in [
        "-2147483648, 2147483647",
        "0, 2147483647",
        "-1, 2147483647",
        "-2147483648, -1",
        "-2147483647, 1",
    ] {
        let body = format!("return unpack({{}}, {range})");
        assert_eq!(run(&body), "too many results to unpack", "{body}");
    }
    assert_all(&[
        (
            "return select('#', unpack({}, 2147483647, 2147483647))",
            "1",
        ),
        (
            "return select('#', unpack({}, -2147483648, -2147483648))",
            "1",
        ),
    ]);
}

#[test]
fn cve_2025_49844() {
    // The collector runs in the middle of parsing, while the parser still uses the chunk's name.
    assert_all(&[(
        "for i = 1, 200 do
            local parts = {'local a', ' = ', '1 x', ' ='}
            local n = 0
            local _, text = load(function()
                n = n + 1
                collectgarbage()
                local filling = {}
                for j = 1, 100 do filling[j] = '@' .. i .. ('n'):rep(j) end
                return parts[n]
            end, '@name' .. i)
            assert(text == 'name' .. i .. \":1: unexpected symbol near '<eof>'\", text)
        end return 'named'",
        "named",
    )]);
}

#[test]
fn cve_2025_67733() {
    // A reply with a line end in the middle would be two replies.
    for (code, expected) in [
        ("return redis.error_reply('A b\\r\\n+OK')", "-A b  +OK\r\n"),
        ("return {err = 'A b\\r\\n+OK'}", "-A b  +OK\r\n"),
        ("return {ok = 'A b\\r\\n+OK'}", "+A b  +OK\r\n"),
        ("return redis.status_reply('A\\r\\n+OK')", "+A  +OK\r\n"),
    ] {
        let reply = reply(code).unwrap();
        assert_eq!(String::from_utf8_lossy(&reply), expected, "{code}");
    }
    let failure = reply("error({err = 'A b\\r\\n+OK'})").unwrap_err();
    let mut out = Vec::new();
    Reply::new(&mut out, Protocol::Resp2).error(&failure.text);
    assert_eq!(out.iter().filter(|&&byte| byte == b'\n').count(), 1);
}
