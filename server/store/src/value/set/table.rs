//! The form of large sets: a hash table of members.

use crate::check::Check;
use crate::hash_table::Hash;
use crate::value::deadlines::NO_SLOT;
use crate::value::keyed::{Keyed, hash_of, timed_element};
use crate::value::text::Text;

/// A member in a table.
#[derive(Clone, Debug)]
pub struct Member {
    hash: u32,
    slot: u32,
    text: Text,
}

const _: () = assert!(size_of::<Option<Member>>() == 32);

impl Member {
    /// Returns the name.
    pub(super) fn into_name(self) -> Text {
        self.text
    }
}

timed_element!(Member, text);

/// Members by hash.
#[derive(Clone, Debug, Default)]
pub struct Table {
    members: Keyed<Member>,
    /// Heap bytes of the members.
    text_bytes: usize,
}

impl Table {
    /// Returns the members.
    #[inline]
    pub fn members(&self) -> &Keyed<Member> {
        &self.members
    }

    /// Returns the members for a snapshot's walk, and for changes of their deadlines.
    pub(super) fn members_mut(&mut self) -> &mut Keyed<Member> {
        &mut self.members
    }

    /// Adds a member that is not present. Returns its index. O(length) amortised.
    #[inline]
    pub(super) fn add(&mut self, hash: Hash, member: &[u8]) -> u32 {
        let text = Text::new(member);
        self.text_bytes += text.heap_bytes();
        let hash_place = hash.place;
        self.members.insert(
            hash,
            Member {
                hash: hash_place,
                slot: NO_SLOT,
                text,
            },
        )
    }

    /// Adds a member; does nothing if it is present. O(length) amortised.
    pub(super) fn insert(&mut self, member: &[u8]) {
        let hash = hash_of(member);
        if self.members.find(hash, member).is_none() {
            self.add(hash, member);
        }
    }

    /// Removes the member at `id`. O(1) amortised.
    pub(super) fn remove(&mut self, id: u32) -> Member {
        let member = self.members.remove(id);
        self.text_bytes -= member.text.heap_bytes();
        member
    }

    /// Checks the members and the count of their bytes.
    pub(super) fn check(&self, to: &mut Check) {
        self.members.check(to);
        let bytes = self
            .members
            .iter()
            .map(|(_, member)| member.text.heap_bytes());
        to.equal("bytes of the members", self.text_bytes, bytes.sum());
    }

    /// Returns the bytes of the members and the table. O(pages).
    pub(super) fn heap_bytes(&self) -> usize {
        self.members.memory() + self.text_bytes
    }
}
