//! The families of commands and their frequencies.

use std::fmt;
use std::str::FromStr;

/// A family of commands. A stream draws from a set of families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// String commands.
    Strings,
    /// Lists.
    Lists,
    /// Hashes.
    Hashes,
    /// Deadlines of hash fields (Redis 7.4).
    Fields,
    /// Sets.
    Sets,
    /// Sorted sets.
    Zsets,
    /// Streams and consumer groups, with blocked readers.
    Streams,
    /// Strings as arrays of bits.
    Bitmaps,
    /// HyperLogLogs.
    Hyperloglog,
    /// Geo commands on sorted sets.
    Geo,
    /// SORT and the keys to which its patterns refer.
    Sort,
    /// Commands on keys of any type.
    Keys,
    /// Deadlines, and phases in which keys expire.
    Expiry,
    /// DUMP and RESTORE, and values copied from one server to the other.
    Dumps,
    /// MULTI, EXEC and WATCH, alone and with other clients.
    Transactions,
    /// Blocking commands, with data and without, and with other clients.
    Blocking,
    /// Databases, configuration, introspection.
    Server,
    /// HELLO, databases, names, QUIT.
    Connection,
    /// Messages and subscribing sessions.
    Pubsub,
    /// Scripts and functions.
    Scripts,
    /// Wrong commands.
    Errors,
    /// Malformed requests.
    Wire,
}

/// Each family's name and weight: the relative frequency of its groups of commands in pipelines.
const TABLE: [(Family, &str, u32); 22] = [
    (Family::Strings, "strings", 36),
    (Family::Lists, "lists", 18),
    (Family::Hashes, "hashes", 18),
    (Family::Fields, "fields", 9),
    (Family::Sets, "sets", 18),
    (Family::Zsets, "zsets", 28),
    (Family::Streams, "streams", 28),
    (Family::Bitmaps, "bitmaps", 9),
    (Family::Hyperloglog, "hyperloglog", 4),
    (Family::Geo, "geo", 8),
    (Family::Sort, "sort", 5),
    (Family::Keys, "keys", 18),
    (Family::Expiry, "expiry", 14),
    (Family::Dumps, "dumps", 3),
    (Family::Transactions, "transactions", 3),
    (Family::Blocking, "blocking", 1),
    (Family::Server, "server", 4),
    (Family::Connection, "connection", 5),
    (Family::Pubsub, "pubsub", 3),
    (Family::Scripts, "scripts", 12),
    (Family::Errors, "errors", 7),
    // Malformed requests are separate acts, not in pipelines.
    (Family::Wire, "wire", 0),
];

impl Family {
    /// Every family.
    pub const ALL: [Family; TABLE.len()] = {
        let mut all = [Family::Strings; TABLE.len()];
        let mut at = 0;
        while at < TABLE.len() {
            all[at] = TABLE[at].0;
            at += 1;
        }
        all
    };

    /// Returns the weight: the relative frequency of this family's groups of commands in pipelines.
    pub(super) fn weight(self) -> u32 {
        TABLE
            .iter()
            .find(|row| row.0 == self)
            .map_or(0, |row| row.2)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = TABLE
            .iter()
            .find(|row| row.0 == *self)
            .map_or("", |row| row.1);
        f.write_str(name)
    }
}

/// The error of an unknown family name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no family '{name}'; there are {}", names())]
pub struct UnknownFamily {
    /// A name that is no family.
    pub name: String,
}

/// Returns all names, separated by commas, for the error message.
fn names() -> String {
    TABLE.map(|row| row.1).join(", ")
}

impl FromStr for Family {
    type Err = UnknownFamily;

    fn from_str(name: &str) -> Result<Self, UnknownFamily> {
        TABLE
            .iter()
            .find(|row| row.1 == name)
            .map(|row| row.0)
            .ok_or_else(|| UnknownFamily {
                name: name.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for family in Family::ALL {
            assert_eq!(family.to_string().parse(), Ok(family));
        }
        let error = "nosuch".parse::<Family>().unwrap_err().to_string();
        assert!(error.contains("zsets, streams, bitmaps"), "{error}");
    }
}
