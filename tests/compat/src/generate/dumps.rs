//! DUMP and RESTORE: payloads of many encodings, invalid payloads, and all options.
//!
//! The replies of DUMP differ, because servers encode values in different ways. A separate act,
//! [`Carry`], tests that each server reads the payloads of the other.

use super::named;
use crate::command::Step;
use crate::draw::Draw;

/// Values copied from each server to the other, by DUMP and RESTORE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carry {
    /// The keys, some of which may not exist.
    pub keys: Vec<Vec<u8>>,
}

/// Returns up to 24 keys, of most types.
pub(super) fn carry(draw: &mut Draw) -> Carry {
    Carry {
        keys: draw.any_keys(24),
    }
}

/// Payloads: a byte for the type, the value, two bytes for the version, eight bytes for the
/// checksum. The checksums are correct unless the comment says otherwise.
const PAYLOADS: &[&[u8]] = &[
    // A text.
    b"\x00\x05hello\x0a\x00cr\xdfve4 \x0a",
    // A small integer.
    b"\x00\xc0{\x0a\x00H\xe2S\xe1\x00zg\xb9",
    // A compressed text.
    b"\x00\xc3\x09@d\x01xx\xe0W\x00\x01xx\x0a\x00]\xb7\xf6c\xbb\x08b_",
    // A list.
    b"\x12\x01\x02\x13\x13\x00\x00\x00\x04\x00\x81x\x02\x01\x01\xf2\x90\xee\xfe\x04\x80\x01\xff\x0a\x00lq@\x10\xf1\xd9\x80z",
    // A set of integers.
    b"\x0b\x14\x04\x00\x00\x00\x03\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00p\x11\x01\x00\x0a\x00\x85\xd5\xc1\x06[\x1d\xd0U",
    // A set.
    b"\x02\x01\x01x\x0a\x00\xff\xe8\x80\xbav\x0c/\x09",
    // A hash.
    b"\x10\x12\x12\x00\x00\x00\x04\x00\x81f\x02\x81v\x02\x81g\x02\x01\x01\xff\x0a\x00#\xc1\xa5\xe3]\xfa\xe8\x1c",
    // A hash, encoded as a hash table.
    b"\x04\x01\x01f\xc3\x09@A\x01vv\xe04\x00\x01vv\x0a\x00=q\xbeR7\x86\xcfE",
    // A sorted set.
    b"\x11\x1c\x1c\x00\x00\x00\x06\x00\x81x\x02\x01\x01\x81y\x02\x832.5\x04\x81z\x02\x83inf\x04\xff\x0a\x00,\xb6\x8d\xb0\xef\x1acS",
    // A sorted set, encoded as a skiplist.
    b"\x05\x01\xc3\x09@A\x01yy\xe04\x00\x01yy\x00\x00\x00\x00\x00\x00\xf8?\x0a\x00\xe9:Z\xff\x8f\xbc.\x83",
    // A list of strings, as Redis up to 2.6 writes it.
    b"\x01\x02\x01x\x01y\x06\x00\xf6\x1bT\xb3\xda\xd1\xb1\xea",
    // A list as a ziplist, as Redis up to 3.0 writes it.
    b"\x0a\x14\x14\x00\x00\x00\x0f\x00\x00\x00\x03\x00\x00\x01x\x03\xf6\x02\xc0\xe8\x03\xff\x06\x00\xacT\x19\x89\xf8+=\xb4",
    // A list of ziplists, as Redis up to 6.2 writes it.
    b"\x0e\x02\x10\x10\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01x\x03\xf6\xff\x0e\x0e\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x01y\xff\x09\x00\x7f\xf2\xa1\x9a\xfe\x82\x05J",
    // A hash as a ziplist, as Redis up to 6.2 writes it.
    b"\x0d\x16\x16\x00\x00\x00\x13\x00\x00\x00\x04\x00\x00\x01f\x03\x01v\x03\x01g\x03\xf8\xff\x09\x00O\x17c\xf4\x85\xc1\x88\xee",
    // A hash of strings.
    b"\x04\x01\x01f\x01v\x09\x00}\x00\x12\x9a\xe5\x00mM",
    // A sorted set as a ziplist, as Redis up to 6.2 writes it.
    b"\x0c\x18\x18\x00\x00\x00\x12\x00\x00\x00\x04\x00\x00\x01x\x03\xf2\x02\x01y\x03\x032.5\xff\x09\x00\x1bs'n\xd8\x0b\xa6\xef",
    // A sorted set with scores as texts, as Redis up to 3.2 writes it.
    b"\x03\x01\x01m\x031.5\x08\x00\x0dfzg\xbc\xacQ\xd3",
    // An empty list.
    b"\x01\x00\x09\x00\x8b\x0at\x008\x91 \xe7",
    // An empty set.
    b"\x02\x00\x09\x00\xea<h\xcc\xcf\x0fZY",
    // An unknown type.
    b"\xc8\x01x\x09\x00\x9e)\x1f\x9f\xe6\x19\xb1\x12",
    // A future version.
    b"\x00\x01xc\x00\xb3\xc8\x92\xb2\x07'\x0f\x8f",
    // A set with one member twice.
    b"\x02\x02\x01x\x01x\x09\x00\xc2\xf0\x9cjlS\xdbt",
    // A wrong checksum.
    b"\x00\x05hello\x0a\x00cr\xdfve4 \x00",
    // Too short for a checksum.
    b"\x00\x01x",
];

/// Appends DUMP, or RESTORE and then EXISTS of the restored key.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    if draw.chance(35) {
        steps.push(named(draw, "DUMP").arg(draw.any_key()).into());
        return;
    }
    let key = draw.any_key();
    let payload = PAYLOADS[draw.count(0..=PAYLOADS.len() - 1)];
    let absolute = draw.chance(15);
    let mut ttl = match draw.between(0..=9) {
        0..=6 => b"0".to_vec(),
        _ if absolute => draw.deadline(1000),
        _ => draw.ttl(1000),
    };
    if ttl == i64::MAX.to_string().as_bytes() {
        // Shortens a TTL that redis-server mishandles; see `differences`.
        ttl.pop();
    }
    let mut command = named(draw, "RESTORE").arg(&key).arg(ttl).arg(payload);
    let mut options = Vec::new();
    if draw.chance(70) {
        options.push("REPLACE");
    }
    if absolute {
        options.push("ABSTTL");
    }
    if draw.chance(15) {
        options.push("IDLETIME");
    }
    if draw.chance(10) {
        options.push("FREQ");
    }
    if draw.chance(3) {
        options.push("NOSUCH");
    }
    while !options.is_empty() {
        let option = options.swap_remove(draw.count(0..=options.len() - 1));
        command.push(draw.case(option));
        match option {
            "IDLETIME" => command.push(draw.pick(&["0", "10", "100000", "-1", "abc"])),
            "FREQ" => command.push(draw.pick(&["0", "255", "256", "-1", "abc"])),
            _ => {}
        }
    }
    steps.push(command.into());
    // An access removes a key whose deadline has passed: before that, servers may count it.
    steps.push(named(draw, "EXISTS").arg(key).into());
}
