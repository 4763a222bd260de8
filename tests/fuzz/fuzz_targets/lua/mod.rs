//! A script that fails if a property of its arguments does not hold.

use punctual_lua::{Call, Host, Interpreter, LogLevel, Options, Script};
use punctual_resp::{Args, OwnedArgs, Protocol, Reply};

/// A host without commands: the scripts call none.
struct Nothing;

impl Host for Nothing {
    fn call(&mut self, _: Args<'_>, _: Protocol, _: &mut Vec<u8>) {
        unreachable!("the script runs no command");
    }
    fn log(&mut self, _: LogLevel, _: &[u8]) {}
    fn interrupt(&mut self) -> Option<&'static str> {
        None
    }
}

/// A Lua script that checks a property, and the interpreter that has compiled it.
pub struct Property {
    lua: Interpreter,
    script: Script,
}

impl Property {
    /// Compiles the script.
    pub fn new(code: &[u8]) -> Self {
        let mut lua = Interpreter::new(Options::default());
        let script = lua.compile(code).expect("a script");
        Self { lua, script }
    }

    /// Runs the script with these arguments. Panics if it fails.
    pub fn check<const N: usize>(&mut self, arguments: [&[u8]; N]) {
        let (keys, argv) = (OwnedArgs::default(), OwnedArgs::from_iter(arguments));
        let call = Call {
            name: "f",
            keys: keys.as_args(),
            argv: argv.as_args(),
        };
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        self.lua
            .run(&self.script, &call, &mut Nothing, &mut reply)
            .expect("the properties hold");
    }
}
