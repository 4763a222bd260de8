//! DEBUG PROTOCOL and ERROR: replies of each type, for tests of clients.

use punctual_resp::{Args, Protocol, Reply};
use punctual_store::Error;

use crate::node::call::Call;

pub(super) fn protocol(_: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    match args[2].to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.int(12345),
        #[allow(clippy::approx_constant, reason = "the number that Redis answers")]
        b"double" => reply.double(3.141),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"map" => {
            reply.map(3);
            for n in 0..3 {
                reply.int(n);
                reply.boolean(n == 1);
            }
        }
        b"attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.int(90);
            }
            // An attribute precedes a reply, so a reply follows.
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            if reply.protocol() == Protocol::Resp2 {
                return Err(Error::fixed("ERR RESP2 is not supported by this command"));
            }
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.int(42);
            // A push is not a reply, so a reply follows.
            reply.bulk(b"Some real reply following the push reply");
        }
        b"verbatim" => reply.verbatim("txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        _ => {
            return Err(Error::fixed(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

pub(super) fn error(_: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    // An error reply must be one line.
    let text = args[2].escape_ascii().to_string();
    reply.error(if args[2].iter().any(u8::is_ascii_control) {
        text.as_bytes()
    } else {
        &args[2]
    });
    Ok(())
}
