//! A Redis-compatible server whose keys expire on time.
//!
//! [`Server::builder`] starts a server inside any program. The binary `punctual` adds a command
//! line to it.

// Within the library only `program::daemon` and `persist::aof::slice` may contain unsafe code.
#![deny(unsafe_code)]

mod acl;
mod changelog;
mod client;
mod cluster;
mod command;
pub mod config;
pub mod crash_report;
mod dispatch;
mod durability;
mod embedded;
mod event_loop;
mod feed;
mod follow;
mod http;
pub mod log;
pub mod memory;
mod migrate;
mod net;
mod node;
pub mod observe;
mod persist;
pub mod program;
mod pubsub;
mod reclaim;
mod replication;
mod script;
mod server;
mod session;
mod shutdown;
mod start_error;
mod supervision;
mod switches;
mod table;
mod tls;
mod version;
mod world;

pub use acl::file::UsersError;
pub use command::declaration::{Declaration, DeclarationError, Parameter};
pub use embedded::{CallError, Client, IdleClients};
pub use memory::reclaim::Reclaim;
pub use node::Shared;
pub use punctual_resp::Value;
pub use punctual_store::spec::{Flags, Group};
pub use script::handler::Invocation;
pub use script::requests::{Ended, Request, Requests};
pub use server::{Builder, CommandRow, MoveError, Server};
pub use start_error::{AofError, LoadError, ManifestError, StartError, TooFewFiles};
pub use version::REDIS_VERSION;

/// Runs the Rust examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// Runs the Rust examples of docs/time.md as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/time.md")]
mod time {}

/// Runs the Rust example of docs/embedding.md as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
mod embedding {}
