//! The commands that make a stream: its entries, what XSETID sets, its groups, their consumers and pending entries.

use punctual_rdb::stream::{Entry, Parts, StreamId, StreamPart, Totals};
use punctual_rdb::{Element, Failure, Source};
use punctual_resp::{Protocol, Reply, encode_command};

use super::element;

/// Appends the commands for a stream.
pub(super) fn write<S: Source>(
    mut parts: Parts<'_, S>,
    key: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Failure<S::Error>> {
    let text = |name: Element<'_>| name.with_text(<[u8]>::to_vec);
    let (mut group, mut consumer, mut pending) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(part) = parts.next()? {
        match part {
            StreamPart::Block(block) => {
                let live = block.entries().filter(|entry| !entry.deleted);
                live.for_each(|entry| add(out, key, &entry));
            }
            StreamPart::Totals(totals) => set_totals(out, key, &totals),
            StreamPart::Group {
                name,
                last_id,
                entries_read,
            } => {
                group = text(name);
                pending.clear();
                let last_id = last_id.text();
                let read = entries_read.map_or("-1".to_owned(), |read| read.to_string());
                let words: [&[u8]; 7] = [
                    b"XGROUP",
                    b"CREATE",
                    key,
                    &group,
                    &last_id,
                    b"ENTRIESREAD",
                    read.as_bytes(),
                ];
                encode_command(out, &words);
            }
            StreamPart::Pending {
                id,
                delivered_ms,
                deliveries,
            } => pending.push((id, delivered_ms, deliveries)),
            StreamPart::Consumer { name, .. } => {
                consumer = text(name);
                let words: [&[u8]; 5] = [b"XGROUP", b"CREATECONSUMER", key, &group, &consumer];
                encode_command(out, &words);
            }
            StreamPart::Owned { index, .. } => {
                let Some((id, delivered_ms, deliveries)) = pending.get(index) else {
                    continue;
                };
                let (id, at, times) = (id.text(), delivered_ms.to_string(), deliveries.to_string());
                let words: [&[u8]; 12] = [
                    b"XCLAIM",
                    key,
                    &group,
                    &consumer,
                    b"0",
                    &id,
                    b"TIME",
                    at.as_bytes(),
                    b"RETRYCOUNT",
                    times.as_bytes(),
                    b"JUSTID",
                    b"FORCE",
                ];
                encode_command(out, &words);
            }
        }
    }
    Ok(())
}

fn add(out: &mut Vec<u8>, key: &[u8], entry: &Entry<'_>) {
    let pairs = entry.pairs();
    let mut reply = Reply::new(out, Protocol::Resp2);
    reply.array(3 + 2 * pairs.len());
    reply.bulk(b"XADD");
    reply.bulk(key);
    reply.bulk(&entry.id.text());
    for (name, value) in pairs {
        element(&mut reply, name);
        element(&mut reply, value);
    }
}

/// Appends XSETID, after an entry that is trimmed at once if there is none: XSETID needs the key.
fn set_totals(out: &mut Vec<u8>, key: &[u8], totals: &Totals) {
    let last_id = totals.last_id.text();
    if totals.length == 0 {
        let id = totals.last_id.max(StreamId { ms: 0, seq: 1 }).text();
        encode_command(out, &[b"XADD", key, b"MAXLEN", b"0", &id, b"x", b"y"]);
    }
    let (added, deleted) = (
        totals.entries_added.to_string(),
        totals.max_deleted_id.text(),
    );
    let words: [&[u8]; 7] = [
        b"XSETID",
        key,
        &last_id,
        b"ENTRIESADDED",
        added.as_bytes(),
        b"MAXDELETEDID",
        &deleted,
    ];
    encode_command(out, &words);
}
