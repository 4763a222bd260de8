//! A proxy for connections between servers, which a test can cut.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

/// The value of a number of bytes that means no cut.
const NEVER: u64 = u64::MAX;

/// Forwards connections to a local port, the *target*. Its drop cuts all connections.
#[derive(Debug)]
pub struct Proxy {
    /// The port on which the proxy listens.
    pub port: u16,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    streams: Mutex<Vec<TcpStream>>,
    /// Number of bytes from the target after which each connection is cut.
    limit: AtomicU64,
    /// Number of bytes from the target until the next cut, over all connections.
    left: AtomicU64,
    accepted: AtomicU64,
    cuts: AtomicU64,
    /// True while new connections are closed at once.
    closed: AtomicBool,
    ended: AtomicBool,
}

impl Proxy {
    /// Starts a proxy in front of a local port.
    ///
    /// # Panics
    /// If no port is free.
    pub fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let state = Arc::new(State {
            streams: Mutex::default(),
            limit: NEVER.into(),
            left: NEVER.into(),
            accepted: 0.into(),
            cuts: 0.into(),
            closed: false.into(),
            ended: false.into(),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.ended.load(SeqCst) {
                    return;
                }
                if shared.closed.load(SeqCst) {
                    continue;
                }
                // If the target does not listen at the moment, the client's connection is closed.
                if let Ok(target) = TcpStream::connect(("127.0.0.1", target)) {
                    let _ = pass_on(&shared, client, target);
                }
            }
        });
        Self { port, state }
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        for stream in self.state.streams.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Cuts each later connection after this number of bytes from the target; 0 means never.
    pub fn limit(&self, bytes: u64) {
        let bytes = if bytes == 0 { NEVER } else { bytes };
        self.state.limit.store(bytes, SeqCst);
    }

    /// Cuts one connection once, after this number of further bytes from the target.
    pub fn cut_after(&self, bytes: u64) {
        self.state.left.store(bytes, SeqCst);
    }

    /// If `closed` is true, closes new connections at once from now on.
    pub fn close(&self, closed: bool) {
        self.state.closed.store(closed, SeqCst);
    }

    /// Returns the number of cuts by [`Proxy::cut_after`].
    pub fn cuts(&self) -> u64 {
        self.state.cuts.load(SeqCst)
    }

    /// Returns the number of connections so far.
    pub fn accepted(&self) -> u64 {
        self.state.accepted.load(SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ended.store(true, SeqCst);
        self.cut();
        // This connection wakes the thread that accepts connections.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Starts two threads that copy bytes in both directions until the connections end.
fn pass_on(state: &Arc<State>, client: TcpStream, target: TcpStream) -> io::Result<()> {
    let mut streams = state.streams.lock().expect("no panic");
    streams.retain(|stream| stream.peer_addr().is_ok());
    streams.extend([client.try_clone()?, target.try_clone()?]);
    drop(streams);
    state.accepted.fetch_add(1, SeqCst);
    let (from, to) = (client.try_clone()?, target.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut &from, &mut &to);
        close(&from, &to);
    });
    let state = Arc::clone(state);
    thread::spawn(move || {
        // An error means that the other thread has closed the connection.
        let _ = state.forward(&target, &client);
        close(&target, &client);
    });
    Ok(())
}

impl State {
    /// Copies bytes until the end of a connection or a cut.
    fn forward(&self, mut target: &TcpStream, mut client: &TcpStream) -> io::Result<()> {
        let mut limit = self.limit.load(SeqCst);
        let mut bytes = [0; 64 << 10];
        loop {
            let count = target.read(&mut bytes)? as u64;
            let left = self.left.load(SeqCst);
            let passed = count.min(left).min(limit);
            client.write_all(&bytes[..passed as usize])?;
            limit -= passed;
            if left != NEVER && count > 0 {
                // Tests use `cut_after` only while one connection at a time has bytes, so no other
                // thread changes `left`.
                self.left.store(left - passed, SeqCst);
                if passed == left {
                    self.left.store(NEVER, SeqCst);
                    self.cuts.fetch_add(1, SeqCst);
                    return Ok(());
                }
            }
            if count == 0 || limit == 0 {
                return Ok(());
            }
        }
    }
}

fn close(one: &TcpStream, other: &TcpStream) {
    // Both calls fail only if the connection is already closed.
    let _ = one.shutdown(Shutdown::Both);
    let _ = other.shutdown(Shutdown::Both);
}
