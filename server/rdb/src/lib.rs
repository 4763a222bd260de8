//! Redis's snapshot format: RDB files and DUMP payloads, independent of a keyspace and of input and
//! output.
//!
//! - [`Reader`] turns a snapshot into [`Event`]s. It takes its bytes from a [`Source`], and returns
//!   compact encodings as slices of it ([`Contents`]) and large values item by item.
//! - [`Encoder`] writes the bytes of records, anywhere and in any order; [`Writer`] writes the rest
//!   of the file around them.
//! - [`dump`] reads and writes single values as DUMP and RESTORE exchange them; [`functions`] reads
//!   libraries of functions.
//! - [`stream`] has the blocks of entries in which a stream is stored. A keyspace can use the
//!   blocks in memory without converting them.
//! - The compact encodings are [`listpack`], whose functions also work on entries without a header;
//!   [`intset`]; [`ziplist`] of older servers; and [`lzf`], the compression.
//!
//! The crate reads all types of values that redis-server 2.8 to 7.4 writes. Exceptions are modules'
//! values, and zipmaps of servers before 2.6: it skips and reports them. It writes types that
//! redis-server 7.0 reads, and three other types: [`Kind::HashExpiry`] for hashes with fields that
//! expire; [`Kind::Stream3`] on request; and [`Kind::Module`] for the types that only Punctual has
//! ([`Own`]: timers and queues of jobs). A snapshot with fields that expire has the version
//! [`VERSION_FIELD_EXPIRY`], and servers before 7.4 refuse it.
//!
//! All bytes are checked: damaged input ends in an error with the offset and the reason, never in a
//! panic or a read out of bounds, and memory is proportional to the bytes that have arrived.
//!
//! The format is described in Redis's own sources; Sripathi Krishnan's "Redis RDB dump file format"
//! (2012) covers its first versions.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod contents;
mod corrupt;
mod crc64;
pub mod dump;
mod error;
pub mod functions;
mod input;
pub mod intset;
mod kind;
pub mod listpack;
pub mod lzf;
mod opaque;
mod reader;
mod record;
mod source;
pub mod stream;
mod writer;
pub mod ziplist;

pub use contents::stream::{Parts, StreamPart};
pub use contents::{
    Contents, ExpiringPair, ExpiringPairs, Members, Node, Nodes, OwnParts, Pairs, Scored, Value,
};
pub use corrupt::{Corrupt, Flaw};
pub use crc64::crc64;
pub use error::{Error, Failure, Reason, StreamFlaw};
pub use intset::Intset;
pub use kind::{Kind, VERSION, VERSION_FIELD_EXPIRY, VERSION_MAX};
pub use listpack::{Element, Listpack};
pub use opaque::{ModuleName, Opaque, Own};
pub use reader::{Event, Reader, Record, Skipped};
pub use record::{Encoder, Meta};
pub use source::{Blocks, Source};
pub use writer::Writer;
