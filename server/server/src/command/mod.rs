//! The server's own commands: connections, subscriptions and administration. Each file has the rows
//! of a family of commands, and their handlers. A *row* ([`ServerCommand`]) declares a command:
//! name, arity, flags, keys and documentation. Keyspace commands are in the store.

pub(crate) mod acl;
mod backup;
pub(crate) mod client;
pub(crate) mod client_list;
pub(crate) mod clock;
pub(crate) mod cluster;
mod command_docs;
pub(crate) mod command_info;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod debug;
pub(crate) mod declaration;
pub(crate) mod embedder;
pub(crate) mod function;
mod himport;
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
mod replies;
pub(crate) mod script;
pub(crate) mod shutdown;
pub(crate) mod slowlog;
pub(crate) mod timer;
mod tracking;
pub(crate) mod transaction;
pub(crate) mod wait;

use std::sync::LazyLock;

use crate::node::call::{ServerCommand, ServerHandler};
use crate::table::CommandTable;

/// All families of the server's own commands.
pub static FAMILIES: &[&[ServerCommand]] = &[
    acl::COMMANDS,
    backup::COMMANDS,
    client::COMMANDS,
    clock::COMMANDS,
    cluster::COMMANDS,
    command_info::COMMANDS,
    config::COMMANDS,
    connection::COMMANDS,
    debug::COMMANDS,
    function::COMMANDS,
    himport::COMMANDS,
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
    LazyLock::new(|| CommandTable::new(FAMILIES, &[]));

/// Returns the table of all commands: keyspace commands and the server's own commands.
pub(crate) fn table() -> &'static CommandTable {
    &TABLE.0
}

/// Returns the handlers in the order of their numbers. See
/// [`Run::Server`](crate::table::Run::Server).
pub(crate) fn handlers() -> &'static [ServerHandler] {
    &TABLE.1
}
