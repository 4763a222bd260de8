//! Encoding of records: key and value for a snapshot, or the value alone for a DUMP payload.

use punctual_resp::decimal;

use crate::kind::{Dialect, Kind, container, opcode, string};
use crate::listpack::{self, Element};
use crate::lzf::Packer;
use crate::opaque::{Own, mark};
use crate::stream::{Block, ENTRIES_READ_UNKNOWN, StreamId, Totals};

/// The expiry time and the usage of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Expiry time in Unix milliseconds.
    pub expire_ms: Option<i64>,
    /// Seconds since the last access, if the eviction policy is LRU.
    pub idle_s: Option<u64>,
    /// Logarithmic access counter, if the eviction policy is LFU.
    pub freq: Option<u8>,
}

/// Maximum length in bytes of a text that may be stored as an integer.
const INT_TEXT_MAX: usize = 11;
/// Strings of at most this many bytes are not compressed.
const PLAIN_MAX: usize = 20;
/// Minimum number of bytes that compression must save.
const SAVING_MIN: usize = 4;

/// Encodes records. All methods append to the given `Vec`.
///
/// For a snapshot, a caller writes the key and its kind with [`record`](Encoder::record), then the
/// value. For a payload, a caller writes the kind's byte, then the value. The table lists the calls
/// that write a value:
///
/// | value | [`Kind`] | then |
/// |---|---|---|
/// | string | `String` | [`string`] or [`int`] |
/// | list | `ListListpacks` | [`len`] of the nodes; each [`node_packed`] or [`node_plain`] |
/// | set | `Set` | [`len`]; each member as [`string`] |
/// | set | `SetIntset` | [`string`] of an [intset](crate::intset::write) |
/// | hash | `Hash` | [`len`]; each field and value as [`string`] |
/// | hash | `HashListpack` | [`listpack`] |
/// | expiring hash | `HashExpiry` | [`field_base`], [`len`]; each [`field`] |
/// | sorted set | `Zset` | [`len`]; each member as [`string`] and its [`score`] |
/// | sorted set | `ZsetListpack` | [`listpack`] |
/// | timer ([`Own`]) | `Module` | [`own_text`] |
/// | queue of jobs ([`Own`]) | `Module` | [`own_parts`]; each [`own_part`]; [`own_end`] |
/// | stream | `Stream2`, `Stream3` | [`len`]; each [`stream_block`]; [`stream_totals`]; |
/// | | | [`len`]; each group |
///
/// A group of a stream is: [`stream_group`](Encoder::stream_group); `len`; each
/// [`stream_pending`](Encoder::stream_pending) in ascending order; `len`; each consumer. A consumer
/// is: [`stream_consumer`](Encoder::stream_consumer); `len`; each
/// [`stream_owned`](Encoder::stream_owned) in ascending order. Each pending entry has exactly one
/// consumer.
///
/// redis-server 7.0 reads all of these kinds except `HashExpiry` (hashes with fields that expire),
/// `Stream3`, and `Module` (the types that only Punctual has, [`Own`]). Servers before 7.4 refuse a
/// snapshot with `HashExpiry`, which has the version [`VERSION_FIELD_EXPIRY`]. An encoder for
/// Valkey writes `HashExpiryValkey` instead, of the version [`VERSION_VALKEY`].
///
/// [`string`]: Encoder::string
/// [`int`]: Encoder::int
/// [`len`]: Encoder::len
/// [`node_packed`]: Encoder::node_packed
/// [`node_plain`]: Encoder::node_plain
/// [`listpack`]: Encoder::listpack
/// [`field_base`]: Encoder::field_base
/// [`field`]: Encoder::field
/// [`score`]: Encoder::score
/// [`own_text`]: Encoder::own_text
/// [`own_parts`]: Encoder::own_parts
/// [`own_part`]: Encoder::own_part
/// [`own_end`]: Encoder::own_end
/// [`stream_block`]: Encoder::stream_block
/// [`stream_totals`]: Encoder::stream_totals
/// [`VERSION_FIELD_EXPIRY`]: crate::VERSION_FIELD_EXPIRY
/// [`VERSION_VALKEY`]: crate::VERSION_VALKEY
pub struct Encoder {
    dialect: Dialect,
    packer: Option<Packer>,
    /// Buffer for a string before its compression.
    whole: Vec<u8>,
    /// Buffer for a compressed string, whose length must precede it in the output.
    packed: Vec<u8>,
}

impl Encoder {
    /// Returns an encoder that optionally compresses strings. Reuse an encoder for many records,
    /// because compression allocates a table.
    pub fn new(compress: bool) -> Self {
        Encoder {
            dialect: Dialect::Redis,
            packer: compress.then(Packer::new),
            whole: Vec::new(),
            packed: Vec::new(),
        }
    }

    /// Sets the servers that will read the snapshot (default: Redis).
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Writes the start of a record, up to the value.
    pub fn record(&mut self, out: &mut Vec<u8>, kind: Kind, key: &[u8], meta: Meta) {
        if let Some(expire_ms) = meta.expire_ms {
            out.push(opcode::EXPIRE_MS);
            self.millis(out, expire_ms);
        }
        if let Some(idle_s) = meta.idle_s {
            out.push(opcode::IDLE);
            self.len(out, idle_s);
        }
        if let Some(freq) = meta.freq {
            out.extend_from_slice(&[opcode::FREQ, freq]);
        }
        out.push(match (kind, self.dialect) {
            (Kind::HashExpiry, Dialect::Valkey) => Kind::HashExpiryValkey.byte(),
            _ => kind.byte(),
        });
        self.string(out, key);
    }

    /// Writes the record of a library of functions.
    pub fn library(&mut self, out: &mut Vec<u8>, code: &[u8]) {
        out.push(opcode::FUNCTION);
        self.string(out, code);
    }

    /// Writes a number of items, or any other number.
    #[inline]
    pub fn len(&self, out: &mut Vec<u8>, len: u64) {
        write_len(out, len);
    }

    /// Writes an auxiliary field. Its place is before a record or at the start of the snapshot.
    pub fn aux(&mut self, out: &mut Vec<u8>, name: &[u8], text: &[u8]) {
        out.push(opcode::AUX);
        self.string(out, name);
        self.string(out, text);
    }

    /// Writes a string. The decimal text of an integer of at most 32 bits is written as an integer.
    /// Other strings are compressed if the encoder compresses and that saves bytes.
    #[inline]
    pub fn string(&mut self, out: &mut Vec<u8>, text: &[u8]) {
        if text.len() <= INT_TEXT_MAX
            && let Some(value) = decimal::parse_i64(text)
            && write_int(out, value)
        {
            return;
        }
        if text.len() <= PLAIN_MAX || !self.compressed(out, text) {
            write_len(out, text.len() as u64);
            out.extend_from_slice(text);
        }
    }

    /// Writes `text` compressed. Returns false, and writes nothing, if the encoder does not
    /// compress or compression saves less than [`SAVING_MIN`] bytes.
    #[inline]
    fn compressed(&mut self, out: &mut Vec<u8>, text: &[u8]) -> bool {
        let Some(packer) = &mut self.packer else {
            return false;
        };
        self.packed.clear();
        if !packer.pack(text, text.len() - SAVING_MIN, &mut self.packed) {
            return false;
        }
        out.push(0xC0 | string::LZF);
        write_len(out, self.packed.len() as u64);
        write_len(out, text.len() as u64);
        out.extend_from_slice(&self.packed);
        true
    }

    /// Writes the string that is the decimal text of `value`.
    #[inline]
    pub fn int(&self, out: &mut Vec<u8>, value: i64) {
        if !write_int(out, value) {
            let mut buffer = itoa::Buffer::new();
            let text = buffer.format(value).as_bytes();
            write_len(out, text.len() as u64);
            out.extend_from_slice(text);
        }
    }

    /// Writes the string of `element`.
    #[inline]
    pub fn element(&mut self, out: &mut Vec<u8>, element: Element<'_>) {
        match element {
            Element::Int(value) => self.int(out, value),
            Element::Bytes(text) => self.string(out, text),
        }
    }

    /// Writes the string that is the listpack of `count` bare entries.
    ///
    /// # Panics
    ///
    /// Like [`listpack::wrap`].
    pub fn listpack(&mut self, out: &mut Vec<u8>, entries: &[u8], count: usize) {
        self.written(out, listpack::wrapped_len(entries.len()), |out| {
            listpack::wrap_into(out, entries, count);
        });
    }

    /// Writes the string of `len` bytes that `write` appends, compressed if that saves bytes. The
    /// string must not be the text of an integer.
    fn written(&mut self, out: &mut Vec<u8>, len: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if self.packer.is_some() && len > PLAIN_MAX {
            let mut whole = std::mem::take(&mut self.whole);
            whole.clear();
            write(&mut whole);
            self.string(out, &whole);
            self.whole = whole;
        } else {
            write_len(out, len as u64);
            write(out);
        }
    }

    /// Writes a list's node with `count` bare entries of a listpack.
    ///
    /// # Panics
    ///
    /// Like [`listpack::wrap`].
    pub fn node_packed(&mut self, out: &mut Vec<u8>, entries: &[u8], count: usize) {
        write_len(out, container::PACKED);
        self.listpack(out, entries, count);
    }

    /// Writes a list's node with one element.
    pub fn node_plain(&mut self, out: &mut Vec<u8>, text: &[u8]) {
        write_len(out, container::PLAIN);
        self.string(out, text);
    }

    /// Writes an own value (of a type in [`Own`]) that is one text.
    pub fn own_text(&mut self, out: &mut Vec<u8>, own: Own, text: &[u8]) {
        write_len(out, own as u64);
        self.own_part(out, text);
        self.own_end(out);
    }

    /// Writes the start of an own value that has several parts.
    pub fn own_parts(&self, out: &mut Vec<u8>, own: Own, parts: u64) {
        write_len(out, own as u64);
        write_len(out, mark::UNSIGNED);
        write_len(out, parts);
    }

    /// Writes a part of an own value.
    pub fn own_part(&mut self, out: &mut Vec<u8>, text: &[u8]) {
        write_len(out, mark::STRING);
        self.string(out, text);
    }

    /// Writes the end of an own value.
    pub fn own_end(&self, out: &mut Vec<u8>) {
        write_len(out, mark::END);
    }

    /// Writes a score.
    #[inline]
    pub fn score(&self, out: &mut Vec<u8>, score: f64) {
        out.extend_from_slice(&score.to_le_bytes());
    }

    /// Writes a time in Unix milliseconds.
    #[inline]
    pub fn millis(&self, out: &mut Vec<u8>, millis: i64) {
        out.extend_from_slice(&millis.to_le_bytes());
    }

    /// Writes the base for the expiry times of fields: the earliest expiry time, or an earlier
    /// time. Valkey's records have no base.
    #[inline]
    pub fn field_base(&self, out: &mut Vec<u8>, base: i64) {
        if self.dialect == Dialect::Redis {
            self.millis(out, base);
        }
    }

    /// Writes a field of a `HashExpiry`: its name, value and expiry time. `base` is the argument of
    /// [`field_base`](Encoder::field_base).
    #[inline]
    pub fn field(
        &mut self,
        out: &mut Vec<u8>,
        base: i64,
        name: Element<'_>,
        value: Element<'_>,
        expire_ms: Option<i64>,
    ) {
        debug_assert!(expire_ms.is_none_or(|time| time >= base));
        if self.dialect == Dialect::Redis {
            write_len(out, expire_ms.map_or(0, |time| time.abs_diff(base) + 1));
        }
        self.element(out, name);
        self.element(out, value);
        if self.dialect == Dialect::Valkey {
            self.millis(out, expire_ms.unwrap_or(-1));
        }
    }
}

/// The parts of a stream, in this order. A snapshot with `Stream3` has at least the version
/// [`Kind::version`], which redis-server 7.0 refuses. `Stream2` lacks only the times at which
/// consumers were active.
impl Encoder {
    /// Writes a block of entries.
    ///
    /// # Panics
    ///
    /// If the block's listpack would exceed 4 GiB. A block within
    /// [`BLOCK_LEN_MAX`](crate::stream::BLOCK_LEN_MAX) does not.
    pub fn stream_block<B: AsRef<[u8]>>(&mut self, out: &mut Vec<u8>, block: &Block<B>) {
        let id = block.id().to_be_bytes();
        write_len(out, id.len() as u64);
        out.extend_from_slice(&id);
        self.written(out, block.listpack_len(), |out| block.write_listpack(out));
    }

    /// Writes the totals.
    pub fn stream_totals(&self, out: &mut Vec<u8>, totals: &Totals) {
        write_len(out, totals.length);
        for id in [totals.last_id, totals.first_id, totals.max_deleted_id] {
            write_len(out, id.ms);
            write_len(out, id.seq);
        }
        write_len(out, totals.entries_added);
    }

    /// Writes a group, before its pending entries.
    pub fn stream_group(
        &mut self,
        out: &mut Vec<u8>,
        name: &[u8],
        last_id: StreamId,
        entries_read: Option<u64>,
    ) {
        self.string(out, name);
        write_len(out, last_id.ms);
        write_len(out, last_id.seq);
        write_len(out, entries_read.unwrap_or(ENTRIES_READ_UNKNOWN));
    }

    /// Writes a pending entry of a group: its ID, the time of its last delivery in Unix
    /// milliseconds, and the number of deliveries.
    #[inline]
    pub fn stream_pending(
        &self,
        out: &mut Vec<u8>,
        id: StreamId,
        delivered_ms: i64,
        deliveries: u64,
    ) {
        self.stream_owned(out, id);
        self.millis(out, delivered_ms);
        write_len(out, deliveries);
    }

    /// Writes a consumer, before the IDs of its pending entries. `seen_ms` is the time of its last
    /// attempt to read. `active_ms` is the time of its last read that returned an entry, or -1; it
    /// is written only if `kind` is `Stream3`.
    pub fn stream_consumer(
        &mut self,
        out: &mut Vec<u8>,
        kind: Kind,
        name: &[u8],
        seen_ms: i64,
        active_ms: i64,
    ) {
        self.string(out, name);
        self.millis(out, seen_ms);
        if kind == Kind::Stream3 {
            self.millis(out, active_ms);
        }
    }

    /// Writes the ID of a pending entry of a consumer.
    #[inline]
    pub fn stream_owned(&self, out: &mut Vec<u8>, id: StreamId) {
        out.extend_from_slice(&id.to_be_bytes());
    }
}

pub(crate) fn write_len(out: &mut Vec<u8>, len: u64) {
    if len < 1 << 6 {
        out.push(len as u8);
    } else if len < 1 << 14 {
        out.extend_from_slice(&[0x40 | (len >> 8) as u8, len as u8]);
    } else if let Ok(len) = u32::try_from(len) {
        out.push(0x80);
        out.extend_from_slice(&len.to_be_bytes());
    } else {
        out.push(0x81);
        out.extend_from_slice(&len.to_be_bytes());
    }
}

/// Writes `value` as an integer if it has at most 32 bits. Otherwise returns false.
#[inline]
fn write_int(out: &mut Vec<u8>, value: i64) -> bool {
    if let Ok(value) = i8::try_from(value) {
        out.extend_from_slice(&[0xC0 | string::INT8, value as u8]);
    } else if let Ok(value) = i16::try_from(value) {
        let [a, b] = value.to_le_bytes();
        out.extend_from_slice(&[0xC0 | string::INT16, a, b]);
    } else if let Ok(value) = i32::try_from(value) {
        let [a, b, c, d] = value.to_le_bytes();
        out.extend_from_slice(&[0xC0 | string::INT32, a, b, c, d]);
    } else {
        return false;
    }
    true
}
