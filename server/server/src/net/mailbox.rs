//! The mailbox of an event loop: messages for the loop's clients, and orders from other threads.
//!
//! An *order* asks the loop to do something, such as to close a connection. A message for several
//! clients of a loop is stored once. The loop empties its mailbox at least once per pass (a pass
//! reads sockets, runs commands and writes output). A thread that adds to the mailbox wakes the
//! loop if the loop has announced that it sleeps ([`Announcement`]); further threads do not wake it
//! again before the loop has emptied the mailbox.
//!
//! A single command can cause more messages for a client than the hard limit of the client's
//! output. The mailbox then *cuts off* the client: it drops the client's messages, and the loop
//! closes the connection.
//!
//! While a client runs commands, the mailbox can *separate* that client's messages, so that the
//! loop inserts them between the client's replies in the order of events.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ahash::RandomState;
use mio::Waker;
use punctual::driver::Announcement;
use punctual_store::lock_order::{OrderedMutex, Rank};

/// Source of a message. It decides which output limit applies to the receiving client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// PUBLISH, or an event of the keyspace.
    Published,
    /// CLIENT TRACKING, MONITOR, or a command that waited and gets its reply.
    Observed,
}

/// Size in bytes at which a mailbox first looks for clients that have too many messages.
const FIRST_CHECK_BYTES: usize = 4 << 20;

/// Range of a mailbox's bytes for one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) client: u64,
    pub(crate) slot: usize,
    start: usize,
    end: usize,
    origin: Origin,
}

/// Content of a mailbox.
pub(crate) struct Mail<O> {
    bytes: Vec<u8>,
    deliveries: Vec<Delivery>,
    pub(crate) orders: Vec<O>,
    /// Clients that are cut off, with the slots of their connections in the loop.
    pub(crate) cut_off: Vec<(u64, usize)>,
    /// Size in bytes at which the mailbox next looks for clients that have too many messages.
    next_check_bytes: usize,
    /// Client whose messages are separated; 0 for no client.
    separated_client: u64,
    /// Messages for the separated client.
    separated: Vec<u8>,
    /// Blocked clients whose command runs again at this moment, with the messages that must come
    /// after the command's reply.
    awaiting: Vec<(u64, Vec<u8>)>,
}

impl<O> Default for Mail<O> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            deliveries: Vec::new(),
            orders: Vec::new(),
            cut_off: Vec::new(),
            next_check_bytes: FIRST_CHECK_BYTES,
            separated_client: 0,
            separated: Vec::new(),
            awaiting: Vec::new(),
        }
    }
}

impl<O> Mail<O> {
    /// Returns the deliveries with their bytes, oldest first.
    pub(crate) fn deliveries(&self) -> impl Iterator<Item = (Delivery, &[u8])> {
        self.deliveries
            .iter()
            .map(|d| (*d, &self.bytes[d.start..d.end]))
    }

    /// Cuts off each client with more than `limit(origin)` bytes of messages of an origin.
    /// O(deliveries · (1 + clients cut off) + bytes).
    #[cold]
    fn cut_off_full(&mut self, limit: impl Fn(Origin) -> u64) {
        let mut sums: HashMap<(u64, Origin), usize, RandomState> = HashMap::default();
        for delivery in &self.deliveries {
            let sum = sums.entry((delivery.client, delivery.origin)).or_default();
            *sum += delivery.end - delivery.start;
            if *sum as u64 > limit(delivery.origin) && !self.is_cut_off(delivery.client) {
                self.cut_off.push((delivery.client, delivery.slot));
            }
        }
        if !self.cut_off.is_empty() {
            self.drop_cut_off();
        }
        self.next_check_bytes = (2 * self.bytes.len()).max(FIRST_CHECK_BYTES);
    }

    /// Removes the messages of clients that are cut off. O(deliveries · clients cut off + bytes).
    fn drop_cut_off(&mut self) {
        let cut_off = &self.cut_off;
        self.deliveries
            .retain(|d| cut_off.iter().all(|(client, _)| *client != d.client));
        let old = std::mem::take(&mut self.bytes);
        let mut copied = (0, 0);
        for delivery in &mut self.deliveries {
            let range = (delivery.start, delivery.end);
            // Deliveries of the same message are adjacent.
            if copied != range {
                self.bytes.extend_from_slice(&old[range.0..range.1]);
                copied = range;
            }
            delivery.start = self.bytes.len() - (range.1 - range.0);
            delivery.end = self.bytes.len();
        }
    }

    fn is_cut_off(&self, client: u64) -> bool {
        self.cut_off.iter().any(|(cut, _)| *cut == client)
    }

    /// Removes all content. Keeps some memory for later messages, and less of it if the server has
    /// reached `maxmemory`.
    pub(crate) fn clear(&mut self, is_full: bool) {
        let kept = if is_full { 4 << 10 } else { 1 << 20 };
        self.bytes.clear();
        self.bytes.shrink_to(kept);
        self.deliveries.clear();
        self.deliveries.shrink_to(kept / size_of::<Delivery>());
        self.orders.clear();
        self.cut_off.clear();
        self.next_check_bytes = FIRST_CHECK_BYTES;
    }
}

/// The mailbox of one event loop, with orders of type `O`. It is on its own cache lines, because
/// its loop writes to it in each pass.
#[repr(align(128))]
pub struct Mailbox<O> {
    mail: OrderedMutex<Mail<O>>,
    /// Whether the mailbox has messages or orders.
    has_mail: AtomicBool,
    /// Whether the mailbox has messages for the separated client.
    has_separated: AtomicBool,
    waker: Waker,
    /// Hard limit of a client's output for messages of each [`Origin`]; `u64::MAX` means no limit.
    hard_limits: [AtomicU64; 2],
    /// Time until which the loop sleeps, in unix ms.
    pub(crate) sleep: Announcement,
    /// Position in the log of changes that the sleeping loop waits for; `u64::MAX` if it waits for
    /// no position.
    awaited: AtomicU64,
}

impl<O> Mailbox<O> {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            mail: OrderedMutex::new(Rank::Mailbox, Mail::default()),
            has_mail: AtomicBool::new(false),
            has_separated: AtomicBool::new(false),
            waker,
            hard_limits: [const { AtomicU64::new(u64::MAX) }; 2],
            sleep: Announcement::new(),
            awaited: AtomicU64::new(u64::MAX),
        }
    }

    /// Sets the hard limits of a client's output, for published messages and for other messages; 0
    /// means no limit.
    pub(crate) fn set_limits(&self, published: u64, observed: u64) {
        for (limit, bytes) in self.hard_limits.iter().zip([published, observed]) {
            let bytes = if bytes == 0 { u64::MAX } else { bytes };
            limit.store(bytes, Ordering::Relaxed);
        }
    }

    fn hard_limit(&self, origin: Origin) -> u64 {
        self.hard_limits[origin as usize].load(Ordering::Relaxed)
    }

    /// Adds the same message for several clients of this loop.
    pub(crate) fn deliver(
        &self,
        origin: Origin,
        bytes: &[u8],
        clients: impl Iterator<Item = (u64, usize)>,
    ) {
        let mut guard = self.mail.lock();
        let mail = &mut *guard;
        let start = mail.bytes.len();
        let end = start + bytes.len();
        let (mut stored, cut_off) = (false, mail.cut_off.len());
        for (client, slot) in clients {
            if mail.is_cut_off(client) {
                continue;
            }
            if client == mail.separated_client {
                if (mail.separated.len() + bytes.len()) as u64 > self.hard_limit(origin) {
                    mail.separated = Vec::new();
                    mail.cut_off.push((client, slot));
                    continue;
                }
                mail.separated.extend_from_slice(bytes);
                self.has_separated.store(true, Ordering::Release);
            } else if let Some((_, held)) = mail.awaiting.iter_mut().find(|(id, _)| *id == client) {
                held.extend_from_slice(bytes);
            } else if let Some(last) = mail.deliveries.last_mut()
                && (last.client, last.slot, last.end, last.origin) == (client, slot, start, origin)
            {
                // Messages in sequence for the same client share one delivery.
                last.end = end;
                stored = true;
            } else {
                stored = true;
                mail.deliveries.push(Delivery {
                    client,
                    slot,
                    start,
                    end,
                    origin,
                });
            }
        }
        if stored {
            mail.bytes.extend_from_slice(bytes);
            if mail.bytes.len() > mail.next_check_bytes {
                mail.cut_off_full(|origin| self.hard_limit(origin));
            }
        }
        if stored || mail.cut_off.len() > cut_off {
            drop(guard);
            self.notify();
        }
    }

    /// Starts to separate the messages for `client`, and moves its earlier messages to `out`. Only
    /// the client's loop calls this. O(deliveries), and copies the client's messages.
    pub(crate) fn separate(&self, client: u64, out: &mut Vec<u8>) {
        let mut guard = self.mail.lock();
        let mail = &mut *guard;
        debug_assert_eq!(mail.separated_client, 0, "one client runs at a time");
        mail.separated_client = client;
        mail.deliveries.retain(|d| {
            if d.client == client {
                out.extend_from_slice(&mail.bytes[d.start..d.end]);
            }
            d.client != client
        });
    }

    /// Moves the separated messages to `out`. Costs one atomic load if there are no messages.
    #[inline]
    pub(crate) fn take_separated(&self, out: &mut Vec<u8>) {
        if self.has_separated.load(Ordering::Acquire) {
            let mut mail = self.mail.lock();
            out.append(&mut mail.separated);
            self.has_separated.store(false, Ordering::Release);
        }
    }

    /// Removes and returns the orders for which `wanted` returns true.
    pub(crate) fn take_orders(&self, mut wanted: impl FnMut(&O) -> bool) -> Vec<O> {
        let mut mail = self.mail.lock();
        mail.orders.extract_if(.., |order| wanted(order)).collect()
    }

    /// Ends [`Mailbox::separate`], and moves the separated messages that are left to `out`.
    pub(crate) fn end_separation(&self, out: &mut Vec<u8>) {
        let mut mail = self.mail.lock();
        mail.separated_client = 0;
        out.append(&mut mail.separated);
        mail.separated = Vec::new();
        self.has_separated.store(false, Ordering::Release);
    }

    /// Holds the client's messages back until [`Mailbox::answer`]. Called when the command of a
    /// blocked client runs again.
    pub(crate) fn await_answer(&self, client: u64) {
        self.mail.lock().awaiting.push((client, Vec::new()));
    }

    /// Adds the reply of a client's waiting command, then the client's messages that were held
    /// back, and the order that resumes the client.
    pub(crate) fn answer(&self, reply: &[u8], client: u64, slot: usize, resume: O) {
        let mut guard = self.mail.lock();
        let mail = &mut *guard;
        let start = mail.bytes.len();
        mail.bytes.extend_from_slice(reply);
        if let Some(at) = mail.awaiting.iter().position(|(id, _)| *id == client) {
            let (_, held) = mail.awaiting.swap_remove(at);
            mail.bytes.extend_from_slice(&held);
        }
        let end = mail.bytes.len();
        mail.deliveries.push(Delivery {
            client,
            slot,
            start,
            end,
            origin: Origin::Observed,
        });
        mail.orders.push(resume);
        drop(guard);
        self.notify();
    }

    /// Adds an order and wakes the loop if it sleeps.
    pub(crate) fn order(&self, order: O) {
        self.mail.lock().orders.push(order);
        self.notify();
    }

    /// Sets the position of the log of changes at which [`Mailbox::release`] adds an order. After
    /// this call the loop must check the log itself, because the position may already be released.
    pub(crate) fn wait_for(&self, position: u64) {
        self.awaited.store(position, Ordering::SeqCst);
    }

    /// Adds an order if the loop waits for a position up to `position`. The log of changes is now
    /// released up to `position`: replies may reveal the changes.
    pub(crate) fn release(&self, position: u64, order: impl Fn() -> O) {
        let awaited = self.awaited.load(Ordering::SeqCst);
        if awaited <= position {
            self.awaited.store(u64::MAX, Ordering::SeqCst);
            self.order(order());
        }
    }

    /// Records that the mailbox has content, and wakes the loop if it sleeps.
    fn notify(&self) {
        if !self.has_mail.swap(true, Ordering::SeqCst) {
            self.wake_for(0);
        }
    }

    /// Wakes the loop if it would sleep beyond `at_ms` (unix ms). The caller has already published
    /// the work for that time.
    pub(crate) fn wake_for(&self, at_ms: u64) {
        if self.sleep.take_if_after(at_ms).is_some() {
            // A waker fails only after the loop has ended.
            let _ = self.waker.wake();
        }
    }

    /// Returns true if the mailbox has messages or orders.
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::SeqCst)
    }

    /// Swaps the content with `empty`, if there is content. Only the mailbox's own loop calls this.
    pub(crate) fn collect(&self, empty: &mut Mail<O>) {
        if self.has_mail.swap(false, Ordering::SeqCst) {
            let mut mail = self.mail.lock();
            std::mem::swap(&mut *mail, empty);
            // Messages that are held back for a running command stay in the mailbox: another loop
            // may add that command's reply later.
            std::mem::swap(&mut mail.awaiting, &mut empty.awaiting);
        }
    }
}
