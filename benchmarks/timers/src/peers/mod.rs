//! Timers of other libraries and designs, each in one file and used in the fastest way. The head of
//! each file has the tick and the limits of the queue, and the version of a library.

mod btree_map;
mod delay_queue;
mod floor;
mod intrusive_wheel;
mod lazy_heap;
mod linear_scan;
mod sorted_slots;

pub use btree_map::Tree;
pub use delay_queue::Delayed;
pub use floor::Floor;
pub use intrusive_wheel::IntrusiveWheel;
pub use lazy_heap::LazyHeap;
pub use linear_scan::LinearScan;
pub use sorted_slots::SortedSlots;
