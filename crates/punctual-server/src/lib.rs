//! A Redis-compatible server whose keys expire on time.
//!
//! [`Server::builder`] starts one inside any program; the binary `punctual` is that and a command line.

// One module may have unsafe code: `daemon`.
#![deny(unsafe_code)]

mod alarm;
mod blocking;
mod call;
pub mod clients;
mod clock;
mod command;
mod command_latency;
mod command_names;
pub mod config;
mod connection;
pub mod crash_report;
mod cross_protocol;
mod daemon;
mod dispatch;
mod event_loop;
pub mod latency;
mod listener;
pub mod log;
mod lookahead;
mod monitor;
mod net;
mod open_files;
mod persist;
mod process;
pub mod program;
mod pubsub;
mod reclaim;
mod redact;
mod server;
mod session;
mod shared;
mod sink;
mod slowlog;
pub mod stats;
mod supervision;
mod table;
mod transaction;

pub use reclaim::Reclaim;
pub use server::{Builder, LoadError, MoveError, Server, StartError, TooFewFiles};
pub use shared::Shared;

/// The Redis version whose behaviour this server has: clients switch features on by it.
pub const REDIS_VERSION: &str = "7.2.4";

/// The Rust examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
