//! Huge pages (2 MiB) for memory that is in full use.
//!
//! A look-up in a large store reads the hash table, a record and often a value, each in another
//! page of 4 KiB, and the processor has to find the address of each page. Huge pages save most of
//! that. But a kernel that makes them whenever a thread touches new memory takes 2 MiB for a few
//! bytes, may search for free memory meanwhile, and keeps what is freed later.
//!
//! So [`Policy::Merged`] forbids that for the heap. Instead, after memory has grown, [`merge`]
//! makes a huge page of each aligned range of 2 MiB in which nearly every page is resident.
//! Resident memory grows by 1.6 % at most. If the allocator has returned a part of a huge page,
//! [`merge`] splits it into small pages, because the kernel would keep that part. A thread that
//! touches a range while it is merged waits for a copy of 2 MiB: a fraction of a millisecond.
//!
//! [`merge`] runs on the worker of `reclaim/`.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, c_void};
use punctual_server::config::HugePages as Policy;

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;
/// `MADV_COLLAPSE`, since Linux 6.1.
const COLLAPSE: c_int = 25;
/// Maximum number of small pages that are not resident in a range that counts as in full use.
/// mimalloc leaves up to two such pages at the end of each 512 KiB.
const HOLES_MAX: usize = 8;
/// Number of ranges in a round after whose refusal the round ends: the kernel is too old, or has no
/// huge page left. Single refusals have other reasons, such as a page that the kernel is moving.
const REFUSALS_MAX: usize = 8;
/// Minimum size of a part of the heap. Smaller mappings are stacks and the like.
const PART_MIN: usize = 16 << 20;

/// True if the policy and the kernel let [`merge`] make huge pages.
static MERGES: AtomicBool = AtomicBool::new(false);
/// Addresses of the ranges that [`merge`] has merged.
static MERGED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Sets the process's policy.
pub(super) fn set_policy(policy: Policy) {
    let of_system = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let possible = of_system.is_ok_and(|modes| !modes.contains("[never]"));
    MERGES.store(policy == Policy::Merged && possible, Ordering::Relaxed);
    match policy {
        // The call fails only on kernels without huge pages.
        Policy::Never => {
            let _ = rustix::thread::disable_transparent_huge_pages(true);
        }
        Policy::Merged => {
            for part in heap() {
                advise(part, libc::MADV_NOHUGEPAGE);
            }
            let _ = rustix::thread::disable_transparent_huge_pages(false);
        }
        Policy::Kernel => {
            let _ = rustix::thread::disable_transparent_huge_pages(false);
        }
    }
}

/// Makes huge pages of ranges that are in full use, and splits huge pages that no longer are.
/// Calls `pause` after each range that it merges. O(pages of the heap), and O([`HUGE`]) for each
/// range that it merges.
pub(super) fn merge(pause: &dyn Fn()) {
    if !MERGES.load(Ordering::Relaxed) {
        return;
    }
    let mut merged = MERGED.lock().unwrap_or_else(|e| e.into_inner());
    let mut refusals = 0;
    for start in heap().flat_map(|part| part.step_by(HUGE)) {
        let range = start..start + HUGE;
        let Some(holes) = holes(&range) else {
            continue;
        };
        let full = holes <= HOLES_MAX;
        if !full && merged.remove(&start) {
            // `MADV_COLD` splits a huge page of which only a part is mapped, and the kernel then
            // frees the rest.
            advise(range.clone(), libc::MADV_NOHUGEPAGE);
            advise(range, libc::MADV_COLD);
        } else if full && refusals < REFUSALS_MAX && !merged.contains(&start) {
            // The kernel refuses to merge memory for which it must not make huge pages.
            advise(range.clone(), libc::MADV_HUGEPAGE);
            if advise(range.clone(), COLLAPSE) {
                merged.insert(start);
                pause();
            } else {
                advise(range, libc::MADV_NOHUGEPAGE);
                refusals += 1;
            }
        }
    }
}

/// Returns the large private mappings that no file backs, in whole ranges of 2 MiB.
fn heap() -> impl Iterator<Item = Range<usize>> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut parts: Vec<Range<usize>> = Vec::new();
    for mapping in maps.lines().filter_map(anonymous) {
        // Advice splits a mapping in several.
        match parts.last_mut() {
            Some(last) if last.end == mapping.start => last.end = mapping.end,
            _ => parts.push(mapping),
        }
    }
    parts.into_iter().filter_map(|part| {
        let part = part.start.next_multiple_of(HUGE)..part.end / HUGE * HUGE;
        (part.len() >= PART_MIN).then_some(part)
    })
}

/// Returns the addresses in a line of `/proc/self/maps`, if the mapping is private, writable and
/// backed by no file.
fn anonymous(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_private = words.next()?.starts_with("rw-p");
    // The offset, the device and the inode.
    // Some kernels name a mapping as the allocator wishes: `[anon:mimalloc]`.
    let has_name = words.nth(3).is_some_and(|name| !name.starts_with("[anon:"));
    let number = |text| usize::from_str_radix(text, 16).ok();
    (is_private && !has_name).then_some(number(start)?..number(end)?)
}

/// Returns the number of pages of a range of 2 MiB that are not resident. Allocates nothing,
/// because the memory in use decides about evictions.
fn holes(range: &Range<usize>) -> Option<usize> {
    let mut pages = [0; HUGE / 4096];
    let count = range.len() / rustix::param::page_size();
    let pages = &mut pages[..count];
    // SAFETY: the function writes a byte per page of the range into `pages`, which has as many. It
    // does not access the range, and fails if a part of it is not mapped.
    let result =
        unsafe { libc::mincore(range.start as *mut c_void, range.len(), pages.as_mut_ptr()) };
    (result == 0).then(|| pages.iter().filter(|&page| page & 1 == 0).count())
}

/// Gives the kernel advice about a range of the heap. Returns false if the kernel refuses.
fn advise(range: Range<usize>, advice: c_int) -> bool {
    // SAFETY: each of the constants passed here changes how the kernel backs the range, and none
    // changes its contents. If another thread has unmapped a part of the range, the call fails or
    // has no effect on that part.
    unsafe { libc::madvise(range.start as *mut c_void, range.len(), advice) == 0 }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn only_private_memory_without_a_file_counts() {
        let line = "20000000000-20040000000 rw-p 00000000 00:00 0 ";
        assert_eq!(anonymous(line), Some(0x200_0000_0000..0x200_4000_0000));
        let named = anonymous(&format!("{line}[anon:mimalloc]"));
        assert_eq!(named, anonymous(line));
        for line in [
            "20000000000-20040000000 r--p 00000000 00:00 0 ",
            "20000000000-20040000000 rw-s 00000000 00:00 0 ",
            "20000000000-20040000000 rw-p 00000000 fe:00 42 /usr/lib/libc.so",
            "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]",
            "",
        ] {
            assert_eq!(anonymous(line), None, "{line}");
        }
    }

    /// Returns the bytes of the process in huge pages, in KiB.
    fn huge_kib() -> usize {
        let maps = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
        let line = maps.lines().find_map(|l| l.strip_prefix("AnonHugePages:"));
        line.unwrap().trim_end_matches("kB").trim().parse().unwrap()
    }

    /// Part of a test that measures the memory of the whole process, as this check does.
    pub(in super::super) fn full_ranges_become_huge_and_are_split_when_pages_are_returned() {
        let mut memory = vec![0u8; 64 << 20];
        set_policy(Policy::Merged);
        if !MERGES.load(Ordering::Relaxed) {
            eprintln!("skipped: this kernel makes no huge pages");
            return;
        }
        memory.fill(1);
        let pauses = std::cell::Cell::new(0);
        merge(&|| pauses.set(pauses.get() + 1));
        let all = huge_kib();
        if pauses.get() == 0 {
            eprintln!("skipped: this kernel cannot merge pages on request");
            return;
        }
        let merged = pauses.get() * HUGE / 1024;
        assert!(all >= merged, "{all} KiB, {merged} merged");
        assert!(memory.iter().all(|&byte| byte == 1));
        // Returns 64 KiB in the middle of the block.
        let bytes = 64 << 10;
        let middle = (memory.as_ptr() as usize + (32 << 20)).next_multiple_of(HUGE);
        // SAFETY: the pages belong to `memory`; the kernel replaces their contents by zeros.
        unsafe { libc::madvise(middle as *mut c_void, bytes, libc::MADV_DONTNEED) };
        if !MERGED.lock().unwrap().contains(&middle) {
            eprintln!("skipped: this kernel has not merged the tested range");
            return;
        }
        merge(&|| {});
        assert!(!MERGED.lock().unwrap().contains(&middle));
        assert!(huge_kib() < all);
        assert!(memory.iter().filter(|&&byte| byte == 0).count() == bytes);
    }
}
