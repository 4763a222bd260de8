//! Subkeys of keyspace events: the fields or members that an event is about.
//!
//! A commit takes an iterator over names that the command's arguments contain, and runs it only
//! while a channel of subkeys is on ([`Classes::SUBKEY_CHANNELS`]). Where only some of the names
//! have changed, the handler collects these in [`Subkeys`], which stays empty while no such channel
//! is on. The sink gets slices and formats the messages.

use smallvec::SmallVec;

use super::Turn;
use crate::events::Classes;

/// Maximum number of subkeys in one call of the sink for elements that expire together, so that a
/// message stays small although a million fields have the same deadline.
const EXPIRED_MAX: usize = 1_024;

/// Names of changed fields or members; empty while no channel of subkeys is on.
pub(crate) struct Subkeys<N> {
    wanted: bool,
    names: SmallVec<[N; 8]>,
}

impl<N: AsRef<[u8]>> Subkeys<N> {
    #[inline]
    pub(crate) fn push(&mut self, name: N) {
        if self.wanted {
            self.names.push(name);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(AsRef::as_ref)
    }
}

impl Turn<'_> {
    /// Returns an empty list of subkeys for an event of `class`.
    #[inline]
    pub(super) fn subkeys<N>(&self, class: Classes) -> Subkeys<N> {
        Subkeys {
            wanted: self.classes.wants_subkeys(class),
            names: SmallVec::new(),
        }
    }

    /// Publishes an event and its subkeys, as far as the channels are on. Not inlined, so that a
    /// command without events needs no room on the stack for the subkeys.
    #[cold]
    #[inline(never)]
    pub(super) fn publish<'k>(
        &mut self,
        db: usize,
        class: Classes,
        event: &str,
        key: &[u8],
        subkeys: impl Iterator<Item = &'k [u8]>,
    ) {
        if self.classes.intersects(Classes::KEY_CHANNELS) {
            self.sink.keyspace(db, class, event, key);
        }
        if self.classes.intersects(Classes::SUBKEY_CHANNELS) {
            self.publish_subkeys(db, event, key, subkeys);
        }
    }

    /// Publishes subkeys that expire, and empties the list, if it is full. The event, which follows
    /// with the last subkeys, comes once.
    #[inline]
    pub(super) fn publish_if_full<N: AsRef<[u8]>>(
        &mut self,
        db: usize,
        event: &str,
        key: &[u8],
        subkeys: &mut Subkeys<N>,
    ) {
        if subkeys.names.len() == EXPIRED_MAX {
            self.publish_subkeys(db, event, key, subkeys.iter());
            subkeys.names.clear();
        }
    }

    fn publish_subkeys<'k>(
        &mut self,
        db: usize,
        event: &str,
        key: &[u8],
        subkeys: impl Iterator<Item = &'k [u8]>,
    ) {
        let subkeys: SmallVec<[&[u8]; 8]> = subkeys.collect();
        if !subkeys.is_empty() {
            self.sink.subkeys(db, event, key, &subkeys);
        }
    }
}
