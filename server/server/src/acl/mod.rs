//! Access control lists: users, their rules, and the checks of commands against them.
//!
//! - A [`user::User`] is an immutable snapshot. A session holds its user by `Arc`, and a flag that
//!   is set if the user is unrestricted: for the default user a check costs one predictable branch.
//! - [`registry::Users`] has all users under one mutex, with a version. SETUSER replaces a snapshot
//!   and raises the version before its reply; a session compares the version before it runs the
//!   commands that it reads next (`node::users`). No other lock is taken under the mutex.
//! - A selector has one bit for each row of the command table; subcommands have their own rows.
//!   [`rules`] parses and prints rules, [`categories`] derives categories, [`check`] decides,
//!   [`log`] records denials, [`file`] reads and writes `aclfile`.
//! - A command is checked when it arrives, and again when EXEC runs it. A command that a script
//!   calls is checked with the permissions of the user that runs the script. A waiting command is
//!   checked again when its user changes: the thread that runs SETUSER ends a forbidden wait as
//!   CLIENT UNBLOCK does, and each loop closes clients with forbidden subscriptions. The primary's
//!   stream and the append-only file are not checked.

pub(crate) mod categories;
pub(crate) mod check;
pub(crate) mod file;
pub(crate) mod log;
pub(crate) mod registry;
pub(crate) mod rules;
pub(crate) mod user;
