//! Auxiliary fields that apply to later parts of the snapshot or to the server.

use punctual_store::value::SETTINGS_FIELD;

use crate::persist::encode::HistoryPosition;
use crate::replication::state::ReplicationId;

#[derive(Default)]
pub(super) struct Fields {
    /// Own settings (leases, maximum age) of the value in the next record, which is a stream.
    pub(super) settings: Option<Vec<u8>>,
    /// Database that the replication stream has selected.
    pub(super) stream_db: usize,
    pub(super) id: Option<ReplicationId>,
    offset: Option<u64>,
}

impl Fields {
    /// Keeps a field that the load uses later, and ignores all others.
    pub(super) fn note(&mut self, name: &[u8], text: &[u8], databases: usize) {
        fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
            std::str::from_utf8(text).ok()?.parse().ok()
        }
        match name {
            b"repl-stream-db" => {
                let db = number(text).filter(|db| *db < databases);
                self.stream_db = db.unwrap_or(0);
            }
            b"repl-id" => self.id = ReplicationId::parse(text),
            b"repl-offset" => self.offset = number(text),
            _ if name == SETTINGS_FIELD => self.settings = Some(text.to_vec()),
            _ => {}
        }
    }

    /// Returns the snapshot's position in a replication history, if the snapshot names one.
    pub(super) fn position(&self) -> Option<HistoryPosition> {
        let (id, offset) = self.id.zip(self.offset)?;
        Some(HistoryPosition {
            id,
            offset,
            db: self.stream_db,
        })
    }
}
