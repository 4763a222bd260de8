//! A server, clients that wait in it, and what they leave.

use punctual_server::Server;

use crate::wire::{Wire, eventually};

/// On a clock that is moved by hand, with one event loop.
pub fn start() -> Server {
    with_threads(1)
}

pub fn with_threads(threads: usize) -> Server {
    Server::builder()
        .port(0)
        .virtual_clock()
        .threads(threads)
        .spawn()
        .unwrap()
}

/// How many clients wait for a key, or for the end of a pause.
pub fn waiting(server: &Server) -> u64 {
    server.shared().clients.waiting()
}

/// Sends a line whose client then waits.
pub fn block(server: &Server, c: &mut Wire, line: &str) {
    let before = waiting(server);
    c.send(&[line]);
    eventually(|| waiting(server) == before + 1);
}

/// Nobody waits, and no key is waited for.
#[track_caller]
pub fn nothing_is_left(server: &Server) {
    eventually(|| waiting(server) == 0 && server.shared().store.waiting_keys() == 0);
}

pub fn resp3(server: &Server) -> Wire {
    let mut c = Wire::open(server);
    assert!(!c.ask(&["HELLO", "3"]).is_error());
    c
}
