//! Timers of other libraries: one file each, used for speed as an expert would. The head of each file
//! states the version, the tick and the limits of the library; `promises` checks these statements.

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

/// Passes all peers, and the floor of list wheels, to the visitor.
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
