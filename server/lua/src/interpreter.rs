//! An interpreter, which compiles scripts and runs them.

use punctual_resp::{Args, Reply};

use crate::api::Session;
use crate::errors::{Failure, describe_error, failure};
use crate::host::Host;
use crate::random::Random;
use crate::raw::Stack;
use crate::raw::state::{Kept, Outcome, State};
use crate::{reply, sandbox};

/// Options of an interpreter.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Maximum number of bytes that all scripts of the interpreter may allocate together.
    pub memory_limit: usize,
    /// `redis.REDIS_VERSION`: major, minor and patch level, separated by dots.
    pub version: &'static str,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_limit: 1 << 30,
            version: "7.2.4",
        }
    }
}

/// A compiled script. It belongs to the interpreter that has compiled it.
#[derive(Debug)]
pub struct Script(Kept);

/// The name and the arguments of a script or function that is called.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Name in error messages: the script's SHA1, or the function's name.
    pub name: &'a str,
    /// The elements of `KEYS`.
    pub keys: Args<'a>,
    /// The elements of `ARGV`.
    pub argv: Args<'a>,
}

/// One Lua state with the sandbox of scripts.
pub struct Interpreter {
    pub(crate) state: State,
    /// Number of calls of [`Interpreter::finish`], which decides when garbage is collected.
    runs: u32,
}

impl Interpreter {
    /// Creates an interpreter. Takes about 50 KB and 50 microseconds.
    pub fn new(options: Options) -> Self {
        let mut state = State::new(usize::MAX, Box::new(Session::default()));
        sandbox::fill(&mut state, options.version);
        state.set_limit(options.memory_limit);
        // The error handler stays at index 1.
        state.stack().push_function(describe_error);
        Self { state, runs: 0 }
    }

    /// Sets the generator of `math.random`, which several interpreters may share.
    pub fn set_random(&mut self, random: &Random) {
        self.state
            .context()
            .session()
            .random
            .replace(random.clone());
    }

    /// Returns the bytes that the interpreter has allocated.
    pub fn memory(&self) -> usize {
        self.state.memory()
    }

    /// Compiles a script. **O(n)** in its length.
    ///
    /// # Errors
    /// Lua's message about the code.
    pub fn compile(&mut self, code: &[u8]) -> Result<Script, Vec<u8>> {
        let outcome = self.state.load("@user_script", code);
        let mut stack = self.state.stack();
        match outcome {
            Outcome::Done => Ok(Script(stack.keep())),
            Outcome::Failed => {
                let text = stack.coerced(-1).unwrap_or_default();
                stack.pop(1);
                Err(text)
            }
        }
    }

    /// Releases a compiled script. Lua's collector frees it later.
    pub fn forget(&mut self, script: Script) {
        self.state.stack().release(script.0);
    }

    /// Runs a script and writes its reply in the protocol of `reply`.
    ///
    /// # Errors
    /// The error that ended the script. A script that fails writes no reply.
    pub fn run(
        &mut self,
        script: &Script,
        call: &Call<'_>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), Failure> {
        self.state.context().session().reset();
        let mut stack = self.state.stack();
        stack.push_globals();
        stack.set_read_only(-1, false);
        push_list(&mut stack, call.keys);
        stack.raw_set_field(-2, b"KEYS");
        push_list(&mut stack, call.argv);
        stack.raw_set_field(-2, b"ARGV");
        stack.set_read_only(-1, true);
        stack.pop(1);
        stack.push_kept(&script.0);
        self.finish(0, call, host, reply)
    }

    /// Calls the function that is on the stack below its `arguments` values, writes its result to
    /// `reply`, and collects garbage from time to time.
    pub(crate) fn finish(
        &mut self,
        arguments: i32,
        call: &Call<'_>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), Failure> {
        let outcome = self.state.call(host, arguments);
        let script = self.state.context().session().protocol.get();
        let mut stack = self.state.stack();
        let result = match outcome {
            Outcome::Done => {
                reply::write(&mut stack, script, reply, host);
                Ok(())
            }
            Outcome::Failed => Err(failure(&mut stack, call.name)),
        };
        debug_assert_eq!(stack.top(), 1);
        self.runs += 1;
        // Redis also runs a step of the collector after every 50 scripts.
        const RUNS_A_STEP: u32 = 50;
        if self.state.is_half_full() {
            // Lua itself would collect only when its memory has doubled, which the limit prevents.
            self.state.collect();
        } else if self.runs.is_multiple_of(RUNS_A_STEP) {
            self.state.collect_step();
        }
        result
    }
}

/// Pushes a table with the elements of `args`.
pub(crate) fn push_list(stack: &mut Stack<'_>, args: Args<'_>) {
    stack.push_table(args.len(), 0);
    for (n, arg) in (1..).zip(args.iter()) {
        stack.push_bytes(arg);
        stack.raw_set_index(-2, n);
    }
}
