//! An allocator that is faster than the system's: a list of free blocks for each small size.
//!
//! Ground rules: a thread uses the lists only while it holds the lock. Nearly always only the
//! thread with the baton runs; threads that begin or end run beside it. Nothing is given back to
//! the system, because a process runs one seed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::hint;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sizes of blocks are multiples of this, which is also their alignment.
const STEP: usize = 16;
/// Size of the largest blocks with a list.
const LARGEST: usize = 1_024;
/// Bytes that are taken from the system at once.
const CHUNK: usize = 256 << 10;

struct Lists {
    /// First free block by size. A free block begins with the address of the next one.
    free: [*mut u8; LARGEST / STEP + 1],
    /// The unused rest of the last chunk.
    rest: *mut u8,
    left: usize,
}

pub struct Pool {
    is_locked: AtomicBool,
    lists: UnsafeCell<Lists>,
}

// SAFETY: The lock excludes a second user of the lists, and orders their changes.
unsafe impl Sync for Pool {}

impl Pool {
    pub const fn new() -> Self {
        let lists = Lists {
            free: [null_mut(); LARGEST / STEP + 1],
            rest: null_mut(),
            left: 0,
        };
        Self {
            is_locked: AtomicBool::new(false),
            lists: UnsafeCell::new(lists),
        }
    }

    /// Returns the number of a layout's list.
    fn list_of(layout: Layout) -> Option<usize> {
        let has_list = layout.size() <= LARGEST && layout.align() <= STEP;
        has_list.then(|| layout.size().div_ceil(STEP))
    }

    fn with<R>(&self, work: impl FnOnce(&mut Lists) -> R) -> R {
        while self.is_locked.swap(true, Ordering::Acquire) {
            hint::spin_loop();
        }
        // SAFETY: This thread holds the lock, and `work` allocates nothing from the pool.
        let result = work(unsafe { &mut *self.lists.get() });
        self.is_locked.store(false, Ordering::Release);
        result
    }
}

impl Lists {
    fn take(&mut self, list: usize) -> *mut u8 {
        let block = self.free[list];
        if !block.is_null() {
            // SAFETY: A free block begins with an address.
            self.free[list] = unsafe { block.cast::<*mut u8>().read() };
            return block;
        }
        let size = list * STEP;
        if self.left < size {
            let layout = Layout::from_size_align(CHUNK, STEP).expect("a chunk has a layout");
            // SAFETY: The size is not 0.
            let chunk = unsafe { System.alloc(layout) };
            if chunk.is_null() {
                return chunk;
            }
            (self.rest, self.left) = (chunk, CHUNK);
        }
        let block = self.rest;
        // SAFETY: The rest has at least `size` bytes.
        self.rest = unsafe { block.add(size) };
        self.left -= size;
        block
    }
}

// SAFETY: Blocks of a list are disjoint parts of chunks, with the size and alignment of the list.
// All other calls pass to the system's allocator. `LARGEST` and a layout decide which it is.
unsafe impl GlobalAlloc for Pool {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Self::list_of(layout) {
            Some(list) => self.with(|lists| lists.take(list)),
            // SAFETY: As the caller promises.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Self::list_of(layout).is_none() {
            // SAFETY: As the caller promises.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: The block has the layout's size.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match Self::list_of(layout) {
            Some(list) => self.with(|lists| {
                // SAFETY: The block comes from this list, which has blocks of at least 16 bytes.
                unsafe { block.cast::<*mut u8>().write(lists.free[list]) };
                lists.free[list] = block;
            }),
            // SAFETY: As the caller promises.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: The caller promises a size that is not too large for the alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (Self::list_of(layout), Self::list_of(new)) {
            // SAFETY: As the caller promises.
            (None, None) => unsafe { System.realloc(block, layout, size) },
            (old, list) if old == list => block,
            // SAFETY: Both blocks have at least this length, and the old one is used no more.
            _ => unsafe {
                let to = self.alloc(new);
                if !to.is_null() {
                    to.copy_from_nonoverlapping(block, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                to
            },
        }
    }
}
