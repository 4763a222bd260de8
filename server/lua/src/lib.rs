//! Lua 5.1 as Redis runs it: its sandbox, its libraries, and its conversions between replies and
//! Lua values.
//!
//! The crate does not depend on a keyspace, a socket, a file or a clock: a server implements the
//! trait [`Host`], through which scripts run commands. An [`Interpreter`] is one Lua state, which
//! one thread at a time can use. [`Functions`] is a Lua state for libraries of functions.
//!
//! ```
//! use punctual_lua::{Call, Host, Interpreter, LogLevel, Options};
//! use punctual_resp::{Args, OwnedArgs, Protocol, Reply};
//!
//! /// Replies to every command with its number of arguments.
//! struct Counts;
//!
//! impl Host for Counts {
//!     fn call(&mut self, args: Args<'_>, protocol: Protocol, reply: &mut Vec<u8>) {
//!         Reply::new(reply, protocol).int(args.len() as i64);
//!     }
//!     fn log(&mut self, _: LogLevel, _: &[u8]) {}
//!     fn interrupt(&mut self) -> Option<&'static str> {
//!         None
//!     }
//! }
//!
//! let mut lua = Interpreter::new(Options::default());
//! let script = lua.compile(b"return redis.call('set', KEYS[1], ARGV[1]) + 1").unwrap();
//! let (keys, argv) = (OwnedArgs::from_iter(["k"]), OwnedArgs::from_iter(["v"]));
//! let mut out = Vec::new();
//! let call = Call {
//!     name: "f",
//!     keys: keys.as_args(),
//!     argv: argv.as_args(),
//! };
//! let mut reply = Reply::new(&mut out, Protocol::Resp2);
//! lua.run(&script, &call, &mut Counts, &mut reply).unwrap();
//! assert_eq!(out, b":4\r\n");
//! ```

mod api;
mod declaration;
mod errors;
mod functions;
mod host;
mod interpreter;
mod libs;
mod random;
mod raw;
mod reply;
mod sandbox;

pub use declaration::{Declaration, Function, ScriptFlags};
pub use errors::Failure;
pub use functions::{BAD_NAME, Functions, is_name};
pub use host::{Host, LogLevel};
pub use interpreter::{Call, Interpreter, Options, Script};
pub use random::Random;
