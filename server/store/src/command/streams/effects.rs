//! Effects of commands on consumer groups: the commands that replicas and the log get. They have
//! explicit times and counts, so a replay at any time leads to the same group.

use crate::turn::Cx;
use crate::value::stream::Id;

/// Commits the creation of a consumer, and adds XGROUP CREATECONSUMER as an effect.
pub(super) fn log_consumer(cx: &mut Cx, key: &[u8], group: &[u8], consumer: &[u8]) {
    cx.turn
        .commit_group(cx.db, key, Some("xgroup-createconsumer"), 1);
    cx.effect(&[b"XGROUP", b"CREATECONSUMER", key, group, consumer]);
}

/// Adds XCLAIM as an effect, which makes the entries pending for the consumer. An entry is its ID,
/// its delivery time in unix ms and its number of deliveries.
pub(super) fn log_claims(
    cx: &mut Cx,
    key: &[u8],
    group: &[u8],
    consumer: &[u8],
    last: Id,
    entries: impl Iterator<Item = (Id, u64, u32)>,
) {
    if !cx.is_logged() {
        return;
    }
    let last = last.text();
    let mut entries = entries.peekable();
    while let Some((id, time, count)) = entries.next() {
        let mut ids = vec![id.text()];
        while let Some((id, ..)) = entries.next_if(|next| (next.1, next.2) == (time, count)) {
            ids.push(id.text());
        }
        let (mut times, mut counts) = (itoa::Buffer::new(), itoa::Buffer::new());
        let mut words: Vec<&[u8]> = vec![b"XCLAIM", key, group, consumer, b"0"];
        words.extend(ids.iter().map(Vec::as_slice));
        words.extend([&b"TIME"[..], times.format(time).as_bytes()]);
        words.extend([&b"RETRYCOUNT"[..], counts.format(count).as_bytes()]);
        words.extend([&b"FORCE"[..], b"JUSTID", b"LASTID", &last]);
        cx.effect(&words);
    }
}

/// Adds XGROUP SETID as an effect: the group's last-delivered ID, and its number of read entries.
pub(super) fn log_group(cx: &mut Cx, key: &[u8], group: &[u8], last: Id, read: Option<u64>) {
    if !cx.is_logged() {
        return;
    }
    let mut buffer = itoa::Buffer::new();
    let read = read.map_or("-1", |read| buffer.format(read)).as_bytes();
    cx.effect(&[
        b"XGROUP",
        b"SETID",
        key,
        group,
        &last.text(),
        b"ENTRIESREAD",
        read,
    ]);
}
