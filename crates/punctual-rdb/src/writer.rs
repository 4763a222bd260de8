//! A snapshot out of pieces.

use crate::crc64::Sum;
use crate::kind::opcode;
use crate::record::{Encoder, write_len};

/// Assembles a snapshot: everything around the records, and the checksum over all of it.
///
/// Records come from elsewhere, in pieces of any size: [`Encoder`] makes their bytes, [`Writer::feed`] takes
/// them into the checksum on their way to the file. Everything else the methods append to `out` and feed
/// themselves.
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
    /// Begins a snapshot: [`VERSION`](crate::VERSION), or [`VERSION_FIELD_EXPIRY`](crate::VERSION_FIELD_EXPIRY) if any hash has fields with
    /// times. Without `checksum` the end says that there is none.
    pub fn new(out: &mut Vec<u8>, version: u16, checksum: bool) -> Self {
        let mut writer = Writer {
            sum: checksum.then(Sum::new),
            offset: 0,
        };
        writer.piece(out, |out| {
            out.extend_from_slice(format!("REDIS{version:04}").as_bytes());
        });
        writer
    }

    /// How long the snapshot is so far, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes a piece into the checksum that was written elsewhere: one or more whole records.
    pub fn feed(&mut self, piece: &[u8]) {
        if let Some(sum) = &mut self.sum {
            sum.feed(piece);
        }
        self.offset += piece.len() as u64;
    }

    /// Something about the snapshot.
    pub fn aux(&mut self, out: &mut Vec<u8>, name: &[u8], text: &[u8]) {
        self.piece(out, |out| {
            let mut encoder = Encoder::new(false);
            out.push(opcode::AUX);
            encoder.string(out, name);
            encoder.string(out, text);
        });
    }

    /// The records that follow are of this database.
    pub fn select_db(&mut self, out: &mut Vec<u8>, db: u64) {
        self.piece(out, |out| {
            out.push(opcode::SELECT_DB);
            write_len(out, db);
        });
    }

    /// The sizes of the database: keys, and those with an expiry. A hint for tables.
    pub fn resize_db(&mut self, out: &mut Vec<u8>, keys: u64, expiring: u64) {
        self.piece(out, |out| {
            out.push(opcode::RESIZE_DB);
            write_len(out, keys);
            write_len(out, expiring);
        });
    }

    /// Ends the snapshot and tells its length.
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
