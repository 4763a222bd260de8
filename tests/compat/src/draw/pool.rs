//! The fixed sets of keys, values and numbers.

/// Keys for most commands. There are few keys, so that commands share them; some keys are unusual.
pub(super) const KEYS: &[&[u8]] = &[
    b"k0",
    b"k1",
    b"k2",
    b"k3",
    b"k4",
    b"k5",
    b"k6",
    b"k7",
    b"k8",
    b"k9",
    b"user:1",
    b"user:2",
    b"{tag}a",
    b"{tag}b",
    b"{}",
    b"",
    b" ",
    b"k*",
    b"k[1]",
    b"k?",
    b"\\k",
    b"\x00",
    b"\xff\xfe binary \x00 key",
    b"line\r\nbreak",
    "ключ".as_bytes(),
    b"123",
    b"-1",
    b"0123",
    b"a key of more than forty-four bytes, so that it is not short",
];

/// Keys with values of up to tens of kilobytes.
pub(super) const BIG_KEYS: &[&[u8]] = &[b"big:0", b"big:1", b"big:2"];

/// Keys for LCS and the commands that prepare it. ZRANGEBYLEX and similar commands rarely draw
/// them, to find a key of another type.
pub(super) const LCS_KEYS: &[&[u8]] = &[b"lcs:a", b"lcs:b", b"lcs:c"];

/// Keys that usually have one type, so that commands of a family find suitable values.
pub(super) const LISTS: &[&[u8]] = &[b"l0", b"l1", b"l2", b"l3"];
pub(super) const HASHES: &[&[u8]] = &[b"h0", b"h1", b"h2", b"h3"];
pub(super) const SETS: &[&[u8]] = &[b"s0", b"s1", b"s2", b"s3", b"s4"];
pub(super) const ZSETS: &[&[u8]] = &[b"z0", b"z1", b"z2", b"z3", b"z4"];
pub(super) const STREAMS: &[&[u8]] = &[b"x0", b"x1", b"x2", b"x3"];
pub(super) const LEXES: &[&[u8]] = &[b"lex0", b"lex1", b"lex2"];
pub(super) const BITS: &[&[u8]] = &[b"b0", b"b1", b"b2", b"b3"];
pub(super) const HLLS: &[&[u8]] = &[b"pf0", b"pf1", b"pf2", b"pf3"];
pub(super) const GEOS: &[&[u8]] = &[b"g0", b"g1", b"g2"];

/// Keys of the numbers that SORT may look up: strings `w_1`, ..., and hashes `wh_1`, ....
pub(super) const WEIGHTS: &[&[u8]] = &[
    b"w_0", b"w_1", b"w_2", b"w_3", b"w_a", b"w_b", b"w_", b"wh_0", b"wh_1", b"wh_a", b"wh_b",
];

/// Elements, members and fields. There are few, so that collections overlap. Some lengths are near
/// the limits of the compact encodings.
#[rustfmt::skip]
pub(super) const ELEMENTS: &[&[u8]] = &[
    b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"", b"0", b"1", b"2", b"3", b"4", b"5", b"-5",
    b"007", b"+1", b"-0", b"1.5", b"127", b"-129", b"4096", b"32767", b"32768", b"-32769",
    b"2147483647", b"2147483648", b"-2147483649", b"9223372036854775807", b"-9223372036854775808",
    b"9223372036854775808", b"A", b"aa", b"ab", b"b\x00", b"\xff", b"two words", b"line\r\nbreak",
    b"sixty-three-bytes--------------------------------------------63",
    b"sixty-four-bytes----------------------------------------------64",
    b"sixty-five-bytes-----------------------------------------------65",
];

/// Texts of valid scores.
#[rustfmt::skip]
pub(super) const SCORES: &[&[u8]] = &[
    b"0", b"-0", b"1", b"-1", b"1.5", b"-1.5", b"0.1", b"0.2", b"0.30000000000000004", b"3.0",
    b"3e2", b"1e17", b"1e21", b"123456789.123456789", b"1e300", b"-1e300",
    b"1.7976931348623157e308", b"5e-324", b"2.2250738585072014e-308", b"9007199254740993",
    b"-9007199254740992", b"9223372036854775807", b"inf", b"-inf", b"+inf", b"Infinity", b"-INF",
    b"0x1p3", b"0xA", b".5", b"5.", b"+7",
];

/// Texts of invalid scores.
pub(super) const BAD_SCORES: &[&[u8]] = &[
    b"", b"abc", b"nan", b"-nan", b"1.5.5", b" 1", b"1 ", b"1,5", b"1e", b"e1", b"1\x00", b"--1",
    b"1_0", b"(1",
];

/// Values around the limits of the encodings and of the number parsers.
pub(super) const VALUES: &[&[u8]] = &[
    b"",
    b"v",
    b"hello",
    b"Hello World",
    b"0",
    b"1",
    b"-1",
    b"5",
    b"10",
    b"100",
    b"9999",
    b"10000",
    b"-0",
    b"+1",
    b"0123",
    b"-0123",
    b" 1",
    b"1 ",
    b"1\n",
    b"1\x00",
    b"1e3",
    b"3.0",
    b"3.14",
    b"-2.5e-3",
    b".5",
    b"5.",
    b"0x10",
    b"0x1p3",
    b"1e400",
    b"1e-400",
    b"inf",
    b"-inf",
    b"+inf",
    b"Infinity",
    b"nan",
    b"NaN",
    b"1e17",
    b"1e18",
    b"123456789012345678",
    b"9223372036854775807",
    b"9223372036854775806",
    b"-9223372036854775808",
    b"-9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551615",
    b"18446744073709551616",
    b"99999999999999999999",
    b"12345678901234567890",
    b"123456789012345678901",
    b"0.1",
    b"0.30000000000000004",
    b"100000000000000000000000",
    b"17179869184.5",
    b"\x00",
    b"\x00\x01\xfe\xff",
    b"line\r\nbreak",
    b"$5\r\nhello\r\n",
    "значение".as_bytes(),
    b"exactly-forty-four-bytes-which-is-the-embstr",
    b"exactly-forty-five-bytes--which-is-a-raw-text",
];

/// Texts that Redis does not parse as integers of 64 bits.
#[rustfmt::skip]
pub(super) const BAD_INTEGERS: &[&[u8]] = &[
    b"", b"abc", b"-", b"+", b"1.5", b"1e2", b"0x10", b" 5", b"5 ", b"+5", b"05", b"-0", b"--1",
    b"5a", b"\x00", b"5\x00", b"9223372036854775808", b"-9223372036854775809",
    b"99999999999999999999", b"inf", b"nan", b"1_000",
];

/// Integers at the limits of arithmetic.
pub(super) const EDGE_INTEGERS: &[i64] = &[
    0,
    1,
    -1,
    2,
    7,
    10,
    -10,
    100,
    255,
    256,
    9999,
    10_000,
    65_535,
    65_536,
    2_147_483_647,
    2_147_483_648,
    -2_147_483_648,
    -2_147_483_649,
    4_294_967_295,
    4_294_967_296,
    9_007_199_254_740_993,
    i64::MAX,
    i64::MAX - 1,
    i64::MIN,
    i64::MIN + 1,
];
