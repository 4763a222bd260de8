//! The server's own commands: connections, subscriptions, the server itself. One file a family, each handler with
//! its row in the family's list.

pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod info;

use punctual_resp::Reply;

use crate::table::ServerCommand;

/// Every command that is not the keyspace's.
pub static FAMILIES: &[&[ServerCommand]] = &[clock::COMMANDS, config::COMMANDS, connection::COMMANDS, info::COMMANDS];

/// What `<container> HELP` answers: a line per subcommand with what it does indented below it.
pub(crate) fn help(reply: &mut Reply<'_>, container: &str, lines: &[(&str, &str)]) {
    reply.array(2 * lines.len() + 3);
    reply.simple(format!(
        "{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    ));
    for (usage, what) in lines.iter().chain(&[("HELP", "Print this help.")]) {
        reply.simple(usage);
        reply.simple(format!("    {what}"));
    }
}
