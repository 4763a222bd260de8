//! RESP2 and RESP3: parsing commands and writing replies.
//!
//! The crate does no input or output and is independent of any server. Its three parts can be used
//! separately:
//!
//! - **Reading commands.** A [`Parser`] per connection turns the read buffer into [`Command`]s
//!   whose [`Args`] are slices of that buffer, without copies. (Only inline commands are copied, to
//!   resolve their quotes.) The parser resumes where it stopped, so input that arrives byte by byte
//!   costs no more than input in one piece.
//! - **Writing replies.** [`Reply`] appends to the connection's output buffer in the connection's
//!   [`Protocol`]. Types that RESP2 lacks (maps, doubles, booleans) are written as Redis does.
//! - **The client side**, for tests and load generators: [`encode_command`] writes commands,
//!   [`decode`] and [`Decoder`] read [`Value`]s, and [`reply_len`] only returns a reply's length.
//!
//! [`decimal`] has Redis's rules for numbers as text, which commands need as well.
//!
//! ```
//! use punctual_resp::{Limits, Parser, Protocol, Reply};
//!
//! let mut parser = Parser::new();
//! let buf = b"*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n";
//! let command = parser.parse(buf, &Limits::default()).unwrap().expect("one whole command");
//! assert_eq!(command.consumed, buf.len());
//!
//! let mut out = Vec::new();
//! Reply::new(&mut out, Protocol::Resp2).bulk(&command.args[1]);
//! assert_eq!(out, b"$5\r\nhello\r\n");
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod args;
mod chunks;
pub mod decimal;
mod decode;
mod error;
mod limits;
mod parse;
mod reply;
mod value;

pub use args::{Args, ArgsIter, ArgsTooLarge, OwnedArgs};
pub use chunks::{CHUNK, Chunks};
pub use decode::{Decoder, MAX_DEPTH, ReplyScan, decode, encode_command, reply_len};
pub use error::{DecodeError, ProtocolError};
pub use limits::Limits;
pub use parse::{Command, Parser};
pub use reply::{Protocol, Reply};
pub use value::Value;
