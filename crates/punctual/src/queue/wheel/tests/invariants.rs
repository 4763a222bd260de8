//! Checks the invariants of a raw wheel, which hold between any two calls. The head of the wheel's
//! `mod.rs` explains the terms; the far levels are those from `FAR` on.

use super::super::level::{FAR, LEVELS, deadline_in, digit, slot_start};
use super::super::raw::RawWheel;
use super::super::timers::Timers;
use std::collections::HashMap;

/// Returns every entry's tick (`None` on the far levels), index and generation.
pub(super) fn filed(raw: &RawWheel) -> Vec<(Option<u64>, u32, u32)> {
    let mut all = Vec::new();
    raw.each_entry(|tick, index, generation| all.push((tick, index, generation)));
    all
}

pub(super) fn check_invariants<T: Timers>(raw: &RawWheel, timers: &T) {
    assert_eq!(raw.earliest.bound(), raw.earliest.candidate().deadline);
    let mut chunks = 0;
    for level in 0..LEVELS {
        let slots = &raw.levels[level];
        assert_eq!(
            raw.occupied >> level & 1 == 1,
            slots.occupied != 0,
            "occupied levels"
        );
        assert_eq!(
            slots.unordered & !slots.occupied,
            0,
            "only occupied slots are unordered"
        );
        for slot in 0..64 {
            let list = slots.slot(slot);
            assert_eq!(
                slots.occupied >> slot & 1 == 1,
                !list.is_empty(),
                "occupied slots"
            );
            if list.is_empty() {
                continue;
            }
            let (own, pending) = (digit(raw.cursor, level), raw.pending());
            match level {
                0 => assert!(slot >= own, "nothing before the cursor"),
                _ if level == pending => assert!(slot >= own, "nothing before the cursor"),
                _ => assert!(slot > own, "the cursor's own slot is empty"),
            }
            let mut sequences: HashMap<u32, u32> = HashMap::new();
            for chunk in raw.pool.chunks(list) {
                chunks += 1;
                assert!(!chunk.entries().is_empty(), "no empty chunks");
                for entry in chunk.entries().iter().filter(|_| level < FAR) {
                    let due = deadline_in(slot_start(raw.cursor, level, slot), level, entry.low);
                    assert_eq!(
                        due as u32, entry.low,
                        "the slot's digits are the deadline's"
                    );
                    if T::ORDERED
                        && !slots.is_unordered(slot)
                        && timers.deadline(entry.index, entry.generation) == Some(due)
                    {
                        let sequence = timers.sequence(entry.index);
                        if let Some(before) = sequences.insert(entry.low, sequence) {
                            assert!(
                                before <= sequence,
                                "equal deadlines in the sequence of arming"
                            );
                        }
                    }
                }
            }
        }
    }
    assert_eq!(chunks, raw.pool.used, "no chunk is lost");
    assert!(raw.front.is_sorted(), "the run is in order");
    let all = filed(raw);
    assert_eq!(all.len(), raw.entries, "entries are counted");
    let mut dead = 0;
    for &(filed, index, generation) in &all {
        match timers.deadline(index, generation) {
            None => dead += usize::from(!timers.is_current(index, generation)),
            Some(deadline) => {
                // An entry filed under `u64::MAX` may be valid for a timer due one tick earlier,
                // which then has another entry.
                assert!(
                    filed.is_none_or(|filed| filed <= deadline || filed == u64::MAX),
                    "nothing is filed too late"
                );
                assert!(raw.earliest.bound() <= deadline, "the bound");
            }
        }
    }
    assert!(dead <= raw.dead, "dead entries are counted");
}
