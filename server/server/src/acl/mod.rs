//! Access control lists: users, their rules, and the checks of commands against them.
//!
//! - A [`user::User`] is an immutable snapshot. A session holds one by `Arc`, with a flag whether
//!   anything has to be checked: the default user costs one predictable branch a command.
//! - [`registry::Users`] has all users under one mutex, with a version. SETUSER replaces a
//!   snapshot; sessions take the new one before they run what they read next (`node::users`). No
//!   other lock is taken under the mutex.
//! - Permissions of commands are bits by row of the command table; subcommands have rows of their
//!   own. [`rules`] parses and prints them, [`categories`] derives categories from the rows,
//!   [`check`] decides, [`log`] remembers denials, and [`file`] reads and writes `aclfile`.
//! - A command is checked when it arrives, again when EXEC runs it, and when a script calls it, as
//!   the script's caller. A command that waits is checked again when its user changes. The
//!   primary's stream and the append-only file are not checked.

pub(crate) mod categories;
pub(crate) mod check;
pub(crate) mod file;
pub(crate) mod log;
pub(crate) mod registry;
pub(crate) mod rules;
pub(crate) mod user;
