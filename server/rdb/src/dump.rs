//! The payload of DUMP and RESTORE: the kind's byte and the value as in a snapshot, then the
//! version of the format, then a checksum.

use thiserror::Error;

use crate::contents::{Rest, Value};
use crate::crc64::crc64;
use crate::error::{Error, Reason};
use crate::input::Input;
use crate::kind::{Dialect, Kind, VERSION, VERSION_MAX, VERSION_VALKEY};
use crate::opaque::Own;

/// Length in bytes of version and checksum.
const FOOTER_LEN: usize = 10;

/// The error of a payload that RESTORE refuses before it reads the value. Redis replies with the
/// same text for all variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// The payload is too short for a version and a checksum.
    #[error("payload too short")]
    Short,
    /// The version is newer than [`VERSION_MAX`], and is not [`VERSION_VALKEY`].
    #[error("payload version {0} is not supported")]
    Version(u16),
    /// The checksum is wrong.
    #[error("wrong payload checksum")]
    Checksum,
}

/// Completes a payload: appends the version and the checksum to the kind's byte and the value that
/// an [`Encoder`](crate::Encoder) wrote.
///
/// ```
/// use punctual_rdb::{Contents, Element, Encoder, Kind, dump};
///
/// let mut payload = vec![Kind::String.byte()];
/// Encoder::new(false).string(&mut payload, b"12");
/// dump::seal(&mut payload);
/// assert_eq!(dump::open(&payload).unwrap(), [0, 0xC0, 12]);
///
/// let mut restore = dump::Restore::new(&payload).unwrap();
/// let contents = restore.value().unwrap().read().unwrap();
/// assert!(matches!(contents, Contents::String(Element::Int(12))));
/// ```
pub fn seal(payload: &mut Vec<u8>) {
    let kind = payload
        .first()
        .and_then(|&byte| Kind::of_byte(byte, Dialect::Redis));
    let version = kind.map_or(VERSION, Kind::version);
    payload.extend_from_slice(&version.to_le_bytes());
    let sum = crc64(payload);
    payload.extend_from_slice(&sum.to_le_bytes());
}

/// Checks a payload's version and checksum. Returns the kind's byte and the value, both unchecked.
///
/// # Errors
///
/// [`Refused`], in the cases in which RESTORE refuses the payload.
pub fn open(payload: &[u8]) -> Result<&[u8], Refused> {
    let Some((body, &[v, w, a, b, c, d, e, f, g, h])) = payload.split_last_chunk::<FOOTER_LEN>()
    else {
        return Err(Refused::Short);
    };
    let version = u16::from_le_bytes([v, w]);
    if version > VERSION_MAX && version != VERSION_VALKEY {
        return Err(Refused::Version(version));
    }
    let sum = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    if crc64(&payload[..body.len() + 2]) != sum {
        return Err(Refused::Checksum);
    }
    Ok(body)
}

/// Returns the version of a payload without checking the payload; 0 if it is too short.
pub fn version(payload: &[u8]) -> u16 {
    match payload.last_chunk::<FOOTER_LEN>() {
        Some(&[v, w, ..]) => u16::from_le_bytes([v, w]),
        None => 0,
    }
}

/// Returns the dialect of a payload without checking the payload.
pub fn dialect(payload: &[u8]) -> Dialect {
    match version(payload) {
        VERSION_VALKEY => Dialect::Valkey,
        _ => Dialect::Redis,
    }
}

/// Returns the same bytes as [`open`] without checking version and checksum, or `None` if the
/// payload is too short. For tests of damaged payloads.
pub fn body(payload: &[u8]) -> Option<&[u8]> {
    let (body, _) = payload.split_last_chunk::<FOOTER_LEN>()?;
    Some(body)
}

/// Reads the value of a payload with all checks, because clients may send any bytes.
pub struct Restore<'p> {
    input: Input<&'p [u8]>,
    rest: Rest,
    dialect: Dialect,
}

impl<'p> Restore<'p> {
    /// Checks a payload's version and checksum, as [`open`] does.
    ///
    /// # Errors
    ///
    /// [`Refused`], in the cases in which RESTORE refuses the payload.
    pub fn new(payload: &'p [u8]) -> Result<Self, Refused> {
        open(payload).map(|body| Self::from_body(body, dialect(payload)))
    }

    /// Reads the bytes that [`open`] has returned, in the payload's [`dialect`].
    pub fn from_body(body: &'p [u8], dialect: Dialect) -> Self {
        let mut input = Input::new(body);
        input.deep = true;
        Restore {
            input,
            rest: Rest::NOTHING,
            dialect,
        }
    }

    /// Returns the value. Call this method once. The contents borrow from the payload unless they
    /// are compressed or in an old encoding.
    ///
    /// # Errors
    ///
    /// [`Reason::Type`] if the type of the value is unknown or a module's; [`Reason::Truncated`] or
    /// [`Reason::Length`] if the bytes of the type are damaged.
    pub fn value(&mut self) -> Result<Value<'_, &'p [u8]>, Error> {
        let byte = self.input.byte()?;
        let unknown = Error {
            offset: 0,
            reason: Reason::Type(byte),
        };
        let Some(kind) = Kind::of_byte(byte, self.dialect) else {
            return Err(unknown);
        };
        let own = match kind {
            Kind::Module => Some(Own::read(&mut self.input)?.map_err(|_| unknown)?),
            _ => None,
        };
        Ok(Value {
            input: &mut self.input,
            rest: &mut self.rest,
            kind,
            own,
        })
    }
}
