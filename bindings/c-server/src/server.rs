//! Start, calls, clock and stop of a server.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::time::Duration;

use punctual_c_boundary::{fork, guarded};
use punctual_server::Value;

use crate::arguments;
use crate::reply::to_reply;
use crate::status::{Failure, Status, answer};

/// A server in the process: its threads, its keyspace, its port.
pub struct Server {
    server: punctual_server::Server,
    origin: Origin,
}

/// The process that an object belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Origin(u32);

impl Origin {
    /// Fails in a fork, which does not have the server's threads.
    pub(crate) fn check(self) -> Result<(), Failure> {
        if self.0 == fork::generation() {
            return Ok(());
        }
        let message = "this process is a fork, and the server belongs to its parent";
        Err(Failure::new(Status::Forked, message))
    }

    /// Frees an object. Leaks it in a fork, because to free it takes locks and threads.
    pub(crate) fn free<T>(self, object: T) {
        match self.check() {
            Ok(()) => drop(object),
            Err(_) => std::mem::forget(object),
        }
    }
}

impl Server {
    pub(crate) fn parts(
        server: Option<&Self>,
    ) -> Result<(&punctual_server::Server, Origin), Failure> {
        let Self { server, origin } = server.ok_or_else(|| Failure::null("server"))?;
        origin.check()?;
        Ok((server, *origin))
    }
}

/// Runs `body` and writes its result to `place`, or NULL if `body` has no result. Without a place
/// `body` does not run.
pub(crate) fn produce<T>(
    place: Option<&mut MaybeUninit<Option<Box<T>>>>,
    name: &str,
    body: impl FnOnce() -> Result<Option<Box<T>>, Failure>,
) -> Status {
    answer(|| {
        let place = place.ok_or_else(|| Failure::null(name))?;
        place.write(None);
        let result = body()?;
        let status = match result {
            Some(_) => Status::Ok,
            None => Status::Idle,
        };
        place.write(result);
        Ok(status)
    })
}

/// The argument `port` of punctual_server_start for a server without a TCP port.
pub const NO_PORT: i32 = -1;

/// Starts a server on its own threads and writes it to `*server`. Stop it with
/// punctual_server_stop. The server accepts connections when this returns.
///
/// `port` is a TCP port, 0 for any free port, or PUNCTUAL_SERVER_NO_PORT. `options` has the names
/// and the values of directives of redis.conf in turn, and ends with NULL; NULL means no options.
/// Spaces separate several values of a directive. Unless an option is `dir`, `dbfilename`, `save`
/// or `appendonly`, the server neither loads nor saves files. Without `logfile` it writes no log.
/// For a virtual clock, which only punctual_server_advance and the command CLOCK move, the option
/// is "clock", "virtual".
///
/// Returns PUNCTUAL_SERVER_OK, PUNCTUAL_SERVER_OPTION, PUNCTUAL_SERVER_START or
/// PUNCTUAL_SERVER_NULL.
///
/// Threads: any.
///
/// # Safety
///
/// `options` is NULL, or an array of strings that ends with NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_server_start(
    port: i32,
    options: *const *const c_char,
    server: Option<&mut MaybeUninit<Option<Box<Server>>>>,
) -> Status {
    produce(server, "server", || {
        let mut builder = punctual_server::Server::builder();
        // SAFETY: the caller guarantees the array.
        for (name, value) in unsafe { arguments::options(options) }? {
            builder = builder.option(&name, &value);
        }
        builder = match (port, u16::try_from(port)) {
            (NO_PORT, _) => builder.option("port", "0"),
            (_, Ok(port)) => builder.port(port),
            (_, Err(_)) => {
                let message = format_args!("{port} is not a port");
                return Err(Failure::new(Status::Option, message));
            }
        };
        fork::watch();
        let server = builder.spawn()?;
        let origin = Origin(fork::generation());
        Ok(Some(Box::new(Server { server, origin })))
    })
}

/// Returns the TCP port, or 0 if the server listens on no TCP port or `server` is NULL. O(1).
///
/// Threads: any, until the server is stopped.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_port(server: Option<&Server>) -> u16 {
    server.map_or(0, |this| this.server.port())
}

/// Runs a command and writes its reply to `*reply`. Free the reply with punctual_server_reply_free.
///
/// `args` has `count` arguments, of which the first is the command's name. `lengths` has their
/// lengths in bytes, and arguments may have any bytes; if `lengths` is NULL, the arguments are
/// strings. The command runs with all permissions and without a socket. Each call has a session of
/// its own: the database is 0, and the effects of commands such as SELECT and MULTI end with the
/// call. A client is for commands that depend on each other.
///
/// Blocks while a blocking command, such as BLPOP, waits.
///
/// Returns PUNCTUAL_SERVER_OK, also if the command replies an error; or another status, and writes
/// NULL.
///
/// Threads: any, until the server is stopped.
///
/// # Safety
///
/// `args` and `lengths`, if it is not NULL, have `count` elements; each argument is a string or
/// has as many bytes as its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_server_call(
    server: Option<&Server>,
    count: usize,
    args: *const *const c_char,
    lengths: *const usize,
    reply: Option<&mut MaybeUninit<Option<Box<Value>>>>,
) -> Status {
    produce(reply, "reply", || {
        let (server, _) = Server::parts(server)?;
        // SAFETY: the caller guarantees the arrays.
        let args = unsafe { arguments::command(count, args, lengths) }?;
        Ok(Some(to_reply(server.call(&args)?)))
    })
}

/// Moves a virtual clock forward by `microseconds`, like the command CLOCK ADVANCE. Before this
/// returns, due keys have expired in the order of their deadlines, timers have fired, and blocked
/// commands have timed out. O(n log shards) for n due keys.
///
/// Returns PUNCTUAL_SERVER_OK, PUNCTUAL_SERVER_CLOCK, PUNCTUAL_SERVER_STOPPED,
/// PUNCTUAL_SERVER_FORKED or PUNCTUAL_SERVER_NULL.
///
/// Threads: any, until the server is stopped.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_advance(server: Option<&Server>, microseconds: u64) -> Status {
    answer(|| {
        let (server, _) = Server::parts(server)?;
        server.advance(Duration::from_micros(microseconds))?;
        Ok(Status::Ok)
    })
}

/// Stops a server and frees it. NULL is allowed. Blocks until the server's threads have ended.
///
/// Clients may be in use: their calls end with PUNCTUAL_SERVER_STOPPED. Free the clients before or
/// after. No other function may be running with this server. So a command that may still wait when
/// the program stops the server must run on a client.
///
/// Threads: one at a time. Do not use the server afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_stop(server: Option<Box<Server>>) {
    guarded((), || {
        if let Some(server) = server {
            server.origin.free(server);
        }
    });
}
