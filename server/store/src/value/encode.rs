//! Encodes values into the bytes of a snapshot.
//!
//! Uses the types that redis-server 7.0 reads, except for hashes whose fields have deadlines: these need a type of 7.4.

use punctual_rdb::{Encoder, Kind, dump};

use crate::time::NEVER;
use crate::value::Value;
use crate::value::hash::{Entry, Hash};
use crate::value::list::{List, Piece};
use crate::value::set::{Set, View};
use crate::value::stream;
use crate::value::string::Str;
use crate::value::zset::Zset;

/// The first byte of DUMP's payload of a stream with settings: their length in four bytes and the settings follow, then the payload that
/// there would be without them. No version of Redis has this type, so it refuses the payload.
pub(crate) const WITH_SETTINGS: u8 = 200;

/// Returns the type byte under which `value` is written.
pub(crate) fn kind(value: &Value) -> Kind {
    match value {
        Value::Str(_) => Kind::String,
        Value::List(_) => Kind::ListListpacks,
        Value::Set(set) => match set.view() {
            View::Ints(_) => Kind::SetIntset,
            // Redis 7.0 does not read sets as listpacks.
            View::Packed(_) | View::Table(_) => Kind::Set,
        },
        Value::Hash(hash) if hash.with_deadline() > 0 => Kind::HashExpiry,
        Value::Hash(hash) if hash.packed().is_some() => Kind::HashListpack,
        Value::Hash(_) => Kind::Hash,
        Value::Zset(zset) if zset.packed().is_some() => Kind::ZsetListpack,
        Value::Zset(_) => Kind::Zset,
        Value::Stream(_) => stream::snapshot::KIND,
        Value::Timer(_) | Value::Jobs(_) => Kind::Module,
    }
}

/// Returns DUMP's payload: the value with its type, version and checksum. O(bytes).
pub(crate) fn dump(value: &Value) -> Vec<u8> {
    let mut payload = Vec::new();
    if let Some(settings) = value.settings() {
        payload.push(WITH_SETTINGS);
        payload.extend_from_slice(&(settings.len() as u32).to_le_bytes());
        payload.extend_from_slice(&settings);
    }
    payload.push(kind(value).byte());
    write_value(&mut Encoder::new(true), &mut payload, value);
    dump::seal(&mut payload);
    payload
}

/// Converts unix ms to the signed number of the format, saturating.
pub(crate) fn millis(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// Appends a value without its type. O(bytes).
pub(crate) fn write_value(to: &mut Encoder, out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Str(Str::Int(int)) => to.int(out, int.get()),
        Value::Str(string) => to.string(out, string.text(&mut itoa::Buffer::new())),
        Value::List(list) => write_list(to, out, list),
        Value::Set(set) => write_set(to, out, set),
        Value::Hash(hash) => write_hash(to, out, hash),
        Value::Zset(zset) => write_zset(to, out, zset),
        Value::Stream(stream) => stream.write(to, out),
        Value::Timer(timer) => to.timer(out, timer.as_bytes()),
        Value::Jobs(jobs) => jobs.write(to, out),
    }
}

fn write_list(to: &mut Encoder, out: &mut Vec<u8>, list: &List) {
    to.len(out, list.pieces().count() as u64);
    for piece in list.pieces() {
        write_piece(to, out, piece);
    }
}

pub(super) fn write_piece(to: &mut Encoder, out: &mut Vec<u8>, piece: Piece<'_>) {
    match piece {
        Piece::Entries(entries, count) => to.node_packed(out, entries, count),
        Piece::Plain(text) => to.node_plain(out, text),
    }
}

fn write_set(to: &mut Encoder, out: &mut Vec<u8>, set: &Set) {
    if let View::Ints(ints) = set.view() {
        return to.string(out, ints.as_intset());
    }
    to.len(out, set.len() as u64);
    for member in set.iter() {
        to.element(out, member);
    }
}

fn write_hash(to: &mut Encoder, out: &mut Vec<u8>, hash: &Hash) {
    if hash.with_deadline() > 0 {
        let deadline =
            |entry: &Entry<'_>| (entry.deadline != NEVER).then(|| millis(entry.deadline));
        let first = hash.iter().filter_map(|entry| deadline(&entry)).min();
        let first = first.unwrap_or(0);
        to.millis(out, first);
        to.len(out, hash.len() as u64);
        for entry in hash.iter() {
            to.field_expiry(out, first, deadline(&entry));
            to.element(out, entry.name);
            to.element(out, entry.value);
        }
        return;
    }
    match hash.packed() {
        Some(packed) => to.listpack(out, packed.entries(), packed.len()),
        None => {
            to.len(out, hash.len() as u64);
            for entry in hash.iter() {
                to.element(out, entry.name);
                to.element(out, entry.value);
            }
        }
    }
}

fn write_zset(to: &mut Encoder, out: &mut Vec<u8>, zset: &Zset) {
    match zset.packed() {
        Some(packed) => to.listpack(out, packed.entries(), packed.len()),
        None => {
            to.len(out, zset.len() as u64);
            // From the highest score, as in Redis, which then inserts each entry at the front.
            for (name, score) in zset.walk(0..zset.len(), true) {
                to.element(out, name);
                to.score(out, score);
            }
        }
    }
}
