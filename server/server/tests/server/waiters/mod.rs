//! Functions for tests with clients that wait for a key or for the end of a pause.

use punctual_server::Server;

use crate::wire::{Open as _, Wire, configured, eventually};

/// Starts a server with a virtual clock and one event loop.
pub fn start() -> Server {
    with_threads(1)
}

pub fn with_threads(threads: usize) -> Server {
    configured("clock virtual")
        .threads(threads)
        .spawn()
        .unwrap()
}

/// Returns the number of clients that wait for a key or for the end of a pause.
pub fn waiting(server: &Server) -> u64 {
    server.shared().clients.registry.waiting()
}

/// Sends a line and blocks until its client waits.
pub fn block(server: &Server, c: &mut Wire, line: &str) {
    let before = waiting(server);
    c.send(&[line]);
    eventually(|| waiting(server) == before + 1);
}

/// Asserts that no client waits, and that no key has a waiter.
#[track_caller]
pub fn assert_no_waiters(server: &Server) {
    eventually(|| waiting(server) == 0 && server.shared().store.waiting_keys() == 0);
}

pub fn resp3(server: &Server) -> Wire {
    let mut c = Wire::open(server);
    assert!(!c.ask(&["HELLO", "3"]).is_error());
    c
}
