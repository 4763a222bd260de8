//! Writing replies and reading them back.

use proptest::prelude::*;
use punctual_resp::Protocol::{Resp2, Resp3};
use punctual_resp::{
    Chunks, DecodeError, Decoder, MAX_DEPTH, Protocol, Reply, ReplyScan, Value, decimal, decode,
    reply_len,
};

fn written(protocol: Protocol, write: impl Fn(&mut Reply<'_>)) -> String {
    let mut out = Vec::new();
    write(&mut Reply::new(&mut out, protocol));
    String::from_utf8(out).expect("text")
}

/// A reply in several chunks has the same bytes and positions as a reply in one buffer.
#[test]
fn a_chunked_reply_equals_one_in_one_piece() {
    fn write(reply: &mut Reply<'_>) {
        let start = reply.len();
        reply.array(5);
        let end = reply.len();
        for number in 0..40 {
            let before = reply.len();
            reply.bulk(&vec![b'a' + number; 7_001 * usize::from(number)]);
            reply.int(i64::from(number));
            if number % 5 == 0 {
                reply.truncate(before);
                reply.null();
            }
        }
        reply.replace_head(start..end, b"*80\r\n");
        let text = reply.since(start).into_owned();
        let late = reply.len();
        reply.bulk(b"late");
        assert_eq!(&*reply.since(late), b"$4\r\nlate\r\n");
        reply.bulk(&text);
    }
    let mut plain = b"+before\r\n".to_vec();
    let mut out = plain.clone();
    write(&mut Reply::new(&mut plain, Resp2));
    let mut chunks = Chunks::default();
    write(&mut Reply::chunked(
        &mut out,
        Some(&mut chunks),
        usize::MAX,
        Resp2,
    ));
    assert!(!chunks.is_empty() && chunks.capacity() < chunks.len() * 5 / 4);
    let len = plain.len() * 2 / 3;
    plain.truncate(len);
    chunks.truncate(&mut out, len);
    assert_eq!(chunks.len() + out.len(), len);
    chunks.join(&mut out);
    assert!(out == plain);
}

#[test]
fn every_value_in_both_protocols() {
    type Write = fn(&mut Reply<'_>);
    let cases: [(Write, &str, &str); 26] = [
        (|r| r.ok(), "+OK\r\n", "+OK\r\n"),
        (|r| r.simple("QUEUED"), "+QUEUED\r\n", "+QUEUED\r\n"),
        (|r| r.simple("a\r\nb"), "+a  b\r\n", "+a  b\r\n"),
        (
            |r| r.error("ERR no such key"),
            "-ERR no such key\r\n",
            "-ERR no such key\r\n",
        ),
        (|r| r.error("ERR a\nb\r\n"), "-ERR a b\r\n", "-ERR a b\r\n"),
        (|r| r.int(0), ":0\r\n", ":0\r\n"),
        (|r| r.int(42), ":42\r\n", ":42\r\n"),
        (|r| r.int(-1), ":-1\r\n", ":-1\r\n"),
        (
            |r| r.int(i64::MIN),
            ":-9223372036854775808\r\n",
            ":-9223372036854775808\r\n",
        ),
        (|r| r.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
        (
            |r| r.bulk(b"0123456789"),
            "$10\r\n0123456789\r\n",
            "$10\r\n0123456789\r\n",
        ),
        (|r| r.bulk_int(-123), "$4\r\n-123\r\n", "$4\r\n-123\r\n"),
        (|r| r.null(), "$-1\r\n", "_\r\n"),
        (|r| r.null_array(), "*-1\r\n", "_\r\n"),
        (|r| r.array(123), "*123\r\n", "*123\r\n"),
        (|r| r.map(60), "*120\r\n", "%60\r\n"),
        (|r| r.set(3), "*3\r\n", "~3\r\n"),
        (|r| r.push(3), "*3\r\n", ">3\r\n"),
        (
            |r| assert_eq!(r.attribute(1), r.protocol() == Resp3),
            "",
            "|1\r\n",
        ),
        (|r| r.double(3.0), "$1\r\n3\r\n", ",3\r\n"),
        (
            |r| r.double(1234.56789),
            "$10\r\n1234.56789\r\n",
            ",1234.56789\r\n",
        ),
        (
            |r| r.double(f64::NEG_INFINITY),
            "$4\r\n-inf\r\n",
            ",-inf\r\n",
        ),
        (|r| r.boolean(true), ":1\r\n", "#t\r\n"),
        (|r| r.boolean(false), ":0\r\n", "#f\r\n"),
        (
            |r| r.big_number("12345678901234567890"),
            "$20\r\n12345678901234567890\r\n",
            "(12345678901234567890\r\n",
        ),
        (
            |r| r.verbatim("txt", b"hi"),
            "$2\r\nhi\r\n",
            "=6\r\ntxt:hi\r\n",
        ),
    ];
    for (write, resp2, resp3) in cases {
        assert_eq!(written(Resp2, write), resp2);
        assert_eq!(written(Resp3, write), resp3);
    }
}

#[test]
fn a_reply_can_be_truncated_and_change_its_protocol() {
    let mut out = b"+before\r\n".to_vec();
    let mut reply = Reply::new(&mut out, Resp2);
    let mark = reply.len();
    reply.array(2);
    reply.bulk(b"x");
    reply.truncate(mark);
    reply.truncate(1000);
    reply.set_protocol(Resp3);
    reply.null();
    assert!(!reply.is_empty());
    assert_eq!(out, b"+before\r\n_\r\n");
}

/// The expected texts are the output of redis-server 7.2.
#[test]
fn doubles_as_redis_prints_them() {
    let cases = [
        (0.0, "0"),
        (-0.0, "-0"),
        (f64::NAN, "nan"),
        (f64::INFINITY, "inf"),
        (1.0, "1"),
        (-17.0, "-17"),
        (0.1, "0.1"),
        (3.1, "3.1"),
        (-1.5, "-1.5"),
        (100.25, "100.25"),
        (1e8, "100000000"),
        (4611686018427387904.0, "4611686018427387904"),
        (4611686018427388928.0, "4611686018427389000"),
        (9223372036854775808.0, "9223372036854776000"),
        (1e19, "1e+19"),
        (-1e21, "-1e+21"),
        (1.5e300, "1.5e+300"),
        (0.0001, "0.0001"),
        (0.00001, "0.00001"),
        (0.000001, "0.000001"),
        (1e-7, "1e-7"),
        (0.00012345, "1.2345e-4"),
        (0.0000012345, "1.2345e-6"),
        (-2.5e-9, "-2.5e-9"),
        (5e-324, "5e-324"),
        (f64::MAX, "1.7976931348623157e+308"),
        (0.30000000000000004, "0.30000000000000004"),
    ];
    for (value, text) in cases {
        let mut out = Vec::new();
        decimal::write_f64(&mut out, value);
        assert_eq!(String::from_utf8(out).unwrap(), text, "{value:e}");
    }
}

#[test]
fn integers_at_the_edges() {
    use decimal::{parse_i64, parse_u64};
    for value in [
        0,
        1,
        -1,
        9,
        10,
        99,
        i64::MAX,
        i64::MAX - 1,
        i64::MIN,
        i64::MIN + 1,
    ] {
        assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
    }
    for value in [
        u64::MAX,
        u64::MAX - 1,
        10_000_000_000_000_000_000,
        9_999_999_999_999_999_999,
    ] {
        assert_eq!(parse_u64(value.to_string().as_bytes()), Some(value));
    }
    #[rustfmt::skip]
    let refused = [
        "", "-", "--1", "+1", "01", "-01", "00", "-0", " 1", "1 ", "1.0", "1e3", "0x1",
        "9223372036854775808", "-9223372036854775809", "18446744073709551615",
        "18446744073709551616", "99999999999999999999", "123456789012345678901", "1/", "1:", "/",
        ":",
    ];
    for text in refused {
        assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
    }
    assert_eq!(parse_u64(b"-1"), None);
    assert_eq!(parse_u64(b"18446744073709551616"), None);
}

#[test]
fn doubles_as_redis_reads_them() {
    let taken = [
        ("0", 0.0),
        ("-0", -0.0),
        ("+1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1E3", 1000.0),
        ("0e999", 0.0),
        ("Infinity", f64::INFINITY),
        ("+inf", f64::INFINITY),
        ("007", 7.0),
    ];
    for (text, value) in taken {
        assert_eq!(decimal::parse_f64(text.as_bytes()), Some(value), "{text}");
    }
    for text in [
        "", ".", "+", "-", " 1", "1 ", "1,5", "nan", "-NaN", "1e999", "-1e999", "1e-999", "e5",
        "1e", "\u{1f}",
    ] {
        assert_eq!(decimal::parse_f64(text.as_bytes()), None, "{text:?}");
    }
    assert_eq!(decimal::parse_f64(b"1\xff"), None);
}

#[test]
fn bytes_that_are_no_reply_are_refused() {
    use DecodeError::{InvalidLength, InvalidValue, MissingLineEnd, UnknownType};
    let cases: [(&[u8], DecodeError); 21] = [
        (b"x", UnknownType { at: 0, byte: b'x' }),
        (b"*2\r\n:1\r\n\r\n", UnknownType { at: 8, byte: b'\r' }),
        (b"$x\r\n", InvalidLength { at: 1 }),
        (b"$-2\r\n", InvalidLength { at: 1 }),
        (b"$?\r\n", InvalidLength { at: 1 }),
        (b"$9223372036854775807\r\n", InvalidLength { at: 1 }),
        (b"*-2\r\n", InvalidLength { at: 1 }),
        (b"%-1\r\n", InvalidLength { at: 1 }),
        (b"!-1\r\n", InvalidLength { at: 1 }),
        (b"*9223372036854775808\r\n", InvalidLength { at: 1 }),
        (
            b"%9223372036854775807\r\n%9223372036854775807\r\n",
            InvalidLength { at: 22 },
        ),
        (b"+OK\rx", MissingLineEnd { at: 3 }),
        (b"$1\r\nabc", MissingLineEnd { at: 5 }),
        (b":1x\r\n", InvalidValue { at: 1 }),
        (b"*1\r\n:\r\n", InvalidValue { at: 5 }),
        (b"_x\r\n", InvalidValue { at: 1 }),
        (b"#x\r\n", InvalidValue { at: 1 }),
        (b",1.5x\r\n", InvalidValue { at: 1 }),
        (b"(12a\r\n", InvalidValue { at: 1 }),
        (b"(-\r\n", InvalidValue { at: 1 }),
        (b"=3\r\ntxt\r\n", InvalidValue { at: 4 }),
    ];
    for (bytes, error) in cases {
        assert_eq!(decode(bytes), Err(error), "{}", bytes.escape_ascii());
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| [b"*1\r\n".repeat(levels), b":1\r\n".to_vec()].concat();
    assert!(decode(&nested(MAX_DEPTH)).unwrap().is_some());
    let too_deep = DecodeError::TooDeep { at: 4 * MAX_DEPTH };
    assert_eq!(decode(&nested(MAX_DEPTH + 1)), Err(too_deep));
    // Measuring is not recursive, so any depth is accepted.
    let deep = nested(1_000_000);
    assert_eq!(reply_len(&deep), Ok(Some(deep.len())));
    let attributes = [b"|0\r\n".repeat(1_000_000), b":1\r\n".to_vec()].concat();
    assert_eq!(decode(&attributes), Err(too_deep));
}

#[test]
fn nulls_nested_attributes_and_doubles_decode() {
    let decoded = |bytes: &[u8]| decode(bytes).unwrap().unwrap().0;
    assert!(
        decoded(b"$-1\r\n").is_null()
            && decoded(b"*-1\r\n").is_null()
            && decoded(b"_\r\n").is_null()
    );
    assert_eq!(decoded(b",inf\r\n"), Value::Double(f64::INFINITY));
    assert!(matches!(decoded(b",nan\r\n"), Value::Double(value) if value.is_nan()));
    assert_eq!(decoded(b"!5\r\nERR x\r\n").as_bytes(), Some(&b"ERR x"[..]));
    assert!(decoded(b"!5\r\nERR x\r\n").is_error() && decoded(b"-ERR\r\n").is_error());
    let attributed = decoded(b"|1\r\n+ttl\r\n:5\r\n*1\r\n$1\r\nx\r\n");
    let Value::Attribute { attributes, value } = attributed else {
        panic!("an attribute")
    };
    assert_eq!(
        attributes,
        [(Value::Simple(b"ttl".to_vec()), Value::Int(5))]
    );
    assert_eq!(value.as_slice(), Some(&[Value::bulk("x")][..]));
    assert_eq!(Value::Int(5).as_int(), Some(5));
}

/// Generates values that `Reply` writes in RESP3 and that read back equal.
fn value() -> impl Strategy<Value = Value> {
    let text = || "[ -~]{0,12}".prop_map(String::into_bytes);
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    let leaf = prop_oneof![
        text().prop_map(Value::Simple),
        text().prop_map(Value::Error),
        any::<i64>().prop_map(Value::Int),
        bytes().prop_map(Value::Bulk),
        Just(Value::Null),
        any::<f64>()
            .prop_filter("NaN equals nothing", |v| !v.is_nan())
            .prop_map(Value::Double),
        any::<bool>().prop_map(Value::Boolean),
        "-?[0-9]{1,40}".prop_map(|digits| Value::BigNumber(digits.into_bytes())),
        bytes().prop_map(|text| Value::Verbatim {
            format: *b"txt",
            text
        }),
    ];
    leaf.prop_recursive(4, 60, 6, |inner| {
        let values = || prop::collection::vec(inner.clone(), 0..6);
        let pairs = || prop::collection::vec((inner.clone(), inner.clone()), 0..4);
        prop_oneof![
            values().prop_map(Value::Array),
            values().prop_map(Value::Set),
            values().prop_map(Value::Push),
            pairs().prop_map(Value::Map),
            (pairs(), inner.clone()).prop_map(|(attributes, value)| Value::Attribute {
                attributes,
                value: Box::new(value)
            }),
        ]
    })
}

fn write(reply: &mut Reply<'_>, value: &Value) {
    let all =
        |reply: &mut Reply<'_>, items: &[Value]| items.iter().for_each(|item| write(reply, item));
    let pairs = |reply: &mut Reply<'_>, pairs: &[(Value, Value)]| {
        for (key, value) in pairs {
            write(reply, key);
            write(reply, value);
        }
    };
    match value {
        Value::Simple(text) => reply.simple(text),
        Value::Error(text) => reply.error(text),
        Value::Int(value) => reply.int(*value),
        Value::Bulk(bytes) => reply.bulk(bytes),
        Value::Null => reply.null(),
        Value::Double(value) => reply.double(*value),
        Value::Boolean(value) => reply.boolean(*value),
        Value::BigNumber(digits) => reply.big_number(std::str::from_utf8(digits).expect("digits")),
        Value::Verbatim { format, text } => {
            reply.verbatim(std::str::from_utf8(format).expect("letters"), text)
        }
        Value::Array(items) => {
            reply.array(items.len());
            all(reply, items);
        }
        Value::Set(items) => {
            reply.set(items.len());
            all(reply, items);
        }
        Value::Push(items) => {
            reply.push(items.len());
            all(reply, items);
        }
        Value::Map(items) => {
            reply.map(items.len());
            pairs(reply, items);
        }
        Value::Attribute { attributes, value } => {
            if reply.attribute(attributes.len()) {
                pairs(reply, attributes);
            }
            write(reply, value);
        }
        other => panic!("Reply writes no {other:?} in RESP3"),
    }
}

/// Converts a RESP3 value to the value that a RESP2 client reads.
fn as_resp2(value: &Value) -> Value {
    let all = |items: &[Value]| Value::Array(items.iter().map(as_resp2).collect());
    match value {
        Value::Null => Value::NullBulk,
        Value::Boolean(value) => Value::Int(i64::from(*value)),
        Value::Double(value) => {
            let mut text = Vec::new();
            decimal::write_f64(&mut text, *value);
            Value::Bulk(text)
        }
        Value::BigNumber(text) | Value::Verbatim { text, .. } => Value::bulk(text),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => all(items),
        Value::Map(pairs) => Value::Array(
            pairs
                .iter()
                .flat_map(|(k, v)| [as_resp2(k), as_resp2(v)])
                .collect(),
        ),
        Value::Attribute { value, .. } => as_resp2(value),
        plain => plain.clone(),
    }
}

proptest! {
    #[test]
    fn written_values_read_back(values in prop::collection::vec(value(), 1..5), cut in 1usize..9) {
        for protocol in [Resp2, Resp3] {
            let mut out = Vec::new();
            for value in &values {
                write(&mut Reply::new(&mut out, protocol), value);
            }
            let (mut decoder, mut scan) = (Decoder::new(), ReplyScan::new());
            let (mut decoded, mut start) = (Vec::new(), 0);
            for (i, chunk) in out.chunks(cut).enumerate() {
                decoder.feed(chunk);
                while let Some(value) = decoder.next_value().unwrap() {
                    decoded.push(value);
                }
                let received = &out[..out.len().min((i + 1) * cut)];
                while let Some(len) = scan.advance(&received[start..]).unwrap() {
                    prop_assert_eq!(reply_len(&out[start..]), Ok(Some(len)));
                    prop_assert_eq!(reply_len(&out[start..start + len - 1]), Ok(None));
                    start += len;
                }
            }
            prop_assert_eq!(decoder.pending(), 0);
            prop_assert_eq!(start, out.len());
            match protocol {
                Resp3 => prop_assert_eq!(&decoded, &values),
                Resp2 => prop_assert_eq!(decoded, values.iter().map(as_resp2).collect::<Vec<_>>()),
            }
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(
        pieces in prop::collection::vec(
            prop_oneof![
                6 => prop::sample::select(vec![
                    "+", "-", ":", "$", "*", "_", ",", "#", "(", "%", "~", ">", "|", "!", "=", "1", "2", "-1",
                    "\r\n", "\r\n", "\r\n", "txt:", "t", "0",
                ]).prop_map(|piece| piece.as_bytes().to_vec()),
                1 => prop::collection::vec(any::<u8>(), 0..5),
            ],
            0..30,
        ),
    ) {
        let bytes = pieces.concat();
        let measured = reply_len(&bytes);
        match decode(&bytes) {
            Ok(Some((_, len))) => {
                prop_assert!(len <= bytes.len());
                prop_assert_eq!(measured, Ok(Some(len)));
            }
            Ok(None) => prop_assert_eq!(measured, Ok(None)),
            Err(DecodeError::InvalidValue { .. } | DecodeError::TooDeep { .. }) => {}
            Err(error) => prop_assert_eq!(measured, Err(error)),
        }
        // The scan has the same result if the bytes arrive one by one.
        let mut scan = ReplyScan::new();
        let stepped = (0..=bytes.len())
            .map(|end| scan.advance(&bytes[..end]))
            .find(|found| !matches!(found, Ok(None)))
            .unwrap_or(Ok(None));
        prop_assert_eq!(stepped, measured);
    }

    #[test]
    fn integers_are_taken_exactly_if_they_print_the_same(text in "[-+ 0-9]{0,22}", value in any::<i64>()) {
        let printed_the_same = text.parse::<i64>().ok().filter(|v| v.to_string() == text);
        prop_assert_eq!(decimal::parse_i64(text.as_bytes()), printed_the_same);
        prop_assert_eq!(decimal::parse_i64(value.to_string().as_bytes()), Some(value));
    }

    #[test]
    fn doubles_read_back_to_the_same_bits(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        prop_assume!(!value.is_nan());
        let mut text = Vec::new();
        decimal::write_f64(&mut text, value);
        prop_assert!(text.len() <= 25, "{} bytes", text.len());
        prop_assert_eq!(decimal::parse_f64(&text).map(f64::to_bits), Some(bits));
    }
}
