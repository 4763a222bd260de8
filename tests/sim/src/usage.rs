//! Bytes in use by node, so that `maxmemory` limits each server by itself.
//!
//! The allocator of the process writes an *owner* before each block: the node, and its life since
//! its last start. A block that another thread frees counts for its owner. A killed node leaves its
//! blocks to a life that nobody asks about. Blocks of the kernel have the owner 0.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use punctual_server::memory::counters;

use crate::baton;
use crate::pool::Pool;

/// Maximum number of lives of all nodes.
const LIVES: usize = 8_192;
/// Bytes before a block, for the owner.
const HEAD: usize = 16;

/// Number of a node's life.
pub type Owner = u32;

static BYTES: [AtomicI64; LIVES] = [const { AtomicI64::new(0) }; LIVES];
static LAST: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The life to which the thread belongs.
    static OWN: Cell<Owner> = const { Cell::new(0) };
}

/// Lets servers ask for the bytes of their own node.
pub fn begin() {
    counters::enable_with(|| bytes_of(OWN.get()));
}

/// Begins a node's life.
pub fn new_life() -> Owner {
    let last = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    last.min(LIVES as Owner - 1)
}

/// Makes the calling thread belong to a life.
pub fn adopt(owner: Owner) {
    OWN.set(owner);
}

/// Returns the bytes in use.
pub fn bytes_of(owner: Owner) -> u64 {
    BYTES[owner as usize].load(Ordering::Relaxed).max(0) as u64
}

/// Where the blocks come from.
static POOL: Pool = Pool::new();

struct ByOwner;

#[global_allocator]
static ALLOCATOR: ByOwner = ByOwner;

fn count(owner: Owner, bytes: i64) {
    BYTES[owner as usize % LIVES].fetch_add(bytes, Ordering::Relaxed);
    counters::add(bytes);
}

/// Returns the layout with room for the owner, and the length of that room.
fn with_head(layout: Layout) -> Option<(Layout, usize)> {
    let head = layout.align().max(HEAD);
    let size = layout.size().checked_add(head)?;
    Some((
        Layout::from_size_align(size, layout.align().max(HEAD)).ok()?,
        head,
    ))
}

/// Writes the owner before a block that begins `head` bytes after `start`. Returns the block.
unsafe fn own(start: *mut u8, head: usize, bytes: usize) -> *mut u8 {
    if start.is_null() {
        return start;
    }
    let owner = baton::current().map_or(0, |_| OWN.get());
    count(owner, bytes as i64);
    // SAFETY: The room before the block has at least 16 bytes, and its end is aligned to 16.
    unsafe {
        let block = start.add(head);
        block.sub(HEAD).cast::<Owner>().write(owner);
        block
    }
}

// SAFETY: Each call passes to the pool, with a layout that is longer by the room for
// the owner. Counting allocates nothing and cannot panic.
unsafe impl GlobalAlloc for ByOwner {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((whole, head)) = with_head(layout) else {
            return std::ptr::null_mut();
        };
        // SAFETY: The size is not 0.
        unsafe { own(POOL.alloc(whole), head, layout.size()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some((whole, head)) = with_head(layout) else {
            return std::ptr::null_mut();
        };
        // SAFETY: The size is not 0.
        unsafe { own(POOL.alloc_zeroed(whole), head, layout.size()) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some((whole, head)) = with_head(layout) else {
            return;
        };
        // SAFETY: The block comes from `own`, with the same layout.
        unsafe {
            count(
                block.sub(HEAD).cast::<Owner>().read(),
                -(layout.size() as i64),
            );
            POOL.dealloc(block.sub(head), whole);
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (Some((whole, head)), Some(more)) = (with_head(layout), size.checked_add(HEAD)) else {
            return std::ptr::null_mut();
        };
        let more = more.max(head.saturating_add(size));
        // SAFETY: The block comes from `own`, with the same layout; the owner moves with it.
        unsafe {
            let owner = block.sub(HEAD).cast::<Owner>().read();
            let start = POOL.realloc(block.sub(head), whole, more);
            if start.is_null() {
                return start;
            }
            count(owner, size as i64 - layout.size() as i64);
            start.add(head)
        }
    }
}
