//! Redis's snapshot format: RDB files and DUMP payloads, independent of a keyspace and of input and
//! output.
//!
//! - [`Reader`] turns the bytes of a [`Source`] into [`Event`]s. It returns compact encodings as
//!   slices ([`Contents`]) and large values item by item.
//! - [`Encoder`] writes records. [`Writer`] writes the header, the end and the other parts of a
//!   file.
//! - [`dump`] reads and writes single values. [`functions`] reads libraries of functions.
//!   [`stream`] has the blocks of entries in which a stream is stored.
//! - The compact encodings are [`listpack`], [`intset`], and [`ziplist`] of older servers. [`lzf`]
//!   is the compression.
//!
//! All bytes are checked: damaged input ends in an error with the offset and the reason, never in a
//! panic or a read out of bounds, and memory is proportional to the bytes that have arrived. The
//! format is described in Redis's own sources; Sripathi Krishnan's "Redis RDB dump file format"
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
pub use kind::{Dialect, Kind, VERSION, VERSION_FIELD_EXPIRY, VERSION_MAX, VERSION_VALKEY};
pub use listpack::{Element, Listpack};
pub use opaque::{ModuleName, Opaque, Own};
pub use reader::{Event, Reader, Record, Skipped};
pub use record::{Encoder, Meta};
pub use source::{Blocks, Source};
pub use writer::Writer;
