//! What other threads (and the loop itself) leave for an event loop: messages for its clients, and orders.
//!
//! Bytes that go to several clients of a loop are kept once. The loop empties its mailbox once a turn. Whoever
//! leaves something for a loop that may sleep rings; one ring is enough until the loop has looked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mio::Waker;
use parking_lot::Mutex;

use crate::listener::{Arrival, Listener};

/// An order to an event loop.
pub(crate) enum Order {
    /// Serve this new connection.
    Serve(Arrival),
    /// Listen here on TCP from now on, and nowhere else.
    Listen(Vec<Listener>),
    /// Close this client (CLIENT KILL).
    Kill(u64),
    /// The configuration has changed: look at it again.
    Reconfigure,
    /// CLIENT PAUSE or UNPAUSE: look at the clients that wait.
    Resume,
    /// The virtual clock has moved.
    ClockMoved,
    /// Stop.
    Stop,
}

/// Some bytes for one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) client: u64,
    pub(crate) slot: usize,
    start: usize,
    end: usize,
}

/// What lies in a mailbox.
#[derive(Default)]
pub(crate) struct Mail {
    bytes: Vec<u8>,
    deliveries: Vec<Delivery>,
    pub(crate) orders: Vec<Order>,
}

impl Mail {
    /// The deliveries with their bytes, in the order they were left.
    pub(crate) fn deliveries(&self) -> impl Iterator<Item = (Delivery, &[u8])> {
        self.deliveries.iter().map(|d| (*d, &self.bytes[d.start..d.end]))
    }

    /// Empties it, keeping a moderate amount of memory.
    pub(crate) fn clear(&mut self) {
        const KEPT: usize = 1 << 20;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.deliveries.clear();
        self.deliveries.shrink_to(KEPT / size_of::<Delivery>());
        self.orders.clear();
    }
}

/// One event loop's mailbox.
pub struct Mailbox {
    mail: Mutex<Mail>,
    /// Something lies in it.
    full: AtomicBool,
    waker: Waker,
    /// Unix ms at which the loop will look by itself; 0 while it is awake.
    pub(crate) sleeping_until: AtomicU64,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            mail: Mutex::default(),
            full: AtomicBool::new(false),
            waker,
            sleeping_until: AtomicU64::new(0),
        }
    }

    /// Leaves the same bytes for several clients of this loop.
    pub(crate) fn deliver(&self, bytes: &[u8], clients: impl Iterator<Item = (u64, usize)>) {
        let mut mail = self.mail.lock();
        let start = mail.bytes.len();
        mail.bytes.extend_from_slice(bytes);
        let end = mail.bytes.len();
        mail.deliveries.extend(clients.map(|(client, slot)| Delivery {
            client,
            slot,
            start,
            end,
        }));
        drop(mail);
        self.ring();
    }

    /// Leaves an order.
    pub(crate) fn order(&self, order: Order) {
        self.mail.lock().orders.push(order);
        self.ring();
    }

    /// Wakes the loop if it may not look by itself.
    fn ring(&self) {
        if !self.full.swap(true, Ordering::SeqCst)
            && self.sleeping_until.load(Ordering::SeqCst) != 0
        {
            self.wake();
        }
    }

    /// Wakes the loop.
    pub(crate) fn wake(&self) {
        // A waker fails only when the loop is gone; then nobody is left to be woken.
        let _ = self.waker.wake();
    }

    /// Whether something lies in it.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::SeqCst)
    }

    /// Swaps what lies in it for `empty`. Only the loop calls this.
    pub(crate) fn collect(&self, empty: &mut Mail) {
        if self.full.swap(false, Ordering::SeqCst) {
            std::mem::swap(&mut *self.mail.lock(), empty);
        }
    }
}
