//! Replies as JSON. Bytes that are not UTF-8 become an object `{"hex": "..."}`. Requests may use
//! such objects as words of commands.

use std::fmt::Write as _;

use punctual_resp::Value;
use serde_json::{Map, Value as Json, json};

/// Returns bytes as JSON.
pub(super) fn bytes(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => {
            let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
                // Writing to a String cannot fail.
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            json!({ "hex": hex })
        }
    }
}

/// Returns a reply as JSON. Invalid UTF-8 in the keys of maps becomes U+FFFD, because keys in JSON
/// are text.
pub(super) fn reply(value: &Value) -> Json {
    match value {
        Value::Int(number) => (*number).into(),
        Value::Double(number) => (*number).into(),
        Value::Boolean(yes) => (*yes).into(),
        Value::NullBulk | Value::NullArray | Value::Null => Json::Null,
        Value::Array(all) | Value::Set(all) | Value::Push(all) => all.iter().map(reply).collect(),
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(name, value)| {
                let name = String::from_utf8_lossy(name.as_bytes().unwrap_or_default());
                (name.into_owned(), reply(value))
            });
            pairs.collect::<Map<_, _>>().into()
        }
        Value::Attribute { value, .. } => reply(value),
        other => bytes(other.as_bytes().unwrap_or_default()),
    }
}

/// Returns the bytes of a word of a command, or `None` if the JSON is no word.
pub(super) fn word(json: &Json) -> Option<Vec<u8>> {
    match json {
        Json::String(text) => Some(text.as_bytes().to_vec()),
        Json::Object(object) => {
            let hex = object.get("hex")?.as_str()?.as_bytes();
            let (pairs, rest) = hex.as_chunks::<2>();
            let byte = |pair: &[u8; 2]| {
                let digits = std::str::from_utf8(pair).ok()?;
                // `from_str_radix` would also accept a sign.
                pair.iter().all(u8::is_ascii_hexdigit).then_some(())?;
                u8::from_str_radix(digits, 16).ok()
            };
            rest.is_empty().then_some(())?;
            pairs.iter().map(byte).collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_any_bytes_come_back() {
        for name in [
            &b""[..],
            b"mails",
            "\u{e9}\"\\".as_bytes(),
            b"\xff\x00",
            b"\x80",
        ] {
            assert_eq!(word(&bytes(name)).as_deref(), Some(name), "{name:?}");
        }
        for json in [
            json!(17),
            json!(null),
            json!(["a"]),
            json!({}),
            json!({ "hex": "f" }),
            json!({ "hex": "+f" }),
            json!({ "hex": 17 }),
        ] {
            assert_eq!(word(&json), None, "{json}");
        }
    }

    #[test]
    fn replies_keep_their_shape() {
        let map = Value::Map(vec![
            (Value::bulk("at"), Value::Null),
            (Value::bulk("n"), Value::Array(vec![Value::Int(-1)])),
        ]);
        assert_eq!(reply(&map), json!({ "at": null, "n": [-1] }));
        assert_eq!(reply(&Value::Simple(b"OK".to_vec())), json!("OK"));
    }
}
