//! MODULE on a server without modules. MODULE LOAD replies like Redis for a file that is no module.

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::command::help;
use punctual_store::spec::{Flags, Group};

use crate::log;
use crate::node::call::{Call, ServerCommand, ServerHandler};

const ADMIN: Flags = Flags::ADMIN.or(Flags::NOSCRIPT);
const LOADS: Flags = ADMIN.or(Flags::NO_ASYNC_LOADING);

punctual_store::family!(ServerHandler, Group::Server, Flags::NONE);

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::container(
    "module",
    Group::Server,
    &[
        ServerCommand::help(Group::Server, "5.0.0", |_, _, reply| {
            help(reply, "MODULE", HELP)
        }),
        row("list", 2, ADMIN, list)
            .tips(&["nondeterministic_output_order"])
            .since("4.0.0")
            .complexity("O(N) where N is the number of loaded modules.")
            .summary("Returns all loaded modules."),
        row("load", -3, LOADS, load)
            .doc("4.0.0", "O(1)", "Loads a module.")
            .syntax("path [arg ...]"),
        row("loadex", -3, LOADS, load)
            .doc("7.0.0", "O(1)", "Loads a module using extended parameters.")
            .syntax("path [configs: CONFIG (name value)] ... [ARGS args ...]"),
        row("unload", 3, LOADS, unload)
            .doc("4.0.0", "O(1)", "Unloads a module.")
            .syntax("name"),
    ],
)
.since("4.0.0")
.summary("A container for module commands.")];

fn list(_: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.array(0);
    Ok(())
}

/// Returns an error if `enable-module-command` does not allow the command for this client.
fn check_allowed(call: &Call) -> Result<(), Error> {
    let local = call.session.info.local;
    if call.shared.settings().module_command.allows(local) {
        return Ok(());
    }
    Err(Error::fixed(
        "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from \
         a local connection, otherwise you need to set this option in the configuration file, and then restart the \
         server.",
    ))
}

fn load(call: &mut Call, args: Args, _: &mut Reply) -> Result<(), Error> {
    check_allowed(call)?;
    log::warning!(
        call.shared.logger,
        "The module {} is not loaded: this server has no modules",
        args[2].escape_ascii()
    );
    Err(Error::fixed(
        "ERR Error loading the extension. Please check the server logs.",
    ))
}

fn unload(call: &mut Call, _: Args, _: &mut Reply) -> Result<(), Error> {
    check_allowed(call)?;
    Err(Error::fixed(
        "ERR Error unloading module: no such module with that name",
    ))
}

const HELP: &[&str] = &[
    "LIST",
    "    Return a list of loaded modules.",
    "LOAD <path> [<arg> ...]",
    "    Load a module library from <path>, passing to it any optional arguments.",
    "LOADEX <path> [[CONFIG NAME VALUE] [CONFIG NAME VALUE]] [ARGS ...]",
    "    Load a module library from <path>, while passing it module configurations and optional arguments.",
    "UNLOAD <name>",
    "    Unload a module.",
];
