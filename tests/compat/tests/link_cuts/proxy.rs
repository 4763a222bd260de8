//! A proxy between a replica and its primary that cuts the link after a given number of bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Number of bytes that stands for no cut.
const NEVER: u64 = u64::MAX;

/// A proxy to one primary. Its threads end with the connections.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    primary: SocketAddr,
    /// Number of bytes from the primary until the next cut.
    left: AtomicU64,
    cuts: AtomicU64,
    /// True while connections are closed at once.
    closed: AtomicBool,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1.
    pub fn to(primary: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            primary,
            left: NEVER.into(),
            cuts: 0.into(),
            closed: false.into(),
        });
        let mine = Arc::clone(&state);
        thread::spawn(move || {
            for replica in listener.incoming().flatten() {
                if mine.closed.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(primary) = TcpStream::connect(mine.primary) else {
                    continue;
                };
                let (from, to) = (replica.try_clone().unwrap(), primary.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = std::io::copy(&mut &from, &mut &to);
                    close(&from, &to);
                });
                let state = Arc::clone(&mine);
                thread::spawn(move || {
                    // The error of a connection that the other thread has closed.
                    let _ = state.forward(&primary, &replica);
                    close(&primary, &replica);
                });
            }
        });
        Self { address, state }
    }

    /// Returns the address for the replica.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts the link after this number of further bytes from the primary. The link may then be opened again.
    pub fn cut_after(&self, bytes: u64) {
        self.state.left.store(bytes, Ordering::SeqCst);
    }

    /// Sets whether new connections are closed at once.
    pub fn close(&self, closed: bool) {
        self.state.closed.store(closed, Ordering::SeqCst);
    }

    /// Returns the number of cuts.
    pub fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::SeqCst)
    }
}

impl State {
    /// Copies bytes until the end of a connection or a cut.
    fn forward(&self, mut primary: &TcpStream, mut replica: &TcpStream) -> std::io::Result<()> {
        let mut bytes = [0; 64 << 10];
        loop {
            let count = primary.read(&mut bytes)?;
            if count == 0 {
                return Ok(());
            }
            let left = self.left.load(Ordering::SeqCst);
            let passed = left.min(count as u64) as usize;
            replica.write_all(&bytes[..passed])?;
            if left == NEVER {
                continue;
            }
            if passed < count || left == count as u64 {
                self.left.store(NEVER, Ordering::SeqCst);
                self.cuts.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            // A connection has one thread that counts, and the replica has one connection.
            self.left.store(left - count as u64, Ordering::SeqCst);
        }
    }
}

fn close(one: &TcpStream, other: &TcpStream) {
    // Both fail only if the connection is closed already.
    let _ = one.shutdown(Shutdown::Both);
    let _ = other.shutdown(Shutdown::Both);
}
