//! A sharded keyspace with Redis's commands, whose keys expire by timing wheels. Its input is an
//! instant and commands; its output is replies and events.
//!
//! The crate reads no clock, socket or file, so the same code runs in the server, in tests that
//! move the clock, and in fuzz targets. A [`Store`] is the keyspace. A [`Turn`] locks parts of it
//! and runs commands and expiry at one instant. A [`Sink`](events::Sink) receives the events.
//!
//! ```
//! use punctual_store::{Now, Store, StoreOptions, Turn, command, events::{Classes, Silent}};
//! use punctual_resp::{OwnedArgs, Protocol, Reply};
//!
//! let options = StoreOptions {
//!     shards: 1, databases: 16, cluster: false, seed: 1, nap: std::thread::sleep,
//! };
//! let store = Store::new(options);
//! let mut sink = Silent;
//! let mut turn = Turn::new(&store, Now::from_ms(1_000), &mut sink, Classes::none());
//! let mut out = Vec::new();
//! let args: OwnedArgs = ["SET", "k", "v", "PX", "100"].iter().map(|a| a.as_bytes()).collect();
//! let set = command::find(b"set").unwrap();
//! turn.run(set, 0, true, args.as_args(), &mut Reply::new(&mut out, Protocol::Resp2)).unwrap();
//! assert_eq!(out, b"+OK\r\n");
//!
//! turn.now = Now::from_ms(1_100); // the caller sets the time
//! assert!(turn.expire(0, &mut 1000));
//! assert_eq!(turn.stats.expired, 1);
//! ```

#![forbid(unsafe_code)]

mod arguments;
pub mod check;
mod classes;
pub mod command;
mod effects;
pub mod error;
pub mod events;
pub mod eviction;
pub mod glob;
pub mod hash_table;
pub mod keyspace;
pub mod limits;
pub mod lock_order;
pub mod pages;
#[doc(hidden)]
pub mod planted;
mod random;
pub mod snapshot;
mod source;
pub mod spec;
mod time;
mod tree;
pub mod ttl_rules;
mod turn;
pub mod unaligned;
mod unwritten;
pub mod uses;
pub mod value;

pub use effects::{Effects, write_select};
pub use error::Error;
pub use hash_table::KeyHash;
pub use keyspace::notify::FIELD as NOTIFY_FIELD;
pub use keyspace::shard::{Shard, Store, StoreOptions, Writers};
pub use source::Source;
pub use time::Now;
pub use turn::jobs::{JobCensus, JobCounts, SPANS_MS};
pub use turn::restore::{KeyExists, RestoreBatch, Restored};
pub use turn::source::OuterSource;
pub use turn::stats::{OwnCounter, Stats};
pub use turn::timers::{DueTimer, Firing};
pub use turn::{Command, Cx, Discarded, Handler, READ_ONLY, Turn};
