//! What other threads (and the loop itself) leave for an event loop: messages for its clients, and orders.
//!
//! Bytes that go to several clients of a loop are kept once. The loop empties its mailbox once a turn. Whoever
//! leaves something for a loop that may sleep rings; one ring is enough until the loop has looked.
//!
//! A subscriber that runs commands is *attended*: what is left for it meanwhile is kept apart, so that the loop can
//! put it between that client's replies, where it belongs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use mio::Waker;
use parking_lot::Mutex;
use punctual_store::Now;

use crate::clock::{Move, MoveError};

use crate::listener::{Arrival, Listener};

/// An order to an event loop.
pub(crate) enum Order {
    /// Serve this new connection.
    Serve(Arrival),
    /// Listen here on TCP from now on, and nowhere else.
    Listen(Vec<Listener>),
    /// Close this client (CLIENT KILL).
    Kill {
        /// Its number.
        client: u64,
        /// Its place in the loop.
        slot: usize,
    },
    /// What this client waited for has come, or it waits no more; its reply lies in the mailbox.
    Unblocked {
        /// Its number.
        client: u64,
        /// Its place in the loop.
        slot: usize,
    },
    /// The configuration has changed: look at it again.
    Reconfigure,
    /// CLIENT PAUSE or UNPAUSE: look at the clients that wait.
    Resume,
    /// The virtual clock has moved.
    ClockMoved,
    /// Move the virtual clock, and tell where it is.
    MoveClock {
        /// Where to.
        to: Move,
        /// Who asks.
        whom: Sender<Result<Now, MoveError>>,
    },
    /// Tell when all that was left here before has been done and written.
    Tell(Sender<()>),
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
    /// The client whose messages are kept apart; 0: none.
    attended: u64,
    /// Its messages.
    apart: Vec<u8>,
}

impl Mail {
    /// The deliveries with their bytes, in the order they were left.
    pub(crate) fn deliveries(&self) -> impl Iterator<Item = (Delivery, &[u8])> {
        self.deliveries
            .iter()
            .map(|d| (*d, &self.bytes[d.start..d.end]))
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
    /// Something lies in it for the client that is attended.
    apart: AtomicBool,
    waker: Waker,
    /// Unix ms at which the loop will look by itself; 0 while it is awake.
    pub(crate) sleeping_until: AtomicU64,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            mail: Mutex::default(),
            full: AtomicBool::new(false),
            apart: AtomicBool::new(false),
            waker,
            sleeping_until: AtomicU64::new(0),
        }
    }

    /// Leaves the same bytes for several clients of this loop.
    pub(crate) fn deliver(&self, bytes: &[u8], clients: impl Iterator<Item = (u64, usize)>) {
        let mut guard = self.mail.lock();
        let mail = &mut *guard;
        let start = mail.bytes.len();
        let end = start + bytes.len();
        let before = mail.deliveries.len();
        for (client, slot) in clients {
            if client == mail.attended {
                mail.apart.extend_from_slice(bytes);
                self.apart.store(true, Ordering::Release);
            } else {
                mail.deliveries.push(Delivery {
                    client,
                    slot,
                    start,
                    end,
                });
            }
        }
        if mail.deliveries.len() > before {
            mail.bytes.extend_from_slice(bytes);
            drop(guard);
            self.ring();
        }
    }

    /// From now on, what is left for `client` is kept apart; what lies here for it goes to `out`.
    /// Only its loop calls this. O(deliveries).
    pub(crate) fn attend(&self, client: u64, out: &mut Vec<u8>) {
        let mut guard = self.mail.lock();
        let mail = &mut *guard;
        debug_assert_eq!(mail.attended, 0, "one client runs at a time");
        mail.attended = client;
        mail.deliveries.retain(|d| {
            if d.client == client {
                out.extend_from_slice(&mail.bytes[d.start..d.end]);
            }
            d.client != client
        });
    }

    /// Moves what was kept apart to `out`. One look if there is nothing.
    #[inline]
    pub(crate) fn take_apart(&self, out: &mut Vec<u8>) {
        if self.apart.load(Ordering::Acquire) {
            let mut mail = self.mail.lock();
            out.append(&mut mail.apart);
            self.apart.store(false, Ordering::Release);
        }
    }

    /// Ends [`Mailbox::attend`]; what is still kept apart goes to `out`.
    pub(crate) fn leave(&self, out: &mut Vec<u8>) {
        let mut mail = self.mail.lock();
        mail.attended = 0;
        out.append(&mut mail.apart);
        mail.apart = Vec::new();
        self.apart.store(false, Ordering::Release);
    }

    /// Leaves the reply of a command that has waited, and the order that lets its client go on.
    pub(crate) fn answer(&self, reply: &[u8], client: u64, slot: usize) {
        let mut guard = self.mail.lock();
        let mail = &mut *guard;
        let start = mail.bytes.len();
        mail.bytes.extend_from_slice(reply);
        let end = mail.bytes.len();
        mail.deliveries.push(Delivery {
            client,
            slot,
            start,
            end,
        });
        mail.orders.push(Order::Unblocked { client, slot });
        drop(guard);
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
