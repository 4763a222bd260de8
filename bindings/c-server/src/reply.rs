//! Replies: trees of values.
//!
//! A reply is a [`Value`] whose texts end with a NUL byte, so that C programs can print them.
//! `to_reply` appends the NUL bytes, and the functions here leave them out of lengths.

use std::ffi::c_char;

use punctual_server::Value;

/// The kind of a value. Each kind names the functions that read it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No value: a missing key, or an EXEC that did not run. A NULL pointer also has this kind.
    Nil = 0,
    /// A status, such as "OK": punctual_server_reply_text.
    Status = 1,
    /// An error of the command, such as "ERR syntax error": punctual_server_reply_text.
    Error = 2,
    /// punctual_server_reply_integer.
    Integer = 3,
    /// Any bytes: punctual_server_reply_text.
    String = 4,
    /// punctual_server_reply_length and punctual_server_reply_at.
    Array = 5,
    /// Keys and values in turn, with punctual_server_reply_length and punctual_server_reply_at. The
    /// length counts both.
    Map = 6,
    /// Like PUNCTUAL_SERVER_KIND_ARRAY, but all elements differ from each other.
    Set = 7,
    /// A message. Like PUNCTUAL_SERVER_KIND_ARRAY; the first element is the kind of the message.
    Push = 8,
    /// punctual_server_reply_double.
    Double = 9,
    /// punctual_server_reply_integer: 1 is true, 0 is false.
    Boolean = 10,
    /// Decimal digits, perhaps with a sign: punctual_server_reply_text.
    BigNumber = 11,
    /// A text for people: punctual_server_reply_text.
    Verbatim = 12,
}

/// Makes a reply from a value.
pub(crate) fn to_reply(mut value: Value) -> Box<Value> {
    terminate(&mut value);
    Box::new(value)
}

/// Appends a NUL byte to each text. The decoder limits the depth of this recursion to 128.
fn terminate(value: &mut Value) {
    match value {
        Value::Simple(bytes)
        | Value::Error(bytes)
        | Value::Bulk(bytes)
        | Value::BigNumber(bytes)
        | Value::BulkError(bytes)
        | Value::Verbatim { text: bytes, .. } => {
            bytes.reserve_exact(1);
            bytes.push(0);
        }
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            items.iter_mut().for_each(terminate);
        }
        Value::Map(pairs) => {
            for (key, value) in pairs {
                terminate(key);
                terminate(value);
            }
        }
        Value::Attribute { value, .. } => terminate(value),
        _ => {}
    }
}

/// Returns the value without attributes, which the C library does not have.
fn plain(reply: Option<&Value>) -> &Value {
    let mut value = reply.unwrap_or(&Value::Null);
    while let Value::Attribute { value: inner, .. } = value {
        value = inner;
    }
    value
}

/// Returns the kind of a value. O(1).
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_reply_kind(reply: Option<&Value>) -> Kind {
    match plain(reply) {
        Value::Simple(_) => Kind::Status,
        Value::Error(_) | Value::BulkError(_) => Kind::Error,
        Value::Int(_) => Kind::Integer,
        Value::Bulk(_) => Kind::String,
        Value::Array(_) => Kind::Array,
        Value::Map(_) => Kind::Map,
        Value::Set(_) => Kind::Set,
        Value::Push(_) => Kind::Push,
        Value::Double(_) => Kind::Double,
        Value::Boolean(_) => Kind::Boolean,
        Value::BigNumber(_) => Kind::BigNumber,
        Value::Verbatim { .. } => Kind::Verbatim,
        _ => Kind::Nil,
    }
}

/// Returns the bytes of a status, error, string, big number or verbatim text, and writes their
/// number to `*length`; `length` may be NULL. A NUL byte follows the bytes, and `*length` does not
/// count it. The bytes are valid until the reply is freed. Returns NULL for other kinds, and writes
/// 0. O(1).
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_reply_text(
    reply: Option<&Value>,
    length: Option<&mut std::mem::MaybeUninit<usize>>,
) -> *const c_char {
    let bytes = plain(reply).as_bytes();
    if let Some(length) = length {
        length.write(bytes.map_or(0, |bytes| bytes.len() - 1));
    }
    bytes.map_or(std::ptr::null(), |bytes| bytes.as_ptr().cast())
}

/// Returns the value of an integer, 1 or 0 for a boolean, and 0 for other kinds. O(1).
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_reply_integer(reply: Option<&Value>) -> i64 {
    match plain(reply) {
        Value::Int(number) => *number,
        Value::Boolean(truth) => i64::from(*truth),
        _ => 0,
    }
}

/// Returns the value of a double, and 0 for other kinds. O(1).
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_reply_double(reply: Option<&Value>) -> f64 {
    match plain(reply) {
        Value::Double(number) => *number,
        _ => 0.0,
    }
}

/// Returns the number of elements of an array, set or message, the number of keys and values of a
/// map, and 0 for other kinds. O(1).
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_reply_length(reply: Option<&Value>) -> usize {
    match plain(reply) {
        Value::Map(pairs) => pairs.len() * 2,
        value => value.as_slice().map_or(0, <[Value]>::len),
    }
}

/// Returns an element, counted from 0. In a map, a key has an even index, and its value follows.
/// The element belongs to the reply and is valid until the reply is freed. Returns NULL if the
/// index is not below the length. O(1).
///
/// Threads: readers may overlap.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_reply_at(reply: Option<&Value>, index: usize) -> Option<&Value> {
    match plain(reply) {
        Value::Map(pairs) => {
            let (key, value) = pairs.get(index / 2)?;
            Some(if index.is_multiple_of(2) { key } else { value })
        }
        value => value.as_slice()?.get(index),
    }
}

/// Frees a reply with all its elements. NULL is allowed. Do not free an element by itself. O(n) for
/// n values.
///
/// Threads: one at a time. Do not use the reply afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_reply_free(reply: Option<Box<Value>>) {
    drop(reply);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::MaybeUninit;

    /// Returns text and length of a reply, if it has a text.
    fn text(reply: Option<&Value>) -> Option<Vec<u8>> {
        let mut length = MaybeUninit::new(77);
        let bytes = punctual_server_reply_text(reply, Some(&mut length));
        // SAFETY: the function has written the length.
        let length = unsafe { length.assume_init() };
        if bytes.is_null() {
            assert_eq!(length, 0);
            return None;
        }
        // SAFETY: the text has as many bytes, and a NUL.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length + 1) };
        assert_eq!(bytes[length], 0);
        Some(bytes[..length].to_vec())
    }

    #[test]
    fn each_kind_has_its_accessor() {
        let texts = [
            (Value::Simple(b"OK".to_vec()), Kind::Status, "OK"),
            (Value::Error(b"ERR no".to_vec()), Kind::Error, "ERR no"),
            (Value::BulkError(b"ERR no".to_vec()), Kind::Error, "ERR no"),
            (Value::bulk("a\0b"), Kind::String, "a\0b"),
            (Value::bulk(""), Kind::String, ""),
            (Value::BigNumber(b"-1".to_vec()), Kind::BigNumber, "-1"),
        ];
        for (value, kind, words) in texts {
            let reply = to_reply(value);
            assert_eq!(punctual_server_reply_kind(Some(&reply)), kind);
            assert_eq!(text(Some(&reply)).as_deref(), Some(words.as_bytes()));
            assert_eq!(punctual_server_reply_length(Some(&reply)), 0);
            assert!(punctual_server_reply_at(Some(&reply), 0).is_none());
        }
        for null in [Value::Null, Value::NullBulk, Value::NullArray] {
            assert_eq!(punctual_server_reply_kind(Some(&null)), Kind::Nil);
            assert_eq!(text(Some(&null)), None);
        }
        assert_eq!(punctual_server_reply_kind(None), Kind::Nil);
        assert_eq!(punctual_server_reply_integer(Some(&Value::Int(-7))), -7);
        assert_eq!(
            punctual_server_reply_integer(Some(&Value::Boolean(true))),
            1
        );
        assert_eq!(punctual_server_reply_double(Some(&Value::Double(0.5))), 0.5);
    }

    #[test]
    fn maps_alternate_and_attributes_are_left_out() {
        let map = Value::Map(vec![(Value::bulk("ttl"), Value::Int(30))]);
        let reply = to_reply(Value::Array(vec![Value::Attribute {
            attributes: vec![(Value::bulk("a"), Value::Int(1))],
            value: Box::new(map),
        }]));
        let map = punctual_server_reply_at(Some(&reply), 0);
        assert_eq!(punctual_server_reply_kind(map), Kind::Map);
        assert_eq!(punctual_server_reply_length(map), 2);
        let (key, value) = (
            punctual_server_reply_at(map, 0),
            punctual_server_reply_at(map, 1),
        );
        assert_eq!(text(key).as_deref(), Some(b"ttl".as_slice()));
        assert_eq!(punctual_server_reply_integer(value), 30);
        assert!(punctual_server_reply_at(map, 2).is_none());
        assert!(punctual_server_reply_at(Some(&reply), 1).is_none());
    }
}
