//! A redis-server and an interpreter, which run the same scripts.

#[path = "../../../punctual-store/tests/oracle/redis.rs"]
mod redis;

use punctual_lua::{Call, Host, Interpreter, LogLevel, Options};
use punctual_resp::{Args, OwnedArgs, Protocol, Reply};
use sha1::{Digest, Sha1};

use redis::Redis;
pub use redis::random;

/// A server without commands.
struct NoCommands;

impl Host for NoCommands {
    fn call(&mut self, _: Args<'_>, protocol: Protocol, reply: &mut Vec<u8>) {
        Reply::new(reply, protocol).error("ERR unknown command");
    }
    fn log(&mut self, _: LogLevel, _: &[u8]) {}
    fn interrupt(&mut self) -> Option<&'static str> {
        None
    }
}

/// A redis-server and an interpreter.
pub struct Both {
    redis: Redis,
    lua: Interpreter,
}

impl Both {
    /// Starts both. Prints a message and returns `None` if redis-server is not installed.
    pub fn start(name: &str) -> Option<Self> {
        Some(Self {
            redis: Redis::start(name)?,
            lua: Interpreter::new(Options::default()),
        })
    }

    /// Runs a script with these arguments on both, and asserts that the replies are equal. A script returns one element for
    /// each argument.
    #[track_caller]
    pub fn same<A: AsRef<[u8]>>(&mut self, code: &str, argv: &[A]) {
        let mut words = vec![b"EVAL".as_slice(), code.as_bytes(), b"0"];
        words.extend(argv.iter().map(AsRef::as_ref));
        let theirs = self.redis.reply(&words);
        let ours = self.run(code, argv);
        if theirs == ours {
            return;
        }
        let (their_lines, our_lines) = (elements(&theirs), elements(&ours));
        for (n, arg) in argv.iter().enumerate() {
            let (theirs, ours) = (their_lines.get(n), our_lines.get(n));
            if theirs != ours {
                let show = |line: Option<&String>| line.map_or("none", String::as_str).to_owned();
                panic!(
                    "{}\nredis-server: {}\nours:         {}",
                    arg.as_ref().escape_ascii(),
                    show(theirs),
                    show(ours)
                );
            }
        }
        panic!(
            "{code}\nredis-server: {}\nours:         {}",
            theirs.escape_ascii(),
            ours.escape_ascii()
        );
    }

    fn run<A: AsRef<[u8]>>(&mut self, code: &str, argv: &[A]) -> Vec<u8> {
        let script = self.lua.compile(code.as_bytes()).expect("a script");
        let name: String = Sha1::digest(code)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let (keys, argv) = (OwnedArgs::default(), argv.iter().collect::<OwnedArgs>());
        let call = Call {
            name: &name,
            keys: keys.as_args(),
            argv: argv.as_args(),
            protocol: Protocol::Resp2,
        };
        let mut out = Vec::new();
        if let Err(failure) = self.lua.run(&script, &call, &mut NoCommands, &mut out) {
            Reply::new(&mut out, Protocol::Resp2).error(&failure.text);
        }
        self.lua.forget(script);
        out
    }
}

/// Returns the elements of an array of strings.
fn elements(reply: &[u8]) -> Vec<String> {
    let Ok(Some((punctual_resp::Value::Array(values), _))) = punctual_resp::decode(reply) else {
        return Vec::new();
    };
    values
        .iter()
        .map(|value| match value {
            punctual_resp::Value::Bulk(text) => text.escape_ascii().to_string(),
            other => format!("{other:?}"),
        })
        .collect()
}
