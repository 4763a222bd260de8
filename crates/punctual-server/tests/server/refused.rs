//! What is refused is repeated byte for byte, and what is no Redis client at all is cut off.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use punctual_server::Server;

/// Everything the server says to a client that sends this and nothing more.
fn said(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.addr().unwrap()).unwrap();
    stream.write_all(bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    said
}

#[test]
fn errors_repeat_arguments_byte_for_byte() {
    let server = Server::builder().port(0).spawn().unwrap();
    for (sent, answer) in [
        (
            &b"*3\r\n$2\r\n\xff\xfe\r\n$3\r\na\0b\r\n$1\r\n\x80\r\n"[..],
            &b"-ERR unknown command '\xff\xfe', with args beginning with: 'a' '\x80' \r\n"[..],
        ),
        (
            b"*2\r\n$6\r\nclient\r\n$4\r\n\xfa\r\n\0\r\n",
            b"-ERR unknown subcommand '\xfa  '. Try CLIENT HELP.\r\n",
        ),
        (b"expire k 1 \xfe\r\n", b"-ERR Unsupported option \xfe\r\n"),
        (
            b"config set \xfe 1\r\n",
            b"-ERR Unknown option or number of arguments for CONFIG SET - '\xfe'\r\n",
        ),
        (
            b"hello 3 \xfe\r\n",
            b"-ERR Syntax error in HELLO option '\xfe'\r\n",
        ),
    ] {
        let said = said(&server, sent);
        assert_eq!(said, answer, "{}", said.escape_ascii());
    }
    server.shutdown();
}

#[test]
fn browsers_are_cut_off_without_a_word() {
    let server = Server::builder().port(0).spawn().unwrap();
    for request in [
        "POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nSET hacked 1\r\n",
        "host: localhost\r\nSET hacked 1\r\n",
    ] {
        assert_eq!(said(&server, request.as_bytes()), b"", "{request}");
    }
    assert_eq!(said(&server, b"GET hacked\r\n"), b"$-1\r\n");
    server.shutdown();
}
