//! A cache of sessions that clients may resume (`tls-session-caching`, `tls-session-cache-size`,
//! `tls-session-cache-timeout`).

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use rustls::server::StoresServerSessions;

use crate::world::{Moment, World};

/// The sessions of one configuration. No other lock is taken while the lock of `kept` is held.
pub(super) struct Sessions {
    world: World,
    kept: Mutex<Kept>,
    sessions_max: usize,
    lifetime: Duration,
}

#[derive(Default)]
struct Kept {
    /// Sessions by id, each with its time of insertion.
    secrets: HashMap<Vec<u8>, (Moment, Vec<u8>)>,
    /// Ids with their times of insertion, oldest first. Some of their sessions are no longer in
    /// `secrets`, because they were resumed or replaced.
    order: VecDeque<(Moment, Vec<u8>)>,
}

impl Sessions {
    /// Creates an empty cache of at most `sessions_max` sessions.
    pub(super) fn new(world: World, sessions_max: usize, lifetime: Duration) -> Self {
        Self {
            world,
            kept: Mutex::default(),
            sessions_max,
            lifetime,
        }
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, id: Vec<u8>, secret: Vec<u8>) -> bool {
        let now = self.world.stopwatch();
        let mut guard = self.kept.lock();
        let kept = &mut *guard;
        kept.secrets.insert(id.clone(), (now, secret));
        kept.order.push_back((now, id));
        while let Some((at, id)) = kept.order.front() {
            let is_old = now.saturating_sub(*at) >= self.lifetime;
            if !is_old && kept.order.len() <= self.sessions_max {
                break;
            }
            // An id that was inserted again has a second, later entry.
            if kept.secrets.get(id).is_some_and(|(set, _)| set == at) {
                kept.secrets.remove(id);
            }
            kept.order.pop_front();
        }
        true
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        let kept = self.kept.lock();
        let (at, secret) = kept.secrets.get(id)?;
        (self.world.since(*at) < self.lifetime).then(|| secret.clone())
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        let (at, secret) = self.kept.lock().secrets.remove(id)?;
        (self.world.since(at) < self.lifetime).then_some(secret)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first() {
        let sessions = Sessions::new(World::default(), 2, Duration::from_secs(60));
        for id in 1..=3 {
            sessions.put(vec![id], vec![id]);
        }
        assert_eq!(sessions.get(&[1]), None);
        assert_eq!(sessions.get(&[2]), Some(vec![2]));
        assert_eq!(sessions.take(&[3]), Some(vec![3]));
        assert_eq!(sessions.take(&[3]), None);
    }

    #[test]
    fn a_session_ends_after_its_lifetime() {
        let sessions = Sessions::new(World::default(), 2, Duration::ZERO);
        sessions.put(vec![1], vec![1]);
        assert_eq!(sessions.get(&[1]), None);
        assert!(sessions.kept.lock().secrets.is_empty());
    }
}
