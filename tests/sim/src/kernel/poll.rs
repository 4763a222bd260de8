//! `epoll` with edges: an object is reported once after each change that could make it ready.

use std::collections::VecDeque;

use super::Kernel;
use super::descriptors::{Object, ObjectId, Watch};
use super::threads::Tid;

pub const IN: u32 = libc::EPOLLIN as u32;
pub const OUT: u32 = libc::EPOLLOUT as u32;
pub const ERR: u32 = libc::EPOLLERR as u32;
pub const HUP: u32 = libc::EPOLLHUP as u32;
pub const RDHUP: u32 = libc::EPOLLRDHUP as u32;

/// An `epoll` object.
#[derive(Debug, Default)]
pub struct Epoll {
    /// Objects that may be ready.
    changed: VecDeque<ObjectId>,
    /// The thread that waits.
    waiting: Option<Tid>,
}

impl Kernel {
    /// Returns the events for which an object is ready.
    fn readiness(&self, object: ObjectId) -> u32 {
        match self.descriptors.get(object) {
            Some(Object::Counter(count)) => OUT | if *count > 0 { IN } else { 0 },
            Some(Object::Timer(timer)) if timer.fired => IN,
            Some(Object::Listener(id)) => self.listener_readiness(*id),
            Some(Object::Stream(end)) => self.stream_readiness(*end),
            _ => 0,
        }
    }

    /// Registers an object, or changes its registration.
    pub fn watch(&mut self, epoll: ObjectId, object: ObjectId, interest: u32, data: u64) {
        let watch = self.descriptors.watch_mut(object);
        let queued = watch.is_some_and(|watch| watch.queued);
        *watch = Some(Watch {
            epoll,
            interest,
            data,
            queued,
        });
        if self.readiness(object) & interest != 0 {
            self.edge(object);
        }
    }

    /// Notes a change that may have made an object ready.
    pub fn edge(&mut self, object: ObjectId) {
        if self.descriptors.get(object).is_none() {
            return;
        }
        let Some(watch) = self.descriptors.watch_mut(object) else {
            return;
        };
        let id = watch.epoll;
        if std::mem::replace(&mut watch.queued, true) {
            return;
        }
        if let Some(Object::Epoll(epoll)) = self.descriptors.get_mut(id) {
            epoll.changed.push_back(object);
            if let Some(tid) = epoll.waiting.take() {
                self.wake(tid);
            }
        }
    }

    /// Takes events of ready objects: at most `max` pairs of events and data.
    pub fn take_ready(&mut self, id: ObjectId, max: usize) -> Vec<(u32, u64)> {
        let mut ready = Vec::new();
        let Some(Object::Epoll(epoll)) = self.descriptors.get_mut(id) else {
            return ready;
        };
        let mut changed = std::mem::take(&mut epoll.changed);
        epoll.waiting = None;
        while ready.len() < max
            && let Some(object) = changed.pop_front()
        {
            if self.descriptors.get(object).is_none() {
                continue;
            }
            let ready_for = self.readiness(object);
            let Some(watch) = self.descriptors.watch_mut(object) else {
                continue;
            };
            watch.queued = false;
            let events = ready_for & (watch.interest | ERR | HUP);
            if events != 0 {
                ready.push((events, watch.data));
            }
        }
        if let Some(Object::Epoll(epoll)) = self.descriptors.get_mut(id) {
            epoll.changed = changed;
        }
        ready
    }

    /// Notes that a thread waits for changes.
    pub fn wait_for_changes(&mut self, id: ObjectId, tid: Tid) {
        if let Some(Object::Epoll(epoll)) = self.descriptors.get_mut(id) {
            epoll.waiting = Some(tid);
        }
    }
}
