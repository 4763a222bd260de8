//! Own commands that run on a thread of the embedding program, such as a thread of an interpreter.
//!
//! A handler of [`Requests::handler`] leaves a [`Request`] in a queue, and the event loop waits for
//! its reply. A thread of the program takes the request, runs the command and replies. The loop's
//! thread runs the commands that the request calls meanwhile. So no thread of the server runs the
//! program's code, and no thread of the program runs the server's.
//!
//! Ground rules:
//! - The loop never waits without a limit. Every [`CHECK_INTERVAL`] it serves other clients if the
//!   command is slow, and abandons the request if the server stops, the command is killed or the
//!   queue is closed. An abandoned request refuses calls, and nothing reads its reply.
//! - The thread of an abandoned request may never come back, so until it asks for the next request,
//!   commands get an error instead of waiting for it.
//! - A command of a queue cannot call another command of the queue, because the thread that would
//!   run that command is waiting for its reply.
//! - The lock of a queue is taken before the lock of a request.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Condvar, Mutex};
use punctual_resp::Value;

use crate::script::handler::{InHandler, Invocation};

/// Interval at which a waiting loop checks whether the command must end.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

const CLOSED: &str = "ERR the program runs no commands any more";
const STUCK: &str = "ERR the program's thread for commands is in a command that has been ended";
const NESTED: &str = "ERR this command cannot be called by another command of the program";
const NO_REPLY: &str = "ERR the program's thread for commands has ended without a reply";

/// A queue of commands that wait for a thread of the embedding program.
///
/// The program makes a handler for each command by [`Requests::handler`], and runs a thread that
/// takes requests by [`Requests::next`]. Usually this is one thread, because event loops run such
/// commands one at a time. The program closes the queue before the thread ends. Clones are the same
/// queue.
///
/// ```
/// use punctual_server::{CommandRow, Flags, Group, Requests, Server, Value};
///
/// let requests = Requests::default();
/// let row = CommandRow::new("shout", 2, Flags::READONLY, Group::String, ());
/// let server = Server::builder().port(0).command(row, requests.handler(0)).spawn()?;
/// let queue = requests.clone();
/// let thread = std::thread::spawn(move || {
///     while let Some(request) = queue.next() {
///         request.reply(Value::Bulk(request.args()[1].to_ascii_uppercase()));
///     }
/// });
/// assert_eq!(server.call(&["SHOUT", "hello"])?, Value::bulk("HELLO"));
/// requests.close();
/// thread.join().unwrap();
/// assert!(server.call(&["SHOUT", "hello"])?.is_error());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Requests(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// Signals a new request, the end of the queue, or an interrupt.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Arc<Exchange>>,
    closed: bool,
    interrupted: bool,
    /// A thread runs a command whose request was abandoned.
    stuck: bool,
}

/// A command that waits for its reply.
struct Exchange {
    command: usize,
    args: Vec<Vec<u8>>,
    now: SystemTime,
    step: Mutex<Step>,
    changed: Condvar,
}

enum Step {
    /// The thread runs the command, or will take it.
    Runs,
    /// The thread waits for the reply to this command.
    Calls(Vec<Vec<u8>>),
    /// The reply to the called command.
    Answered(Value),
    /// The reply to the client's command.
    Replied(Value),
    /// The command has ended.
    Over,
}

thread_local! {
    /// The event loop waits for a request.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

impl Requests {
    /// Returns a handler for [`Builder::command`](crate::Builder::command), whose requests have the
    /// number `command`.
    pub fn handler(
        &self,
        command: usize,
    ) -> impl Fn(&mut Invocation<'_>) -> Value + Send + Sync + 'static {
        let queue = Arc::clone(&self.0);
        move |invocation| queue.run(command, invocation)
    }

    /// Waits for the next request. Returns `None` if the queue is closed, or after
    /// [`Requests::interrupt`].
    ///
    /// Until the request's reply, the calling thread cannot use [`Server`](crate::Server) and
    /// [`Client`](crate::Client), which would wait for the event loop that waits for this thread.
    pub fn next(&self) -> Option<Request> {
        InHandler::set_request(false);
        let mut state = self.0.state.lock();
        state.stuck = false;
        loop {
            if state.closed || std::mem::take(&mut state.interrupted) {
                return None;
            }
            if let Some(exchange) = state.waiting.pop_front() {
                InHandler::set_request(true);
                return Some(Request {
                    exchange,
                    calls: Mutex::new(()),
                });
            }
            self.0.changed.wait(&mut state);
        }
    }

    /// Makes the current or the next call of [`Requests::next`] return `None`.
    pub fn interrupt(&self) {
        self.0.state.lock().interrupted = true;
        self.0.changed.notify_all();
    }

    /// Closes the queue. Commands that wait for a thread of the program get an error, and so do all
    /// later commands. If the calling thread has a request, it may use the server again.
    pub fn close(&self) {
        InHandler::set_request(false);
        self.0.state.lock().closed = true;
        self.0.changed.notify_all();
    }

    /// Returns true if the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.0.state.lock().closed
    }
}

impl Queue {
    /// Runs a command on the program's thread. Called on the thread of an event loop.
    fn run(&self, command: usize, invocation: &mut Invocation<'_>) -> Value {
        if WAITS.get() {
            return error(NESTED);
        }
        let exchange = Arc::new(Exchange {
            command,
            args: invocation.args().map(<[u8]>::to_vec).collect(),
            now: invocation.now(),
            step: Mutex::new(Step::Runs),
            changed: Condvar::new(),
        });
        {
            let mut state = self.state.lock();
            match (state.closed, state.stuck) {
                (true, _) => return error(CLOSED),
                (_, true) => return error(STUCK),
                _ => state.waiting.push_back(Arc::clone(&exchange)),
            }
        }
        self.changed.notify_one();
        let _wait = Wait::begin(self, &exchange);
        loop {
            let mut ended = None;
            match exchange.wait(CHECK_INTERVAL) {
                Step::Calls(args) => exchange.set(Step::Answered(invocation.call(&args))),
                Step::Replied(value) => return value,
                _ => ended = invocation.interrupted(),
            }
            if ended.is_none() && self.state.lock().closed {
                ended = Some(error(CLOSED));
            }
            if let Some(error) = ended {
                return self.abandon(&exchange).unwrap_or(error);
            }
        }
    }

    /// Ends a request. Returns its reply, if it has one already.
    fn abandon(&self, exchange: &Arc<Exchange>) -> Option<Value> {
        let mut state = self.state.lock();
        let step = std::mem::replace(&mut *exchange.step.lock(), Step::Over);
        exchange.changed.notify_all();
        match step {
            Step::Replied(value) => return Some(value),
            Step::Over => {}
            _ => {
                let waiting = state.waiting.len();
                state.waiting.retain(|other| !Arc::ptr_eq(other, exchange));
                state.stuck |= state.waiting.len() == waiting;
            }
        }
        None
    }
}

/// The wait of a loop's thread. Dropping it ends the request, also after a panic.
struct Wait<'q> {
    queue: &'q Queue,
    exchange: &'q Arc<Exchange>,
}

impl<'q> Wait<'q> {
    fn begin(queue: &'q Queue, exchange: &'q Arc<Exchange>) -> Self {
        WAITS.set(true);
        Self { queue, exchange }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        WAITS.set(false);
        self.queue.abandon(self.exchange);
    }
}

impl Exchange {
    fn set(&self, step: Step) {
        *self.step.lock() = step;
        self.changed.notify_all();
    }

    /// Takes the next step of the program's thread, or returns [`Step::Runs`] after the time.
    fn wait(&self, time: Duration) -> Step {
        let mut step = self.step.lock();
        let waits = |step: &mut Step| !matches!(step, Step::Calls(_) | Step::Replied(_));
        self.changed.wait_while_for(&mut step, waits, time);
        match *step {
            Step::Calls(_) => std::mem::replace(&mut *step, Step::Runs),
            Step::Replied(_) => std::mem::replace(&mut *step, Step::Over),
            _ => Step::Runs,
        }
    }
}

/// A command that a thread of the embedding program runs. If it is dropped without a reply, the
/// command replies an error.
pub struct Request {
    exchange: Arc<Exchange>,
    /// Held by the thread that calls a command.
    calls: Mutex<()>,
}

/// Error of [`Request::call`]: the client's command has ended, by its reply, by SCRIPT KILL, or
/// because the server stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the command has ended")]
pub struct Ended;

impl Request {
    /// Returns the number of the command, from [`Requests::handler`].
    pub fn command(&self) -> usize {
        self.exchange.command
    }

    /// Returns the arguments, beginning with the command's name.
    pub fn args(&self) -> &[Vec<u8>] {
        &self.exchange.args
    }

    /// Returns the instant at which the command runs; see [`Invocation::now`].
    pub fn now(&self) -> SystemTime {
        self.exchange.now
    }

    /// Runs a command of the server as part of this one; see [`Invocation::call`]. Any thread may
    /// call this; threads wait for each other.
    ///
    /// # Errors
    /// The command has ended.
    pub fn call<A: AsRef<[u8]>>(&self, args: &[A]) -> Result<Value, Ended> {
        let _one_at_a_time = self.calls.lock();
        let args = args.iter().map(|arg| arg.as_ref().to_vec()).collect();
        let mut step = self.exchange.step.lock();
        if !matches!(*step, Step::Runs) {
            return Err(Ended);
        }
        *step = Step::Calls(args);
        self.exchange.changed.notify_all();
        loop {
            match std::mem::replace(&mut *step, Step::Runs) {
                Step::Answered(value) => return Ok(value),
                over @ (Step::Over | Step::Replied(_)) => {
                    *step = over;
                    return Err(Ended);
                }
                other => *step = other,
            }
            self.exchange.changed.wait(&mut step);
        }
    }

    /// Returns an error reply. If the text does not begin with a code in capital letters, the code
    /// is `ERR`.
    ///
    /// ```
    /// use punctual_server::{Request, Value};
    /// assert_eq!(Request::error("NOSTOCK sold out"), Value::Error(b"NOSTOCK sold out".to_vec()));
    /// assert_eq!(Request::error("Not today"), Value::Error(b"ERR Not today".to_vec()));
    /// ```
    pub fn error(text: &str) -> Value {
        let (code, _) = text.split_once(' ').unwrap_or((text, ""));
        let is_code = code.len() > 1
            && code.starts_with(|c: char| c.is_ascii_uppercase())
            && code
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        match is_code {
            true => error(text),
            false => error(&format!("ERR {text}")),
        }
    }

    /// Ends the command with a reply; an error reply is a [`Value::Error`]. Does nothing if the
    /// command has ended.
    pub fn reply(&self, value: Value) {
        InHandler::set_request(false);
        let _no_call = self.calls.lock();
        let mut step = self.exchange.step.lock();
        if matches!(*step, Step::Runs) {
            *step = Step::Replied(value);
            self.exchange.changed.notify_all();
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.reply(error(NO_REPLY));
    }
}

fn error(text: &str) -> Value {
    Value::Error(text.into())
}
