//! No file descriptor left for a connection. Alone in its file: the limit is the whole process's.

mod process;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use process::{PATIENCE, connect, exchange};
use punctual_server::Server;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn a_client_that_could_not_be_let_in_is_let_in_when_there_is_room() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut good = connect(server.port());
    exchange(&mut good, b"PING\r\n", b"+PONG\r\n");
    let lowered = Rlimit {
        current: Some(200),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, lowered).unwrap();
    let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(files.len() < 200);
    // One place, which the client's end of the connection takes.
    files.pop();
    let mut late = connect(server.port());
    late.write_all(b"PING\r\n").unwrap();
    late.set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let unanswered = late.read(&mut [0; 7]).unwrap_err();
    assert_eq!(unanswered.kind(), ErrorKind::WouldBlock);
    // The others are served meanwhile.
    exchange(&mut good, b"PING\r\n", b"+PONG\r\n");
    // Nothing but the room tells the server that it may try again.
    drop(files);
    late.set_read_timeout(Some(PATIENCE)).unwrap();
    exchange(&mut late, b"", b"+PONG\r\n");
    server.shutdown();
}
