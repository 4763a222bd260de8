//! Error replies that several families of commands share.

use punctual_resp::Args;
use punctual_store::Error;
use punctual_store::error::brief;

/// Returns the error for an unknown subcommand, or for one that does not accept this number of
/// arguments.
pub(crate) fn wrong_form(container: &str, args: Args) -> Error {
    Error::repeating(
        "ERR unknown subcommand or wrong number of arguments for '",
        brief(&args[1]),
        &format!("'. Try {container} HELP."),
    )
}
