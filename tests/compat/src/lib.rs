//! Sends the same commands to two servers and compares every reply.
//!
//! A [`duel`] takes the addresses of two servers, A and B: Punctual and a real redis-server, or two
//! redis-servers to test this crate itself. It sends both servers the same stream of random
//! commands, and compares replies and keyspace events in order, and periodically every key with its
//! value, deadline and encoding. A seed determines the stream; every report has the seed.
//!
//! The main modules, in the order of the data: [`draw`] (keys, values, numbers) → [`generate`]
//! (commands, one file per family) → [`link`] (connections to one server or both) → [`duel`]
//! (running *acts*: groups of commands with one comparison) → [`compare`] (allowed differences of
//! replies) → [`audit`] (the whole keyspace) → [`report`] and [`shrink`] (the first difference,
//! minimised). [`corpus`] compares fixed scripts. [`fuzz`] uses only one server, and does not
//! compare replies. [`oracle`] starts a private redis-server, the reference of a comparison.
//! [`differences`] lists the known differences between the oracle's version and ours; the
//! generators avoid them, or the comparison tolerates them.
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
