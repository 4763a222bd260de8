//! A channel like those of Go: its state, and its operations that do not block. Independent of
//! Python.
//!
//! # Ground rules
//!
//! - One mutex guards all state. It is held for a few instructions, never while a thread blocks or
//!   an item is dropped. Methods return the items that they remove, so that the caller drops them.
//! - A blocked operation has an entry with a [`Waiter`] in the queue of each of its channels. A
//!   thread that exchanges an item with it removes the entry of the completed case. The waiting
//!   thread removes all other entries. Until then, threads skip entries whose waiter has ended and
//!   leave them in the queue, since they may contain an item.
//! - Receivers wait only while the buffer is empty and the channel is open, senders only while the
//!   buffer is full and the channel is open. Registration checks this under the same lock, so no
//!   wake-up is lost.
//! - A new channel has no allocation of its own, nor has an empty channel of capacity 0 or 1.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::waiter::{Outcome, Waiter};

pub(crate) struct Channel<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    buffer: Buffer<T>,
    waiting: Option<Box<Waiting<T>>>,
    capacity: u32,
    closed: bool,
}

/// Buffered items. A timer's channel buffers one item, and most other channels buffer at most one.
/// The box keeps those channels small.
#[allow(clippy::box_collection)]
enum Buffer<T> {
    One(Option<T>),
    Many(Box<VecDeque<T>>),
}

struct Waiting<T> {
    receivers: VecDeque<Receiver<T>>,
    senders: VecDeque<Sender<T>>,
}

struct Receiver<T> {
    waiter: Arc<Waiter<T>>,
    case: u32,
}

struct Sender<T> {
    waiter: Arc<Waiter<T>>,
    case: u32,
    item: T,
}

/// The reason why a send did not happen; contains the item.
#[derive(Debug, PartialEq)]
pub(crate) enum Refused<T> {
    Full(T),
    Closed(T),
}

/// The channel is already closed.
#[derive(Debug, PartialEq)]
pub(crate) struct AlreadyClosed;

impl<T> Channel<T> {
    pub(crate) const fn new(capacity: u32) -> Self {
        Channel {
            state: Mutex::new(State {
                buffer: Buffer::One(None),
                waiting: None,
                capacity,
                closed: false,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives without blocking. Returns `None` if the channel is open and has no item.
    #[inline]
    pub(crate) fn try_receive(&self) -> Option<Outcome<T>> {
        self.lock().try_receive()
    }

    /// Sends without blocking.
    #[inline]
    pub(crate) fn try_send(&self, item: T) -> Result<(), Refused<T>> {
        self.lock().try_send(item)
    }

    /// Queues a receiver. Returns false, and queues nothing, if the receiver need not wait.
    pub(crate) fn wait_to_receive(&self, waiter: &Arc<Waiter<T>>, case: u32) -> bool {
        let mut state = self.lock();
        let state = &mut *state;
        let ready = state.closed
            || state.buffer.len() > 0
            || state.waiting.as_ref().is_some_and(|waiting| {
                let mut senders = waiting.senders.iter();
                senders.any(|sender| is_other(&sender.waiter, waiter))
            });
        if !ready {
            state.waiting().receivers.push_back(Receiver {
                waiter: Arc::clone(waiter),
                case,
            });
        }
        !ready
    }

    /// Queues a sender with its item. Returns the item if the sender need not wait.
    pub(crate) fn wait_to_send(
        &self,
        waiter: &Arc<Waiter<T>>,
        case: u32,
        item: T,
    ) -> Result<(), T> {
        let mut state = self.lock();
        let state = &mut *state;
        let ready = state.closed
            || state.buffer.len() < state.capacity as usize
            || state.waiting.as_ref().is_some_and(|waiting| {
                let mut receivers = waiting.receivers.iter();
                receivers.any(|receiver| is_other(&receiver.waiter, waiter))
            });
        if ready {
            return Err(item);
        }
        state.waiting().senders.push_back(Sender {
            waiter: Arc::clone(waiter),
            case,
            item,
        });
        Ok(())
    }

    /// Removes a waiter from the queues. Appends its unsent items to `unsent`, each with its case.
    pub(crate) fn leave(&self, waiter: &Arc<Waiter<T>>, unsent: &mut Vec<(usize, T)>) {
        let mut state = self.lock();
        let Some(waiting) = &mut state.waiting else {
            return;
        };
        waiting
            .receivers
            .retain(|receiver| !Arc::ptr_eq(&receiver.waiter, waiter));
        let mut at = 0;
        while let Some(sender) = waiting.senders.get(at) {
            if !Arc::ptr_eq(&sender.waiter, waiter) {
                at += 1;
            } else if let Some(sender) = waiting.senders.remove(at) {
                unsent.push((sender.case as usize, sender.item));
            }
        }
        if waiting.receivers.is_empty() && waiting.senders.is_empty() {
            state.waiting = None;
        }
    }

    /// Closes the channel and ends all waiting operations.
    pub(crate) fn close(&self) -> Result<(), AlreadyClosed> {
        let mut state = self.lock();
        if std::mem::replace(&mut state.closed, true) {
            return Err(AlreadyClosed);
        }
        if let Some(waiting) = &state.waiting {
            for receiver in &waiting.receivers {
                let _ = receiver.waiter.complete(receiver.case, Outcome::Closed);
            }
            for sender in &waiting.senders {
                let _ = sender.waiter.complete(sender.case, Outcome::Closed);
            }
        }
        Ok(())
    }

    /// Returns the number of buffered items.
    pub(crate) fn len(&self) -> usize {
        self.lock().buffer.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.lock().capacity as usize
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Returns true if a receiver waits.
    pub(crate) fn has_receiver(&self) -> bool {
        let state = self.lock();
        let mut receivers = state.waiting.iter().flat_map(|waiting| &waiting.receivers);
        receivers.any(|receiver| receiver.waiter.is_waiting())
    }

    /// Returns the number of waiting receivers and senders.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        match &self.lock().waiting {
            Some(waiting) => (waiting.receivers.len(), waiting.senders.len()),
            None => (0, 0),
        }
    }

    /// Removes the buffered items and the items of waiting senders.
    pub(crate) fn drain(&self) -> Vec<T> {
        let mut items = Vec::new();
        let mut state = self.lock();
        while let Some(Outcome::Received(item)) = state.try_receive() {
            items.push(item);
        }
        items
    }

    /// Passes every item to `visit`. Does nothing if the channel is locked.
    pub(crate) fn visit<E>(&self, mut visit: impl FnMut(&T) -> Result<(), E>) -> Result<(), E> {
        let Ok(state) = self.state.try_lock() else {
            return Ok(());
        };
        match &state.buffer {
            Buffer::One(item) => item.iter().try_for_each(&mut visit)?,
            Buffer::Many(items) => items.iter().try_for_each(&mut visit)?,
        }
        match &state.waiting {
            Some(waiting) => waiting
                .senders
                .iter()
                .try_for_each(|sender| visit(&sender.item)),
            None => Ok(()),
        }
    }
}

impl<T> State<T> {
    #[inline]
    fn try_receive(&mut self) -> Option<Outcome<T>> {
        if let Some(item) = self.buffer.pop() {
            if let Some(next) = self.next_sent() {
                self.buffer.push(next, self.capacity);
            }
            return Some(Outcome::Received(item));
        }
        match self.next_sent() {
            Some(item) => Some(Outcome::Received(item)),
            None => self.closed.then_some(Outcome::Closed),
        }
    }

    #[inline]
    fn try_send(&mut self, mut item: T) -> Result<(), Refused<T>> {
        if self.closed {
            return Err(Refused::Closed(item));
        }
        if let Some(waiting) = &mut self.waiting {
            for at in 0..waiting.receivers.len() {
                let receiver = &waiting.receivers[at];
                match receiver
                    .waiter
                    .complete(receiver.case, Outcome::Received(item))
                {
                    Ok(()) => {
                        waiting.receivers.remove(at);
                        return Ok(());
                    }
                    Err(Outcome::Received(back)) => item = back,
                    Err(_) => unreachable!("`complete` returns the refused outcome unchanged"),
                }
            }
        }
        if self.buffer.len() >= self.capacity as usize {
            return Err(Refused::Full(item));
        }
        self.buffer.push(item, self.capacity);
        Ok(())
    }

    /// Completes the first waiting sender and returns its item.
    fn next_sent(&mut self) -> Option<T> {
        let senders = &mut self.waiting.as_mut()?.senders;
        let first = senders
            .iter()
            .position(|sender| sender.waiter.complete(sender.case, Outcome::Sent).is_ok())?;
        senders.remove(first).map(|sender| sender.item)
    }

    fn waiting(&mut self) -> &mut Waiting<T> {
        self.waiting.get_or_insert_with(|| {
            Box::new(Waiting {
                receivers: VecDeque::new(),
                senders: VecDeque::new(),
            })
        })
    }
}

impl<T> Buffer<T> {
    fn len(&self) -> usize {
        match self {
            Buffer::One(item) => usize::from(item.is_some()),
            Buffer::Many(items) => items.len(),
        }
    }

    fn pop(&mut self) -> Option<T> {
        match self {
            Buffer::One(item) => item.take(),
            Buffer::Many(items) => items.pop_front(),
        }
    }

    /// Adds an item. The buffer must not be full.
    fn push(&mut self, item: T, capacity: u32) {
        match self {
            Buffer::One(place) if capacity <= 1 => *place = Some(item),
            Buffer::One(place) => {
                let mut items = VecDeque::with_capacity((capacity as usize).min(4));
                items.extend(place.take());
                items.push_back(item);
                *self = Buffer::Many(Box::new(items));
            }
            Buffer::Many(items) => items.push_back(item),
        }
    }
}

/// Returns true if `other` waits and belongs to a different operation than `own`.
fn is_other<T>(other: &Arc<Waiter<T>>, own: &Arc<Waiter<T>>) -> bool {
    !Arc::ptr_eq(other, own) && other.is_waiting()
}
