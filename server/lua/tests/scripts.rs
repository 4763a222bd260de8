//! Scripts, with a host whose command `raw` replies with its argument.

use punctual_lua::{Call, Failure, Host, Interpreter, LogLevel, Options};
use punctual_resp::{Args, OwnedArgs, Protocol, Reply};

/// A host that replies to `raw X` with the bytes X, and to other commands with an error.
#[derive(Default)]
struct Raw {
    /// Number of checks after which the script is interrupted; `None` for no interrupt.
    checks_left: Option<u32>,
}

impl Host for Raw {
    fn call(&mut self, args: Args<'_>, _: Protocol, reply: &mut Vec<u8>) {
        match args.at(0) {
            b"raw" => reply.extend_from_slice(args.at(1)),
            _ => reply.extend_from_slice(b"-ERR unknown\r\n"),
        }
    }
    fn log(&mut self, _: LogLevel, _: &[u8]) {}
    fn interrupt(&mut self) -> Option<&'static str> {
        let left = self.checks_left.as_mut()?;
        *left = left.saturating_sub(1);
        (*left == 0).then_some("enough")
    }
}

fn run_with(code: &str, host: &mut Raw, options: Options) -> Result<Vec<u8>, Failure> {
    let mut lua = Interpreter::new(options);
    let script = lua.compile(code.as_bytes()).expect("the script compiles");
    let (keys, argv) = (
        OwnedArgs::from_iter(["k"]),
        OwnedArgs::from_iter(["a", "b"]),
    );
    let mut out = Vec::new();
    let call = Call {
        name: "f",
        keys: keys.as_args(),
        argv: argv.as_args(),
    };
    let mut reply = Reply::new(&mut out, Protocol::Resp3);
    lua.run(&script, &call, host, &mut reply).map(|()| out)
}

fn run(code: &str) -> String {
    match run_with(code, &mut Raw::default(), Options::default()) {
        Ok(out) => String::from_utf8_lossy(&out).into_owned(),
        Err(failure) => failure.to_string(),
    }
}

#[test]
fn values_become_replies() {
    for (code, reply) in [
        ("return 'a'", "$1\r\na\r\n"),
        ("return 3.99", ":3\r\n"),
        ("return true", ":1\r\n"),
        ("return false", "_\r\n"),
        (
            "return {1,{2,'x'},nil,4}",
            "*2\r\n:1\r\n*2\r\n:2\r\n$1\r\nx\r\n",
        ),
        ("return {ok='fine'}", "+fine\r\n"),
        ("return {err='ERR bad'}", "-ERR bad\r\n"),
        ("return {double=1.5}", ",1.5\r\n"),
        ("return {map={a=1}}", "%1\r\n$1\r\na\r\n:1\r\n"),
        ("return {set={a=true}}", "~1\r\n$1\r\na\r\n"),
        ("return {big_number='12'}", "(12\r\n"),
        (
            "return {verbatim_string={format='txt',string='x'}}",
            "=5\r\ntxt:x\r\n",
        ),
        ("redis.setresp(3) return true", "#t\r\n"),
        ("return KEYS[1]..ARGV[2]", "$2\r\nkb\r\n"),
        (
            "return redis.call('raw', '*2\\r\\n:1\\r\\n$-1\\r\\n')",
            "*2\r\n:1\r\n_\r\n",
        ),
        (
            "return redis.call('raw', '~1\\r\\n,2.5\\r\\n').set ~= nil",
            ":1\r\n",
        ),
        ("math.randomseed(0) return math.random(100)", ":18\r\n"),
        (
            "return redis.sha1hex('')",
            "$40\r\nda39a3ee5e6b4b0d3255bfef95601890afd80709\r\n",
        ),
    ] {
        assert_eq!(run(code), reply, "{code}");
    }
}

#[test]
fn garbage_of_a_script_does_not_limit_the_next_script() {
    let mut lua = Interpreter::new(Options {
        memory_limit: 16 << 20,
        ..Options::default()
    });
    let greedy = lua.compile(b"local t = {} while true do t[#t + 1] = {} end");
    let modest = lua.compile(b"return #string.rep('x', 1e6)");
    let (greedy, modest) = (greedy.expect("it compiles"), modest.expect("it compiles"));
    let none = OwnedArgs::default();
    let call = Call {
        name: "f",
        keys: none.as_args(),
        argv: none.as_args(),
    };
    let mut run = |script| {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        lua.run(script, &call, &mut Raw::default(), &mut reply)
            .map(|()| out)
    };
    for _ in 0..3 {
        assert!(run(&greedy).is_err());
        assert_eq!(run(&modest).expect("there is room"), b":1000000\r\n");
    }
}

#[test]
fn errors_name_script_and_line() {
    for (code, error) in [
        (
            "\nerror('x')",
            "ERR user_script:2: x script: f, on @user_script:2.",
        ),
        ("error({err='MY x'})", "MY x script: f, on @user_script:1."),
        (
            "return redis.call('nope')",
            "ERR unknown script: f, on @user_script:1.",
        ),
        ("return redis.pcall('nope')", "-ERR unknown\r\n"),
        (
            "a = 1",
            "ERR user_script:1: Attempt to modify a readonly table script: f, on @user_script:1.",
        ),
        (
            "return a",
            "ERR user_script:1: Script attempted to access nonexistent global variable 'a' script: f, on @user_script:1.",
        ),
        (
            "string.rep = 1",
            "ERR user_script:1: Attempt to modify a readonly table script: f, on @user_script:1.",
        ),
        (
            "rawset(_G, 'a', 1)",
            "ERR Attempt to modify a readonly table script: f, on @user_script:1.",
        ),
    ] {
        assert_eq!(run(code), error, "{code}");
    }
}

#[test]
fn endless_scripts_end() {
    let limited = Options {
        memory_limit: 16 << 20,
        ..Options::default()
    };
    for code in [
        "local t = {} while true do t[#t + 1] = tostring(#t) end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e9)",
        "local function f() return 1 + f() end return f()",
        "return string.rep('x', 300000):find(string.rep('x?', 300000) .. 'y')",
        "local t = {} for i = 1, 10000 do t[i] = i end return unpack(t)",
        "return cjson.decode('[' .. string.rep('[],', 1e6) .. '[]]')",
        "cjson.encode_sparse_array(true, 0) return cjson.encode({[2^31 - 1] = 1})",
        "local co = coroutine.wrap(function() while true do end end) co()",
        "while true do pcall(function() while true do end end) end",
        // C functions do the work here, and unedited Lua calls no hook within them.
        "return ('a'):rep(30):find(('a?'):rep(30) .. ('a'):rep(31))",
        "return ('a'):rep(1e6):find('.-.-.-.-b')",
        "return ('a'):rep(1e6):find(('[ab]'):rep(20) .. '*b')",
        "return ('('):rep(1e6):find('%b()')",
        "return ('ab'):rep(1e6):gsub('(a.*)%1%1', '')",
        "return ('a'):rep(1e6):find(('a'):rep(5e5) .. 'b', 1, true)",
        "return string.rep('', 1e9)",
        "local s = ('x'):rep(1e6) while true do s:upper() end",
        "local s = ('x'):rep(1e6) local t = s .. '' while true do local _ = s .. 'a' < s .. 'b' end",
        "local t = {} while true do table.insert(t, 1, 0) end",
        "local t = {0} while true do table.insert(t, -1e8, 0) end",
        "local t = {} for i = 1, 1e5 do t['k' .. i] = i end for i = 1, 1e5 do t['k' .. i] = nil end while true do next(t) end",
        "while true do collectgarbage() end",
        // A table that contains another table many times is small, but its packed form is large.
        "local t = {} for i = 1, 15 do local u = {} for j = 1, 100 do u[j] = t end t = u end return cmsgpack.pack(t)",
        "local t = {} for i = 1, 15 do local u = {} for j = 1, 100 do u[j] = t end t = u end return cjson.encode(t)",
        "return cmsgpack.unpack('\\221\\0\\255\\255\\255' .. ('\\144'):rep(2^24))",
    ] {
        let mut host = Raw {
            checks_left: Some(20),
        };
        assert!(run_with(code, &mut host, limited).is_err(), "{code}");
    }
}

#[test]
fn errors_have_texts() {
    let limited = Options {
        memory_limit: 4 << 20,
        ..Options::default()
    };
    for (code, error) in [
        (
            "while true do end",
            "ERR enough script: f, on @user_script:1.",
        ),
        (
            "return ('a'):rep(40):find(('a?'):rep(40) .. ('a'):rep(41))",
            "ERR enough script: f, on @user_script:1.",
        ),
        (
            "local s = 'x' while true do s = s .. s end",
            "ERR Error running script f, not enough memory",
        ),
        (
            "local s = ('x'):rep(1e6) return cmsgpack.pack(s, s, s, s, s)",
            "ERR not enough memory script: f, on @user_script:1.",
        ),
        // Redis 7.0 crashes here.
        (
            "error({1})",
            "ERR unknown error script: f, on @user_script:1.",
        ),
        (
            "return os.clock() >= 0 and os.time == nil and redis.REDIS_VERSION",
            "$5\r\n7.2.4\r\n",
        ),
    ] {
        let mut host = Raw {
            checks_left: Some(1000),
        };
        let ended = match run_with(code, &mut host, limited) {
            Ok(out) => String::from_utf8(out).unwrap(),
            Err(failure) => failure.to_string(),
        };
        assert_eq!(ended, error, "{code}");
    }
}

#[test]
fn deep_replies_end() {
    // The maximum depth is the one of redis-server 7.0.15.
    for (code, level, levels) in [
        ("t = {t}", "*1\r\n", 7995),
        ("t = {map = {t}}", "%1\r\n", 2665),
        ("t = {set = {[t] = 1}}", "~1\r\n", 2665),
    ] {
        let code = format!("local t = {{}} for i = 1, 1e5 do {code} end return t");
        let reply = run(&code);
        assert_eq!(reply.matches(level).count(), levels, "{code}");
        assert!(
            reply.ends_with("-ERR reached lua stack limit\r\n"),
            "{code}"
        );
    }
    let limited = Options {
        memory_limit: 4 << 20,
        ..Options::default()
    };
    let code = "local t = {} for i = 1, 40 do t = {t, t} end return t";
    let reply = run_with(code, &mut Raw::default(), limited).expect("a reply");
    assert_eq!(reply, b"-ERR not enough memory\r\n");
}

#[test]
fn compiling_has_the_limit_of_scripts() {
    let mut lua = Interpreter::new(Options {
        memory_limit: 1 << 20,
        ..Options::default()
    });
    let code = format!("return '{}'", "x".repeat(2 << 20));
    let text = lua.compile(code.as_bytes()).expect_err("no memory");
    assert_eq!(text, b"not enough memory");
    lua.compile(b"return 1").expect("a script");
}

#[test]
fn bytecode_is_refused() {
    let code = "local f, text = loadstring(string.char(27) .. 'Lua') return {tostring(f), text}";
    let refused = "[string \"\u{1b}Lua\"]:1: unexpected symbol near 'char(27)'";
    assert_eq!(
        run(code),
        format!("*2\r\n$3\r\nnil\r\n${}\r\n{refused}\r\n", refused.len())
    );
}
