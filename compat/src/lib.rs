//! The same commands to two servers, every reply compared.
//!
//! Given two addresses, A and B (Punctual and a real redis-server; or redis-server twice, to test this crate
//! itself), a [`duel`] sends both a stream of random commands and compares what comes back byte for byte: replies
//! in order, keyspace events in order, and from time to time every key with its value, deadline and encoding.
//! A stream follows from its seed; the seed is in every report and replays it.
//!
//! How it reads, top to bottom: [`draw`] (keys, values, numbers) → [`generate`] (commands, one file per family)
//! → [`link`] (bytes to and from one server) → [`duel`] (the acts) → [`compare`] (which replies may differ, and
//! why) → [`audit`] (the whole keyspace) → [`report`] and [`shrink`] (the first difference, made small).
//! [`oracle`] starts a private redis-server. [`differences`] lists what is known to differ between the
//! oracle's version and ours, which generators therefore leave out.
#![forbid(unsafe_code)]

pub mod audit;
pub mod command;
pub mod compare;
pub mod differences;
pub mod draw;
pub mod duel;
pub mod events;
pub mod generate;
pub mod link;
pub mod oracle;
pub mod report;
pub mod session;
pub mod shrink;

pub use command::{Command, Step};
pub use duel::{Duel, DuelError, Options, Summary};
pub use generate::{Family, Protocol};
pub use link::Addresses;
pub use oracle::Oracle;
