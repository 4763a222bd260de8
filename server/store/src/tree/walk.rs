//! Iteration over the slots of consecutive ranks in either direction.

use std::ops::Range;

use smallvec::SmallVec;

use super::{Inner, Node};

/// Iterator over slots of consecutive ranks.
pub(crate) struct Walk<'t, S> {
    /// Nodes from the root down, each with the index of the child in which the walk is now.
    path: SmallVec<[(&'t Inner<S>, usize); 4]>,
    leaf: &'t [S],
    /// Position of the next slot in the leaf.
    at: usize,
    /// Number of slots left.
    left: usize,
    backwards: bool,
}

impl<'t, S> Walk<'t, S> {
    /// Starts at `ranks`, a possibly empty range of ranks below `root`.
    pub(super) fn new(root: &'t Node<S>, ranks: Range<usize>, backwards: bool) -> Self {
        let mut walk = Self {
            path: SmallVec::new(),
            leaf: &[],
            at: 0,
            left: ranks.len(),
            backwards,
        };
        if walk.left > 0 {
            let mut rank = if backwards {
                ranks.end - 1
            } else {
                ranks.start
            };
            let mut node = root;
            while let Node::Inner(inner) = node {
                let i = inner.child_of(&mut rank);
                walk.path.push((inner, i));
                node = &inner.children[i];
            }
            if let Node::Leaf(slots) = node {
                walk.leaf = slots;
                walk.at = rank;
            }
        }
        walk
    }

    /// Moves to the next leaf, which must exist.
    fn cross(&mut self) {
        let backwards = self.backwards;
        while let Some((inner, i)) = self.path.pop() {
            let beside = if backwards {
                i.checked_sub(1)
            } else {
                Some(i + 1).filter(|&i| i < inner.children.len())
            };
            let Some(i) = beside else { continue };
            self.path.push((inner, i));
            let mut node = &inner.children[i];
            while let Node::Inner(inner) = node {
                let i = if backwards {
                    inner.children.len() - 1
                } else {
                    0
                };
                self.path.push((inner, i));
                node = &inner.children[i];
            }
            if let Node::Leaf(slots) = node {
                self.leaf = slots;
                self.at = if backwards { slots.len() - 1 } else { 0 };
            }
            return;
        }
    }
}

impl<S: Copy> Iterator for Walk<'_, S> {
    type Item = S;

    #[inline]
    fn next(&mut self) -> Option<S> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let slot = self.leaf[self.at];
        if self.left > 0 {
            if self.backwards {
                match self.at.checked_sub(1) {
                    Some(at) => self.at = at,
                    None => self.cross(),
                }
            } else {
                self.at += 1;
                if self.at == self.leaf.len() {
                    self.cross();
                }
            }
        }
        Some(slot)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<S: Copy> ExactSizeIterator for Walk<'_, S> {}
