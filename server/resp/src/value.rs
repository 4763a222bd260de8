//! Replies as values, on the client side.

/// One reply of either protocol as a client reads it. Owns its bytes.
///
/// The nulls `$-1`, `*-1` and `_` are three different values, so that tests notice if a server
/// sends another null.
///
/// ```
/// use punctual_resp::{Value, decode};
///
/// let (value, _) = decode(b"%1\r\n$3\r\nttl\r\n:30\r\n").unwrap().unwrap();
/// assert_eq!(value, Value::Map(vec![(Value::bulk("ttl"), Value::Int(30))]));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// `+OK`: a status.
    Simple(Vec<u8>),
    /// `-ERR ...`; the text includes the code `ERR`.
    Error(Vec<u8>),
    /// `:1`: an integer.
    Int(i64),
    /// `$3`: a bulk string.
    Bulk(Vec<u8>),
    /// `$-1`: RESP2's missing string.
    NullBulk,
    /// `*-1`: RESP2's missing array.
    NullArray,
    /// `_`: RESP3's null.
    Null,
    /// `*2`: an array.
    Array(Vec<Value>),
    /// `%1`: pairs in the order of arrival.
    Map(Vec<(Value, Value)>),
    /// `~2`: elements in the order of arrival.
    Set(Vec<Value>),
    /// `>3`: an out-of-band message.
    Push(Vec<Value>),
    /// `,0.5`: a double.
    Double(f64),
    /// `#t`: a boolean.
    Boolean(bool),
    /// `(123`: digits with an optional sign.
    BigNumber(Vec<u8>),
    /// `!21`: an error that may contain any bytes.
    BulkError(Vec<u8>),
    /// `=15`: text with its format.
    Verbatim {
        /// Three letters, such as `txt` or `mkd`.
        format: [u8; 3],
        /// The text after the format and its colon.
        text: Vec<u8>,
    },
    /// `|1`: attributes and the value they describe.
    Attribute {
        /// Names of attributes and their values, in the order of arrival.
        attributes: Vec<(Value, Value)>,
        /// The described value.
        value: Box<Value>,
    },
}

impl Value {
    /// Returns a bulk string.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Value {
        Value::Bulk(bytes.as_ref().to_vec())
    }

    /// Returns true for the three nulls.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::NullBulk | Value::NullArray | Value::Null)
    }

    /// Returns true for errors of either kind.
    pub fn is_error(&self) -> bool {
        matches!(self, Value::Error(_) | Value::BulkError(_))
    }

    /// Returns the integer of an integer reply.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the bytes of a status, error, bulk string, big number or verbatim text.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Simple(bytes)
            | Value::Error(bytes)
            | Value::Bulk(bytes)
            | Value::BigNumber(bytes)
            | Value::BulkError(bytes)
            | Value::Verbatim { text: bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// Returns the elements of an array, set or push message.
    pub fn as_slice(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) | Value::Set(items) | Value::Push(items) => Some(items),
            _ => None,
        }
    }
}
