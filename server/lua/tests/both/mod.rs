//! Runs the same scripts in a redis-server and in an [`Interpreter`], and compares the replies.

// Each test program uses only some of these functions.
#![allow(dead_code)]

use punctual_harness::{Launch, Process, Wire};
use punctual_lua::{Call, Host, Interpreter, LogLevel, Options};
use punctual_resp::{Args, OwnedArgs, Protocol, Reply};
use rand::SeedableRng;
use rand::rngs::StdRng;
use sha1::{Digest, Sha1};

/// Returns a generator with a new seed, or with the seed in the variable `SEED` or
/// `PROPTEST_RNG_SEED`, which CI sets.
pub fn random() -> StdRng {
    StdRng::seed_from_u64(punctual_harness::seed(&["SEED", "PROPTEST_RNG_SEED"]))
}

/// A server with the commands PING and ECHO.
struct Commands;

impl Host for Commands {
    fn call(&mut self, args: Args<'_>, protocol: Protocol, reply: &mut Vec<u8>) {
        let mut reply = Reply::new(reply, protocol);
        match (args.at(0), args.len()) {
            (b"ping", 1) => reply.simple("PONG"),
            (b"echo", 2) => reply.bulk(args.at(1)),
            (b"echo", _) => {
                reply.error("ERR Wrong number of args calling Redis command from script");
            }
            _ => reply.error("ERR Unknown Redis command called from script"),
        }
    }
    fn acl_check(&mut self, args: Args<'_>) -> Option<bool> {
        matches!(args.at(0), b"ping" | b"echo" | b"ECHO").then_some(true)
    }
    fn log(&mut self, _: LogLevel, _: &[u8]) {}
    fn interrupt(&mut self) -> Option<&'static str> {
        None
    }
}

/// A redis-server and an interpreter to compare with it.
pub struct Both {
    redis: Wire,
    _process: Process,
    lua: Interpreter,
}

impl Both {
    /// Starts a redis-server and creates an interpreter. Prints a message and returns `None` if
    /// redis-server is not installed.
    pub fn start() -> Option<Self> {
        let process = Launch::of("redis-server").options(["--save", ""]);
        let process = process.start_if_installed()?;
        Some(Self {
            redis: process.wire(),
            _process: process,
            lua: Interpreter::new(Options {
                version: "7.0.15",
                ..Options::default()
            }),
        })
    }

    /// Runs a script with these arguments on both, and asserts that the replies are equal. The
    /// script returns one element for each argument, and a failure shows the first argument whose
    /// elements differ.
    #[track_caller]
    pub fn same<A: AsRef<[u8]>>(&mut self, code: &str, argv: &[A]) {
        let mut words = vec![b"EVAL".as_slice(), code.as_bytes(), b"0"];
        words.extend(argv.iter().map(AsRef::as_ref));
        let theirs = self.redis.raw(&words);
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

    /// Runs each line, which is a script, on both, and asserts that the replies are equal.
    pub fn same_lines(&mut self, lines: &str) {
        let mut differences = String::new();
        for line in lines.lines().filter(|line| !line.is_empty()) {
            let theirs = self.redis.raw(&["EVAL", line, "0"]);
            let ours = self.run::<&str>(line, &[]);
            if theirs != ours {
                let (theirs, ours) = (theirs.escape_ascii(), ours.escape_ascii());
                differences +=
                    &format!("{line}\n  redis-server: {theirs}\n  ours:         {ours}\n");
            }
        }
        assert!(differences.is_empty(), "{differences}");
    }

    fn run<A: AsRef<[u8]>>(&mut self, code: &str, argv: &[A]) -> Vec<u8> {
        let mut out = Vec::new();
        let script = match self.lua.compile(code.as_bytes()) {
            Ok(script) => script,
            Err(text) => {
                let text = [b"ERR Error compiling script (new function): ", &text[..]].concat();
                Reply::new(&mut out, Protocol::Resp2).error(text);
                return out;
            }
        };
        let name: String = Sha1::digest(code)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let (keys, argv) = (OwnedArgs::default(), argv.iter().collect::<OwnedArgs>());
        let call = Call {
            name: &name,
            keys: keys.as_args(),
            argv: argv.as_args(),
        };
        let mut reply = Reply::new(&mut out, Protocol::Resp2);
        if let Err(failure) = self.lua.run(&script, &call, &mut Commands, &mut reply) {
            reply.error(&failure.text);
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
