//! The locks of a turn.
//!
//! Ground rules: locks are taken in ascending order, all at once; out of order a lock may only be
//! tried. A transaction *pins* the shards that all of its commands need: until it ends, nothing is
//! locked or unlocked. One turn at a time, that of a script, may pin shards as it needs them, in
//! any order: turns that wait for a shard give up theirs if it wants one.
//!
//! While there are rules of NOTIFY, a turn that holds a shard holds the shards of the rules'
//! streams too. `Turn::acquire` is the only function that adds locks, and it ensures that. Rules
//! change only under all locks, so they stay as they are while a turn holds any.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_resp::Args;
use smallvec::SmallVec;

use super::ahead::Name;
use super::{Command, Turn};
use crate::keyspace::shard::{NAP, Shard};
use crate::lock_order::OrderedGuard;
use crate::uses::Uses;

/// A pipeline whose command needs as large a part of the shards (one of so many) locks all of them
/// until its stretch ends: commands that follow probably need as many, and each would meet the
/// locks of another loop.
const PART: usize = 8;
/// Time between two looks at whether a turn must let go of what it holds, while it waits for more.
const BACK_OFF: Duration = Duration::from_micros(50);

/// How a turn waits for a shard that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// It does not.
    None,
    /// At most this long.
    AtMost(Duration),
    /// Until the shard is free, or the turn that locks in any order wants a shard of this one.
    Yielding,
    /// Until the shard is free: only the turn that locks in any order.
    Unlimited,
}

impl<'s> Turn<'s> {
    /// Locks the shards that `command` needs. Returns false if the held shards suffice, and true if
    /// they were unlocked first.
    pub(crate) fn lock_for(&mut self, command: &Command, args: Args) -> bool {
        self.sole = None;
        self.named = std::mem::replace(&mut self.next, Name::NONE);
        self.others.clear();
        if command.reaches_unnamed(args) {
            let enough = self.held.len() == self.store.shards();
            self.lock_all();
            return !enough;
        }
        let (store, shards) = (self.store, self.store.shards());
        if shards == 1 {
            let enough = self.pinned || !self.held.is_empty();
            if !enough {
                self.lock(&[0]);
            }
            if command.keys.is_open() {
                self.name_others(command, args);
            }
            return !enough;
        }
        if let Some(key) = command.keys.only().and_then(|at| args.get(at)) {
            if !self.named.is(key) {
                self.named = Name::new(key, store.hash(key));
            }
            let number = self.named.hash.shard(shards);
            self.sole = Some(number);
            let found = self.find_held(number);
            match found {
                Ok(at) => self.held_last = at,
                Err(_) => {
                    self.lock(&[number]);
                    self.held_last = self.find_held(number).unwrap_or(0);
                }
            }
            return found.is_err();
        }
        self.name_others(command, args);
        let numbers = self.others.iter().map(|name| name.hash.shard(shards));
        let mut needed: SmallVec<[usize; 16]> = numbers.collect();
        needed.sort_unstable();
        needed.dedup();
        if let [one] = needed[..] {
            self.sole = Some(one);
        }
        let enough = needed.iter().all(|n| self.holds(*n));
        if !enough && self.ahead.len() > 1 && needed.len() * PART >= shards {
            self.lock_all();
        } else if !enough {
            self.lock(&needed);
        }
        !enough
    }

    /// Hashes the keys of a command that may have several.
    fn name_others(&mut self, command: &Command, args: Args) {
        let (store, others) = (self.store, &mut self.others);
        (self.others_used, self.others_warm) = (0, 0);
        // It is among them.
        self.named = Name::NONE;
        command.keys.each(args, &mut |at| {
            others.extend(args.get(at).map(|key| Name::new(key, store.hash(key))));
        });
    }

    /// Adds the shards that `command` needs to the held ones, as far as they are free. Returns
    /// whether all are held now.
    pub fn try_lock_for(&mut self, command: &Command, args: Args) -> bool {
        if command.reaches_unnamed(args) {
            return false;
        }
        let store = self.store;
        let mut needed: SmallVec<[usize; 16]> = SmallVec::new();
        command.keys.each(args, &mut |at| {
            needed.extend(args.get(at).map(|key| store.shard_of(key)));
        });
        self.acquire(&needed, Patience::None)
    }

    pub(super) fn holds(&self, shard: usize) -> bool {
        self.find_held(shard).is_ok()
    }

    /// Returns the place of a shard among the held ones.
    #[inline]
    pub(super) fn find_held(&self, shard: usize) -> Result<usize, usize> {
        self.held.binary_search_by_key(&shard, |h| h.0)
    }

    /// Adds these shards to the held ones and, while there are rules of NOTIFY, the shards of their
    /// streams. Returns false if one of them was not free in time, or a rule has appeared
    /// meanwhile; the held shards may then be some of them, or none.
    #[inline]
    fn acquire(&mut self, shards: &[usize], patience: Patience) -> bool {
        let all = self.with_targets(shards);
        let mut free = true;
        for &number in &*all {
            if self.holds(number) {
                continue;
            }
            let shard = self.store.locked[number].shard.try_lock();
            let Some(shard) = shard.or_else(|| self.wait_for(number, patience)) else {
                free = false;
                break;
            };
            self.hold(number, shard);
        }
        let complete = self.holds_targets();
        if !complete {
            // Nothing was held before, or the targets would be held.
            self.drop_locks();
        }
        free && complete
    }

    /// Locks a shard that another turn has locked, if that is possible within `patience`.
    #[cold]
    fn wait_for(&self, number: usize, patience: Patience) -> Option<OrderedGuard<'s, Shard>> {
        let (store, locked) = (self.store, &self.store.locked[number]);
        match patience {
            Patience::None => None,
            Patience::AtMost(time) => locked.wait_for(time),
            Patience::Yielding if self.held.is_empty() => Some(locked.wait()),
            Patience::Yielding => loop {
                if let Some(shard) = locked.wait_for(BACK_OFF) {
                    return Some(shard);
                }
                // The only turn that may lock in any order waits for a shard of this one, and may
                // hold the next.
                if self.holds(store.wanted.load(Ordering::SeqCst)) {
                    return None;
                }
            },
            Patience::Unlimited => {
                store.wanted.store(number, Ordering::SeqCst);
                let shard = locked.wait();
                store.wanted.store(usize::MAX, Ordering::SeqCst);
                Some(shard)
            }
        }
    }

    /// Adds a locked shard to the held ones.
    fn hold(&mut self, number: usize, shard: OrderedGuard<'s, Shard>) {
        self.renew_logged();
        if self.store.notify.any() || self.recorder.any() {
            self.renew_rules();
        }
        if shard.watched.any()
            || shard.waiters.any()
            || shard.tracked.any()
            || self.store.tracking.broadcasts()
            || self.limits.uses == Uses::Changed
        {
            self.observe();
        }
        let at = self.held.partition_point(|(held, _)| *held < number);
        self.held.insert(at, (number, shard));
    }

    /// Unlocks everything if the turn holds every one of several shards, unless it is pinned: other
    /// threads should not wait any longer for a command on the whole keyspace.
    #[inline]
    pub fn release_whole(&mut self) {
        if self.held.len() > 1 && self.held.len() == self.store.shards() && self.wait.is_none() {
            self.release();
        }
    }

    /// Unlocks all shards, of which nothing was used.
    fn drop_locks(&mut self) {
        self.held.clear();
        self.observed = false;
    }

    /// Unlocks everything for a moment, because the turn that locks in any order wants a shard of
    /// this one.
    #[cold]
    fn give_way(&mut self) {
        self.drop_locks();
        (self.store.nap)(NAP);
    }

    /// Locks `shards` only, or adds them to the held ones if the turn grows. Their numbers ascend.
    fn lock(&mut self, shards: &[usize]) {
        debug_assert!(self.may_lock, "the locks are held for long");
        debug_assert!(shards.is_sorted(), "shards are locked in ascending order");
        if self.grows {
            while !self.acquire(shards, Patience::Unlimited) {}
            return;
        }
        assert!(!self.pinned, "a transaction has pinned all that it needs");
        self.release();
        while !self.acquire(shards, Patience::Yielding) {
            self.give_way();
        }
    }

    /// Returns these shards and those of the target streams, ascending.
    #[inline]
    fn with_targets<'a>(&self, shards: &'a [usize]) -> Cow<'a, [usize]> {
        if !self.store.notify.any() {
            return Cow::Borrowed(shards);
        }
        let mut all = [shards, self.store.notify.rules().shards()].concat();
        all.sort_unstable();
        all.dedup();
        Cow::Owned(all)
    }

    /// Makes sure that the shards of these keys are held. O(length of the keys).
    pub(crate) fn lock_keys<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        let store = self.store;
        let mut needed: SmallVec<[usize; 8]> = keys.map(|key| store.shard_of(key)).collect();
        needed.sort_unstable();
        needed.dedup();
        if !needed.iter().all(|n| self.holds(*n)) {
            self.lock(&needed);
        }
    }

    /// Locks these shards, or all of them without a list, and keeps them until [`Turn::unpin`]. The
    /// commands meanwhile must need no others. No other thread sees or changes anything in them.
    pub fn pin(&mut self, shards: Option<Vec<usize>>) {
        self.unpin();
        match shards {
            None => self.lock_all(),
            Some(mut needed) => {
                needed.sort_unstable();
                needed.dedup();
                if !needed.iter().all(|n| self.holds(*n)) {
                    self.lock(&needed);
                }
            }
        }
        self.pinned = true;
    }

    /// As [`Turn::pin`] with the shards of `keys`, but the commands meanwhile add the shards that
    /// they need, in any order. Only one turn at a time may do so.
    pub fn pin_and_grow<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        let store = self.store;
        if store.shards() == 1 {
            return self.pin(None);
        }
        self.pin(Some(keys.map(|key| store.shard_of(key)).collect()));
        self.grows = true;
    }

    /// Returns whether shards are pinned.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Ends [`Turn::pin`]. The shards stay locked until others are needed or the turn is released.
    pub fn unpin(&mut self) {
        self.pinned = false;
        self.grows = false;
    }

    /// Locks every shard until [`Turn::end_whole`], for commands that no other thread may see one
    /// by one: the stream of a primary. Transactions and scripts among them may pin what they need.
    pub fn hold_whole(&mut self) {
        self.lock_all();
        self.whole = true;
    }

    /// Ends [`Turn::hold_whole`]. The shards stay locked until others are needed or the turn is
    /// released.
    pub fn end_whole(&mut self) {
        self.whole = false;
    }

    /// Returns whether [`Turn::hold_whole`] holds every shard.
    pub fn holds_whole(&self) -> bool {
        self.whole
    }

    /// Locks every shard.
    pub fn lock_all(&mut self) {
        if self.held.len() < self.store.shards() {
            let all: Vec<usize> = (0..self.store.shards()).collect();
            self.lock(&all);
        }
    }

    /// Locks shard `number` alone, unless it is held already.
    pub fn lock_one(&mut self, number: usize) {
        if !self.holds(number) {
            self.lock(&[number]);
        }
    }

    /// As [`Turn::lock_one`], but waits at most this long. Returns whether the shard is held.
    pub fn try_lock_one(&mut self, number: usize, patience: Duration) -> bool {
        if !self.holds(number) {
            assert!(!self.pinned, "a transaction has pinned all that it needs");
            self.release();
            if !self.acquire(&[number], Patience::AtMost(patience)) {
                self.drop_locks();
                return false;
            }
        }
        true
    }

    /// Locks those of `shards` that are free, in place of the held ones. Does nothing while there
    /// are rules of NOTIFY: each lock needs those of their streams too.
    pub(super) fn try_lock_some(&mut self, shards: &[usize]) {
        if self.store.notify.any() {
            return;
        }
        self.release();
        for &number in shards {
            self.acquire(&[number], Patience::None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Classes, Silent};
    use crate::{Now, Store, StoreOptions};

    #[test]
    fn a_turn_that_grows_waits_for_others_and_they_for_it() {
        const ROUNDS: usize = 3_000;
        let store = Store::new(StoreOptions {
            shards: 4,
            databases: 1,
            seed: 1,
            nap: std::thread::sleep,
        });
        let begin = std::sync::Barrier::new(3);
        let turns = |step: &dyn Fn(&mut Turn<'_>)| {
            begin.wait();
            for _ in 0..ROUNDS {
                let mut sink = Silent;
                let now = Now::from_ms(1);
                step(&mut Turn::new(&store, now, &mut sink, Classes::none()));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                turns(&|turn| {
                    turn.pin_and_grow(std::iter::empty());
                    for (held, number) in [3, 1, 0, 2].into_iter().enumerate() {
                        turn.lock_one(number);
                        assert_eq!(turn.held.len(), held + 1, "nothing is unlocked");
                    }
                });
            });
            for shards in [vec![0, 1, 3], vec![1, 2, 3]] {
                let turns = &turns;
                scope.spawn(move || {
                    turns(&|turn| {
                        turn.lock(&shards);
                        let held: Vec<usize> = turn.held.iter().map(|held| held.0).collect();
                        assert_eq!(held, shards);
                    });
                });
            }
        });
    }

    #[test]
    fn a_pipeline_of_wide_commands_locks_once_until_its_stretch_ends() {
        let store = Store::new(StoreOptions {
            shards: 16,
            databases: 1,
            seed: 1,
            nap: std::thread::sleep,
        });
        let line = b"MSET a 1 b 2 c 3 d 4 e 5 f 6\r\n";
        let mut parser = punctual_resp::Parser::new();
        let parsed = parser.parse(line, &punctual_resp::Limits::default());
        let args = parsed.unwrap().unwrap().args;
        let row = crate::command::find(b"mset").unwrap();
        let mut sink = Silent;
        let mut turn = Turn::new(&store, Now::from_ms(1), &mut sink, Classes::none());
        let run = |turn: &mut Turn<'_>| {
            let mut out = Vec::new();
            let mut reply = punctual_resp::Reply::new(&mut out, punctual_resp::Protocol::Resp2);
            turn.run(row, 0, true, args, &mut reply).unwrap();
        };
        assert_eq!(turn.look_ahead(0, 1, [args, args].into_iter()), 2);
        run(&mut turn);
        assert_eq!(turn.held.len(), 16);
        turn.look_ahead(0, 1, [args, args].into_iter());
        assert!(turn.held.len() < 16, "another stretch begins");
        run(&mut turn);
        turn.end_ahead();
        assert!(turn.held.is_empty(), "other threads have waited");
        run(&mut turn);
        assert!(turn.held.len() <= 6, "there is no pipeline");
    }
}
