//! Sends the same commands to two servers and compares every reply.
//!
//! Given two addresses, A and B (Punctual and a real redis-server, or redis-server twice to test
//! this crate itself), a [`duel`] sends both a stream of random commands and compares the output
//! byte for byte: replies in order, keyspace events in order, and periodically every key with its
//! value, deadline and encoding. A stream is determined by its seed, which is in every report and
//! replays it.
//!
//! The modules, in the order of the data: [`draw`] (keys, values, numbers) → [`generate`]
//! (commands, one file per family) → [`link`] (connections to one server) → [`duel`] (running the
//! acts) → [`compare`] (which replies may differ, and why) → [`audit`] (the whole keyspace) →
//! [`report`] and [`shrink`] (the first difference, minimised). [`fuzz`] needs one server only, and
//! no replies to compare. [`oracle`] starts a private redis-server. [`differences`] lists the known
//! differences between the oracle's version and ours, which generators therefore avoid.
#![forbid(unsafe_code)]

pub mod audit;
pub mod command;
pub mod compare;
pub mod corpus;
pub mod differences;
pub mod draw;
pub mod duel;
pub mod events;
pub mod fuzz;
pub mod generate;
pub mod link;
pub mod oracle;
pub mod replayed;
pub mod report;
pub mod session;
pub mod shrink;

pub use command::{Command, Step};
pub use duel::{Duel, DuelError, Options, Summary};
pub use generate::{Family, Protocol};
pub use link::Addresses;
pub use oracle::Oracle;
