//! Joins the two streams of a rule of NOTIFY that exist while a slot moves: one at each node.
//!
//! One of them has the history that readers know, so its entries keep their IDs, and the entries of
//! the other one follow. An entry whose ID is not greater than the last ID gets the next ID, so a
//! reader that has read up to the last ID misses no entry. The order of IDs alone would not do: the
//! nodes give the same IDs to different entries, and a reader does not see an entry that appears
//! before its last ID.

use std::cmp::Reverse;

use super::Stream;
use crate::limits::Limits;

impl Stream {
    /// Joins this stream, which exists, and a stream that arrives. The stream with groups comes
    /// first; if both or neither have groups, the one with the earlier first entry. A group of both
    /// streams is the group of the first one. Entries that both streams have, because an earlier
    /// move of the slot was interrupted, are kept once. Returns `None` if there are no more IDs.
    /// O(bytes of both streams).
    pub(crate) fn join(self, arriving: Self, limits: &Limits) -> Option<Self> {
        let rank = |stream: &Self| (!stream.groups.is_empty(), Reverse(stream.first_id()));
        let (mut first, second) = match rank(&arriving) >= rank(&self) {
            true => (arriving, self),
            false => (self, arriving),
        };
        for entry in second.iter() {
            let fields: Vec<(Vec<u8>, Vec<u8>)> = entry
                .pairs()
                .map(|(name, value)| {
                    (
                        name.with_text(<[u8]>::to_vec),
                        value.with_text(<[u8]>::to_vec),
                    )
                })
                .collect();
            let has_same = first.get(entry.id).is_some_and(|other| {
                let texts = other.pairs().map(|(name, value)| {
                    (
                        name.with_text(<[u8]>::to_vec),
                        value.with_text(<[u8]>::to_vec),
                    )
                });
                texts.eq(fields.iter().cloned())
            });
            if !has_same {
                let id = entry.id.max(first.last_id().next()?);
                let fields = fields.iter().map(|(name, value)| (&name[..], &value[..]));
                first.push(id, fields, limits);
            }
        }
        for (name, group) in second.groups {
            first.groups.entry(name).or_insert(group);
        }
        Some(first)
    }
}
