//! Loading the nodes of several searches into the cache together.

use smallvec::SmallVec;

use super::{Node, Slot, Tree, TreeSlot as _, count_before};

/// Maximum number of searches without an allocation.
const WARM: usize = 2 * crate::hash_table::WARM_MAX;

impl<const LEAF: usize, const FAN: usize> Tree<Slot, LEAF, FAN> {
    /// Loads the nodes from the root to these ordinals. All searches go down one level before any
    /// goes down the next, so their cache misses overlap. Calls `visit` with the id of the first
    /// slot in the reached leaf that has the ordinal. O(ordinals · log n).
    pub(crate) fn warm(&self, ordinals: &[u64], mut visit: impl FnMut(u32)) {
        let mut nodes: SmallVec<[&Node<Slot>; WARM]> =
            ordinals.iter().map(|_| &self.root).collect();
        while let Some(Node::Inner(_)) = nodes.first() {
            for (node, ordinal) in nodes.iter_mut().zip(ordinals) {
                if let Node::Inner(inner) = node {
                    let before = count_before(&inner.firsts, |other| other.ordinal() < *ordinal);
                    *node = &inner.children[before.saturating_sub(1)];
                }
            }
        }
        for (node, ordinal) in nodes.iter().zip(ordinals) {
            if let Node::Leaf(slots) = node {
                let at = count_before(slots, |other| other.ordinal() < *ordinal);
                let first = slots.get(at).filter(|slot| slot.ordinal() == *ordinal);
                first.into_iter().for_each(|slot| visit(slot.id));
            }
        }
    }
}
