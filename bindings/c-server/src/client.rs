//! Clients: sessions in the process.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::time::Duration;

use punctual_c_boundary::guarded;
use punctual_server::Value;

use crate::arguments;
use crate::reply::to_reply;
use crate::server::{Origin, Server, produce};
use crate::status::{Failure, Status};

/// A client in the server's process, with a session of its own: selected database, transaction,
/// watched keys, subscriptions.
pub struct Client {
    client: punctual_server::Client,
    origin: Origin,
}

impl Client {
    fn parts(client: Option<&mut Self>) -> Result<&mut punctual_server::Client, Failure> {
        let Self { client, origin } = client.ok_or_else(|| Failure::null("client"))?;
        origin.check()?;
        Ok(client)
    }
}

/// A command of a pipeline, with arguments as of punctual_server_call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Command {
    /// Number of arguments, with the command's name.
    pub count: usize,
    /// The arguments, first the name.
    pub args: *const *const c_char,
    /// Lengths of the arguments in bytes; NULL if the arguments are strings.
    pub lengths: *const usize,
}

/// Connects a client and writes it to `*client`. Free it with punctual_server_client_free. The
/// client has all permissions and no socket. It counts towards the option `maxclients`.
///
/// Returns PUNCTUAL_SERVER_OK; or PUNCTUAL_SERVER_STOPPED, PUNCTUAL_SERVER_TOO_MANY_CLIENTS,
/// PUNCTUAL_SERVER_FORKED or PUNCTUAL_SERVER_NULL, and writes NULL.
///
/// Threads: any, until the server is stopped.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_client_new(
    server: Option<&Server>,
    client: Option<&mut MaybeUninit<Option<Box<Client>>>>,
) -> Status {
    produce(client, "client", || {
        let (server, origin) = Server::parts(server)?;
        let client = server.client()?;
        Ok(Some(Box::new(Client { client, origin })))
    })
}

/// Runs a command in the client's session and writes its reply to `*reply`, like
/// punctual_server_call. The reply of SUBSCRIBE is the message about the first channel.
///
/// Returns PUNCTUAL_SERVER_OK, also if the command replies an error; or another status, and writes
/// NULL.
///
/// Threads: one at a time. The server may be stopped meanwhile.
///
/// # Safety
///
/// `args` and `lengths`, if it is not NULL, have `count` elements; each argument is a string or
/// has as many bytes as its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_server_client_call(
    client: Option<&mut Client>,
    count: usize,
    args: *const *const c_char,
    lengths: *const usize,
    reply: Option<&mut MaybeUninit<Option<Box<Value>>>>,
) -> Status {
    produce(reply, "reply", || {
        let client = Client::parts(client)?;
        // SAFETY: the caller guarantees the arrays.
        let args = unsafe { arguments::command(count, args, lengths) }?;
        Ok(Some(to_reply(client.call(&args)?)))
    })
}

/// Runs `count` commands in their order and writes an array of their replies to `*replies`. The
/// server gets all of them at once, which takes less time than one call for each.
///
/// Returns PUNCTUAL_SERVER_OK, also if commands reply errors; or another status, and writes NULL.
/// If one of the commands cannot be called, no command runs.
///
/// Threads: one at a time. The server may be stopped meanwhile.
///
/// # Safety
///
/// `commands` has `count` elements. The arrays of each element have its `count` arguments and, if
/// `lengths` is not NULL, lengths; each argument is a string or has as many bytes as its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_server_client_pipeline(
    client: Option<&mut Client>,
    count: usize,
    commands: *const Command,
    replies: Option<&mut MaybeUninit<Option<Box<Value>>>>,
) -> Status {
    produce(replies, "replies", || {
        let client = Client::parts(client)?;
        // SAFETY: the caller guarantees the array.
        let commands = unsafe { arguments::array(commands, count, "commands") }?;
        let commands = commands.iter().map(|command| {
            // SAFETY: the caller guarantees the arrays.
            unsafe { arguments::command(command.count, command.args, command.lengths) }
        });
        let commands = commands.collect::<Result<Vec<_>, _>>()?;
        Ok(Some(to_reply(Value::Array(client.pipeline(&commands)?))))
    })
}

/// Writes the next message to `*message`: of a subscription, or an invalidation of CLIENT TRACKING.
/// Waits for it for `nanoseconds` at most; a negative number waits without a limit. Free the
/// message with punctual_server_reply_free.
///
/// Returns PUNCTUAL_SERVER_OK; or PUNCTUAL_SERVER_IDLE if there is no message in this time, or an
/// error, and writes NULL.
///
/// Threads: one at a time. The server may be stopped meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_client_message(
    client: Option<&mut Client>,
    nanoseconds: i64,
    message: Option<&mut MaybeUninit<Option<Box<Value>>>>,
) -> Status {
    produce(message, "message", || {
        let wait = u64::try_from(nanoseconds).ok().map(Duration::from_nanos);
        Ok(Client::parts(client)?.message(wait)?.map(to_reply))
    })
}

/// Disconnects a client and frees it. NULL is allowed. Replies stay valid. O(bytes of its
/// buffers).
///
/// Threads: one at a time. Do not use the client afterwards. The server may have been stopped.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_client_free(client: Option<Box<Client>>) {
    guarded((), || {
        if let Some(client) = client {
            client.origin.free(client);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::{Client, Server};

    #[test]
    fn the_compiler_checks_what_the_header_says_about_threads() {
        fn any_thread<T: Send + Sync>() {}
        fn one_at_a_time<T: Send>() {}
        any_thread::<Server>();
        any_thread::<punctual_server::Value>();
        one_at_a_time::<Client>();
    }
}
