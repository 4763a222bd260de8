//! Accepts connections when no file descriptor is left. A separate test binary: the limit applies
//! to the whole process.

mod process;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use process::{PATIENCE, connect, exchange};
use punctual_server::Server;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn a_pending_connection_is_accepted_when_a_descriptor_is_free() {
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
    // The client's end of the connection takes this descriptor.
    files.pop();
    let mut late = connect(server.port());
    late.write_all(b"PING\r\n").unwrap();
    late.set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let unanswered = late.read(&mut [0; 7]).unwrap_err();
    assert_eq!(unanswered.kind(), ErrorKind::WouldBlock);
    // Connected clients are served meanwhile.
    exchange(&mut good, b"PING\r\n", b"+PONG\r\n");
    // No event tells the server that descriptors are free, so it must retry by itself.
    drop(files);
    late.set_read_timeout(Some(PATIENCE)).unwrap();
    exchange(&mut late, b"", b"+PONG\r\n");
    server.shutdown();
}
