//! Inline requests and malformed requests, with wrong lengths or random bytes.

use crate::draw::Draw;

/// One conversation on a new connection. The client sends the pieces one after the other, then
/// closes its sending side. The whole output of the server until it closes the connection is
/// compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// The bytes to send, each piece in its own write.
    pub pieces: Vec<Vec<u8>>,
}

/// Complete requests, after which the next request can follow.
const WHOLE: &[&[u8]] = &[
    b"PING\r\n",
    b"PING\n",
    b"ping hello\r\n",
    b"  ECHO   spaced  \r\n",
    b"\r\n",
    b"\n",
    b"SET wire \"a b\\x41\\n\"\r\n",
    b"GET wire\r\n",
    b"ECHO 'single \\' quote'\r\n",
    b"ECHO \"\"\r\n",
    b"ECHO ''\r\n",
    b"ECHO \t tab\r\n",
    b"ECHO \"\\xzz\\q\"\r\n",
    b"NOSUCH a b\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*-5\r\n",
    b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
    b"*3\r\n$3\r\nSET\r\n$4\r\nwire\r\n$2\r\n\r\n\r\n",
    b"*2\r\n$3\r\nGET\r\n$4\r\nwire\r\n",
    b"*1\r\n$0\r\n\r\n",
    b"*01\r\n$4\r\nPING\r\n",
    b"HELLO 9\r\n",
    b"GET nothing\r\n",
    b"SELECT 1\r\n",
    b"DEL wire\r\n",
    b"QUIT\r\n",
];

/// Requests that end the conversation with an error, or that stay incomplete.
const BROKEN: &[&[u8]] = &[
    b"ECHO \"open\r\n",
    b"ECHO 'open\r\n",
    b"ECHO \"a\"b\r\n",
    b"*abc\r\n",
    b"*\r\n",
    b"*2147483648\r\n",
    b"*99999999999999999999\r\n",
    b"*1\r\nPING\r\n",
    b"*1\r\n+4\r\nPING\r\n",
    b"*1\r\n\r\n",
    b"*1\r\n$\r\n",
    b"*1\r\n$abc\r\n",
    b"*1\r\n$-1\r\n",
    b"*1\r\n$-2\r\n",
    b"*1\r\n$536870913\r\n",
    b"*1\r\n$9999999999999999999999\r\n",
    b"*1\r\n$4 \r\nPING\r\n",
    b"* 1\r\n$4\r\nPING\r\n",
    b"*+1\r\n$4\r\nPING\r\n",
    b"*1\r\n$4\r\nPI",
    b"*2\r\n$4\r\nECHO\r\n$10\r\nshort\r\n",
    b"PIN",
    b"*",
    b"$",
    b"*1\r\n$+4\r\nPING\r\n",
    b"\x01\x02\xff\r\n",
    b"*1.5\r\n",
    b"*1\r\n$4.0\r\nPING\r\n",
];

/// Returns one conversation: usually some complete requests and then a broken one. Others have only
/// complete requests, end with random bytes, or consist of a line that is too long or that begins
/// like HTTP. The bytes are cut into pieces at random places.
pub(super) fn conversation(draw: &mut Draw) -> Wire {
    let mut bytes = Vec::new();
    for _ in 0..draw.between(0..=6) {
        bytes.extend_from_slice(draw.pick(WHOLE));
    }
    match draw.between(0..=9) {
        0..=5 => bytes.extend_from_slice(draw.pick(BROKEN)),
        6 => {
            // Lines without an end that just exceed the limits for inline requests and for counts.
            let (start, length) = draw.weighted(&[
                (1, (&b"ECHO "[..], 65_540)),
                (1, (b"*", 65_540)),
                (1, (b"*1\r\n$", 65_540)),
            ]);
            bytes.clear();
            bytes.extend_from_slice(start);
            bytes.resize(length + start.len() - 4, b'1');
        }
        7 if draw.chance(30) => {
            // The server closes the connection of an HTTP client without a reply. Nothing is sent
            // before, because Redis itself may or may not send the replies to earlier requests.
            bytes.clear();
            bytes.extend_from_slice(draw.pick(&[
                &b"POST / HTTP/1.1\r\n"[..],
                b"Host: localhost\r\n",
                b"post x\r\nPING\r\n",
            ]));
        }
        7 => {
            // Random bytes without NUL: see `differences`.
            for _ in 0..draw.between(1..=200) {
                bytes.push(draw.bits().to_le_bytes()[0].max(1));
            }
            bytes.extend_from_slice(b"\r\n");
        }
        _ => {}
    }
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let length = if draw.chance(60) {
            bytes.len()
        } else {
            draw.count(1..=bytes.len())
        };
        let rest = bytes.split_off(length);
        pieces.push(std::mem::replace(&mut bytes, rest));
    }
    Wire { pieces }
}
