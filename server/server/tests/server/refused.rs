//! Errors repeat arguments as Redis does (bytes that are not UTF-8 unchanged, nothing after a NUL,
//! line ends as spaces), and connections that send HTTP requests are closed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use punctual_server::Server;

/// Sends `bytes`, ends the stream, and returns everything that the server replies.
fn replies_to(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.addr().unwrap()).unwrap();
    stream.write_all(bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).unwrap();
    replies
}

#[test]
fn errors_repeat_arguments_as_redis_does() {
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
        let replies = replies_to(&server, sent);
        assert_eq!(replies, answer, "{}", replies.escape_ascii());
    }
    server.shutdown();
}

#[test]
fn http_requests_are_closed_without_a_reply() {
    let server = Server::builder().port(0).spawn().unwrap();
    for request in [
        "POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nSET hacked 1\r\n",
        "host: localhost\r\nSET hacked 1\r\n",
    ] {
        assert_eq!(replies_to(&server, request.as_bytes()), b"", "{request}");
    }
    assert_eq!(replies_to(&server, b"GET hacked\r\n"), b"$-1\r\n");
    server.shutdown();
}
