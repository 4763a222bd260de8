//! Libraries of functions, with a host that replies OK to every command.

use punctual_lua::{Call, Function, Functions, Host, LogLevel, Options, ScriptFlags};
use punctual_resp::{Args, OwnedArgs, Protocol, Reply};

/// A host that replies OK to every command, and interrupts code after 100 checks.
#[derive(Default)]
struct RepliesOk {
    logged: Vec<String>,
    interrupts: u32,
}

impl Host for RepliesOk {
    fn call(&mut self, _: Args<'_>, _: Protocol, reply: &mut Vec<u8>) {
        reply.extend_from_slice(b"+OK\r\n");
    }
    fn log(&mut self, _: LogLevel, text: &[u8]) {
        self.logged.push(String::from_utf8_lossy(text).into_owned());
    }
    fn interrupt(&mut self) -> Option<&'static str> {
        self.interrupts += 1;
        (self.interrupts > 100).then_some("FUNCTION LOAD timeout")
    }
}

fn load(lua: &mut Functions, code: &str) -> Result<Vec<Function>, String> {
    lua.load(code.as_bytes(), &mut RepliesOk::default())
        .map_err(|text| String::from_utf8_lossy(&text).into_owned())
}

fn call(lua: &mut Functions, function: &Function) -> String {
    let (keys, argv) = (
        OwnedArgs::from_iter(["k"]),
        OwnedArgs::from_iter(["a", "b"]),
    );
    let mut out = Vec::new();
    let call = Call {
        name: &function.declaration.name,
        keys: keys.as_args(),
        argv: argv.as_args(),
    };
    let mut reply = Reply::new(&mut out, Protocol::Resp2);
    match lua.call(function, &call, &mut RepliesOk::default(), &mut reply) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(failure) => failure.to_string(),
    }
}

/// Returns the reply of a function with this body.
fn run(body: &str) -> String {
    let mut lua = Functions::new(Options::default());
    let code = format!("\nredis.register_function('f', function(KEYS, ARGV) {body} end)");
    let library = load(&mut lua, &code).expect("a library");
    call(&mut lua, &library[0])
}

/// Returns the error of a library's code.
#[track_caller]
fn refused(code: &str) -> String {
    let mut lua = Functions::new(Options::default());
    let before = lua.memory();
    let error = load(&mut lua, code).expect_err("no library");
    // Nothing of the refused library remains, so another library can be loaded.
    let library = load(&mut lua, "redis.register_function('f', redis.log)").expect("a library");
    assert_eq!(library.len(), 1);
    assert!(lua.memory() < before + (1 << 20));
    error
}

#[test]
fn functions_get_keys_and_arguments() {
    assert_eq!(
        run("return {KEYS[1], #ARGV, ARGV[2]}"),
        "*3\r\n$1\r\nk\r\n:2\r\n$1\r\nb\r\n"
    );
    assert_eq!(run("return redis.call('anything')"), "+OK\r\n");
    assert_eq!(run("return string.rep('x', 3)"), "$3\r\nxxx\r\n");
}

#[test]
fn libraries_keep_their_upvalues() {
    let mut lua = Functions::new(Options::default());
    let code = "local n = 0
        redis.register_function('f', function() n = n + 1 return n end)
        redis.register_function('g', function() return n end)";
    let library = load(&mut lua, code).expect("a library");
    let names: Vec<_> = library
        .iter()
        .map(|function| &function.declaration.name[..])
        .collect();
    assert_eq!(names, ["f", "g"]);
    let again = load(&mut lua, code).expect("the same library");
    for n in 1..4 {
        assert_eq!(call(&mut lua, &library[0]), format!(":{n}\r\n"));
    }
    assert_eq!(call(&mut lua, &library[1]), ":3\r\n");
    assert_eq!(call(&mut lua, &again[1]), ":0\r\n");
    lua.forget(library);
    assert_eq!(call(&mut lua, &again[0]), ":1\r\n");
}

#[test]
fn descriptions_and_flags() {
    let mut lua = Functions::new(Options::default());
    let code =
        "redis.register_function{FUNCTION_NAME='f_1', callback=redis.log, description='about',
        flags={'no-writes', 'Allow-Stale'}}";
    let library = load(&mut lua, code).expect("a library");
    let function = &library[0].declaration;
    assert_eq!(function.name, "f_1");
    assert_eq!(function.description.as_deref(), Some(&b"about"[..]));
    assert_eq!(
        function.flags.names().collect::<Vec<_>>(),
        ["no-writes", "allow-stale"]
    );
    assert!(function.flags.has(ScriptFlags::NO_WRITES));
    assert!(!function.flags.has(ScriptFlags::ALLOW_OOM));
}

#[test]
fn few_globals_exist_while_a_library_loads() {
    let mut host = RepliesOk::default();
    let mut lua = Functions::new(Options::default());
    let code = "redis.log(redis.LOG_NOTICE, ('x'):rep(2), redis.REDIS_VERSION)
        redis.register_function('f', redis.log)";
    lua.load(code.as_bytes(), &mut host).expect("a library");
    assert_eq!(host.logged, ["xx 7.2.4"]);
    for (code, name) in [
        ("string.rep('x', 1)", "string"),
        ("local x = pairs", "pairs"),
        ("_G.x = 1", "_G"),
        ("redis.call('ping')", "call"),
        ("error('x')", "error"),
        ("KEYS = 1", ""),
        ("redis.x = 1", ""),
    ] {
        let reason = match name {
            "" => "Attempt to modify a readonly table".to_owned(),
            name => format!("Script attempted to access nonexistent global variable '{name}'"),
        };
        assert_eq!(
            refused(&format!("\n{code}")),
            format!("Error registering functions: ERR user_function:2: {reason}"),
            "{code}"
        );
    }
}

#[test]
fn running_functions_cannot_change_globals() {
    let readonly = |place: &str| {
        format!("ERR {place}Attempt to modify a readonly table script: f, on @user_function:2.")
    };
    for code in [
        "x = 1",
        "_G.x = 1",
        "redis.call = 1",
        "string.x = 1",
        "getmetatable(_G).__index = 1",
    ] {
        assert_eq!(run(code), readonly("user_function:2: "), "{code}");
    }
    assert_eq!(run("rawset(_G, 'x', 1)"), readonly(""));
    assert_eq!(run("setmetatable(_G, {})"), readonly(""));
    assert_eq!(
        run("return tostring(redis.register_function)"),
        "$3\r\nnil\r\n"
    );
    assert_eq!(run("return type(os.clock)"), "$8\r\nfunction\r\n");
}

#[test]
fn nothing_is_registered_at_run_time() {
    let mut lua = Functions::new(Options::default());
    let code = "local register = redis.register_function
        redis.register_function('f', function() register('g', register) end)
        redis.register_function('h', register)";
    let library = load(&mut lua, code).expect("a library");
    let error = "ERR redis.register_function can only be called on FUNCTION LOAD command";
    assert_eq!(
        call(&mut lua, &library[0]),
        format!("{error} script: f, on @user_function:2.")
    );
    assert_eq!(call(&mut lua, &library[1]), error);
}

#[test]
fn wrong_arguments_are_refused() {
    const NAME: &str = "Library names can only contain letters, numbers, or underscores(_) and must be at least one \
                        character long";
    let named = "calling redis.register_function with a single argument is only applicable to Lua table (representing named \
                 arguments).";
    for (arguments, error) in [
        ("()", "wrong number of arguments to redis.register_function"),
        (
            "('f', redis.log, 1)",
            "wrong number of arguments to redis.register_function",
        ),
        ("('f')", named),
        (
            "({}, redis.log)",
            "first argument to redis.register_function must be a string",
        ),
        (
            "('f', 1)",
            "second argument to redis.register_function must be a function",
        ),
        ("('', redis.log)", NAME),
        ("('a b', redis.log)", NAME),
        ("('a\\0', redis.log)", NAME),
        (
            "{}",
            "redis.register_function must get a function name argument",
        ),
        (
            "{function_name='f'}",
            "redis.register_function must get a callback argument",
        ),
        (
            "{function_name={}}",
            "function_name argument given to redis.register_function must be a string",
        ),
        (
            "{callback=1}",
            "callback argument given to redis.register_function must be a function",
        ),
        (
            "{description={}}",
            "description argument given to redis.register_function must be a string",
        ),
        (
            "{flags=1}",
            "flags argument to redis.register_function must be a table representing function flags",
        ),
        ("{flags={'x'}}", "unknown flag given"),
        ("{flags={1}}", "unknown flag given"),
        ("{x=1}", "unknown argument given to redis.register_function"),
        (
            "{[1]=1}",
            "unknown argument given to redis.register_function",
        ),
        (
            "{[{}]=1}",
            "named argument key given to redis.register_function is not a string",
        ),
    ] {
        let code =
            format!("redis.register_function('x', redis.log) redis.register_function{arguments}");
        assert_eq!(
            refused(&code),
            format!("Error registering functions: ERR {error}"),
            "{arguments}"
        );
    }
    let twice = "redis.register_function('f', redis.log)".repeat(2);
    assert_eq!(
        refused(&twice),
        "Error registering functions: ERR Function already exists in the library"
    );
}

#[test]
fn bad_libraries_are_refused() {
    assert_eq!(refused(""), "No functions registered");
    assert_eq!(
        refused("\nx x"),
        "Error compiling function: user_function:2: '=' expected near 'x'"
    );
    assert_eq!(
        refused("while true do end"),
        "Error registering functions: ERR FUNCTION LOAD timeout"
    );
    assert_eq!(
        refused("local function f() f() end f()"),
        "Error registering functions: ERR user_function:1: stack overflow"
    );
    let limited = Options {
        memory_limit: 8 << 20,
        ..Options::default()
    };
    let mut lua = Functions::new(limited);
    let error =
        load(&mut lua, "local s = 'x' while true do s = s .. s end").expect_err("no library");
    assert_eq!(error, "Error registering functions: ERR not enough memory");
    load(&mut lua, "redis.register_function('f', redis.log)").expect("a library");
}
