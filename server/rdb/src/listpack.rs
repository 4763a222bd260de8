//! Listpacks: many short texts and integers in one block of memory, which can be walked in both
//! directions. The format is antirez's listpack specification (2017).
//!
//! An entry has an encoding byte (which may include the length or a small integer), the data, and
//! the *backlen*. The backlen is the length of encoding and data in groups of seven bits; it can be
//! read from its end, for walking backwards. A text that is the decimal text of an `i64` is stored
//! as an integer, so equal texts have equal bytes, and [`find`] first compares lengths.
//!
//! The functions of this module work on *bare entries*: any slice or `Vec` of consecutive entries,
//! at positions that the caller keeps. A [`Listpack`] is the form that Redis stores: a header
//! (`u32` total bytes, `u16` entries, where 65535 means "unknown"), the entries, and a final
//! `0xFF`. [`wrap`] adds the header and the end to bare entries, and [`Listpack::entries`] returns
//! the bare entries; neither changes the entries.

mod edit;
mod entry;
#[cfg(test)]
mod tests;
mod whole;

pub use edit::{append, encode, encode_int, insert, replace, write};
pub(crate) use entry::start_before;
pub use entry::{Element, encoded_len, entry_len_at, find, next, prev};
pub use whole::{
    Entries, HEADER_LEN, Listpack, validate, validate_entries, wrap, wrap_into, wrapped_len,
};
pub(crate) use whole::{wrap_elements, wrap_written};
