//! The order of a large sorted set: a B+ tree of scores and ids that knows how many lie under each child.
//!
//! The tree is that of Bayer and McCreight ("Organization and Maintenance of Large Ordered Indices", 1972) with all
//! entries in the leaves; the counts make it an order-statistics tree (Cormen et al., "Introduction to Algorithms",
//! chapter 14), so an entry's rank and the entry of a rank take one descent each.
//!
//! Ground rules: the tree compares nothing. Whoever searches gives a *split*, a function that tells of any slice of
//! slots in order how many of them come before the wanted point; one descent calls it once a level. An inner node
//! keeps the first slot under each child, exactly, so every id in it is alive. Leaves are blocks of slots with little
//! room to spare. A node that a removal leaves sparse is merged with a neighbour if the two fit well into one, else it
//! stays: nothing is moved between neighbours.

#[cfg(test)]
mod tests;
mod walk;

use std::ops::Range;

pub(super) use walk::Walk;

/// A score and whose it is, in 12 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    low: u32,
    high: u32,
    /// The entry's index in its collection.
    pub(super) id: u32,
}

const _: () = assert!(size_of::<Slot>() == 12);

impl Slot {
    pub(super) const fn new(ordinal: u64, id: u32) -> Self {
        Self {
            low: ordinal as u32,
            high: (ordinal >> 32) as u32,
            id,
        }
    }

    /// The score as a number that compares as scores do.
    #[inline]
    pub(super) const fn ordinal(self) -> u64 {
        (self.high as u64) << 32 | self.low as u64
    }
}

/// How many slots, which are in order, come before the point where `is_before` begins to be false.
///
/// Looks at the last of every eight first, then at eight of them: none of these loads waits for another one and there is
/// no branch to be guessed, while halving waits for memory at each of its first steps.
#[inline]
pub(super) fn count_before(slots: &[Slot], is_before: impl Fn(u64) -> bool) -> usize {
    const RUN: usize = 8;
    let (runs, _) = slots.as_chunks::<RUN>();
    let whole: usize = runs
        .iter()
        .map(|run| usize::from(is_before(run[RUN - 1].ordinal())))
        .sum();
    let rest = &slots[whole * RUN..];
    let rest = &rest[..rest.len().min(RUN)];
    let more: usize = rest
        .iter()
        .map(|slot| usize::from(is_before(slot.ordinal())))
        .sum();
    whole * RUN + more
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}:{}", self.ordinal(), self.id)
    }
}

/// The tree, of leaves with up to `LEAF` slots and inner nodes with up to `FAN` children.
///
/// Inserting and removing is O(log n) besides moving the slots of a leaf.
#[derive(Clone)]
pub(super) struct Tree<const LEAF: usize = 64, const FAN: usize = 64> {
    root: Node,
}

#[derive(Clone)]
enum Node {
    /// Empty only at the root.
    Leaf(Vec<Slot>),
    Inner(Box<Inner>),
}

/// Children in order; the three are of one length, which is at least 1.
#[derive(Clone, Default)]
struct Inner {
    /// The first slot under each child.
    firsts: Vec<Slot>,
    /// How many slots are under each child.
    counts: Vec<u32>,
    children: Vec<Node>,
}

/// Whether a node is at the left or right edge of the tree.
#[derive(Clone, Copy)]
struct Edges {
    left: bool,
    right: bool,
}

/// How a removal finds its slot.
trait Way {
    fn child(&mut self, inner: &Inner) -> usize;
    fn slot(&mut self, slots: &[Slot]) -> usize;
}

/// The last slot before a split.
struct Before<S>(S);

/// The slot of a rank.
struct At(usize);

impl<S: Fn(&[Slot]) -> usize> Way for Before<S> {
    #[inline]
    fn child(&mut self, inner: &Inner) -> usize {
        (self.0)(&inner.firsts).saturating_sub(1)
    }

    #[inline]
    fn slot(&mut self, slots: &[Slot]) -> usize {
        (self.0)(slots).saturating_sub(1)
    }
}

impl Way for At {
    #[inline]
    fn child(&mut self, inner: &Inner) -> usize {
        inner.child_of(&mut self.0)
    }

    #[inline]
    fn slot(&mut self, _: &[Slot]) -> usize {
        self.0
    }
}

/// What became of the slot that [`Tree::take`] found.
enum Taken {
    Removed(Slot),
    /// It got the new score where it was.
    Changed,
}

impl Inner {
    /// The child that holds a rank, which becomes the rank in it.
    #[inline]
    fn child_of(&self, rank: &mut usize) -> usize {
        for (i, &count) in self.counts.iter().enumerate() {
            if *rank < count as usize {
                return i;
            }
            *rank -= count as usize;
        }
        panic!("a rank below the number of slots");
    }

    fn push(&mut self, node: Node) {
        self.insert(self.children.len(), node);
    }

    fn insert(&mut self, at: usize, node: Node) {
        self.firsts.insert(at, node.first());
        self.counts.insert(at, node.count());
        self.children.insert(at, node);
    }

    fn remove(&mut self, at: usize) -> Node {
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

impl Node {
    /// The first slot.
    #[inline]
    fn first(&self) -> Slot {
        match self {
            Self::Leaf(slots) => slots[0],
            Self::Inner(inner) => inner.firsts[0],
        }
    }

    fn count(&self) -> u32 {
        match self {
            Self::Leaf(slots) => slots.len() as u32,
            Self::Inner(inner) => inner.counts.iter().sum(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Leaf(slots) => slots.capacity() * size_of::<Slot>(),
            Self::Inner(inner) => {
                size_of::<Inner>()
                    + inner.firsts.capacity() * size_of::<Slot>()
                    + inner.counts.capacity() * size_of::<u32>()
                    + inner.children.capacity() * size_of::<Self>()
                    + inner.children.iter().map(Self::memory).sum::<usize>()
            }
        }
    }
}

impl<const LEAF: usize, const FAN: usize> Default for Tree<LEAF, FAN> {
    fn default() -> Self {
        Self {
            root: Node::Leaf(Vec::new()),
        }
    }
}

impl<const LEAF: usize, const FAN: usize> Tree<LEAF, FAN> {
    /// Leaves and inner nodes with less are sparse, and with no more than `FULL` together merged.
    const SPARSE: (usize, usize) = (LEAF.div_ceil(3), FAN.div_ceil(3));
    const FULL: (usize, usize) = (LEAF - LEAF / 4, FAN - FAN / 4);
    /// What a node is given when many are made at once: room for some more, without a split.
    const FILLED: (usize, usize) = (LEAF - LEAF / 6, FAN - FAN / 6);

    /// Of slots in order. O(n).
    pub(super) fn from_sorted(slots: &[Slot]) -> Self {
        let leaves = slots.chunks(Self::FILLED.0);
        let mut nodes: Vec<Node> = leaves.map(|chunk| Node::Leaf(chunk.to_vec())).collect();
        while nodes.len() > 1 {
            let mut above = Vec::with_capacity(nodes.len().div_ceil(Self::FILLED.1));
            let mut rest = nodes.into_iter().peekable();
            while rest.peek().is_some() {
                let mut inner = Box::<Inner>::default();
                rest.by_ref()
                    .take(Self::FILLED.1)
                    .for_each(|node| inner.push(node));
                above.push(Node::Inner(inner));
            }
            nodes = above;
        }
        nodes.pop().map_or_else(Self::default, |root| Self { root })
    }

    /// How many slots come before the split. O(log n).
    #[inline]
    pub(super) fn rank(&self, split: impl Fn(&[Slot]) -> usize) -> usize {
        let mut node = &self.root;
        let mut rank = 0;
        loop {
            match node {
                Node::Leaf(slots) => return rank + split(slots),
                Node::Inner(inner) => {
                    // The child whose first slot is the last one before the split; it may end there.
                    let Some(i) = split(&inner.firsts).checked_sub(1) else {
                        return rank;
                    };
                    rank += inner.counts[..i].iter().map(|&n| n as usize).sum::<usize>();
                    node = &inner.children[i];
                }
            }
        }
    }

    /// Adds a slot at the split that it makes. O(log n).
    #[inline]
    pub(super) fn insert(&mut self, slot: Slot, split: impl Fn(&[Slot]) -> usize) {
        let edges = Edges {
            left: true,
            right: true,
        };
        if let Some(sibling) = Self::put(&mut self.root, slot, &split, edges) {
            let mut inner = Box::<Inner>::default();
            inner.push(std::mem::replace(&mut self.root, Node::Leaf(Vec::new())));
            inner.push(sibling);
            self.root = Node::Inner(inner);
        }
    }

    /// Takes out the last slot before the split. O(log n).
    ///
    /// # Panics
    /// If there are no slots.
    pub(super) fn remove(&mut self, split: impl Fn(&[Slot]) -> usize) -> Slot {
        match self.take(Before(split), None) {
            Taken::Removed(slot) => slot,
            Taken::Changed => unreachable!("no new score was given"),
        }
    }

    /// Takes out the slot of a rank. O(log n).
    ///
    /// # Panics
    /// If there are not so many slots.
    pub(super) fn remove_at(&mut self, rank: usize) -> Slot {
        match self.take(At(rank), None) {
            Taken::Removed(slot) => slot,
            Taken::Changed => unreachable!("no new score was given"),
        }
    }

    /// Gives the last slot before the split another score if that leaves it between its neighbours; else takes it out,
    /// to be inserted anew. Whether it has the new score. O(log n).
    ///
    /// # Panics
    /// If there are no slots.
    #[must_use = "a slot that was taken out must be inserted"]
    pub(super) fn change(&mut self, split: impl Fn(&[Slot]) -> usize, ordinal: u64) -> bool {
        matches!(self.take(Before(split), Some(ordinal)), Taken::Changed)
    }

    /// The slot of a rank, if there are so many. O(log n).
    pub(super) fn get(&self, rank: usize) -> Option<Slot> {
        self.walk(rank..rank + 1, false).next()
    }

    /// How many slots there are. O(1).
    pub(super) fn len(&self) -> usize {
        self.root.count() as usize
    }

    /// The slots of a range of ranks, from the last to the first if `backwards`; ranks behind the last have none.
    /// O(log n), then O(1) a slot.
    pub(super) fn walk(&self, ranks: Range<usize>, backwards: bool) -> Walk<'_> {
        Walk::new(
            &self.root,
            ranks.start..ranks.end.min(self.len()),
            backwards,
        )
    }

    /// Bytes outside of the tree's own. O(nodes).
    pub(super) fn memory(&self) -> usize {
        self.root.memory()
    }

    /// Adds a slot below `node`; what was split off to its right, if it had no room.
    fn put(
        node: &mut Node,
        slot: Slot,
        split: &impl Fn(&[Slot]) -> usize,
        edges: Edges,
    ) -> Option<Node> {
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

    /// Adds a slot at `at`. A full leaf is cut in half; but at the edges of the tree, where slots come in order if they
    /// come in order at all, it stays full and the new slot is alone.
    fn put_in_leaf(
        slots: &mut Vec<Slot>,
        at: usize,
        slot: Slot,
        edges: Edges,
    ) -> Option<Vec<Slot>> {
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

    /// The room that a leaf of `len` slots is given: sixths of a full one, which waste little of the allocator's size
    /// classes, and powers of two below the half.
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

    fn take(&mut self, mut way: impl Way, ordinal: Option<u64>) -> Taken {
        let taken = Self::take_below(&mut self.root, &mut way, ordinal);
        while let Node::Inner(inner) = &mut self.root
            && inner.children.len() <= 1
        {
            self.root = inner.children.pop().unwrap_or(Node::Leaf(Vec::new()));
        }
        taken
    }

    fn take_below(node: &mut Node, way: &mut impl Way, ordinal: Option<u64>) -> Taken {
        match node {
            Node::Leaf(slots) => {
                let at = way.slot(slots);
                if let Some(ordinal) = ordinal
                    && at > 0
                    && at + 1 < slots.len()
                    && slots[at - 1].ordinal() < ordinal
                    && ordinal < slots[at + 1].ordinal()
                {
                    slots[at] = Slot::new(ordinal, slots[at].id);
                    return Taken::Changed;
                }
                Taken::Removed(slots.remove(at))
            }
            Node::Inner(inner) => {
                let i = way.child(inner);
                let taken = Self::take_below(&mut inner.children[i], way, ordinal);
                if let Taken::Removed(slot) = taken {
                    inner.counts[i] -= 1;
                    if inner.counts[i] == 0 {
                        inner.remove(i);
                    } else {
                        // A look at the leaf's first slot may have to wait for memory.
                        if inner.firsts[i] == slot {
                            inner.firsts[i] = inner.children[i].first();
                        }
                        Self::tighten(inner, i);
                    }
                }
                taken
            }
        }
    }

    /// Merges child `i` with a neighbour if it is sparse and they fit; takes away a leaf's room that it will not need
    /// soon.
    fn tighten(inner: &mut Inner, i: usize) {
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

    fn fit(left: &Node, right: &Node) -> bool {
        match (left, right) {
            (Node::Leaf(left), Node::Leaf(right)) => left.len() + right.len() <= Self::FULL.0,
            (Node::Inner(left), Node::Inner(right)) => {
                left.children.len() + right.children.len() <= Self::FULL.1
            }
            _ => false,
        }
    }

    fn merge(left: &mut Node, right: Node) {
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
