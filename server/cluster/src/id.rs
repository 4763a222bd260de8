//! Names of nodes and of shards: 160 bits, shown as 40 hexadecimal digits.

use std::fmt;
use std::str::FromStr;

/// ID of a node or of a shard. Its text and its form on the bus are 40 lower-case hexadecimal
/// digits. IDs have the order of these texts.
///
/// ```
/// use punctual_cluster::NodeId;
///
/// let id: NodeId = "07c37dfeb235213a872192d90877d0cd55635b91".parse().unwrap();
/// assert_eq!(id.to_string(), "07c37dfeb235213a872192d90877d0cd55635b91");
/// assert!("07C3".parse::<NodeId>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; 20]);

/// Error of a text that is not an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an ID has 40 lower-case hexadecimal digits")]
pub struct InvalidId;

impl NodeId {
    /// Creates an ID from 160 bits.
    pub const fn new(bits: [u8; 20]) -> Self {
        Self(bits)
    }

    /// Creates an ID from random numbers.
    pub fn random(mut random: impl FnMut() -> u64) -> Self {
        let mut bits = [0; 20];
        for chunk in bits.chunks_mut(8) {
            let number = random().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
        Self(bits)
    }

    /// Returns the 40 digits.
    pub fn digits(self) -> [u8; 40] {
        let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
        let mut text = [0; 40];
        for (pair, byte) in text.chunks_mut(2).zip(self.0) {
            pair[0] = digit(byte >> 4);
            pair[1] = digit(byte & 15);
        }
        text
    }

    /// Reads 40 digits.
    ///
    /// # Errors
    /// The text has another length or other characters.
    pub fn from_digits(text: &[u8]) -> Result<Self, InvalidId> {
        let half = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(InvalidId),
        };
        if text.len() != 40 {
            return Err(InvalidId);
        }
        let mut bits = [0; 20];
        for (byte, pair) in bits.iter_mut().zip(text.chunks(2)) {
            *byte = half(pair[0])? << 4 | half(pair[1])?;
        }
        Ok(Self(bits))
    }
}

impl FromStr for NodeId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        Self::from_digits(text.as_bytes())
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.digits()))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
