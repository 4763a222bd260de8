//! A B+ tree of small slots with the number of slots under each child. It holds the order of a
//! large sorted set, of timers and of jobs.
//!
//! The tree is a B-tree (Bayer and McCreight, "Organization and Maintenance of Large Ordered
//! Indices", 1972) with all slots in the leaves. The counts make it an order-statistics tree
//! (Cormen et al., "Introduction to Algorithms", chapter 14), so one descent finds a slot's rank or
//! the slot of a rank.
//!
//! Ground rules: the tree does not compare slots. A search passes a *split*: a function that gets
//! ordered slots and returns the number of them before the wanted position. A descent calls the
//! split once per level. An inner node stores the exact first slot under each child, so each id in
//! it belongs to an existing entry. Leaves have little spare capacity. A removal that leaves a node
//! sparse merges the node with a neighbour if both fit into one node with room to spare. Otherwise,
//! slots do not move between neighbours.

mod check;
mod ordered;
#[cfg(test)]
mod tests;
mod walk;
mod warm;

use std::ops::Range;

pub(crate) use walk::Walk;

/// A slot that a tree can hold.
pub(crate) trait TreeSlot: Copy + PartialEq + std::fmt::Debug {
    /// Returns the number that slots are sorted by first. It stands for a score or a time.
    fn ordinal(self) -> u64;

    /// Returns the slot with another ordinal.
    #[must_use]
    fn with_ordinal(self, ordinal: u64) -> Self;
}

/// An ordinal, which stands for a score or a deadline, and the id of its entry, in 12 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    low: u32,
    high: u32,
    /// The entry's index in its collection.
    pub(crate) id: u32,
}

const _: () = assert!(size_of::<Slot>() == 12);

impl Slot {
    pub(crate) const fn new(ordinal: u64, id: u32) -> Self {
        Self {
            low: ordinal as u32,
            high: (ordinal >> 32) as u32,
            id,
        }
    }
}

impl TreeSlot for Slot {
    #[inline]
    fn ordinal(self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }

    #[inline]
    fn with_ordinal(self, ordinal: u64) -> Self {
        Self::new(ordinal, self.id)
    }
}

/// Returns the number of slots for which `is_before` is true. In the order of the slots, these
/// slots must come first.
///
/// Probes every eighth slot, then eight slots. These loads are independent, and there is no branch
/// to mispredict. A binary search would wait for memory at each of its first steps.
#[inline]
pub(crate) fn count_before<S: TreeSlot>(slots: &[S], is_before: impl Fn(S) -> bool) -> usize {
    const RUN: usize = 8;
    let (runs, _) = slots.as_chunks::<RUN>();
    let whole: usize = runs
        .iter()
        .map(|run| usize::from(is_before(run[RUN - 1])))
        .sum();
    let rest = &slots[whole * RUN..];
    let rest = &rest[..rest.len().min(RUN)];
    let more: usize = rest.iter().map(|slot| usize::from(is_before(*slot))).sum();
    whole * RUN + more
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}:{}", self.ordinal(), self.id)
    }
}

/// A tree of leaves with up to `LEAF` slots and inner nodes with up to `FAN` children.
///
/// Insertion and removal take O(log n) and move slots within a leaf.
#[derive(Clone)]
pub(crate) struct Tree<S = Slot, const LEAF: usize = 64, const FAN: usize = 64> {
    root: Node<S>,
}

#[derive(Clone)]
enum Node<S> {
    /// Slots in order. A leaf is empty only if it is the root of an empty tree.
    Leaf(Vec<S>),
    Inner(Box<Inner<S>>),
}

/// An inner node: children in order. The three vectors have the same length, at least 1.
#[derive(Clone)]
struct Inner<S> {
    /// First slot under each child.
    firsts: Vec<S>,
    /// Number of slots under each child.
    counts: Vec<u32>,
    children: Vec<Node<S>>,
}

impl<S> Default for Inner<S> {
    fn default() -> Self {
        Self {
            firsts: Vec::new(),
            counts: Vec::new(),
            children: Vec::new(),
        }
    }
}

/// Whether a node is the leftmost or the rightmost of its level.
#[derive(Clone, Copy)]
struct Edges {
    left: bool,
    right: bool,
}

/// The target of a removal: selects a child in an inner node, and a slot in a leaf.
trait Target<S> {
    fn child(&mut self, inner: &Inner<S>) -> usize;
    fn slot(&mut self, slots: &[S]) -> usize;
}

/// Selects the last slot before a split.
struct Before<F>(F);

/// Selects the slot of a rank.
struct Rank(usize);

impl<S, F: Fn(&[S]) -> usize> Target<S> for Before<F> {
    #[inline]
    fn child(&mut self, inner: &Inner<S>) -> usize {
        (self.0)(&inner.firsts).saturating_sub(1)
    }

    #[inline]
    fn slot(&mut self, slots: &[S]) -> usize {
        (self.0)(slots).saturating_sub(1)
    }
}

impl<S> Target<S> for Rank {
    #[inline]
    fn child(&mut self, inner: &Inner<S>) -> usize {
        inner.child_of(&mut self.0)
    }

    #[inline]
    fn slot(&mut self, _: &[S]) -> usize {
        self.0
    }
}

/// Result of [`Tree::take`].
enum Taken<S> {
    Removed(S),
    /// The slot got its new ordinal in place.
    Changed,
}

impl<S> Inner<S> {
    /// Returns the child that holds a rank, and makes `rank` relative to it.
    #[inline]
    fn child_of(&self, rank: &mut usize) -> usize {
        for (i, &count) in self.counts.iter().enumerate() {
            if *rank < count as usize {
                return i;
            }
            *rank -= count as usize;
        }
        panic!("the rank is below the number of slots");
    }
}

impl<S: TreeSlot> Inner<S> {
    fn push(&mut self, node: Node<S>) {
        self.insert(self.children.len(), node);
    }

    fn insert(&mut self, at: usize, node: Node<S>) {
        self.firsts.insert(at, node.first());
        self.counts.insert(at, node.count());
        self.children.insert(at, node);
    }

    fn remove(&mut self, at: usize) -> Node<S> {
        self.firsts.remove(at);
        self.counts.remove(at);
        self.children.remove(at)
    }

    /// Splits off the children from `at` on.
    fn split_off(&mut self, at: usize) -> Self {
        Self {
            firsts: self.firsts.split_off(at),
            counts: self.counts.split_off(at),
            children: self.children.split_off(at),
        }
    }

    fn append(&mut self, mut other: Self) {
        self.firsts.append(&mut other.firsts);
        self.counts.append(&mut other.counts);
        self.children.append(&mut other.children);
    }
}

impl<S: TreeSlot> Node<S> {
    /// Returns the first slot.
    #[inline]
    fn first(&self) -> S {
        match self {
            Self::Leaf(slots) => slots[0],
            Self::Inner(inner) => inner.firsts[0],
        }
    }

    /// Returns whether there are any slots.
    #[inline]
    fn nonempty(&self) -> bool {
        !matches!(self, Self::Leaf(slots) if slots.is_empty())
    }

    fn count(&self) -> u32 {
        match self {
            Self::Leaf(slots) => slots.len() as u32,
            Self::Inner(inner) => inner.counts.iter().sum(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Leaf(slots) => slots.capacity() * size_of::<S>(),
            Self::Inner(inner) => {
                size_of::<Inner<S>>()
                    + inner.firsts.capacity() * size_of::<S>()
                    + inner.counts.capacity() * size_of::<u32>()
                    + inner.children.capacity() * size_of::<Self>()
                    + inner.children.iter().map(Self::memory).sum::<usize>()
            }
        }
    }
}

impl<S: TreeSlot, const LEAF: usize, const FAN: usize> std::fmt::Debug for Tree<S, LEAF, FAN> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tree({} slots)", self.len())
    }
}

impl<S, const LEAF: usize, const FAN: usize> Default for Tree<S, LEAF, FAN> {
    fn default() -> Self {
        Self {
            root: Node::Leaf(Vec::new()),
        }
    }
}

impl<S: TreeSlot, const LEAF: usize, const FAN: usize> Tree<S, LEAF, FAN> {
    /// Leaves with fewer slots, and inner nodes with fewer children, are sparse. A sparse node is
    /// merged with a neighbour if both have at most `FULL` together.
    const SPARSE: (usize, usize) = (LEAF.div_ceil(3), FAN.div_ceil(3));
    const FULL: (usize, usize) = (LEAF - LEAF / 4, FAN - FAN / 4);
    /// Number of slots or children in a node of a tree that is built in bulk. The node has room for
    /// some inserts without a split.
    const FILLED: (usize, usize) = (LEAF - LEAF / 6, FAN - FAN / 6);

    /// Builds a tree of slots in order. O(n).
    pub(crate) fn from_sorted(slots: &[S]) -> Self {
        let leaves = slots.chunks(Self::FILLED.0);
        let mut nodes: Vec<Node<S>> = leaves.map(|chunk| Node::Leaf(chunk.to_vec())).collect();
        while nodes.len() > 1 {
            let mut above = Vec::with_capacity(nodes.len().div_ceil(Self::FILLED.1));
            let mut rest = nodes.into_iter().peekable();
            while rest.peek().is_some() {
                let mut inner = Box::<Inner<S>>::default();
                rest.by_ref()
                    .take(Self::FILLED.1)
                    .for_each(|node| inner.push(node));
                above.push(Node::Inner(inner));
            }
            nodes = above;
        }
        nodes.pop().map_or_else(Self::default, |root| Self { root })
    }

    /// Returns the number of slots before the split. O(log n).
    #[inline]
    pub(crate) fn rank(&self, split: impl Fn(&[S]) -> usize) -> usize {
        let mut node = &self.root;
        let mut rank = 0;
        loop {
            match node {
                Node::Leaf(slots) => return rank + split(slots),
                Node::Inner(inner) => {
                    // Descends into the last child that starts before the split.
                    let Some(i) = split(&inner.firsts).checked_sub(1) else {
                        return rank;
                    };
                    rank += inner.counts[..i].iter().map(|&n| n as usize).sum::<usize>();
                    node = &inner.children[i];
                }
            }
        }
    }

    /// Inserts a slot at the position of the split. O(log n).
    #[inline]
    pub(crate) fn insert(&mut self, slot: S, split: impl Fn(&[S]) -> usize) {
        let edges = Edges {
            left: true,
            right: true,
        };
        if let Some(sibling) = Self::put(&mut self.root, slot, &split, edges) {
            let mut inner = Box::<Inner<S>>::default();
            inner.push(std::mem::replace(&mut self.root, Node::Leaf(Vec::new())));
            inner.push(sibling);
            self.root = Node::Inner(inner);
        }
    }

    /// Removes the last slot before the split. O(log n).
    ///
    /// # Panics
    /// If the tree is empty.
    pub(crate) fn remove(&mut self, split: impl Fn(&[S]) -> usize) -> S {
        match self.take(Before(split), None) {
            Taken::Removed(slot) => slot,
            Taken::Changed => unreachable!("without a new ordinal, the slot is removed"),
        }
    }

    /// Removes the slot of a rank. O(log n).
    ///
    /// # Panics
    /// If the rank is out of range.
    pub(crate) fn remove_at(&mut self, rank: usize) -> S {
        match self.take(Rank(rank), None) {
            Taken::Removed(slot) => slot,
            Taken::Changed => unreachable!("without a new ordinal, the slot is removed"),
        }
    }

    /// Changes the ordinal of the last slot before the split if the new ordinal lies between the
    /// ordinals of its neighbours in the leaf, otherwise removes the slot. Returns true if the slot
    /// has the new ordinal. O(log n).
    ///
    /// # Panics
    /// If the tree is empty.
    #[must_use = "a slot that was taken out must be inserted"]
    pub(crate) fn change(&mut self, split: impl Fn(&[S]) -> usize, ordinal: u64) -> bool {
        matches!(self.take(Before(split), Some(ordinal)), Taken::Changed)
    }

    /// Returns the slot of a rank. O(log n).
    pub(crate) fn get(&self, rank: usize) -> Option<S> {
        self.walk(rank..rank + 1, false).next()
    }

    /// Returns the number of slots. O(1).
    pub(crate) fn len(&self) -> usize {
        self.root.count() as usize
    }

    /// Iterates over the slots of a range of ranks, in reverse order if `backwards`; ignores ranks
    /// beyond the last slot. O(log n), then O(1) per slot.
    pub(crate) fn walk(&self, ranks: Range<usize>, backwards: bool) -> Walk<'_, S> {
        Walk::new(
            &self.root,
            ranks.start..ranks.end.min(self.len()),
            backwards,
        )
    }

    /// Returns the number of heap bytes. O(nodes).
    pub(crate) fn memory(&self) -> usize {
        self.root.memory()
    }

    /// Inserts a slot below `node`. Returns the new right sibling if `node` had to split.
    fn put(
        node: &mut Node<S>,
        slot: S,
        split: &impl Fn(&[S]) -> usize,
        edges: Edges,
    ) -> Option<Node<S>> {
        match node {
            Node::Leaf(slots) => {
                let at = split(slots);
                Self::put_in_leaf(slots, at, slot, edges).map(Node::Leaf)
            }
            Node::Inner(inner) => {
                let before = split(&inner.firsts);
                if before == 0 {
                    inner.firsts[0] = slot;
                }
                let i = before.saturating_sub(1);
                let edges = Edges {
                    left: edges.left && i == 0,
                    right: edges.right && i + 1 == inner.children.len(),
                };
                let sibling = Self::put(&mut inner.children[i], slot, split, edges);
                inner.counts[i] += 1;
                let sibling = sibling?;
                inner.counts[i] -= sibling.count();
                inner.insert(i + 1, sibling);
                let len = inner.children.len();
                if len <= FAN {
                    return None;
                }
                let cut = match edges {
                    Edges { right: true, .. } => len - 1,
                    Edges { left: true, .. } => 1,
                    _ => len / 2,
                };
                Some(Node::Inner(Box::new(inner.split_off(cut))))
            }
        }
    }

    /// Inserts a slot at `at`. A full leaf splits in half. At an edge of the tree, a full leaf
    /// stays full and the new slot starts another leaf, because the next slots probably follow
    /// at that edge. Returns the new right sibling after a split.
    fn put_in_leaf(slots: &mut Vec<S>, at: usize, slot: S, edges: Edges) -> Option<Vec<S>> {
        if slots.len() < LEAF {
            if slots.len() == slots.capacity() {
                slots.reserve_exact(Self::room(slots.len() + 1) - slots.len());
            }
            slots.insert(at, slot);
            return None;
        }
        let alone = || {
            let mut slots = Vec::with_capacity(Self::room(1));
            slots.push(slot);
            slots
        };
        if edges.right && at == slots.len() {
            return Some(alone());
        }
        if edges.left && at == 0 {
            return Some(std::mem::replace(slots, alone()));
        }
        let cut = LEAF / 2;
        let mut right = Vec::with_capacity(Self::room(slots.len() - cut + 1));
        right.extend_from_slice(&slots[cut..]);
        slots.truncate(cut);
        slots.shrink_to(Self::room(cut + 1));
        if at <= cut {
            slots.insert(at, slot);
        } else {
            right.insert(at - cut, slot);
        }
        Some(right)
    }

    /// Returns the capacity for a leaf of `len` slots: a multiple of a sixth of a full leaf, which
    /// fits the allocator's size classes well, or a power of two if the leaf is at most half full.
    const fn room(len: usize) -> usize {
        if len > LEAF / 2 {
            return (len * 6).div_ceil(LEAF) * LEAF / 6;
        }
        let power = len.next_power_of_two();
        let room = if power < 4 { 4 } else { power };
        if room > LEAF / 2 && len <= LEAF / 2 {
            LEAF / 2
        } else {
            room
        }
    }

    fn take(&mut self, mut target: impl Target<S>, ordinal: Option<u64>) -> Taken<S> {
        let taken = Self::take_below(&mut self.root, &mut target, ordinal);
        while let Node::Inner(inner) = &mut self.root
            && inner.children.len() <= 1
        {
            self.root = inner.children.pop().unwrap_or(Node::Leaf(Vec::new()));
        }
        taken
    }

    fn take_below(
        node: &mut Node<S>,
        target: &mut impl Target<S>,
        ordinal: Option<u64>,
    ) -> Taken<S> {
        match node {
            Node::Leaf(slots) => {
                let at = target.slot(slots);
                if let Some(ordinal) = ordinal
                    && at > 0
                    && at + 1 < slots.len()
                    && slots[at - 1].ordinal() < ordinal
                    && ordinal < slots[at + 1].ordinal()
                {
                    slots[at] = slots[at].with_ordinal(ordinal);
                    return Taken::Changed;
                }
                Taken::Removed(slots.remove(at))
            }
            Node::Inner(inner) => {
                let i = target.child(inner);
                let taken = Self::take_below(&mut inner.children[i], target, ordinal);
                if let Taken::Removed(slot) = taken {
                    inner.counts[i] -= 1;
                    if inner.counts[i] == 0 {
                        inner.remove(i);
                    } else {
                        // The comparison avoids a read of the child, which may be a cache miss.
                        if inner.firsts[i] == slot {
                            inner.firsts[i] = inner.children[i].first();
                        }
                        Self::compact_child(inner, i);
                    }
                }
                taken
            }
        }
    }

    /// Merges child `i` with a neighbour if it is sparse and both fit into one node. Otherwise
    /// shrinks a leaf's excess capacity.
    fn compact_child(inner: &mut Inner<S>, i: usize) {
        let sparse = match &inner.children[i] {
            Node::Leaf(slots) => slots.len() < Self::SPARSE.0,
            Node::Inner(below) => below.children.len() < Self::SPARSE.1,
        };
        if sparse {
            for left in [i.wrapping_sub(1), i] {
                if left < inner.children.len()
                    && left + 1 < inner.children.len()
                    && Self::fit(&inner.children[left], &inner.children[left + 1])
                {
                    inner.counts[left] += inner.counts[left + 1];
                    let right = inner.remove(left + 1);
                    Self::merge(&mut inner.children[left], right);
                    return;
                }
            }
        }
        if let Node::Leaf(slots) = &mut inner.children[i] {
            let room = Self::room((slots.len() + LEAF / 6).min(LEAF));
            if room < slots.capacity() {
                slots.shrink_to(room);
            }
        }
    }

    fn fit(left: &Node<S>, right: &Node<S>) -> bool {
        match (left, right) {
            (Node::Leaf(left), Node::Leaf(right)) => left.len() + right.len() <= Self::FULL.0,
            (Node::Inner(left), Node::Inner(right)) => {
                left.children.len() + right.children.len() <= Self::FULL.1
            }
            _ => false,
        }
    }

    fn merge(left: &mut Node<S>, right: Node<S>) {
        match (left, right) {
            (Node::Leaf(left), Node::Leaf(right)) => {
                let len = left.len() + right.len();
                if len > left.capacity() {
                    left.reserve_exact(Self::room(len) - left.len());
                }
                left.extend_from_slice(&right);
            }
            (Node::Inner(left), Node::Inner(right)) => left.append(*right),
            _ => unreachable!("all leaves are at one depth"),
        }
    }
}
