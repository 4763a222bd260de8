//! Checks of a tree's nodes.

use super::{Node, Tree, TreeSlot};
use crate::check::Check;

impl<S: TreeSlot, const L: usize, const F: usize> Tree<S, L, F> {
    /// Checks that inner nodes know the first slots and the sizes of their children, that all
    /// leaves have the same depth, and that no node is empty or too long.
    pub(crate) fn check(&self, to: &mut Check) {
        check_node::<S, L, F>(&self.root, true, to);
    }
}

/// Checks a node. Returns its depth.
fn check_node<S: TreeSlot, const L: usize, const F: usize>(
    node: &Node<S>,
    is_root: bool,
    to: &mut Check,
) -> usize {
    match node {
        Node::Leaf(slots) => {
            to.holds(
                "only the root may be an empty leaf",
                is_root || !slots.is_empty(),
            );
            to.holds("a leaf has room for its slots", slots.len() <= L);
            to.holds("a leaf does not waste memory", slots.capacity() <= L.max(4));
            0
        }
        Node::Inner(inner) => {
            let len = inner.children.len();
            let fits = len > usize::from(is_root) && len <= F;
            to.holds("an inner node has children, and room for them", fits);
            let lengths = (inner.firsts.len(), inner.counts.len());
            to.equal("lengths of an inner node", lengths, (len, len));
            let mut depths = Vec::new();
            for (child, (first, count)) in inner
                .children
                .iter()
                .zip(inner.firsts.iter().zip(&inner.counts))
            {
                depths.push(check_node::<S, L, F>(child, false, to));
                to.equal("first slot of a child", *first, child.first());
                to.equal("slots of a child", *count, child.count());
            }
            to.holds(
                "all leaves have the same depth",
                depths.windows(2).all(|d| d[0] == d[1]),
            );
            depths.first().map_or(0, |depth| depth + 1)
        }
    }
}
