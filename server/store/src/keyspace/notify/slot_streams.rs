//! The streams of a rule in cluster mode: `name{tag}` for each slot, where `tag` has that slot. The
//! stream and the keys whose events it gets have one slot, so they are in one shard, and move to
//! another node together. A stream exists from the first event of its slot on.

use punctual_cluster::slot;

use super::Rule;

impl Rule {
    /// Returns whether the rule's name of its streams is allowed in cluster mode. A brace in the
    /// name would begin another hash tag.
    pub(crate) fn allows_slots(&self) -> bool {
        !self.stream.contains(&b'{')
    }

    /// Returns the key of the stream for a slot, or `None` if the rule was set without cluster mode
    /// and has a name that is not allowed.
    pub(crate) fn stream_of_slot(&self, slot: u16) -> Option<Vec<u8>> {
        self.allows_slots()
            .then(|| [&*self.stream, b"{", slot::tag(slot).as_bytes(), b"}"].concat())
    }

    /// Returns whether a key is the stream for the key's slot.
    pub(super) fn is_slot_stream(&self, key: &[u8]) -> bool {
        let tag = key.strip_prefix(&*self.stream);
        let tag = tag.and_then(|rest| rest.strip_prefix(b"{")?.strip_suffix(b"}"));
        self.allows_slots() && tag.is_some_and(|tag| tag == slot::tag(slot::of_key(key)).as_bytes())
    }
}
