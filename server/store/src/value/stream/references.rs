//! References: the entries that consumer groups still need.
//!
//! An entry is *referenced* while a group has not read it yet, or has it pending. If an entry is
//! deleted from the stream while it is pending, the pending entry is a dangling reference.

use super::{Bound, Id, Stream, Trim};

impl Stream {
    /// Returns whether any group has not yet read, or not yet acknowledged, this entry. O(groups ·
    /// log pending).
    pub fn is_referenced(&self, id: Id) -> bool {
        let mut groups = self.groups.values();
        groups.any(|group| id > group.last_id || group.pending().get(id).is_some())
    }

    /// Acknowledges an entry in every group that has it pending. Returns the names of these groups.
    /// O(groups · log pending).
    pub fn acknowledge_everywhere(&mut self, id: Id) -> Vec<Box<[u8]>> {
        let groups = self.groups.iter_mut();
        groups
            .filter_map(|(name, group)| group.acknowledge(id).map(|_| name.clone()))
            .collect()
    }

    /// Acknowledges every pending entry with an ID from `start` on that is before the stream's
    /// first entry. Returns the IDs by group. O((groups + n) · log pending) for n IDs.
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

    /// Removes the oldest entries that are not referenced, within the bound and limit of `trim`.
    /// Removes nothing if there are no groups. Returns the entries' IDs. O(visited entries · groups
    /// · log pending).
    pub fn trim_unreferenced(&mut self, trim: Trim) -> Vec<Id> {
        // Every group has read the entries up to this one. Some group has not read the later ones.
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
