//! The server's own commands: connections, subscriptions and administration. One file per family, with the rows and
//! their handlers.

pub(crate) mod acl;
pub(crate) mod client;
pub(crate) mod client_list;
pub(crate) mod clock;
pub(crate) mod cluster;
mod command_docs;
pub(crate) mod command_info;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod debug;
pub(crate) mod function;
pub(crate) mod info;
pub(crate) mod job;
pub(crate) mod latency;
pub(crate) mod lolwut;
pub(crate) mod memory;
pub(crate) mod migrate;
pub(crate) mod modules;
pub(crate) mod monitor;
pub(crate) mod persistence;
pub(crate) mod pubsub;
pub(crate) mod replica_of;
pub(crate) mod replication;
pub(crate) mod script;
pub(crate) mod shutdown;
pub(crate) mod slowlog;
pub(crate) mod timer;
mod tracking;
pub(crate) mod transaction;
pub(crate) mod wait;

use std::sync::LazyLock;

use punctual_resp::Args;
use punctual_store::Error;
pub(crate) use punctual_store::command::help;
use punctual_store::error::brief;

use crate::dispatch::call::{ServerCommand, ServerHandler};
use crate::dispatch::table::CommandTable;

/// All families of the server's own commands.
pub static FAMILIES: &[&[ServerCommand]] = &[
    acl::COMMANDS,
    client::COMMANDS,
    clock::COMMANDS,
    cluster::COMMANDS,
    command_info::COMMANDS,
    config::COMMANDS,
    connection::COMMANDS,
    debug::COMMANDS,
    function::COMMANDS,
    info::COMMANDS,
    job::COMMANDS,
    latency::COMMANDS,
    lolwut::COMMANDS,
    memory::COMMANDS,
    migrate::COMMANDS,
    modules::COMMANDS,
    monitor::COMMANDS,
    persistence::COMMANDS,
    pubsub::COMMANDS,
    replica_of::COMMANDS,
    replication::COMMANDS,
    script::COMMANDS,
    shutdown::COMMANDS,
    slowlog::COMMANDS,
    timer::COMMANDS,
    transaction::COMMANDS,
    wait::COMMANDS,
];

static TABLE: LazyLock<(CommandTable, Vec<ServerHandler>)> =
    LazyLock::new(|| CommandTable::new(FAMILIES));

/// Returns the table of all commands: the keyspace's and the server's own.
pub(crate) fn table() -> &'static CommandTable {
    &TABLE.0
}

/// Returns the handler with this number; see [`Run::Server`](crate::dispatch::table::Run::Server).
pub(crate) fn handler(number: usize) -> ServerHandler {
    TABLE.1[number]
}

/// Returns the error for a subcommand with too many arguments for any of its forms.
pub(crate) fn wrong_form(container: &str, args: Args) -> Error {
    Error::repeating(
        "ERR unknown subcommand or wrong number of arguments for '",
        brief(&args[1]),
        &format!("'. Try {container} HELP."),
    )
}
