//! Other people's timers: one file each, used as a good user of the library would for speed. The head
//! of each file says what it is, its version, its tick and what it cannot do; `promises` holds each
//! to that.

mod btree_map;
mod delay_queue;
mod lazy_heap;
#[cfg(has_libev)]
mod libev;
mod neighbours;
mod nexus;
mod priority_queue;
#[cfg(test)]
mod promises;
mod quad_wheel;
mod sorted_slots;

use crate::contender::Visitor;

/// Shows all peers, and the floor of list wheels, to the visitor.
pub fn for_each(visitor: &mut impl Visitor) {
    visitor.visit::<nexus::Nexus<nexus::Micro>>();
    visitor.visit::<nexus::Nexus<nexus::Default>>();
    visitor.visit::<delay_queue::Delayed>();
    visitor.visit::<lazy_heap::LazyHeap>();
    visitor.visit::<btree_map::Tree>();
    visitor.visit::<priority_queue::Indexed>();
    visitor.visit::<quad_wheel::QuadWheel>();
    #[cfg(has_libev)]
    if libev::usable() {
        visitor.visit::<libev::Libev>();
    }
    visitor.visit::<sorted_slots::SortedSlots>();
    visitor.visit::<neighbours::Neighbours>();
}
