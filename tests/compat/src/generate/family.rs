//! The families of commands and their frequencies.

use std::fmt;
use std::str::FromStr;

use punctual_harness::Peer;

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

/// A family's row.
struct Row {
    family: Family,
    name: &'static str,
    /// The relative frequency of its groups of commands in pipelines.
    weight: u32,
    /// The peers that have its commands.
    peers: &'static [Peer],
}

/// Commands of Redis 7.0.
const EVERY_PEER: &[Peer] = &Peer::ALL;
/// Valkey 9.1 differs in most groups: nested MULTI aborts the transaction, and inline requests have
/// other quotes.
const EVERY_REDIS: &[Peer] = &[Peer::Redis7, Peer::Redis8];
/// Scripts end redis-server 8.2.3 now and then, and see sets in another order in Valkey.
const ONLY_REDIS_7: &[Peer] = &[Peer::Redis7];
/// Commands of Redis 7.4 that Valkey 9.1 has as well.
const SINCE_2025: &[Peer] = &[Peer::Redis8, Peer::Valkey9];

const fn row(family: Family, name: &'static str, weight: u32, peers: &'static [Peer]) -> Row {
    Row {
        family,
        name,
        weight,
        peers,
    }
}

const TABLE: [Row; 22] = [
    row(Family::Strings, "strings", 36, EVERY_PEER),
    row(Family::Lists, "lists", 18, EVERY_PEER),
    row(Family::Hashes, "hashes", 18, EVERY_PEER),
    row(Family::Fields, "fields", 9, SINCE_2025),
    row(Family::Sets, "sets", 18, EVERY_PEER),
    row(Family::Zsets, "zsets", 28, EVERY_PEER),
    row(Family::Streams, "streams", 28, EVERY_PEER),
    row(Family::Bitmaps, "bitmaps", 9, EVERY_PEER),
    row(Family::Hyperloglog, "hyperloglog", 4, EVERY_PEER),
    row(Family::Geo, "geo", 8, EVERY_PEER),
    row(Family::Sort, "sort", 5, EVERY_PEER),
    row(Family::Keys, "keys", 18, EVERY_PEER),
    row(Family::Expiry, "expiry", 14, EVERY_PEER),
    row(Family::Dumps, "dumps", 3, EVERY_PEER),
    row(Family::Transactions, "transactions", 3, EVERY_REDIS),
    row(Family::Blocking, "blocking", 1, EVERY_PEER),
    row(Family::Server, "server", 4, EVERY_PEER),
    row(Family::Connection, "connection", 5, EVERY_PEER),
    row(Family::Pubsub, "pubsub", 3, EVERY_PEER),
    row(Family::Scripts, "scripts", 12, ONLY_REDIS_7),
    row(Family::Errors, "errors", 7, EVERY_PEER),
    // Malformed requests are separate acts, not in pipelines.
    row(Family::Wire, "wire", 0, EVERY_REDIS),
];

impl Family {
    /// Every family.
    pub const ALL: [Family; TABLE.len()] = {
        let mut all = [Family::Strings; TABLE.len()];
        let mut at = 0;
        while at < TABLE.len() {
            all[at] = TABLE[at].family;
            at += 1;
        }
        all
    };

    /// Returns the weight: the relative frequency of this family's groups of commands in pipelines.
    pub(super) fn weight(self) -> u32 {
        self.row().map_or(0, |row| row.weight)
    }

    /// Returns true if the peer has this family's commands.
    pub fn is_in(self, peer: Peer) -> bool {
        self.row().is_some_and(|row| row.peers.contains(&peer))
    }

    fn row(self) -> Option<&'static Row> {
        TABLE.iter().find(|row| row.family == self)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().map_or("", |row| row.name))
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
    TABLE.map(|row| row.name).join(", ")
}

impl FromStr for Family {
    type Err = UnknownFamily;

    fn from_str(name: &str) -> Result<Self, UnknownFamily> {
        TABLE
            .iter()
            .find(|row| row.name == name)
            .map(|row| row.family)
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
