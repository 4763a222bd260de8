//! A base file of commands, for `aof-use-rdb-preamble no`.
//!
//! A rewrite first writes a snapshot to a temporary file. This module converts that file into the commands that Redis writes, with up
//! to [`ITEMS`] elements each. So the keyspace is walked in one way only, and the copies that the walk keeps are freed as early as in a
//! save.
//!
//! Commands cannot restore every stream: XCLAIM drops pending entries whose entry is deleted. The same is true of queues of jobs.
//! If the keyspace has one of these, the snapshot is the base.

use std::fs::File;
use std::path::Path;

use punctual_rdb::{
    Blocks, Contents, Element, Encoder, Event, Failure, Kind, Node, Reader, Record, Source, dump,
};
use punctual_resp::{Protocol, Reply, encode_command};
use punctual_store::{NOTIFY_FIELD, notify_rule_parts, write_select};

use crate::persist::load::read_block;
use crate::persist::save::SaveError;

/// Number of elements, or of pairs, in a command, as in Redis.
const ITEMS: usize = 64;
/// Size of the blocks in which the snapshot is read and the commands are written.
const BLOCK_BYTES: usize = 1 << 20;

/// What follows in a snapshot.
#[derive(PartialEq, Eq)]
enum Next {
    More,
    End,
    /// A value that no commands make.
    Snapshot,
}

/// Reads the snapshot at `path`, and hands the commands to `sink` in blocks. Returns false if it holds a stream or a queue of jobs.
pub(super) fn write(
    path: &Path,
    mut sink: impl FnMut(&[u8]) -> Result<(), SaveError>,
) -> Result<bool, SaveError> {
    let unread = |source| SaveError::File {
        what: "Failed reading",
        path: path.to_owned(),
        source,
    };
    let mut file = File::open(path).map_err(unread)?;
    let source = Blocks::new(BLOCK_BYTES, None, |buffer: &mut [u8]| {
        read_block(&mut file, buffer)
    });
    let mut reader = Reader::new(source);
    let mut out = Vec::with_capacity(BLOCK_BYTES + BLOCK_BYTES / 4);
    loop {
        let next = step(&mut reader, &mut out).map_err(|failure| {
            unread(match failure {
                Failure::Source(error) => error,
                Failure::Format(error) => std::io::Error::other(error.to_string()),
            })
        })?;
        if next == Next::Snapshot {
            return Ok(false);
        }
        if next == Next::End || out.len() >= BLOCK_BYTES {
            sink(&out)?;
            out.clear();
        }
        if next == Next::End {
            return Ok(true);
        }
    }
}

/// Appends the commands for the next part of the snapshot.
fn step<S: Source>(reader: &mut Reader<S>, out: &mut Vec<u8>) -> Result<Next, Failure<S::Error>> {
    match reader.next()? {
        Event::SelectDb(db) => write_select(out, db as usize),
        Event::Aux { name, text } if name == NOTIFY_FIELD.as_bytes() => {
            if let Some((db, command)) = notify_rule_parts(text) {
                write_select(out, db);
                out.extend_from_slice(command);
            }
        }
        Event::Library { code, .. } => encode_command(out, &[b"FUNCTION", &b"LOAD"[..], code]),
        Event::Key(record) => return key(record, out),
        Event::End { .. } => return Ok(Next::End),
        // Our own snapshots have no records to skip.
        _ => {}
    }
    Ok(Next::More)
}

fn key<S: Source>(record: Record<'_, S>, out: &mut Vec<u8>) -> Result<Next, Failure<S::Error>> {
    let key = record.key;
    match record.value.read()? {
        Contents::String(text) => Many::new(out, "SET", key).single(text),
        Contents::List(mut nodes) => {
            let mut many = Many::new(out, "RPUSH", key);
            while let Some(node) = nodes.next()? {
                match node {
                    Node::Plain(element) => many.single(element),
                    Node::Packed(elements) => elements.iter().for_each(|e| many.single(e)),
                }
            }
        }
        Contents::Set(mut members) => {
            let mut many = Many::new(out, "SADD", key);
            while let Some(member) = members.next()? {
                many.single(member);
            }
        }
        Contents::SetIntset(members) => {
            let mut many = Many::new(out, "SADD", key);
            members.iter().for_each(|n| many.single(Element::Int(n)));
        }
        Contents::SetListpack(members) => {
            let mut many = Many::new(out, "SADD", key);
            members.iter().for_each(|member| many.single(member));
        }
        Contents::Hash(mut pairs) => {
            let mut many = Many::new(out, "HSET", key);
            while let Some((field, value)) = pairs.next()? {
                many.pair(field, value);
            }
        }
        Contents::HashListpack(pairs) => {
            let (mut many, mut entries) = (Many::new(out, "HSET", key), pairs.iter());
            while let (Some(field), Some(value)) = (entries.next(), entries.next()) {
                many.pair(field, value);
            }
        }
        Contents::HashExpiry(mut pairs) => {
            while let Some((field, value, deadline)) = pairs.next()? {
                expiring(out, key, field, value, deadline);
            }
        }
        Contents::HashExpiryListpack(triples) => {
            let mut entries = triples.iter();
            while let (Some(field), Some(value), Some(deadline)) =
                (entries.next(), entries.next(), entries.next())
            {
                let deadline = match deadline {
                    Element::Int(at) => Some(at).filter(|at| *at != 0),
                    Element::Bytes(_) => None,
                };
                expiring(out, key, field, value, deadline);
            }
        }
        Contents::Zset(mut members) => {
            let mut many = Many::new(out, "ZADD", key);
            while let Some((member, score)) = members.next()? {
                many.begin();
                many.reply().double(score);
                many.word(member);
            }
        }
        Contents::Stream(_) | Contents::Jobs(_) => return Ok(Next::Snapshot),
        Contents::Timer(text) => {
            let mut payload = vec![Kind::Module.byte()];
            text.with_text(|text| Encoder::new(false).timer(&mut payload, text));
            dump::seal(&mut payload);
            encode_command(out, &[b"RESTORE", key, b"0", &payload]);
        }
        Contents::ZsetListpack(pairs) => {
            let (mut many, mut entries) = (Many::new(out, "ZADD", key), pairs.iter());
            while let (Some(member), Some(score)) = (entries.next(), entries.next()) {
                many.pair(score, member);
            }
        }
    }
    if let Some(at) = record.meta.expire_ms {
        let mut buffer = itoa::Buffer::new();
        encode_command(out, &[b"PEXPIREAT", key, buffer.format(at).as_bytes()]);
    }
    Ok(Next::More)
}

/// Appends a field and its deadline.
fn expiring(
    out: &mut Vec<u8>,
    key: &[u8],
    field: Element<'_>,
    value: Element<'_>,
    deadline: Option<i64>,
) {
    Many::new(out, "HSET", key).pair(field, value);
    let Some(at) = deadline else { return };
    let mut reply = Reply::new(out, Protocol::Resp2);
    reply.array(6);
    reply.bulk(b"HPEXPIREAT");
    reply.bulk(key);
    reply.bulk(itoa::Buffer::new().format(at).as_bytes());
    reply.bulk(b"FIELDS");
    reply.bulk(b"1");
    element(&mut reply, field);
}

fn element(reply: &mut Reply, element: Element<'_>) {
    match element {
        Element::Int(n) => reply.bulk(itoa::Buffer::new().format(n).as_bytes()),
        Element::Bytes(text) => reply.bulk(text),
    }
}

/// Commands that add elements to a key.
struct Many<'o> {
    out: &'o mut Vec<u8>,
    verb: &'static str,
    key: &'o [u8],
    /// The words of the next command after the key.
    words: Vec<u8>,
    items: usize,
    count: usize,
}

impl<'o> Many<'o> {
    fn new(out: &'o mut Vec<u8>, verb: &'static str, key: &'o [u8]) -> Self {
        Self {
            out,
            verb,
            key,
            words: Vec::new(),
            items: 0,
            count: 0,
        }
    }

    /// Begins an element or a pair.
    fn begin(&mut self) {
        if self.items == ITEMS {
            self.end();
        }
        self.items += 1;
    }

    /// Returns where to write one word.
    fn reply(&mut self) -> Reply<'_> {
        self.count += 1;
        Reply::new(&mut self.words, Protocol::Resp2)
    }

    fn word(&mut self, word: Element<'_>) {
        element(&mut self.reply(), word);
    }

    fn single(&mut self, word: Element<'_>) {
        self.begin();
        self.word(word);
    }

    fn pair(&mut self, first: Element<'_>, second: Element<'_>) {
        self.begin();
        self.word(first);
        self.word(second);
    }

    fn end(&mut self) {
        if self.items == 0 {
            return;
        }
        let mut reply = Reply::new(self.out, Protocol::Resp2);
        reply.array(2 + self.count);
        reply.bulk(self.verb.as_bytes());
        reply.bulk(self.key);
        self.out.append(&mut self.words);
        (self.items, self.count) = (0, 0);
    }
}

impl Drop for Many<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
