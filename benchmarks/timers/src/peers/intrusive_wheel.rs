//! An intrusive hierarchical wheel, as the fastest timers in C and C++ are built: each slot
//! is a doubly linked list through the nodes of its timers, which the caller owns. Here the type
//! owns them in place of a caller.
//!
//! It is written for this comparison from published descriptions: Varghese and Lauck (*Hashed and
//! Hierarchical Timing Wheels*, SOSP 1987, scheme 7), with 256 slots a level, and with bitmaps of
//! the occupied slots, with which a search skips empty slots.
//!
//! - Eight levels of 256 slots span all of `u64`. The highest byte in which a deadline differs
//!   from the cursor gives the level, and this byte of the deadline gives the slot.
//! - A list is a circle through its slot, so unlinking a node writes two pointers and needs
//!   neither the slot nor a branch.
//! - The bit of a slot stays set when its last node is cancelled, so that a cancel does not touch
//!   the bitmap. A search clears such bits.
//! - When the cursor reaches a slot above level 0, its nodes move to lower levels, one by one.
//! - Asking for the next deadline scans the first slot. The wheel caches the answer until that
//!   timer is cancelled, re-armed or fires.
//!
//! It is exact to the microsecond, and timers fire in the order of their deadlines. Nodes are
//! stored in blocks that never move. A handle is a pointer to the node, so a stale handle is not
//! detected.

use std::array::from_fn;
use std::mem::MaybeUninit;
use std::ptr::{addr_of_mut, null_mut};

use crate::contender::Contender;

const LEVELS: usize = 8;
const SLOTS: usize = 256;
const WORDS: usize = SLOTS / 64;
/// Number of nodes in a block: 16 KiB, which the allocator reuses without new pages.
const BLOCK: usize = 512;

/// A place in a circular list: a slot, or the start of a node.
struct Link {
    next: *mut Link,
    prev: *mut Link,
}

/// A timer. `prev` is null while the timer is not armed; `next` then links the free nodes.
#[repr(C)]
pub struct Node {
    link: Link,
    deadline: u64,
    payload: u64,
}

type Slots = [[Link; SLOTS]; LEVELS];

pub struct IntrusiveWheel {
    cursor: u64,
    /// The earliest deadline, or `None` if it must be searched for.
    first: Option<u64>,
    armed: usize,
    occupied: [[u64; WORDS]; LEVELS],
    /// Memory of its own, because nodes point into it.
    slots: *mut Slots,
    /// The nodes, which a caller would own.
    blocks: Vec<Box<[MaybeUninit<Node>]>>,
    /// Number of nodes of the last block that were used.
    used: usize,
    free: *mut Node,
}

/// Returns the level of a deadline, given `deadline ^ cursor`.
fn level_of(difference: u64) -> usize {
    ((difference | 1).ilog2() / 8) as usize
}

fn digit(tick: u64, level: usize) -> usize {
    (tick >> (8 * level)) as usize % SLOTS
}

impl Default for IntrusiveWheel {
    fn default() -> Self {
        let link = |_| Link {
            next: null_mut(),
            prev: null_mut(),
        };
        let slots: *mut Slots = Box::into_raw(Box::new(from_fn(|_| from_fn(link))));
        let wheel = IntrusiveWheel {
            cursor: 0,
            first: None,
            armed: 0,
            occupied: [[0; WORDS]; LEVELS],
            slots,
            blocks: Vec::new(),
            used: BLOCK,
            free: null_mut(),
        };
        for (level, slot) in (0..LEVELS).flat_map(|level| (0..SLOTS).map(move |slot| (level, slot)))
        {
            let head = wheel.head(level, slot);
            // SAFETY: the slot is valid.
            unsafe { ((*head).next, (*head).prev) = (head, head) };
        }
        wheel
    }
}

impl Drop for IntrusiveWheel {
    fn drop(&mut self) {
        // SAFETY: `default` took the pointer from a box.
        drop(unsafe { Box::from_raw(self.slots) });
    }
}

impl IntrusiveWheel {
    /// Returns the address of a slot, which is the head of its list.
    #[inline]
    fn head(&self, level: usize, slot: usize) -> *mut Link {
        // SAFETY: the slots live as long as the wheel.
        unsafe { addr_of_mut!((*self.slots)[level][slot]) }
    }

    /// Returns a node that is in no slot, and whose memory may be uninitialized.
    #[inline]
    fn node(&mut self) -> *mut Node {
        let node = self.free;
        if !node.is_null() {
            // SAFETY: nodes of the free list are valid.
            self.free = unsafe { (*node).link.next.cast() };
            return node;
        }
        if self.used == BLOCK {
            self.blocks.push(Box::new_uninit_slice(BLOCK));
            self.used = 0;
        }
        let block = self.blocks.last_mut().expect("a block was added");
        let node = block[self.used].as_mut_ptr();
        self.used += 1;
        node
    }

    /// Puts a node, whose deadline is set, into its slot.
    ///
    /// # Safety
    ///
    /// `node` is valid and in no slot.
    #[inline]
    unsafe fn link(&mut self, node: *mut Node) {
        // SAFETY: the node is valid, and so are the nodes in the slots.
        unsafe {
            // A deadline in the past belongs into the cursor's slot.
            let tick = (*node).deadline.max(self.cursor);
            let level = level_of(tick ^ self.cursor);
            let slot = digit(tick, level);
            self.occupied[level][slot / 64] |= 1 << (slot % 64);
            let (link, head) = (node.cast::<Link>(), self.head(level, slot));
            let last = (*head).prev;
            *link = Link {
                next: head,
                prev: last,
            };
            (*last).next = link;
            (*head).prev = link;
        }
    }

    /// Takes a node out of its slot.
    ///
    /// # Safety
    ///
    /// `node` is valid and in a slot.
    #[inline]
    unsafe fn unlink(node: *mut Node) {
        // SAFETY: the node is in a slot, so its neighbours are valid.
        unsafe {
            let Link { next, prev } = (*node).link;
            (*prev).next = next;
            (*next).prev = prev;
            (*node).link.prev = null_mut();
        }
    }

    /// Takes a node out of its slot and adds it to the free list.
    ///
    /// # Safety
    ///
    /// `node` is valid and in a slot.
    #[inline]
    unsafe fn release(&mut self, node: *mut Node) {
        // SAFETY: the caller guarantees it.
        unsafe {
            if self.first == Some((*node).deadline) {
                self.first = None;
            }
            Self::unlink(node);
            (*node).link.next = self.free.cast();
        }
        self.free = node;
        self.armed -= 1;
    }

    /// Returns the level and the number of the first slot with nodes, and clears the bits of empty
    /// slots on the way.
    fn first_slot(&mut self) -> Option<(usize, usize)> {
        for level in 0..LEVELS {
            for word in 0..WORDS {
                while self.occupied[level][word] != 0 {
                    let occupied = self.occupied[level][word];
                    let slot = word * 64 + occupied.trailing_zeros() as usize;
                    let head = self.head(level, slot);
                    // SAFETY: slots are valid.
                    if unsafe { (*head).next } != head {
                        return Some((level, slot));
                    }
                    self.occupied[level][word] = occupied & (occupied - 1);
                }
            }
        }
        None
    }

    /// Returns the first tick of a slot.
    fn start(&self, level: usize, slot: usize) -> u64 {
        let shift = 8 * level as u32;
        let above = self.cursor.checked_shr(shift + 8).unwrap_or(0);
        ((above << 8) | slot as u64) << shift
    }

    /// Returns the earliest deadline of the first slot.
    fn search(&mut self) -> Option<u64> {
        let (level, slot) = self.first_slot()?;
        let mut first = u64::MAX;
        // SAFETY: slots and nodes in slots are valid.
        unsafe {
            let head = self.head(level, slot);
            let mut link = (*head).next;
            while link != head {
                first = first.min((*link.cast::<Node>()).deadline);
                link = (*link).next;
            }
        }
        Some(first)
    }

    /// Fires the nodes of a slot of level 0, or moves the nodes of another slot to lower levels.
    /// The slot starts at the cursor.
    fn open(&mut self, level: usize, slot: usize, out: &mut impl FnMut(u64)) {
        let head = self.head(level, slot);
        // SAFETY: slots and nodes in slots are valid.
        unsafe {
            if level == 0 {
                loop {
                    let first = (*head).next;
                    if first == head {
                        return;
                    }
                    let node = first.cast::<Node>();
                    let payload = (*node).payload;
                    self.release(node);
                    out(payload);
                }
            }
            // No node goes back into this slot: the cursor is at its start.
            let mut link = (*head).next;
            ((*head).next, (*head).prev) = (head, head);
            while link != head {
                let next = (*link).next;
                self.link(link.cast());
                link = next;
            }
        }
    }
}

impl Contender for IntrusiveWheel {
    const NAME: &'static str = "intrusive wheel";
    type Handle = *mut Node;

    fn arm(&mut self, deadline: u64, payload: u64) -> *mut Node {
        let node = self.node();
        if self.first.is_some_and(|first| deadline < first) {
            self.first = Some(deadline);
        }
        self.armed += 1;
        // SAFETY: the node is in no slot, and is written whole.
        unsafe {
            node.write(Node {
                link: Link {
                    next: null_mut(),
                    prev: null_mut(),
                },
                deadline,
                payload,
            });
            self.link(node);
        }
        node
    }

    fn cancel(&mut self, handle: *mut Node) -> bool {
        // SAFETY: blocks never move, so the handles of this queue are valid.
        unsafe {
            let armed = !(*handle).link.prev.is_null();
            if armed {
                self.release(handle);
            }
            armed
        }
    }

    fn rearm(&mut self, handle: &mut *mut Node, deadline: u64) {
        let node = *handle;
        // SAFETY: the caller re-arms armed timers, whose nodes are in a slot.
        unsafe {
            match self.first {
                Some(first) if deadline < first => self.first = Some(deadline),
                Some(first) if first == (*node).deadline => self.first = None,
                _ => {}
            }
            Self::unlink(node);
            (*node).deadline = deadline;
            self.link(node);
        }
    }

    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) {
        if self.first.is_some_and(|first| first > now) {
            return;
        }
        while let Some((level, slot)) = self.first_slot() {
            let start = self.start(level, slot);
            if start > now {
                break;
            }
            self.cursor = start;
            self.open(level, slot, out);
        }
        // Between the last due slot and the next slot, the clock moves without moving nodes.
        self.cursor = self.cursor.max(now);
    }

    fn next_deadline(&mut self) -> Option<u64> {
        if self.first.is_none() && self.armed > 0 {
            self.first = self.search();
        }
        self.first
    }
}
