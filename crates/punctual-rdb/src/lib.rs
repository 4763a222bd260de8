//! Redis's snapshot format: RDB files and DUMP payloads, without a keyspace and without input or output.
//!
//! - [`Reader`] turns a snapshot into [`Event`]s. It takes its bytes from a [`Source`], gives compact encodings
//!   as slices of it ([`Contents`]) and large values item by item.
//! - [`Encoder`] makes the bytes of records, anywhere and in any order; [`Writer`] puts the rest of the file
//!   around them.
//! - [`dump`] is the same for single values, as DUMP and RESTORE exchange them.
//! - The compact encodings by themselves: [`listpack`], also the codec of single entries on bare bytes;
//!   [`intset`]; [`ziplist`] and [`zipmap`] of older servers; and [`lzf`], the compression.
//!
//! Read are all types of value that redis-server writes in the versions 2.8 to 7.4, but for streams, modules'
//! values and functions, which are passed over and told of. Written are those that 7.0 reads, and one that it
//! does not: [`Kind::HashExpiry`], of hashes with fields that expire, which came with 7.4. A snapshot with such
//! hashes is of [`VERSION_FIELD_EXPIRY`], and older servers refuse it.
//!
//! Everything that reads bytes from outside checks them: damaged input ends in an error with the offset and
//! the reason, never in a panic, in a read out of bounds or in an allocation that the input does not justify.
//!
//! The format is described in Redis's own sources; Sripathi Krishnan's "Redis RDB dump file format" (2012)
//! covers its first versions.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod contents;
mod corrupt;
mod crc64;
pub mod dump;
mod error;
mod input;
pub mod intset;
mod kind;
pub mod listpack;
pub mod lzf;
mod opaque;
mod reader;
mod record;
mod source;
mod writer;
pub mod ziplist;
pub mod zipmap;

pub use contents::{
    Contents, ExpiringPair, ExpiringPairs, Members, Node, Nodes, Pairs, Scored, Value,
};
pub use corrupt::{Corrupt, Flaw};
pub use crc64::crc64;
pub use error::{Error, Failure, Reason};
pub use intset::Intset;
pub use kind::{Kind, VERSION, VERSION_FIELD_EXPIRY, VERSION_MAX};
pub use listpack::{Element, Listpack};
pub use opaque::{ModuleName, Opaque};
pub use reader::{Event, Reader, Record, Skipped};
pub use record::{Encoder, Meta};
pub use source::{Blocks, Source};
pub use writer::Writer;
