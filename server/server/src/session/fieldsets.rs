//! Fieldsets: the lists of field names that HIMPORT PREPARE gives a name, for one client.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use punctual_resp::OwnedArgs;

use super::Session;

/// The client's fieldsets.
#[derive(Default)]
pub(crate) struct Fieldsets {
    by_name: BTreeMap<Box<[u8]>, OwnedArgs>,
    /// Bytes of all names and fields.
    bytes: usize,
}

impl Fieldsets {
    /// Returns the fields of a fieldset. O(log fieldsets).
    pub(crate) fn get(&self, name: &[u8]) -> Option<&OwnedArgs> {
        self.by_name.get(name)
    }

    fn remove(&mut self, name: &[u8]) -> bool {
        let removed = self.by_name.remove(name);
        if let Some(fields) = &removed {
            self.bytes -= bytes(name, fields);
        }
        removed.is_some()
    }
}

fn bytes(name: &[u8], fields: &OwnedArgs) -> usize {
    size_of::<(Box<[u8]>, OwnedArgs)>() + name.len() + fields.memory()
}

impl Session {
    /// Adds a fieldset, or replaces the one of that name. O(log fieldsets).
    pub(crate) fn set_fieldset(&mut self, name: &[u8], fields: OwnedArgs) {
        self.fieldsets.remove(name);
        self.fieldsets.bytes += bytes(name, &fields);
        self.fieldsets.by_name.insert(name.into(), fields);
        self.update_fieldset_info();
    }

    /// Removes a fieldset. Returns whether there was one. O(log fieldsets).
    pub(crate) fn remove_fieldset(&mut self, name: &[u8]) -> bool {
        let removed = self.fieldsets.remove(name);
        self.update_fieldset_info();
        removed
    }

    /// Removes all fieldsets. Returns their number. O(fieldsets).
    pub(crate) fn remove_fieldsets(&mut self) -> usize {
        let removed = std::mem::take(&mut self.fieldsets).by_name.len();
        self.update_fieldset_info();
        removed
    }

    /// Copies the size of the fieldsets to [`ClientInfo`](crate::client::registry::ClientInfo).
    fn update_fieldset_info(&self) {
        let bytes = self.fieldsets.bytes as u64;
        self.info.fieldset_bytes.store(bytes, Ordering::Relaxed);
    }
}
