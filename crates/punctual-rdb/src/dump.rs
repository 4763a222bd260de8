//! The payload of DUMP and RESTORE: a value as in a snapshot, the version, a checksum.

use thiserror::Error;

use crate::contents::{Rest, Value};
use crate::crc64::crc64;
use crate::error::{Error, Reason};
use crate::input::Input;
use crate::kind::{Kind, VERSION, VERSION_MAX};

/// Version and checksum.
const FOOTER_LEN: usize = 10;

/// A payload that RESTORE refuses before it looks at the value. Redis has one text for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// Too short for a version and a checksum.
    #[error("payload too short")]
    Short,
    /// Of a newer version than is known.
    #[error("payload version {0} is not supported")]
    Version(u16),
    /// The checksum is wrong.
    #[error("wrong payload checksum")]
    Checksum,
}

/// Makes a payload of the kind's byte and the value behind it, as an [`Encoder`](crate::Encoder) writes
/// them: appends the version and the checksum.
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
    let kind = payload.first().and_then(|&byte| Kind::of_byte(byte));
    let version = kind.map_or(VERSION, Kind::version);
    payload.extend_from_slice(&version.to_le_bytes());
    let sum = crc64(payload);
    payload.extend_from_slice(&sum.to_le_bytes());
}

/// The kind's byte and the value of a payload, of which no more is known than that they came unchanged.
///
/// # Errors
///
/// [`Refused`], as RESTORE refuses it.
pub fn open(payload: &[u8]) -> Result<&[u8], Refused> {
    let Some((body, &[v, w, a, b, c, d, e, f, g, h])) = payload.split_last_chunk::<FOOTER_LEN>()
    else {
        return Err(Refused::Short);
    };
    let version = u16::from_le_bytes([v, w]);
    if version > VERSION_MAX {
        return Err(Refused::Version(version));
    }
    let sum = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    if crc64(&payload[..body.len() + 2]) != sum {
        return Err(Refused::Checksum);
    }
    Ok(body)
}

/// As [`open`], without a look at version and checksum: for tests of damaged payloads.
pub fn body(payload: &[u8]) -> Option<&[u8]> {
    let (body, _) = payload.split_last_chunk::<FOOTER_LEN>()?;
    Some(body)
}

/// Reads the value of a payload, all checks included: what clients send may be made up.
pub struct Restore<'p> {
    input: Input<&'p [u8]>,
    rest: Rest,
}

impl<'p> Restore<'p> {
    /// [`open`]s a payload.
    ///
    /// # Errors
    ///
    /// [`Refused`], as RESTORE refuses it.
    pub fn new(payload: &'p [u8]) -> Result<Self, Refused> {
        open(payload).map(Self::from_body)
    }

    /// Of an opened payload.
    pub fn from_body(body: &'p [u8]) -> Self {
        let mut input = Input::new(body);
        input.deep = true;
        Restore {
            input,
            rest: Rest::NOTHING,
        }
    }

    /// The value, to be read once. It borrows from the payload as far as nothing is compressed or converted.
    ///
    /// # Errors
    ///
    /// [`Reason::Type`] where it is of no type that is known.
    pub fn value(&mut self) -> Result<Value<'_, &'p [u8]>, Error> {
        let byte = self.input.byte()?;
        let Some(kind) = Kind::of_byte(byte) else {
            return Err(Error {
                offset: 0,
                reason: Reason::Type(byte),
            });
        };
        Ok(Value {
            input: &mut self.input,
            rest: &mut self.rest,
            kind,
        })
    }
}
