//! A link that can be cut.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Passes connections on to a local port.
pub struct Proxy {
    pub port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    streams: Mutex<Vec<TcpStream>>,
    /// Bytes from the target after which each connection is cut; 0 for never.
    limit: AtomicU64,
    /// Number of connections so far.
    accepted: AtomicU64,
    closed: AtomicBool,
}

impl Proxy {
    /// Starts a proxy in front of a local port.
    pub fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.closed.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(near), Ok(far)) = (stream, TcpStream::connect(("127.0.0.1", target)))
                else {
                    continue;
                };
                shared.accepted.fetch_add(1, Ordering::SeqCst);
                let mut streams = shared.streams.lock().unwrap();
                streams.push(near.try_clone().unwrap());
                streams.push(far.try_clone().unwrap());
                drop(streams);
                let (from, to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                std::thread::spawn(move || pass(from, to, 0));
                let limit = shared.limit.load(Ordering::SeqCst);
                std::thread::spawn(move || pass(far, near, limit));
            }
        });
        Self { port, state }
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        for stream in self.state.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Cuts each later connection after `bytes` from the target; 0 for never.
    pub fn limit(&self, bytes: u64) {
        self.state.limit.store(bytes, Ordering::SeqCst);
    }

    /// Returns the number of connections so far.
    pub fn accepted(&self) -> u64 {
        self.state.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the thread.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Copies bytes until an end, or `limit` bytes if it is not 0.
fn pass(mut from: TcpStream, mut to: TcpStream, limit: u64) {
    let mut left = if limit == 0 { u64::MAX } else { limit };
    let mut buffer = [0; 16 << 10];
    while left > 0 {
        let most = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        match from.read(&mut buffer[..most]) {
            Ok(0) => break,
            Ok(count) if to.write_all(&buffer[..count]).is_err() => break,
            Ok(count) => left -= count as u64,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
