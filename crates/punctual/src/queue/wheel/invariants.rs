//! The invariants of a raw wheel between any two calls.

use super::chunk::NONE;
use super::level::{FAR, LEVELS, deadline_in, digit, slot_start};
use super::raw::RawWheel;
use super::timers::Timers;
use std::collections::HashMap;

/// Returns every entry with the tick it is filed under (`None` on the far levels).
pub(super) fn filed(raw: &RawWheel) -> Vec<(Option<u64>, u32, u32)> {
    let mut all: Vec<_> = raw
        .front
        .entries()
        .map(|(deadline, index, generation)| (Some(deadline), index, generation))
        .collect();
    if raw.earliest.is_held() {
        let held = raw.earliest.named();
        all.push((Some(held.deadline), held.index, held.generation));
    }
    for (level, slots) in raw.levels.iter().enumerate() {
        for slot in 0..64 {
            let start = slot_start(raw.cursor, level, slot);
            let mut id = slots.slot(slot).head;
            while id != NONE {
                let chunk = raw.pool.get(id);
                for entry in chunk.live() {
                    let deadline = (level < FAR).then(|| deadline_in(start, level, entry.low));
                    all.push((deadline, entry.index, entry.generation));
                }
                id = chunk.next;
            }
        }
    }
    all
}

pub(super) fn check_invariants<T: Timers>(raw: &RawWheel, timers: &T) {
    raw.front.check_invariants();
    assert_eq!(raw.earliest.bound(), raw.earliest.named().deadline);
    let mut chunks = 0;
    for level in 0..LEVELS {
        let slots = &raw.levels[level];
        assert_eq!(
            raw.occupied >> level & 1 == 1,
            slots.occupied != 0,
            "occupied levels"
        );
        assert_eq!(
            slots.mixed & !slots.occupied,
            0,
            "only occupied slots are mixed"
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
            let mut orders: HashMap<u32, u32> = HashMap::new();
            let (mut id, mut tail) = (list.head, NONE);
            while id != NONE {
                let chunk = raw.pool.get(id);
                assert!(chunk.begin < chunk.end, "no empty chunks");
                for entry in chunk.live() {
                    if level >= FAR {
                        continue;
                    }
                    let due = deadline_in(slot_start(raw.cursor, level, slot), level, entry.low);
                    assert_eq!(
                        due as u32, entry.low,
                        "the slot's digits are the deadline's"
                    );
                    if T::ORDERED
                        && !slots.is_mixed(slot)
                        && timers.deadline(entry.index, entry.generation) == Some(due)
                    {
                        let order = timers.order(entry.index);
                        if let Some(before) = orders.insert(entry.low, order) {
                            assert!(before <= order, "equal deadlines in arming order");
                        }
                    }
                }
                chunks += 1;
                (tail, id) = (id, chunk.next);
            }
            assert_eq!(tail, list.tail, "the tail of a slot");
        }
    }
    assert_eq!(chunks, raw.pool.used(), "no chunk is lost");
    let all = filed(raw);
    assert_eq!(all.len(), raw.entries, "entries are counted");
    let mut dead = 0;
    for &(filed, index, generation) in &all {
        match timers.deadline(index, generation) {
            None => dead += usize::from(!timers.stands(index, generation)),
            Some(deadline) => {
                // An entry of the last tick may match a timer of the tick before, which has another entry.
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
