//! A client's hash tag: several keys that always have the same value, an ascending number.

use punctual_resp::Value;

use crate::kernel::NodeId;
use crate::verdict;

/// What the client knows of the keys of a tag.
pub struct Tag {
    pub name: String,
    pub slot: u16,
    pub keys: Vec<String>,
    /// Largest number that the client has tried to write.
    pub last: u64,
    /// Smallest number that the rightful owner of the slot must have.
    pub floor: u64,
    /// Largest number that all replicas have acknowledged.
    promised: u64,
    /// Largest number that the present owner has acknowledged, so that its file has it.
    saved: u64,
    /// While its file cannot be written, a server answers reads with changes that a crash can
    /// lose, so reads prove nothing.
    pub ignores_reads: bool,
    /// A failure has met a move of the slot, so the keys may be in two places.
    pub is_doubtful: bool,
}

impl Tag {
    pub fn new(name: String, keys: usize, files_fail: bool) -> Self {
        Self {
            slot: punctual_cluster::slot::of_key(format!("{{{name}}}").as_bytes()),
            keys: (0..keys).map(|key| format!("{{{name}}}{key}")).collect(),
            name,
            last: 0,
            floor: 0,
            promised: 0,
            saved: 0,
            ignores_reads: files_fail,
            is_doubtful: false,
        }
    }

    /// Returns the next number to write.
    pub fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The rightful owner has this number.
    pub fn is_at_least(&mut self, value: u64) {
        if !self.is_doubtful {
            self.floor = self.floor.max(value);
        }
    }

    /// All replicas have acknowledged this number.
    pub fn is_promised(&mut self, value: u64) {
        if !self.is_doubtful {
            self.promised = self.promised.max(value);
        }
    }

    /// A replica was elected: only promised numbers remain.
    pub fn elected(&mut self) {
        (self.floor, self.saved) = (self.promised, 0);
    }

    /// The owner has acknowledged this number.
    pub fn is_saved(&mut self, value: u64) {
        if !self.is_doubtful {
            self.saved = self.saved.max(value);
        }
    }

    /// The owner, whose file may have failed, starts again with its file. As in Redis, a replica
    /// acknowledges (WAIT) what its file does not have yet. If it is elected and ends before it
    /// has written this, only what it has acknowledged as the owner remains.
    pub fn restarts(&mut self) {
        self.floor = self.saved;
        self.promised = self.promised.min(self.saved);
    }

    /// The owner's file has not what the owner has acknowledged.
    pub fn forget(&mut self) {
        (self.floor, self.promised, self.saved) = (0, 0, 0);
    }

    /// The keys move: the replicas of the new owner have promised nothing.
    pub fn moves(&mut self) {
        self.promised = 0;
    }

    /// Nothing is known any more.
    pub fn doubt(&mut self) {
        self.forget();
        self.is_doubtful = true;
    }

    /// A new number is known to be at the rightful owner.
    pub fn settle(&mut self, value: u64) {
        self.is_doubtful = false;
        (self.floor, self.promised, self.saved) = (value, 0, value);
    }

    /// Checks the reply of a read. `rightful` tells whether it comes from the rightful owner.
    pub fn check(&mut self, node: NodeId, reply: &Value, rightful: bool) {
        let Value::Array(values) = reply else {
            verdict::stop(&format!("{} of node {node}: {reply:.200?}", self.name));
        };
        let numbers: Vec<u64> = values.iter().map(number).collect();
        if self.is_doubtful {
            return;
        }
        let first = numbers[0];
        if numbers.iter().any(|number| *number != first) {
            verdict::stop(&format!(
                "keys of {} at node {node} differ: {numbers:?}",
                self.name
            ));
        }
        let floor = if rightful { self.floor } else { 0 };
        if !(floor..=self.last).contains(&first) {
            verdict::stop(&format!(
                "keys of {} at node {node} have {first}, which is not between {floor} and {} \
                 (promised {})",
                self.name, self.last, self.promised
            ));
        }
        if rightful && !self.ignores_reads {
            self.is_at_least(first);
        }
    }
}

/// Returns the number before the padding of a value; 0 without a value.
fn number(value: &Value) -> u64 {
    match value {
        Value::Bulk(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            let digits = text.split(':').next().unwrap_or_default();
            digits
                .parse()
                .unwrap_or_else(|_| verdict::stop(&format!("a value cannot be read: {text:.80}")))
        }
        Value::NullBulk => 0,
        other => verdict::stop(&format!("a value cannot be read: {other:.80?}")),
    }
}
