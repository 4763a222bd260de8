//! Writing the parts of a snapshot that are not records: the header, auxiliary fields, databases,
//! and the checksum at the end.

use crate::crc64::Sum;
use crate::kind::{VERSION_VALKEY, opcode};
use crate::record::{Encoder, write_len};

/// Writes a snapshot except its records, and computes the checksum of the whole snapshot.
///
/// The caller encodes records with [`Encoder`], in pieces of any size, and adds each piece to the
/// checksum with [`Writer::feed`]. The other methods append to `out` and update the checksum.
///
/// ```
/// use punctual_rdb::{Encoder, Kind, Meta, VERSION, Writer};
///
/// let mut file = Vec::new();
/// let mut writer = Writer::new(&mut file, VERSION, true);
/// writer.aux(&mut file, b"redis-bits", b"64");
/// writer.select_db(&mut file, 0);
///
/// let (mut piece, mut encoder) = (Vec::new(), Encoder::new(true));
/// encoder.record(&mut piece, Kind::String, b"key", Meta::default());
/// encoder.string(&mut piece, b"value");
/// writer.feed(&piece);
/// file.extend_from_slice(&piece);
///
/// writer.finish(&mut file);
/// assert!(file.starts_with(b"REDIS0010"));
/// ```
pub struct Writer {
    sum: Option<Sum>,
    offset: u64,
}

impl Writer {
    /// Starts a snapshot. `version` is [`VERSION`](crate::VERSION), or the highest
    /// [`Kind::version`](crate::Kind::version) of the records if that is higher. If it is
    /// [`VERSION_VALKEY`](crate::VERSION_VALKEY), the encoder must write Valkey's dialect. Without
    /// `checksum`, the snapshot ends with 0, which means "no checksum".
    pub fn new(out: &mut Vec<u8>, version: u16, checksum: bool) -> Self {
        let mut writer = Writer {
            sum: checksum.then(Sum::new),
            offset: 0,
        };
        writer.piece(out, |out| {
            let start = match version {
                VERSION_VALKEY => format!("VALKEY{version:03}"),
                _ => format!("REDIS{version:04}"),
            };
            out.extend_from_slice(start.as_bytes());
        });
        writer
    }

    /// Returns the length of the snapshot so far in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Adds one or more complete records, which the caller has encoded, to the checksum.
    pub fn feed(&mut self, piece: &[u8]) {
        if let Some(sum) = &mut self.sum {
            sum.feed(piece);
        }
        self.offset += piece.len() as u64;
    }

    /// Writes an auxiliary field.
    pub fn aux(&mut self, out: &mut Vec<u8>, name: &[u8], text: &[u8]) {
        self.piece(out, |out| Encoder::new(false).aux(out, name, text));
    }

    /// Selects the database of the records that follow.
    pub fn select_db(&mut self, out: &mut Vec<u8>, db: u64) {
        self.piece(out, |out| {
            out.push(opcode::SELECT_DB);
            write_len(out, db);
        });
    }

    /// Writes the sizes of the database: the number of keys, and of keys with an expiry time.
    /// Readers use them as hints for the sizes of hash tables.
    pub fn resize_db(&mut self, out: &mut Vec<u8>, keys: u64, expiring: u64) {
        self.piece(out, |out| {
            out.push(opcode::RESIZE_DB);
            write_len(out, keys);
            write_len(out, expiring);
        });
    }

    /// Ends the snapshot and returns its length in bytes.
    pub fn finish(mut self, out: &mut Vec<u8>) -> u64 {
        self.piece(out, |out| out.push(opcode::END));
        let sum = self.sum.as_ref().map_or(0, Sum::value);
        out.extend_from_slice(&sum.to_le_bytes());
        self.offset + 8
    }

    fn piece(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        write(out);
        self.feed(&out[start..]);
    }
}
