//! Replies that several families of commands give.

use punctual_resp::Args;
use punctual_store::Error;
use punctual_store::error::brief;

/// Returns the error for a subcommand with too many arguments for any of its forms.
pub(crate) fn wrong_form(container: &str, args: Args) -> Error {
    Error::repeating(
        "ERR unknown subcommand or wrong number of arguments for '",
        brief(&args[1]),
        &format!("'. Try {container} HELP."),
    )
}
