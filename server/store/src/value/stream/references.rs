//! References: which entries consumer groups still need.
//!
//! An entry is *referenced* while a group has not read it yet, or has it pending. A pending entry
//! may outlive its entry in the stream; then it is a dangling reference.

use super::{Bound, Id, Stream, Trim};

impl Stream {
    /// Returns whether a group has not read and acknowledged this entry. O(groups · log pending).
    pub fn is_referenced(&self, id: Id) -> bool {
        let mut groups = self.groups.values();
        groups.any(|group| id > group.last_id || group.pending().get(id).is_some())
    }

    /// Acknowledges an entry in every group that has it pending. Returns their names. O(groups ·
    /// log pending).
    pub fn acknowledge_everywhere(&mut self, id: Id) -> Vec<Box<[u8]>> {
        let groups = self.groups.iter_mut();
        groups
            .filter_map(|(name, group)| group.acknowledge(id).map(|_| name.clone()))
            .collect()
    }

    /// Acknowledges every entry from `start` on and before the stream's first one. Returns them by
    /// group. O(n log pending) for n of them.
    pub fn acknowledge_trimmed(&mut self, start: Id) -> Vec<(Box<[u8]>, Vec<Id>)> {
        let end = match self.is_empty() {
            true => self.last_id().next().unwrap_or(Id::MAX),
            false => self.first_id(),
        };
        let mut all = Vec::new();
        for (name, group) in &mut self.groups {
            let pending = group.pending().from(start).map(|entry| entry.id);
            let ids: Vec<Id> = pending.take_while(|id| *id < end).collect();
            for id in &ids {
                group.acknowledge(*id);
            }
            if !ids.is_empty() {
                all.push((name.clone(), ids));
            }
        }
        all
    }

    /// Removes the oldest entries that are not referenced, as far as `trim` says. Returns them.
    /// O(entries that are looked at · groups · log pending).
    pub fn trim_unreferenced(&mut self, trim: Trim) -> Vec<Id> {
        // Entries behind this one were not read by every group.
        let read = self.groups.values().map(|group| group.last_id).min();
        let Some(read) = read else {
            return Vec::new();
        };
        let most = match trim.bound {
            Bound::Len(max) => self.len().saturating_sub(max),
            Bound::MinId(_) => u64::MAX,
        };
        let most = if trim.limit > 0 {
            most.min(trim.limit)
        } else {
            most
        };
        let old = |id: &Id| match trim.bound {
            Bound::Len(_) => *id <= read,
            Bound::MinId(min) => *id <= read && *id < min,
        };
        let ids = self.iter().map(|entry| entry.id).take_while(old);
        let free = ids.filter(|id| !self.is_referenced(*id));
        let free: Vec<Id> = free
            .take(usize::try_from(most).unwrap_or(usize::MAX))
            .collect();
        for id in &free {
            self.delete(*id);
        }
        free
    }
}
