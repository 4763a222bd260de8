//! Fetching the nodes of several searches side by side.

use smallvec::SmallVec;

use super::{Node, Tree, count_before};
use crate::value::zset::WARM_SCORES;

impl<const LEAF: usize, const FAN: usize> Tree<LEAF, FAN> {
    /// Loads the nodes on the way to these scores. All searches go down one level before the next begins, so their cache misses
    /// overlap. Calls `meets` with the id of a slot that has one of the scores. O(scores · log n).
    pub(in crate::value::zset) fn warm(&self, ordinals: &[u64], mut meets: impl FnMut(u32)) {
        let mut nodes: SmallVec<[&Node; WARM_SCORES]> =
            ordinals.iter().map(|_| &self.root).collect();
        while let Some(Node::Inner(_)) = nodes.first() {
            for (node, ordinal) in nodes.iter_mut().zip(ordinals) {
                if let Node::Inner(inner) = node {
                    let before = count_before(&inner.firsts, |other| other < *ordinal);
                    *node = &inner.children[before.saturating_sub(1)];
                }
            }
        }
        for (node, ordinal) in nodes.iter().zip(ordinals) {
            if let Node::Leaf(slots) = node {
                let at = count_before(slots, |other| other < *ordinal);
                let met = slots.get(at).filter(|slot| slot.ordinal() == *ordinal);
                met.into_iter().for_each(|slot| meets(slot.id));
            }
        }
    }
}
