//! The clients in tracking mode (CLIENT TRACKING), and the messages that invalidate their caches.
//!
//! A key's readers are recorded by number in the table of the key's shard (`keyspace/tracked.rs` of
//! the store). The registry here maps numbers to clients. Numbers are assigned in sequence, so a
//! client that disconnects may leave its entries in those tables: its number is not reused soon.
//! The registry's lock is taken under locks of shards, and before a mailbox's lock.
//!
//! **No client keeps a stale value.** Suppose client C of loop B has read a key that a command on
//! loop A then changes. B writes the old value to C's output before B unlocks the shard. A changes
//! the key under the same lock, and adds the invalidation to B's mailbox before A unlocks; B
//! appends it to C's output. So the invalidation follows the last reply with the old value. It may
//! also follow a reply with the new value; then C drops its value needlessly, and the next change
//! is still reported, because that read was recorded. Messages caused by C's own commands follow
//! the reply of their command. Keys for clients in BCAST mode are collected by the turn's sink (its
//! receiver of events), and sent at the end of the turn, before the turn's replies are written.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use punctual_resp::{Protocol, Reply};
use punctual_store::check::Check;
use punctual_store::keyspace::tracked::Readers;
use punctual_store::lock_order::{OrderedMutex, Rank};
use punctual_store::{Store, Turn};

use crate::client::registry::{ClientInfo, Clients};
use crate::net::mailbox::{Mailbox, Origin};
use crate::pubsub::Subscriber;
use crate::session::Session;
use crate::session::tracking::{Mode, Tracking};

/// Channel of invalidations for clients with RESP2.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Destinations of messages: the clients, and the mailboxes of their loops.
pub(crate) struct Destinations<'a, O> {
    pub(crate) clients: &'a Clients,
    pub(crate) mailboxes: &'a [Mailbox<O>],
}

/// A client in tracking mode.
struct Tracker {
    client: Subscriber,
    bcast: bool,
    noloop: bool,
    /// Id of the client that receives the messages; 0 for the client itself.
    redirect: u64,
    info: Arc<ClientInfo>,
}

/// The prefixes of all clients in BCAST mode, as the sinks use them.
#[derive(Default)]
pub(crate) struct Prefixes {
    /// Value of [`Registry::version`] when this set was built.
    version: u64,
    names: HashSet<Box<[u8]>, RandomState>,
    /// The lengths that occur among `names`.
    lengths: BTreeSet<usize>,
}

impl Prefixes {
    /// Returns the prefixes that match a key. O(lengths).
    fn matching<'k>(&self, key: &'k [u8]) -> impl Iterator<Item = &'k [u8]> {
        self.lengths
            .range(..=key.len())
            .map(|len| &key[..*len])
            .filter(|prefix| self.names.contains(*prefix))
    }

    /// Returns true if a client in BCAST mode has a prefix of this key.
    pub(crate) fn match_key(&self, key: &[u8]) -> bool {
        self.matching(key).next().is_some()
    }
}

/// Changed keys, each with the id of the client that changed it last; 0 if no client did.
pub(crate) type Batch = BTreeMap<Box<[u8]>, u64>;

#[derive(Default)]
struct Registry {
    /// The number given to the latest client.
    last: u32,
    trackers: HashMap<u32, Tracker, RandomState>,
    /// Numbers of the clients that have each prefix.
    prefixes: BTreeMap<Box<[u8]>, BTreeSet<u32>>,
    /// Number of times that the prefixes have changed.
    version: u64,
    /// The prefixes for the sinks; `None` after a change of the prefixes.
    shown: Option<Arc<Prefixes>>,
    /// Buffers for the message that is being sent: its receivers and its bytes.
    routes: Vec<Subscriber>,
    message: Vec<u8>,
}

/// All clients in tracking mode.
pub(crate) struct Trackers {
    registry: OrderedMutex<Registry>,
    clients: AtomicU64,
    /// [`Registry::version`], readable without the lock.
    version: AtomicU64,
}

impl Default for Trackers {
    fn default() -> Self {
        Self {
            registry: OrderedMutex::new(Rank::Tracking, Registry::default()),
            clients: AtomicU64::new(0),
            version: AtomicU64::new(0),
        }
    }
}

impl Trackers {
    /// Returns the number of clients in tracking mode.
    pub(crate) fn clients(&self) -> u64 {
        self.clients.load(Ordering::Relaxed)
    }

    /// Returns the number of prefixes of clients in BCAST mode.
    pub(crate) fn prefix_count(&self) -> usize {
        self.registry.lock().prefixes.len()
    }

    /// Checks the number of clients in tracking mode, and that each prefix belongs to some of them.
    pub(crate) fn check(&self, to: &mut Check) {
        let registry = self.registry.lock();
        let clients = registry.trackers.len() as u64;
        to.equal("clients in tracking mode", self.clients(), clients);
        let known = |number| registry.trackers.get(number).is_some_and(|one| one.bcast);
        let prefixes = registry.prefixes.values();
        let owned = prefixes
            .clone()
            .all(|of| !of.is_empty() && of.iter().all(known));
        to.holds("each prefix has clients in BCAST mode", owned);
    }

    /// Begins to track a client, or changes its mode. `prefixes` are added to the client's
    /// prefixes.
    pub(crate) fn begin(
        &self,
        turn: &mut Turn,
        session: &mut Session,
        mode: Mode,
        prefixes: Vec<Box<[u8]>>,
    ) {
        let client = session.subscriber();
        let tracking = session.tracking.get_or_insert_default();
        let mut guard = self.registry.lock();
        let registry = &mut *guard;
        let number = *tracking
            .number
            .get_or_insert_with(|| registry.next_number());
        let tracker = Tracker {
            client,
            bcast: mode.bcast,
            noloop: mode.noloop,
            redirect: mode.redirect,
            info: Arc::clone(&session.info),
        };
        if registry.trackers.insert(number, tracker).is_none() {
            self.clients.fetch_add(1, Ordering::Relaxed);
        }
        for prefix in prefixes {
            let numbers = registry.prefixes.entry(prefix.clone()).or_default();
            numbers.insert(number);
            let bytes = (size_of::<Box<[u8]>>() + prefix.len()) as u64;
            if tracking.prefixes.insert(prefix) {
                session
                    .info
                    .prefix_bytes
                    .fetch_add(bytes, Ordering::Relaxed);
            }
        }
        if mode.bcast {
            self.prefixes_changed(registry);
        }
        drop(guard);
        if mode.bcast {
            turn.begin_broadcasts();
        }
        session.info.show_tracking(mode.bcast, mode.redirect);
        (tracking.on, tracking.mode) = (true, mode);
        session.reader = tracking.reader();
    }

    /// Ends tracking for a client.
    pub(crate) fn end(&self, store: &Store, session: &mut Session) {
        let Some(tracking) = session.tracking.as_mut().filter(|t| t.on) else {
            return;
        };
        if let Some(number) = tracking.number {
            let mut guard = self.registry.lock();
            let registry = &mut *guard;
            if registry.trackers.remove(&number).is_some() {
                self.clients.fetch_sub(1, Ordering::Relaxed);
            }
            if tracking.mode.bcast {
                for prefix in &tracking.prefixes {
                    if let Some(numbers) = registry.prefixes.get_mut(prefix) {
                        numbers.remove(&number);
                        if numbers.is_empty() {
                            registry.prefixes.remove(prefix);
                        }
                    }
                }
                self.prefixes_changed(registry);
                // Set under the registry's lock, so that a client that begins BCAST mode meanwhile
                // sets it again.
                store.set_broadcasts(!registry.prefixes.is_empty());
            }
        }
        let number = tracking.number;
        **tracking = Tracking {
            number,
            ..Tracking::default()
        };
        (session.reader, session.caching) = (None, false);
        session.info.prefix_bytes.store(0, Ordering::Relaxed);
        session.info.show_no_tracking();
    }

    fn prefixes_changed(&self, registry: &mut Registry) {
        registry.shown = None;
        registry.version += 1;
        self.version.store(registry.version, Ordering::Release);
    }

    /// Updates the registry after a change of a client's protocol.
    pub(crate) fn protocol_changed(&self, session: &Session) {
        let number = session.tracking.as_ref().and_then(|t| t.number);
        if let Some(number) = number
            && let Some(tracker) = self.registry.lock().trackers.get_mut(&number)
        {
            tracker.client = session.subscriber();
        }
    }

    /// Returns the prefixes if they have changed since the caller received `known`.
    #[inline]
    pub(crate) fn changed_prefixes(&self, known: &Prefixes) -> Option<Arc<Prefixes>> {
        let version = self.version.load(Ordering::Acquire);
        (version != known.version).then(|| self.registry.lock().shown())
    }

    /// Sends the name of a changed key to its readers, except to the client that changed it if that
    /// client has chosen NOLOOP.
    pub(crate) fn invalidate<O>(
        &self,
        destinations: &Destinations<'_, O>,
        key: &[u8],
        readers: &Readers,
        by: u64,
    ) {
        if self.clients() == 0 {
            return;
        }
        let mut guard = self.registry.lock();
        let Registry {
            trackers,
            routes,
            message,
            ..
        } = &mut *guard;
        routes.clear();
        for number in readers.iter() {
            if let Some(tracker) = trackers.get(&number)
                && !tracker.bcast
                && !(tracker.noloop && tracker.client.client == by)
            {
                routes.extend(tracker.route(destinations));
            }
        }
        send(destinations, routes, message, |reply| {
            reply.array(1);
            reply.bulk(key);
        });
    }

    /// Sends changed keys to the clients in BCAST mode that have a matching prefix.
    pub(crate) fn broadcast<O>(&self, destinations: &Destinations<'_, O>, batch: &Batch) {
        let mut guard = self.registry.lock();
        let prefixes = guard.shown();
        let Registry {
            trackers,
            prefixes: clients,
            routes,
            message,
            ..
        } = &mut *guard;
        let mut keys_of: BTreeMap<&[u8], Vec<(&[u8], u64)>> = BTreeMap::new();
        for (key, by) in batch {
            for prefix in prefixes.matching(key) {
                keys_of.entry(prefix).or_default().push((key, *by));
            }
        }
        for (prefix, keys) in keys_of {
            routes.clear();
            for number in clients.get(prefix).into_iter().flatten() {
                let Some(tracker) = trackers.get(number) else {
                    continue;
                };
                let id = tracker.client.client;
                if !(tracker.noloop && keys.iter().any(|(_, by)| *by == id)) {
                    routes.extend(tracker.route(destinations));
                    continue;
                }
                // The message omits the client's own changes, so it goes to this client alone.
                let others = keys.iter().filter(|(_, by)| *by != id);
                let count = others.clone().count();
                if let Some(route) = tracker.route(destinations).filter(|_| count > 0) {
                    send(destinations, &mut [route], message, |reply| {
                        reply.array(count);
                        others.clone().for_each(|(key, _)| reply.bulk(key));
                    });
                }
            }
            send(destinations, routes, message, |reply| {
                reply.array(keys.len());
                keys.iter().for_each(|(key, _)| reply.bulk(key));
            });
        }
        const KEPT: usize = 16 << 10;
        if message.capacity() > KEPT {
            *message = Vec::new();
        }
    }

    /// Sends all clients in tracking mode a message that invalidates every key.
    pub(crate) fn invalidate_all<O>(&self, destinations: &Destinations<'_, O>) {
        if self.clients() == 0 {
            return;
        }
        let mut guard = self.registry.lock();
        let Registry {
            trackers, message, ..
        } = &mut *guard;
        for tracker in trackers.values() {
            if let Some(route) = tracker.route(destinations) {
                // As in Redis, the null is encoded in the protocol of the client in tracking mode,
                // even if REDIRECT sends it to a client with another protocol.
                let resp3 = tracker.client.resp3;
                send(destinations, &mut [route], message, |reply| {
                    Reply::new(reply.out(), protocol(resp3)).null();
                });
            }
        }
    }
}

impl Registry {
    /// Returns the prefixes for the sinks, and rebuilds them after a change.
    fn shown(&mut self) -> Arc<Prefixes> {
        let Self {
            prefixes,
            shown,
            version,
            ..
        } = self;
        let shown = shown.get_or_insert_with(|| {
            Arc::new(Prefixes {
                version: *version,
                names: prefixes.keys().cloned().collect(),
                lengths: prefixes.keys().map(|prefix| prefix.len()).collect(),
            })
        });
        Arc::clone(shown)
    }

    /// Returns a number that no client in tracking mode has.
    fn next_number(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if !self.trackers.contains_key(&self.last) {
                return self.last;
            }
        }
    }
}

impl Tracker {
    /// Returns the receiver of the client's messages. If the client chosen by REDIRECT is gone, the
    /// client itself is notified of that.
    fn route<O>(&self, destinations: &Destinations<'_, O>) -> Option<Subscriber> {
        if self.redirect == 0 {
            // As in Redis, a client with RESP2 receives invalidations only by REDIRECT.
            return self.client.resp3.then_some(self.client);
        }
        if let Some(to) = destinations.clients.get(self.redirect) {
            return to.receives_invalidations().then(|| to.subscriber());
        }
        self.info.show_broken_redirect();
        if self.client.resp3 {
            let mut message = Vec::new();
            let mut reply = Reply::new(&mut message, Protocol::Resp3);
            reply.push(2);
            reply.bulk(b"tracking-redir-broken");
            reply.int(self.redirect.cast_signed());
            deliver(destinations.mailboxes, &[self.client], &message);
        }
        None
    }
}

const fn protocol(resp3: bool) -> Protocol {
    if resp3 {
        Protocol::Resp3
    } else {
        Protocol::Resp2
    }
}

/// Sends an invalidation with this content. The message is encoded once per protocol.
fn send<O>(
    destinations: &Destinations<'_, O>,
    routes: &mut [Subscriber],
    message: &mut Vec<u8>,
    content: impl Fn(&mut Reply),
) {
    routes.sort_unstable();
    for routes in routes.chunk_by(|a, b| a.resp3 == b.resp3) {
        let resp3 = routes[0].resp3;
        message.clear();
        let mut reply = Reply::new(message, protocol(resp3));
        if resp3 {
            reply.push(2);
            reply.bulk(b"invalidate");
        } else {
            reply.array(3);
            reply.bulk(b"message");
            reply.bulk(CHANNEL);
        }
        content(&mut reply);
        deliver(destinations.mailboxes, routes, message);
    }
}

/// Adds a message to the mailboxes of these clients, which are sorted by loop.
fn deliver<O>(mailboxes: &[Mailbox<O>], routes: &[Subscriber], message: &[u8]) {
    for routes in routes.chunk_by(|a, b| a.loop_number == b.loop_number) {
        let to = routes.iter().map(|route| (route.client, route.slot));
        mailboxes[routes[0].loop_number].deliver(Origin::Observed, message, to);
    }
}
