//! XINFO.

use punctual_resp::{Args, Reply};

use super::group::{no_such_group, wrong_form};
use super::reply::{reply_entries, reply_entry, reply_id};
use crate::arguments::{int, is};
use crate::command::replies::help;
use crate::error::Error;
use crate::spec::{Flags, Group as Family};
use crate::turn::{Command, Cx, Handler};
use crate::value::stream::{Group, Id, Stream};

pub(super) static SUBCOMMANDS: &[Command] = &[
    row("consumers", 4, consumers)
        .tips(&["nondeterministic_output"])
        .since("5.0.0")
        .complexity("O(N) where N is the number of consumers.")
        .summary("Returns the consumers of a consumer group.")
        .history(&[(
            "7.2.0",
            "Added the `inactive` field, and changed the meaning of `idle`.",
        )])
        .syntax("key group"),
    row("groups", 3, groups)
        .since("5.0.0")
        .complexity("O(N) where N is the number of groups.")
        .summary("Returns the consumer groups of a stream.")
        .history(&[("7.0.0", "Added the `entries-read` and `lag` fields")])
        .syntax("key"),
    Command::help(Family::Stream, "5.0.0", |_, _, reply| {
        help(reply, "XINFO", HELP)
    }),
    row("stream", -3, stream)
        .doc("5.0.0", "O(1)", "Returns information about a stream.")
        .history(&[
            ("6.0.0", "Added the `FULL` modifier."),
            (
                "7.0.0",
                "Added the `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, \
                 `entries-read` and `lag` fields",
            ),
            (
                "7.2.0",
                "Added the `active-time` field, and changed the meaning of `seen-time`.",
            ),
        ])
        .syntax("key [full-block: FULL [COUNT count]]"),
];

const fn row(name: &'static str, arity: i32, handler: Handler) -> Command {
    Command::new(name, arity, Flags::READONLY, Family::Stream, handler)
        .keys(2, 2, 1)
        .access(&["RO access"])
}

fn find<'c>(cx: &'c mut Cx<'_, '_>, key: &[u8]) -> Result<&'c Stream, Error> {
    let found = cx.read_stream(key)?.ok_or(Error::NoSuchKey)?;
    Ok(found.0)
}

fn named(reply: &mut Reply, name: &str) {
    reply.bulk(name.as_bytes());
}

fn named_int(reply: &mut Reply, name: &str, number: i64) {
    named(reply, name);
    reply.int(number);
}

fn named_id(reply: &mut Reply, name: &str, id: Id) {
    named(reply, name);
    reply_id(reply, id);
}

fn named_count(reply: &mut Reply, name: &str, number: Option<i64>) {
    named(reply, name);
    match number {
        Some(number) => reply.int(number),
        None => reply.null(),
    }
}

fn consumers(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let now_ms = cx.now().read_ms();
    let group = find(cx, &args[2])?.group(&args[3]);
    let group = group.ok_or_else(|| no_such_group(args))?;
    reply.array(group.consumer_count());
    for consumer in group.consumers() {
        let since = |ms: u64| now_ms.saturating_sub(ms) as i64;
        reply.map(4);
        named(reply, "name");
        reply.bulk(consumer.name());
        named_int(reply, "pending", consumer.pending().len() as i64);
        named_int(reply, "idle", since(consumer.seen_ms));
        named_int(reply, "inactive", consumer.active_ms.map_or(-1, since));
    }
    Ok(())
}

fn groups(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let stream = find(cx, &args[2])?;
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(6 + lease_pairs(group));
        named(reply, "name");
        reply.bulk(name);
        named_int(reply, "consumers", group.consumer_count() as i64);
        named_int(reply, "pending", group.pending().len() as i64);
        named_id(reply, "last-delivered-id", group.last_id);
        named_count(reply, "entries-read", group.entries_read.map(|n| n as i64));
        named_count(reply, "lag", stream.lag(group));
        reply_lease(reply, group);
    }
    Ok(())
}

fn stream(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let stream = find(cx, &args[2])?;
    let options = args.skip(3);
    let full = match options.len() {
        0 => None,
        1 | 3 if is(&options[0], "FULL") => Some(match options.get(1) {
            None => 10,
            Some(word) if is(word, "COUNT") => match int(&options[2])? {
                ..0 => 10,
                0 => usize::MAX,
                count => count as usize,
            },
            Some(_) => return Err(wrong_form("XINFO", args)),
        }),
        _ => return Err(wrong_form("XINFO", args)),
    };
    let retention = stream.retention();
    let more = retention.map_or(0, |retention| 1 + usize::from(retention.len_max.is_some()));
    let idempotent = stream.idempotence().map_or(0, |_| 6);
    reply.map(if full.is_some() { 9 } else { 10 } + more + idempotent);
    named_int(reply, "length", stream.len() as i64);
    named_int(reply, "radix-tree-keys", stream.blocks() as i64);
    // Entries are in blocks and not in a radix tree, so the number of nodes is one above the keys.
    named_int(reply, "radix-tree-nodes", stream.blocks() as i64 + 1);
    named_id(reply, "last-generated-id", stream.last_id());
    named_id(reply, "max-deleted-entry-id", stream.max_deleted());
    named_int(reply, "entries-added", stream.added() as i64);
    named_id(reply, "recorded-first-entry-id", stream.first_id());
    reply_idempotence(reply, stream);
    let Some(count) = full else {
        named_int(reply, "groups", stream.groups().len() as i64);
        for (name, entry) in [
            ("first-entry", stream.iter().next()),
            ("last-entry", stream.range_back(Id::MIN, Id::MAX).next()),
        ] {
            named(reply, name);
            match entry {
                Some(entry) => reply_entry(reply, &entry),
                None => reply.null(),
            }
        }
        reply_retention(reply, stream);
        return Ok(());
    };
    named(reply, "entries");
    let expected = count.min(stream.len() as usize);
    reply_entries(reply, expected, stream.iter().take(count));
    named(reply, "groups");
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply_full_group(reply, stream, name, group, count);
    }
    reply_retention(reply, stream);
    Ok(())
}

/// Returns the number of pairs that [`reply_lease`] writes.
fn lease_pairs(group: &Group) -> usize {
    let lease = group.lease();
    lease.map_or(0, |lease| 1 + 2 * usize::from(lease.dead_letter.is_some()))
}

/// Writes the group's lease, if it has one, after Redis's fields.
fn reply_lease(reply: &mut Reply, group: &Group) {
    let Some(lease) = group.lease() else { return };
    named_int(reply, "lease", lease.ms as i64);
    if let Some(dead) = &lease.dead_letter {
        named_int(reply, "max-deliveries", dead.deliveries_max.into());
        named(reply, "dead-letter");
        reply.bulk(&dead.key);
    }
}

/// Writes the stream's retention, if it has one, after Redis's fields.
fn reply_retention(reply: &mut Reply, stream: &Stream) {
    let Some(retention) = stream.retention() else {
        return;
    };
    named_int(reply, "max-age", retention.age_max_ms as i64);
    if let Some(len) = retention.len_max {
        named_int(reply, "max-len", len as i64);
    }
}

/// Writes the settings and counts of idempotent additions, if the stream has ever used them.
fn reply_idempotence(reply: &mut Reply, stream: &Stream) {
    let Some(kept) = stream.idempotence() else {
        return;
    };
    named_int(reply, "idmp-duration", kept.duration_s.into());
    named_int(reply, "idmp-maxsize", kept.size_max.into());
    named_int(reply, "pids-tracked", kept.producers() as i64);
    named_int(reply, "iids-tracked", kept.messages() as i64);
    named_int(reply, "iids-added", kept.added as i64);
    named_int(reply, "iids-duplicates", kept.duplicates as i64);
}

fn reply_full_group(reply: &mut Reply, stream: &Stream, name: &[u8], group: &Group, count: usize) {
    let pending = group.pending();
    reply.map(7 + lease_pairs(group));
    named(reply, "name");
    reply.bulk(name);
    named_id(reply, "last-delivered-id", group.last_id);
    named_count(reply, "entries-read", group.entries_read.map(|n| n as i64));
    named_count(reply, "lag", stream.lag(group));
    named_int(reply, "pel-count", pending.len() as i64);
    named(reply, "pending");
    reply.array(count.min(pending.len()));
    for entry in pending.iter().take(count) {
        reply.array(4);
        reply_id(reply, entry.id);
        reply.bulk(group.consumer(entry.consumer).name());
        reply.int(entry.delivered_ms as i64);
        reply.int(entry.deliveries.into());
    }
    named(reply, "consumers");
    reply.array(group.consumer_count());
    for consumer in group.consumers() {
        let ids = consumer.pending();
        reply.map(5);
        named(reply, "name");
        reply.bulk(consumer.name());
        named_int(reply, "seen-time", consumer.seen_ms as i64);
        let active = consumer.active_ms.map_or(-1, |ms| ms as i64);
        named_int(reply, "active-time", active);
        named_int(reply, "pel-count", ids.len() as i64);
        named(reply, "pending");
        reply.array(count.min(ids.len()));
        for id in ids.iter().take(count) {
            let entry = pending.get(*id);
            reply.array(3);
            reply_id(reply, *id);
            reply.int(entry.map_or(0, |entry| entry.delivered_ms as i64));
            reply.int(entry.map_or(0, |entry| entry.deliveries.into()));
        }
    }
    reply_lease(reply, group);
}

const HELP: &[&str] = &[
    "CONSUMERS <key> <groupname>",
    "    Show consumers of <groupname>.",
    "GROUPS <key>",
    "    Show the stream consumer groups.",
    "STREAM <key> [FULL [COUNT <count>]",
    "    Show information about the stream.",
];
