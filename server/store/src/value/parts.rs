//! [`Parts`]: collections whose elements may have deadlines. Expiry and the commands for such
//! deadlines (`command/parts.rs`) treat a hash's fields, a set's members and a sorted set's members
//! alike; [`Words`] has the words in which they differ.

use super::content::Content;
use super::deadlines::DEADLINE_MAX_MS;
use super::text::Text;
use super::varint::{Input, write_number};
use crate::events::Classes;
use crate::limits::Limits;
use crate::time::NEVER;

/// A collection whose elements may have deadlines.
pub trait Parts: Content {
    /// Returns the words of the type's commands and events.
    fn words(&self) -> &'static Words;

    /// Returns the deadline of an element, even if it has passed; `u64::MAX` without a deadline.
    /// Returns `None` if there is no such element.
    fn deadline(&self, name: &[u8]) -> Option<u64>;

    /// Sets the deadline of an existing element, or removes it for `NEVER`. The first deadline of a
    /// compact collection makes it a table. O(log deadlines) besides that.
    fn set_deadline(&mut self, name: &[u8], deadline: u64, limits: &Limits);

    /// Removes an element. Returns whether it existed. O(1) amortised, O(log n) in a sorted set.
    fn remove_part(&mut self, name: &[u8]) -> bool;

    /// Removes the element with the earliest deadline. Returns its name, or `None` if no element
    /// has a deadline. O(log deadlines), O(log n) in a sorted set.
    fn take_first(&mut self) -> Option<Text>;
}

/// A type of such collections.
pub trait Timed: Parts {
    /// The words of the type's commands and events.
    const WORDS: &'static Words;
}

/// Words of the commands and events of one type.
#[derive(Debug)]
pub struct Words {
    /// Word before the number of names.
    pub(crate) keyword: &'static str,
    /// Class of the events.
    pub(crate) class: Classes,
    /// Command that removes elements, in effects.
    pub(crate) remove: &'static [u8],
    /// Event of this command.
    pub(crate) removed: &'static str,
    /// Command that sets deadlines to a Unix time in ms, in effects.
    pub(crate) expire_at: &'static [u8],
    /// Commands that set a relative or an absolute deadline, each in seconds and in ms.
    pub(crate) expire_commands: [[&'static str; 2]; 2],
    /// Event of elements that get a deadline.
    pub(crate) expire: &'static str,
    /// Event of elements that lose their deadline.
    pub(crate) persist: &'static str,
    /// Command that removes deadlines, in effects.
    pub(crate) persist_command: &'static [u8],
    /// Event of elements that expire.
    pub(crate) expired: &'static str,
    /// Conditions that no named element exists, and that all exist.
    pub(crate) conditions: [&'static str; 2],
    /// Errors of the arguments.
    pub(crate) missing: &'static str,
    pub(crate) not_greater: &'static str,
    pub(crate) not_positive: &'static str,
    pub(crate) wrong_count: &'static str,
    pub(crate) invalid_number: &'static str,
    pub(crate) one_condition: &'static str,
}

/// The words for a set's members.
pub(crate) const MEMBERS: Words = Words {
    keyword: "MEMBERS",
    class: Classes::SET,
    remove: b"SREM",
    removed: "srem",
    expire_at: b"SPEXPIREAT",
    expire_commands: [["sexpire", "spexpire"], ["sexpireat", "spexpireat"]],
    expire: "sexpire",
    persist: "spersist",
    persist_command: b"SPERSIST",
    expired: "sexpired",
    conditions: ["MNX", "MXX"],
    missing: "ERR Mandatory argument MEMBERS is missing or not at the right position",
    not_greater: "ERR Parameter `numMembers` should be greater than 0",
    not_positive: "ERR Number of members must be a positive integer",
    wrong_count: "ERR The `nummembers` parameter must match the number of arguments",
    invalid_number: "ERR invalid number of members",
    one_condition: "ERR Only one of MXX or MNX arguments can be specified",
};

/// The words for a sorted set's members.
pub(crate) const SCORED: Words = Words {
    class: Classes::ZSET,
    remove: b"ZREM",
    removed: "zrem",
    expire_at: b"ZPEXPIREAT",
    expire_commands: [["zexpire", "zpexpire"], ["zexpireat", "zpexpireat"]],
    expire: "zexpire",
    persist: "zpersist",
    persist_command: b"ZPERSIST",
    expired: "zexpired",
    ..MEMBERS
};

/// Writes a deadline in a snapshot: 0 for none.
pub(super) fn write_deadline(out: &mut Vec<u8>, deadline: u64) {
    write_number(out, if deadline == NEVER { 0 } else { deadline });
}

/// Reads a deadline that [`write_deadline`] has written. Returns `None` if it is malformed or too
/// late.
pub(super) fn read_deadline(from: &mut Input<'_>) -> Option<u64> {
    Some(match from.number()? {
        0 => NEVER,
        deadline => Some(deadline).filter(|at| *at <= DEADLINE_MAX_MS)?,
    })
}

/// The words for a hash's fields.
pub(crate) const FIELDS: Words = Words {
    keyword: "FIELDS",
    class: Classes::HASH,
    remove: b"HDEL",
    removed: "hdel",
    expire_at: b"HPEXPIREAT",
    expire_commands: [["hexpire", "hpexpire"], ["hexpireat", "hpexpireat"]],
    expire: "hexpire",
    persist: "hpersist",
    persist_command: b"HPERSIST",
    expired: "hexpired",
    conditions: ["FNX", "FXX"],
    missing: "ERR Mandatory argument FIELDS is missing or not at the right position",
    not_greater: "ERR Parameter `numFields` should be greater than 0",
    not_positive: "ERR Number of fields must be a positive integer",
    wrong_count: "ERR The `numfields` parameter must match the number of arguments",
    invalid_number: "ERR invalid number of fields",
    one_condition: "ERR Only one of FXX or FNX arguments can be specified",
};
