//! Writers of stream replies: IDs, entries, and arrays whose length is known after their members
//! are written.

use punctual_rdb::stream::Entry;
use punctual_resp::Reply;

use crate::command::replies::reply_element;
use crate::error::{Error, c_string};
use crate::value::stream::Id;

/// Writes an ID.
#[inline]
pub(super) fn reply_id(reply: &mut Reply, id: Id) {
    let (mut ms, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
    let (ms, seq) = (ms.format(id.ms).as_bytes(), seq.format(id.seq).as_bytes());
    // Two numbers of up to 20 digits each, and the hyphen.
    let mut text = [0; 41];
    let len = ms.len() + 1 + seq.len();
    text[..ms.len()].copy_from_slice(ms);
    text[ms.len()] = b'-';
    text[ms.len() + 1..len].copy_from_slice(seq);
    reply.bulk(&text[..len]);
}

/// Writes an entry: its ID, and names and values.
#[inline]
pub(super) fn reply_entry(reply: &mut Reply, entry: &Entry<'_>) {
    reply.array(2);
    reply_body(reply, entry);
}

/// Writes the members of an entry: its ID, and names and values.
#[inline]
pub(super) fn reply_body(reply: &mut Reply, entry: &Entry<'_>) {
    reply_id(reply, entry.id);
    reply.array(entry.pairs().len() * 2);
    for (name, value) in entry.pairs() {
        reply_element(reply, name);
        reply_element(reply, value);
    }
}

/// Writes entries as an array, at most `expected` of them. Returns their number.
pub(super) fn reply_entries<'s>(
    reply: &mut Reply,
    expected: usize,
    entries: impl Iterator<Item = Entry<'s>>,
) -> usize {
    Deferred::array(reply, expected, |reply| {
        entries.map(|entry| reply_entry(reply, &entry)).count()
    })
}

/// Writers of arrays that correct the length in the header after the members are written.
pub(super) struct Deferred;

impl Deferred {
    /// Writes an array. `write` writes the members and returns their number. If the number is
    /// `expected`, the header needs no correction.
    pub(super) fn array(
        reply: &mut Reply,
        expected: usize,
        write: impl FnOnce(&mut Reply) -> usize,
    ) -> usize {
        Self::headed(reply, expected, |reply, n| reply.array(n), write)
    }

    /// Writes an array like [`Deferred::array`], with the header that `header` writes.
    pub(super) fn headed(
        reply: &mut Reply,
        expected: usize,
        header: impl Fn(&mut Reply, usize),
        write: impl FnOnce(&mut Reply) -> usize,
    ) -> usize {
        let start = reply.len();
        header(reply, expected);
        let end = reply.len();
        let count = write(reply);
        if count != expected {
            let mut bytes = Vec::new();
            header(&mut Reply::new(&mut bytes, reply.protocol()), count);
            reply.replace_head(start..end, &bytes);
        }
        count
    }
}

/// The error of a command whose group does not exist. Its text is NOGROUP and the joined parts of
/// `about`: Redis's words, and the names.
pub(super) fn no_group(about: &[&[u8]]) -> Error {
    let mut text = b"NOGROUP ".to_vec();
    about
        .iter()
        .for_each(|part| text.extend_from_slice(c_string(part)));
    Error::Bytes(text.into())
}
