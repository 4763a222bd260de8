//! Commands of the program in which the server is embedded. Each has a row like any other command;
//! its handler is a closure, which the dispatcher runs as a script.

use std::sync::Arc;

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Row};

use crate::node::call::{Call, ServerCommand, ServerHandler};
use crate::script::handler::Handler;
use crate::session::{Executing, Runnable, ScriptRequest};
use crate::table::CommandTable;

/// A command of the embedding program. Its handler is a closure, which a [`Row`] cannot contain,
/// because rows are constants.
#[derive(Clone)]
pub(crate) struct EmbedderCommand {
    pub(crate) row: Row<()>,
    pub(crate) handler: Arc<Handler>,
}

/// Returns a table of the server's own commands and `commands`, and the handlers of the table's
/// server commands. The table is never freed, because sessions and statistics have `'static`
/// references to its rows.
///
/// # Errors
/// Returns the name of a command that exists already, that occurs twice in `commands`, or that is
/// not valid.
pub(crate) fn table_with(
    commands: &[EmbedderCommand],
) -> Result<(&'static CommandTable, &'static [ServerHandler]), String> {
    if commands.is_empty() {
        return Ok((super::table(), super::handlers()));
    }
    let mut rows: Vec<ServerCommand> = Vec::new();
    for EmbedderCommand { row, .. } in commands {
        let name = row.name;
        let exists = super::table().get(name.as_bytes()).is_some();
        let is_valid = CommandTable::is_valid_name(name);
        if exists || !is_valid || rows.iter().any(|other| other.name == name) {
            return Err(name.to_owned());
        }
        let mut flags = row.flags | Flags::EMBEDDER | Flags::RUNS_SCRIPTS | Flags::SKIP_MONITOR;
        if flags.has(Flags::WRITE) {
            flags = flags | Flags::MAY_REPLICATE;
        }
        let mut own = ServerCommand::new(name, row.arity, flags, row.group, begin);
        own.facts = punctual_store::spec::Facts { flags, ..row.facts };
        rows.push(own);
    }
    let own: &'static [ServerCommand] = rows.leak();
    let (table, handlers) = CommandTable::new(super::FAMILIES, own);
    Ok((Box::leak(Box::new(table)), handlers.leak()))
}

/// Requests that the dispatcher runs the command's closure.
fn begin(call: &mut Call, _: Args, _: &mut Reply) -> Result<(), Error> {
    call.session.executing = Some(Executing::Script(ScriptRequest {
        script: Runnable::Handler,
        keys: 0,
        read_only: false,
    }));
    Ok(())
}
