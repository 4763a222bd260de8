//! The reply of CLUSTER SHARDS: slots, roles, and how far replicas lag behind.

use punctual_resp::Value;

use crate::connection::text;
use crate::figures::{bytes, thousands};
use crate::info::{Info, part};

/// Maximum number of ranges of slots that a line shows.
const RANGES: usize = 4;

/// A node of a shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    id: String,
    ip: String,
    port: u64,
    role: String,
    health: String,
    offset: u64,
}

/// A primary with its replicas.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shard {
    slots: Vec<(u64, u64)>,
    members: Vec<Member>,
}

/// Returns the pairs of a map, which RESP2 sends as an array.
fn pairs(map: &Value) -> Option<impl Iterator<Item = (String, &Value)>> {
    let pairs = map.as_slice()?.chunks_exact(2);
    Some(pairs.map(|pair| (text(&pair[0]), &pair[1])))
}

fn number(value: &Value) -> u64 {
    value.as_int().map_or(0, |number| number.max(0) as u64)
}

fn member(map: &Value) -> Option<Member> {
    let mut member = Member::default();
    for (name, value) in pairs(map)? {
        match name.as_str() {
            "id" => member.id = text(value),
            "ip" => member.ip = text(value),
            "port" => member.port = number(value),
            "tls-port" if member.port == 0 => member.port = number(value),
            "role" => member.role = text(value),
            "health" => member.health = text(value),
            "replication-offset" => member.offset = number(value),
            _ => {}
        }
    }
    Some(member)
}

fn shard(map: &Value) -> Option<Shard> {
    let mut shard = Shard::default();
    for (name, value) in pairs(map)? {
        match name.as_str() {
            "slots" => {
                let bounds = value.as_slice()?.chunks_exact(2);
                shard.slots = bounds
                    .map(|pair| (number(&pair[0]), number(&pair[1])))
                    .collect();
            }
            "nodes" => {
                shard.members = value
                    .as_slice()?
                    .iter()
                    .map(member)
                    .collect::<Option<_>>()?
            }
            _ => {}
        }
    }
    // The primary first.
    shard.members.sort_by_key(|member| member.role != "master");
    Some(shard)
}

/// Reads the reply. Shards are sorted by their first slot; those without slots are last.
pub(crate) fn shards(reply: &Value) -> Option<Vec<Shard>> {
    let shards: Option<Vec<Shard>> = reply.as_slice()?.iter().map(shard).collect();
    let mut shards = shards?;
    shards.sort_by_key(|shard| shard.slots.first().map_or(u64::MAX, |range| range.0));
    Some(shards)
}

impl Shard {
    fn ranges(&self) -> String {
        let range = |(first, last): &(u64, u64)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        let shown: Vec<String> = self.slots.iter().take(RANGES).map(range).collect();
        let more = self.slots.len().saturating_sub(RANGES);
        match (shown.is_empty(), more) {
            (true, _) => "no slots".to_owned(),
            (false, 0) => shown.join(" "),
            (false, more) => format!("{} and {more} more", shown.join(" ")),
        }
    }

    fn count(&self) -> u64 {
        let lengths = self.slots.iter().map(|(first, last)| last - first + 1);
        lengths.sum()
    }
}

/// Returns a line for each node. `own` is the ID of the server that has replied, of which `info` is
/// INFO.
pub(crate) fn lines(shards: &[Shard], own: &str, info: &Info) -> Vec<String> {
    let head = "role     state     address                     keys        lag   slots";
    let mut lines = vec![head.to_owned()];
    for shard in shards {
        let primary = shard.members.iter().find(|member| member.role == "master");
        for member in &shard.members {
            let is_own = member.id == own;
            let is_primary = member.role == "master";
            let keys = match is_own {
                true => thousands(
                    info.named("db")
                        .filter_map(|(_, db)| part(db, "keys"))
                        .sum(),
                ),
                false => "-".to_owned(),
            };
            let lag = match primary.filter(|_| !is_primary) {
                Some(primary) => bytes(lag(primary, member, own, info) as f64),
                None => "-".to_owned(),
            };
            let slots = match is_primary {
                true => format!("{} ({})", shard.ranges(), thousands(shard.count() as f64)),
                false => String::new(),
            };
            let role = if is_primary { "primary" } else { " replica" };
            let mark = if is_own { "*" } else { " " };
            let address = format!("{}:{}", member.ip, member.port);
            let state = &member.health;
            lines.push(format!(
                "{role:<8}{mark}{state:<9} {address:<22}{keys:>10}{lag:>11}   {slots}"
            ));
        }
    }
    lines
}

/// Returns the number of bytes of the primary's stream that a replica has not acknowledged. The
/// primary itself knows it of its replicas; other nodes know it from the last heartbeats.
fn lag(primary: &Member, replica: &Member, own: &str, info: &Info) -> u64 {
    let of_replica = |name: &str| {
        let own = info.named("slave").find(|(_, value)| {
            let address = format!("ip={},port={},", replica.ip, replica.port);
            value.starts_with(&address)
        });
        own.and_then(|(_, value)| part(value, name))
    };
    let acknowledged = match primary.id == own {
        true => of_replica("offset").map(|offset| offset as u64),
        false => None,
    };
    let sent = primary.offset;
    sent.saturating_sub(acknowledged.unwrap_or(replica.offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_ranges_are_shortened() {
        let mut shard = Shard::default();
        assert_eq!((shard.ranges(), shard.count()), ("no slots".into(), 0));
        shard.slots = (0..6).map(|at| (10 * at, 10 * at + at)).collect();
        assert_eq!(shard.ranges(), "0 10-11 20-22 30-33 and 2 more");
        assert_eq!(shard.count(), 21);
    }
}
