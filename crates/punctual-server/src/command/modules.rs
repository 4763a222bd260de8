//! MODULE on a server that does not load modules.

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::dispatch::call::{Call, ServerCommand, ServerHandler};

const ADMIN: Flags = Flags::ADMIN.or(Flags::NOSCRIPT);
const LOADS: Flags = ADMIN.or(Flags::NO_ASYNC_LOADING);

const fn row(
    name: &'static str,
    arity: i32,
    flags: Flags,
    handler: ServerHandler,
) -> ServerCommand {
    ServerCommand::new(name, arity, flags, Group::Server, handler)
}

/// The family's rows.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::container(
    "module",
    Group::Server,
    &[
        ServerCommand::help(Group::Server, "5.0.0", help),
        row("list", 2, ADMIN, list)
            .tips(&["nondeterministic_output_order"])
            .doc(
                "4.0.0",
                "O(N) where N is the number of loaded modules.",
                "Returns all loaded modules.",
            ),
        row("load", -3, LOADS, refuse)
            .doc("4.0.0", "O(1)", "Loads a module.")
            .syntax("path [arg ...]"),
        row("loadex", -3, LOADS, refuse)
            .doc("7.0.0", "O(1)", "Loads a module using extended parameters.")
            .syntax("path [configs: CONFIG (name value)] ... [ARGS args ...]"),
        row("unload", 3, LOADS, refuse)
            .doc("4.0.0", "O(1)", "Unloads a module.")
            .syntax("name"),
    ],
)
.doc(
    "4.0.0",
    "Depends on subcommand.",
    "A container for module commands.",
)];

fn list(_: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.array(0);
    Ok(())
}

/// Returns Redis's error for a server without `enable-module-command`.
fn refuse(_: &mut Call, _: Args, _: &mut Reply) -> Result<(), Error> {
    Err(Error::fixed(
        "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from \
         a local connection, otherwise you need to set this option in the configuration file, and then restart the \
         server.",
    ))
}

fn help(_: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    super::help(
        reply,
        "MODULE",
        &[
            "LIST",
            "    Return a list of loaded modules.",
            "LOAD <path> [<arg> ...]",
            "    Load a module library from <path>, passing to it any optional arguments.",
            "LOADEX <path> [[CONFIG NAME VALUE] [CONFIG NAME VALUE]] [ARGS ...]",
            "    Load a module library from <path>, while passing it module configurations and optional arguments.",
            "UNLOAD <name>",
            "    Unload a module.",
        ],
    );
    Ok(())
}
