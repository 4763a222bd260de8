//! Reading a snapshot as a sequence of events.

use crate::contents::{Rest, Value};
use crate::error::Reason;
use crate::functions::read_library;
use crate::input::{Fallible, Input};
use crate::kind::{Dialect, Kind, VERSION_MAX, VERSION_VALKEY, opcode};
use crate::opaque::{self, Opaque, Own};
use crate::record::Meta;
use crate::source::Source;

const SIGNATURE: &[u8; 5] = b"REDIS";
/// Starts a snapshot of Valkey 9.0 or later; three digits follow.
const SIGNATURE_VALKEY: &[u8; 6] = b"VALKEY";
/// The first version with a checksum at the end.
const VERSION_CHECKSUM: u32 = 5;

/// Reads a snapshot, event by event.
///
/// Reads all types of values that redis-server 2.8 to 8.2 and valkey-server 7.2 to 9.1 write,
/// except modules' values. It skips and reports modules' values, and zipmaps of servers before 2.6.
/// A module's value from a release candidate of 4.0 cannot be skipped, and is an error.
///
/// The reader holds one item at a time in memory: a compact encoding, or one element of a large
/// value.
///
/// ```
/// use punctual_rdb::{Contents, Element, Event, Reader};
///
/// let snapshot = b"REDIS0003\xFE\0\0\x03key\x05value\xFF";
/// let mut reader = Reader::new(&snapshot[..]);
/// loop {
///     match reader.next()? {
///         Event::Key(record) => {
///             assert_eq!(record.key, b"key");
///             let Contents::String(text) = record.value.read()? else { panic!() };
///             assert_eq!(text, Element::Bytes(b"value"));
///         }
///         Event::End { .. } => break,
///         _ => {}
///     }
/// }
/// # Ok::<(), punctual_rdb::Failure<std::convert::Infallible>>(())
/// ```
pub struct Reader<S> {
    input: Input<S>,
    /// The version in the header, once the header was read.
    version: Option<u32>,
    dialect: Dialect,
    /// The unread rest of the last value.
    rest: Rest,
    /// The key of a record, the name of a skipped record, or the name of an auxiliary field.
    name: Vec<u8>,
    /// The value of an auxiliary field, or the code of a library.
    text: Vec<u8>,
    /// Whether to verify the checksum.
    verify: bool,
    /// After the end: whether the checksum was verified.
    ended: Option<bool>,
}

/// The next part of a snapshot.
#[non_exhaustive]
pub enum Event<'r, S> {
    /// Metadata of the snapshot, such as the server's version and the time.
    Aux {
        /// The name of the field.
        name: &'r [u8],
        /// The value of the field.
        text: &'r [u8],
    },
    /// The keys that follow are in this database.
    SelectDb(u64),
    /// The sizes of the database, as hints: they may be wrong.
    ResizeDb {
        /// Number of keys.
        keys: u64,
        /// Number of keys with an expiry time.
        expiring: u64,
    },
    /// A key.
    Key(Record<'r, S>),
    /// A library of functions.
    Library {
        /// The code, including the first line, which names the library.
        code: &'r [u8],
        /// The offset of the record in bytes.
        offset: u64,
    },
    /// A record that was skipped.
    Skipped(Skipped<'r>),
    /// The end of the snapshot. Further calls return this event again.
    End {
        /// Whether the snapshot has a checksum and the reader has verified it.
        verified: bool,
    },
}

/// A key and its value.
pub struct Record<'r, S> {
    /// The key.
    pub key: &'r [u8],
    /// The expiry time and the usage of the key.
    pub meta: Meta,
    /// The offset of the record in bytes.
    pub offset: u64,
    /// The value. The reader skips it if it is not read.
    pub value: Value<'r, S>,
}

/// A record that was skipped.
#[derive(Clone, Copy, Debug)]
pub struct Skipped<'r> {
    /// The type of the record.
    pub what: Opaque,
    /// The key; empty if the record is not a key.
    pub name: &'r [u8],
    /// The type byte of the record.
    pub type_byte: u8,
    /// The offset of the record in bytes.
    pub offset: u64,
}

/// An event without borrowed data.
enum Step {
    Aux,
    SelectDb(u64),
    ResizeDb(u64, u64),
    Key(Kind, Option<Own>, Meta, u64),
    Library(u64),
    Skipped(Opaque, u8, u64),
    End(bool),
}

impl<S: Source> Reader<S> {
    /// Returns a reader at the start of a snapshot.
    pub fn new(source: S) -> Self {
        Reader {
            input: Input::new(source),
            version: None,
            dialect: Dialect::Redis,
            rest: Rest::NOTHING,
            name: Vec::new(),
            text: Vec::new(),
            verify: true,
            ended: None,
        }
    }

    /// Sets whether to verify the checksum (default: true).
    pub fn verify_checksum(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Sets whether to check compact encodings for duplicates and for scores that are not numbers
    /// (default: false). Their form is always checked.
    pub fn deep(mut self, deep: bool) -> Self {
        self.input.deep = deep;
        self
    }

    /// Returns the source, from which exactly the bytes read so far are consumed. After the end of
    /// the snapshot, the source starts with the bytes that follow the snapshot.
    pub fn into_source(self) -> S {
        self.input.into_source()
    }

    /// Returns the number of bytes read.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// Returns the version in the header, or `None` before the first call of [`next`](Self::next).
    pub fn version(&self) -> Option<u32> {
        self.version
    }

    /// Returns the next event, after skipping the unread rest of the last value.
    ///
    /// # Errors
    ///
    /// [`Failure`](crate::Failure) if the snapshot ends early, is inconsistent or has a record of
    /// an unknown type, or if the source fails. The reader cannot be used after that.
    #[expect(
        clippy::should_implement_trait,
        reason = "events borrow from the input"
    )]
    pub fn next(&mut self) -> Fallible<Event<'_, S>, S> {
        let mut rest = std::mem::replace(&mut self.rest, Rest::NOTHING);
        rest.skip(&mut self.input)?;
        Ok(match self.step()? {
            Step::Aux => Event::Aux {
                name: &self.name,
                text: &self.text,
            },
            Step::SelectDb(db) => Event::SelectDb(db),
            Step::ResizeDb(keys, expiring) => Event::ResizeDb { keys, expiring },
            Step::Key(kind, own, meta, offset) => {
                self.rest = Rest::Whole(kind);
                Event::Key(Record {
                    key: &self.name,
                    meta,
                    offset,
                    value: Value {
                        input: &mut self.input,
                        rest: &mut self.rest,
                        kind,
                        own,
                    },
                })
            }
            Step::Library(offset) => Event::Library {
                code: &self.text,
                offset,
            },
            Step::Skipped(what, type_byte, offset) => Event::Skipped(Skipped {
                what,
                name: &self.name,
                type_byte,
                offset,
            }),
            Step::End(verified) => Event::End { verified },
        })
    }

    fn step(&mut self) -> Fallible<Step, S> {
        if let Some(verified) = self.ended {
            return Ok(Step::End(verified));
        }
        if self.version.is_none() {
            self.header()?;
        }
        let mut meta = Meta::default();
        let mut start = self.input.offset();
        loop {
            self.input.start_item();
            let here = self.input.offset();
            let byte = self.input.byte()?;
            if let Some(kind) = Kind::of_byte(byte, self.dialect) {
                return self.key(kind, meta, start);
            }
            match byte {
                opcode::EXPIRE_MS => meta.expire_ms = Some(self.input.millis()?),
                opcode::EXPIRE_S => {
                    let seconds = i32::from_le_bytes(self.input.bytes()?);
                    meta.expire_ms = Some(i64::from(seconds) * 1000);
                }
                opcode::IDLE => meta.idle_s = Some(self.input.number()?),
                opcode::FREQ => meta.freq = Some(self.input.byte()?),
                opcode::AUX => {
                    read_text(&mut self.input, &mut self.name)?;
                    read_text(&mut self.input, &mut self.text)?;
                    return Ok(Step::Aux);
                }
                opcode::SELECT_DB => return Ok(Step::SelectDb(self.input.number()?)),
                opcode::RESIZE_DB => {
                    let keys = self.input.number()?;
                    return Ok(Step::ResizeDb(keys, self.input.number()?));
                }
                opcode::SLOT_INFO => {
                    // Slot, keys, keys with an expiry: hints for clusters.
                    for _ in 0..3 {
                        self.input.number()?;
                    }
                    start = self.input.offset();
                }
                opcode::FUNCTION | opcode::FUNCTION_PRE_GA => {
                    read_library(&mut self.input, byte, &mut self.text)?;
                    return Ok(Step::Library(here));
                }
                opcode::ZIPMAP => {
                    read_text(&mut self.input, &mut self.name)?;
                    self.input.skip_string()?;
                    return Ok(Step::Skipped(Opaque::Zipmap, byte, start));
                }
                opcode::MODULE_AUX => {
                    self.name.clear();
                    let what = opaque::skip_module_aux(&mut self.input)?;
                    return Ok(Step::Skipped(what, byte, here));
                }
                opcode::END => return self.end(),
                _ => return Err(self.input.error(here, Reason::Type(byte))),
            }
        }
    }

    fn header(&mut self) -> Fallible<(), S> {
        if self.verify {
            self.input.start_checksum();
        }
        let start: [u8; 9] = self.input.bytes()?;
        let (dialect, digits) = if let Some(digits) = start.strip_prefix(SIGNATURE) {
            (Dialect::Redis, digits)
        } else if let Some(digits) = start.strip_prefix(SIGNATURE_VALKEY) {
            (Dialect::Valkey, digits)
        } else {
            return Err(self.input.error(0, Reason::Signature));
        };
        let mut version = 0;
        for digit in digits {
            if !digit.is_ascii_digit() {
                return Err(self.input.error(0, Reason::Signature));
            }
            version = version * 10 + u32::from(digit - b'0');
        }
        let known = match dialect {
            Dialect::Redis => (1..=u32::from(VERSION_MAX)).contains(&version),
            Dialect::Valkey => version == u32::from(VERSION_VALKEY),
        };
        if !known {
            let at = (start.len() - digits.len()) as u64;
            return Err(self.input.error(at, Reason::Version(version)));
        }
        self.dialect = dialect;
        self.version = Some(version);
        Ok(())
    }

    fn key(&mut self, kind: Kind, meta: Meta, start: u64) -> Fallible<Step, S> {
        read_text(&mut self.input, &mut self.name)?;
        let own = match kind {
            Kind::Module => match Own::read(&mut self.input)? {
                Ok(own) => Some(own),
                Err(name) => {
                    opaque::skip_module_parts(&mut self.input)?;
                    return Ok(Step::Skipped(Opaque::Module(name), kind.byte(), start));
                }
            },
            Kind::ModulePreGa => {
                let here = self.input.offset();
                return Err(self.input.error(here, Reason::Module(kind.byte())));
            }
            _ => None,
        };
        Ok(Step::Key(kind, own, meta, start))
    }

    fn end(&mut self) -> Fallible<Step, S> {
        let mut verified = false;
        if self.version >= Some(VERSION_CHECKSUM) {
            let sum = self.input.finish_checksum();
            let here = self.input.offset();
            let stored = u64::from_le_bytes(self.input.bytes()?);
            // Zero means that the writer computed no checksum.
            if let Some(computed) = sum.filter(|_| stored != 0) {
                if computed != stored {
                    let reason = Reason::Checksum { stored, computed };
                    return Err(self.input.error(here, reason));
                }
                verified = true;
            }
        }
        self.ended = Some(verified);
        Ok(Step::End(verified))
    }
}

/// Reads a string as a new item, and replaces the contents of `text` with it.
#[inline]
pub(crate) fn read_text<S: Source>(input: &mut Input<S>, text: &mut Vec<u8>) -> Fallible<(), S> {
    input.start_item();
    let span = input.string()?;
    text.clear();
    input.element(span).write_text(text);
    Ok(())
}
