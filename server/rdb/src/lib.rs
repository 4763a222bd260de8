//! Redis's snapshot format: RDB files and DUMP payloads, independent of a keyspace and of input and
//! output.
//!
//! - [`Reader`] turns a snapshot into [`Event`]s. It takes its bytes from a [`Source`], and returns
//!   compact encodings as slices of it ([`Contents`]) and large values item by item.
//! - [`Encoder`] writes the bytes of records, anywhere and in any order; [`Writer`] writes the rest
//!   of the file around them.
//! - [`dump`] does the same for single values, as DUMP and RESTORE exchange them, and [`functions`]
//!   for libraries.
//! - [`stream`] has the blocks of streams, which a keyspace can use as they are.
//! - The compact encodings: [`listpack`], which also encodes single entries on bare bytes;
//!   [`intset`]; [`ziplist`] of older servers; and [`lzf`], the compression.
//!
//! All types of values that redis-server 2.8 to 7.4 writes can be read, except modules' values,
//! which are skipped and reported, as are zipmaps of servers before 2.6. Written are the types that
//! 7.0 reads, and two that it does not read: [`Kind::HashExpiry`], for hashes with fields that
//! expire, and on request [`Kind::Stream3`]. A snapshot with such hashes has
//! [`VERSION_FIELD_EXPIRY`], and older servers refuse it.
//!
//! All bytes from outside are checked: damaged input ends in an error with the offset and
//! the reason, never in a panic, a read out of bounds or an unjustified allocation.
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
