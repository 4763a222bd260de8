//! Copying values from each server to the other.

use punctual_harness::Peer;
use punctual_resp::Value;

use super::{Duel, Stop, agree};
use crate::audit;
use crate::command::Command;
use crate::generate::Carry;
use crate::report::{Finding, show};

/// The latest version of another server's payloads that Valkey reads.
const VALKEY_READS: u16 = 11;
/// The key to which values are restored.
const CARRIED: &str = "carried";

impl Duel<'_> {
    /// Restores the DUMP of each server on the other server, and compares the two results.
    pub(super) fn carry(&mut self, carry: &Carry) -> Result<(), Stop> {
        self.pipeline(&[])?;
        for key in &carry.keys {
            let dump = Command::new("DUMP").arg(key);
            let (payload_a, payload_b) = self.main.ask(&dump)?;
            self.summary.commands += 1;
            let (Value::Bulk(bytes_a), Value::Bulk(bytes_b)) = (&payload_a, &payload_b) else {
                agree(
                    (payload_a != payload_b)
                        .then(|| difference(&dump, &payload_a, &payload_b, None)),
                )?;
                continue;
            };
            let restore = |payload: &[u8]| {
                Command::of(&["RESTORE", CARRIED, "0"])
                    .arg(payload)
                    .arg("REPLACE")
            };
            // Valkey refuses hashes with deadlines of fields from other servers.
            if self.addresses.peer == Some(Peer::Valkey9) && dump_version(bytes_a) > VALKEY_READS {
                continue;
            }
            let (to_a, to_b) = (restore(bytes_b), restore(bytes_a));
            let said = (self.main.a.ask(&to_a)?, self.main.b.ask(&to_b)?);
            self.summary.commands += 1;
            if said.0 != said.1 || said.0.is_error() {
                let refused = if said.0.is_error() { &to_a } else { &to_b };
                return Err(difference(refused, &said.0, &said.1, Some(key)).into());
            }
            if let Some(finding) = audit::key(&mut self.main, CARRIED.as_bytes(), self.tolerance)? {
                return Err(Finding {
                    headline: format!(
                        "a value that each server restored from the other: {}",
                        finding.headline
                    ),
                    keys: vec![key.clone()],
                    probes: None,
                    ..finding
                }
                .into());
            }
            self.main.ask(&Command::of(&["DEL", CARRIED]))?;
        }
        self.pipeline(&[])
    }
}

/// Returns the version of a payload: the two bytes before the checksum.
fn dump_version(payload: &[u8]) -> u16 {
    match payload.last_chunk::<10>() {
        Some(&[low, high, ..]) => u16::from_le_bytes([low, high]),
        None => 0,
    }
}

fn difference(command: &Command, a: &Value, b: &Value, key: Option<&[u8]>) -> Finding {
    Finding {
        headline: "DUMP on one server, RESTORE on the other".to_owned(),
        command: Some(command.clone()),
        a: show(a),
        b: show(b),
        keys: key.map_or_else(|| command.args()[1..2].to_vec(), |key| vec![key.to_vec()]),
        probes: None,
    }
}
