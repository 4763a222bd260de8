//! Clients in the server's own process: commands without a socket.
//!
//! [`Client::call`] encodes a command, hands it to the client's event loop, and decodes the reply.
//! Usually the calling thread runs the command itself, between two turns of the loop; see
//! [`crate::event_loop::local`]. The client speaks RESP3, so replies keep their types, and messages
//! are distinct from replies.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use punctual_resp::{DecodeError, Decoder, Value, decode, encode_command};
use punctual_store::spec::{Flags, Group};

use crate::event_loop::LoopLock;
use crate::net::listener::Arrival;
use crate::net::local::{Pipe, ServerEnd};
use crate::net::socket::Socket;
use crate::node::order::Order;
use crate::node::{Shared, StopOnPanic};
use crate::script::handler::InHandler;
use crate::table::{Entry, Run};

/// Time for which a call waits for the event loop before it leaves the command to the loop's
/// thread.
const LOCK_PATIENCE: Duration = Duration::from_millis(1);
/// Maximum number of clients that are kept for [`crate::Server::call`].
const IDLE_CLIENTS_MAX: usize = 64;
/// Interval of the calls of a client's interrupt function.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);

/// Error of a call. An error reply of a command is not such an error: it is a [`Value::Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server has stopped, perhaps before it ran the command.
    #[error("the server has stopped")]
    Stopped,
    /// The server has closed this client, for example by QUIT or CLIENT KILL, or because the client
    /// did not take its messages. Calls after an interrupted call get this error too.
    #[error("the server has closed this client; connect another one")]
    Closed,
    /// The server has as many clients as `maxclients` allows.
    #[error("the server has reached `maxclients`")]
    TooManyClients,
    /// The function of [`Client::set_interrupt`] has ended the wait. The client is disconnected,
    /// and the command may still run.
    #[error("the call was interrupted, and the client is disconnected")]
    Interrupted,
    /// The handler of a command of the program has called the server through a client. The server
    /// waits for the handler, so the handler must use [`crate::Invocation::call`].
    #[error("a handler must call commands by its `Invocation`")]
    InHandler,
    /// The command has no name.
    #[error("a command needs a name")]
    Empty,
    /// The command changes how many replies follow, or their form: HELLO, RESET, CLIENT REPLY,
    /// MONITOR, SYNC, PSYNC, REPLCONF.
    #[error("{0} changes the form of the following replies; it needs a connection over a socket")]
    Unsupported(String),
    /// The reply cannot be decoded, for example because it is nested too deeply.
    #[error("cannot decode the reply: {0}")]
    Reply(#[from] DecodeError),
}

/// A client in the server's process. It has all permissions, and a session of its own: selected
/// database, transaction, watched keys, subscriptions. Dropping it disconnects the client.
///
/// ```
/// use punctual_server::{Server, Value};
/// let server = Server::builder().port(0).spawn()?;
/// let mut client = server.client()?;
/// client.call(&["MULTI"])?;
/// client.call(&["INCR", "visits"])?;
/// assert_eq!(client.call(&["EXEC"])?, Value::Array(vec![Value::Int(1)]));
/// let replies = client.pipeline(&[&["INCR", "visits"], &["GET", "visits"]])?;
/// assert_eq!(replies, [Value::Int(2), Value::bulk("2")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Client {
    shared: Arc<Shared>,
    event_loop: Arc<LoopLock>,
    loop_number: usize,
    pipe: Arc<Pipe>,
    /// Encoded commands. Later calls reuse this buffer and `output`.
    request: Vec<u8>,
    /// Received output, which is decoded next.
    output: Vec<u8>,
    decoder: Decoder,
    messages: VecDeque<Value>,
    /// See [`Client::set_interrupt`].
    interrupt: Option<Box<dyn FnMut() -> bool + Send>>,
    /// Name of the last command without subcommands, and its row.
    last: Option<(Vec<u8>, &'static Entry)>,
}

/// Properties of a command that decide how it is called.
#[derive(Clone, Copy, Default)]
struct Manner {
    /// The thread of the loop must run the command, because the command may take long or stop the
    /// server.
    on_loop: bool,
    /// The command's reply is a message, as with SUBSCRIBE.
    replies_by_message: bool,
    /// The command may change the session.
    changes_session: bool,
}

impl Client {
    pub(crate) fn connect(
        shared: &Arc<Shared>,
        loops: &[Arc<LoopLock>],
    ) -> Result<Self, CallError> {
        let next = &shared.clients.next_loop;
        let loop_number = next.fetch_add(1, Ordering::Relaxed) % loops.len();
        let event_loop = Arc::clone(&loops[loop_number]);
        let pipe = Arc::new(Pipe::default());
        let max_clients = shared.settings().max_clients;
        if shared.stopping.load(Ordering::Acquire) {
            return Err(CallError::Stopped);
        }
        if !shared.clients.registry.admit(max_clients) {
            return Err(CallError::TooManyClients);
        }
        let arrival = Arrival {
            socket: Socket::Local(ServerEnd(Arc::clone(&pipe))),
            addr: "local:0".to_owned(),
            laddr: "local:0".to_owned(),
            fd: -1,
            unix: false,
            local: true,
            own: true,
        };
        shared.mailboxes[loop_number].order(Order::Serve(arrival));
        Ok(Self {
            shared: Arc::clone(shared),
            event_loop,
            loop_number,
            pipe,
            request: Vec::new(),
            output: Vec::new(),
            decoder: Decoder::new(),
            messages: VecDeque::new(),
            interrupt: None,
            last: None,
        })
    }

    /// Runs a command and returns its reply. Blocks while a blocking command, such as BLPOP, waits.
    /// The reply of SUBSCRIBE is the message about the first channel.
    ///
    /// Besides the command, a call costs about as much as two commands of a pipeline: the calling
    /// thread locks the event loop and runs the command. So calls of clients that have the same
    /// event loop run one after the other.
    ///
    /// # Errors
    /// Every [`CallError`] except [`CallError::TooManyClients`]. An error that the command replies
    /// is a [`Value::Error`].
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Value, CallError> {
        let manner = self.manner(args)?;
        self.call_as(manner, args)
    }

    fn call_as<A: AsRef<[u8]>>(&mut self, manner: Manner, args: &[A]) -> Result<Value, CallError> {
        self.request.clear();
        encode_command(&mut self.request, args);
        if manner.replies_by_message {
            // Messages of earlier commands are no reply to this one.
            self.collect_messages(Some(Duration::ZERO))?;
        }
        self.submit(manner.on_loop)?;
        self.reply(manner)
    }

    /// Runs commands in their order, and returns their replies. The server gets all of them at
    /// once, as from a pipeline.
    ///
    /// # Errors
    /// The errors of [`Client::call`]. No command runs if one of them is unsupported.
    pub fn pipeline<C, A>(&mut self, commands: &[C]) -> Result<Vec<Value>, CallError>
    where
        C: AsRef<[A]>,
        A: AsRef<[u8]>,
    {
        self.request.clear();
        let mut manners = Vec::with_capacity(commands.len());
        for command in commands {
            manners.push(self.manner(command.as_ref())?);
            encode_command(&mut self.request, command.as_ref());
        }
        if manners.iter().any(|manner| manner.replies_by_message) {
            self.collect_messages(Some(Duration::ZERO))?;
        }
        if !manners.is_empty() {
            self.submit(manners.iter().any(|manner| manner.on_loop))?;
        }
        manners
            .into_iter()
            .map(|manner| self.reply(manner))
            .collect()
    }

    /// Returns the next message: of a subscription, or an invalidation of CLIENT TRACKING. Blocks
    /// for at most `wait` until there is a message; `None` blocks without a limit. Returns `None`
    /// if no message has arrived in this time.
    ///
    /// # Errors
    /// The server has stopped or has closed the client, the interrupt function has ended the wait,
    /// or a message cannot be decoded.
    ///
    /// ```
    /// use punctual_server::{Server, Value};
    /// let server = Server::builder().port(0).spawn()?;
    /// let mut client = server.client()?;
    /// client.call(&["SUBSCRIBE", "news"])?;
    /// server.call(&["PUBLISH", "news", "hello"])?;
    /// let message = client.message(None)?;
    /// let parts = ["message", "news", "hello"].map(Value::bulk);
    /// assert_eq!(message, Some(Value::Push(parts.to_vec())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn message(&mut self, wait: Option<Duration>) -> Result<Option<Value>, CallError> {
        if self.messages.is_empty() {
            self.collect_messages(wait)?;
        }
        Ok(self.messages.pop_front())
    }

    /// Sets a function that is called every 50 ms while a method of this client blocks without a
    /// time limit. If the function returns true, the method returns [`CallError::Interrupted`], and
    /// the client is disconnected. Interpreters use the function to handle signals.
    pub fn set_interrupt(&mut self, interrupt: impl FnMut() -> bool + Send + 'static) {
        self.interrupt = Some(Box::new(interrupt));
    }

    /// Moves all output to the queue of messages. If there is no message, blocks for at most `wait`
    /// until one arrives. Called when no reply is outstanding, so the output has messages only.
    fn collect_messages(&mut self, wait: Option<Duration>) -> Result<(), CallError> {
        loop {
            while let Some(value) = self.decoder.next_value()? {
                self.messages.push_back(value);
            }
            let wait = match self.messages.is_empty() {
                true => wait,
                false => Some(Duration::ZERO),
            };
            if !self.receive(wait)? {
                return Ok(());
            }
            self.decoder.feed(&self.output);
            self.output.clear();
        }
    }

    /// Hands the encoded commands to the loop.
    fn submit(&mut self, on_loop: bool) -> Result<(), CallError> {
        if InHandler::is_current() {
            return Err(CallError::InHandler);
        }
        self.output.clear();
        if !on_loop && let Some(mut guard) = self.event_loop.try_lock_for(LOCK_PATIENCE) {
            let _stop = StopOnPanic(&self.shared);
            if let Some(this) = &mut *guard
                && this.run_local(&self.pipe, &self.request, &mut self.output)
            {
                return Ok(());
            }
        }
        self.pipe.send(&self.request);
        self.notify();
        // A loop that has not ended before this check still handles the order.
        if self.shared.stopping.load(Ordering::SeqCst) && self.event_loop.lock().is_none() {
            self.pipe.close();
        }
        Ok(())
    }

    /// Tells the loop that the client's end of the pipe has changed.
    fn notify(&self) {
        let order = Order::Local(Arc::clone(&self.pipe));
        self.shared.mailboxes[self.loop_number].order(order);
    }

    /// Returns the next reply. Moves the messages before the reply to the queue of messages.
    fn reply(&mut self, manner: Manner) -> Result<Value, CallError> {
        loop {
            while let Some(value) = self.decoder.next_value()? {
                match is_reply(&value, manner) {
                    true => return Ok(value),
                    false => self.messages.push_back(value),
                }
            }
            if self.output.is_empty() {
                self.receive(None)?;
            }
            // A short reply, which is usual, needs no copy in the decoder.
            if self.decoder.pending() == 0
                && let Some((value, len)) = decode(&self.output)?
            {
                self.decoder.feed(&self.output[len..]);
                self.output.clear();
                match is_reply(&value, manner) {
                    true => return Ok(value),
                    false => self.messages.push_back(value),
                }
            } else {
                self.decoder.feed(&self.output);
                self.output.clear();
            }
        }
    }

    /// Moves the pipe's output to `output`, which must be empty. Blocks for at most `wait` until
    /// there is output. Returns false if no output has arrived in this time.
    fn receive(&mut self, wait: Option<Duration>) -> Result<bool, CallError> {
        let interrupt = self.interrupt.as_mut().filter(|_| wait.is_none());
        let taken = match interrupt {
            None => self.pipe.take_output(&mut self.output, wait),
            Some(interrupt) => loop {
                let step = Some(INTERRUPT_INTERVAL);
                let taken = self.pipe.take_output(&mut self.output, step);
                if !self.output.is_empty() || taken.ended {
                    break taken;
                }
                if interrupt() {
                    self.pipe.close();
                    self.pipe.hang_up();
                    self.notify();
                    return Err(CallError::Interrupted);
                }
            },
        };
        if taken.made_room {
            self.notify();
        }
        match taken.ended {
            true if self.shared.stopping.load(Ordering::Acquire) => Err(CallError::Stopped),
            true => Err(CallError::Closed),
            false => Ok(!self.output.is_empty()),
        }
    }

    fn manner<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Manner, CallError> {
        let name = args.first().ok_or(CallError::Empty)?.as_ref();
        let entry = match &self.last {
            Some((last, entry)) if last == name => entry,
            _ => {
                let Some(mut entry) = self.shared.commands.get(name) else {
                    // The reply is an error.
                    return Ok(Manner::default());
                };
                if let Some(subcommand) = args.get(1).and_then(|arg| entry.subcommand(arg.as_ref()))
                {
                    entry = subcommand;
                } else if entry.subcommands.is_empty() {
                    self.last = Some((name.to_vec(), entry));
                }
                entry
            }
        };
        let flags = entry.row.flags;
        if flags.has(Flags::RESHAPES_REPLIES) {
            return Err(CallError::Unsupported(entry.name.to_uppercase()));
        }
        let slow = [Flags::RUNS_SCRIPTS, Flags::EXECUTES, Flags::ADMIN];
        Ok(Manner {
            on_loop: slow.iter().any(|flag| flags.has(*flag)),
            replies_by_message: entry.row.group == Group::Pubsub && flags.has(Flags::SUBSCRIBER),
            changes_session: !matches!(entry.run, Run::Keyspace(_)),
        })
    }
}

/// Returns true if a value is the reply to a command, and not a message.
fn is_reply(value: &Value, manner: Manner) -> bool {
    let Value::Push(parts) = value else {
        return true;
    };
    let kind = parts.first().and_then(Value::as_bytes).unwrap_or_default();
    manner.replies_by_message && kind.ends_with(b"subscribe")
}

impl Drop for Client {
    fn drop(&mut self) {
        self.pipe.hang_up();
        self.notify();
    }
}

/// Clients that calls reuse, because no command has changed their sessions. [`crate::Server::call`]
/// has such clients; a program whose clients need [`Client::set_interrupt`] has its own.
#[derive(Default)]
pub struct IdleClients(Mutex<Vec<Client>>);

impl IdleClients {
    /// Runs a command on an idle client, or on one that `connect` returns. Works like
    /// [`crate::Server::call`].
    ///
    /// # Errors
    /// The errors of `connect` and of [`Client::call`].
    pub fn call<A: AsRef<[u8]>>(
        &self,
        connect: impl Fn() -> Result<Client, CallError>,
        args: &[A],
    ) -> Result<Value, CallError> {
        let idle = self.0.lock().pop();
        let mut client = match idle.filter(|client| !client.pipe.is_closed()) {
            Some(client) => client,
            None => connect()?,
        };
        let manner = client.manner(args)?;
        let value = client.call_as(manner, args)?;
        if !manner.changes_session {
            let mut idle = self.0.lock();
            if idle.len() < IDLE_CLIENTS_MAX {
                idle.push(client);
            }
        }
        Ok(value)
    }
}
