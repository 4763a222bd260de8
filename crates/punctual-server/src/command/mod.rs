//! The server's own commands: connections, subscriptions, the server itself. One file a family, each handler with
//! its row in the family's list.

pub mod connection;

use crate::table::ServerCommand;

/// Every command that is not the keyspace's.
pub static FAMILIES: &[&[ServerCommand]] = &[connection::COMMANDS];
