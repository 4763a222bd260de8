//! The locks of a turn.
//!
//! Ground rules: locks are taken in ascending order, all at once; out of order a lock may only be tried. A transaction *pins* the
//! shards that all of its commands need: until it ends, nothing is locked or unlocked. One turn at a time, that of a script,
//! may pin shards as it needs them, in any order: turns that wait for a shard give up theirs if it wants one.
//!
//! While there are rules of NOTIFY, whoever locks a shard locks those of the rules' streams too.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_resp::Args;
use smallvec::SmallVec;

use super::ahead::Name;
use super::{Command, Turn};
use crate::keyspace::shard::Shard;
use crate::lock_order::OrderedGuard;
use crate::uses::Uses;

/// A pipeline whose command needs as large a part of the shards (one of so many) locks all of them until its stretch ends: commands that
/// follow probably need as many, and each would meet the locks of another loop.
const PART: usize = 8;
/// Time between two looks at whether a turn must let go of what it holds, while it waits for more.
const BACK_OFF: Duration = Duration::from_micros(50);

impl<'s> Turn<'s> {
    /// Locks the shards that `command` needs. Returns false if the held shards suffice, and true if they were unlocked first.
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

    /// Adds the shards that `command` needs to the held ones, as far as they are free. Returns whether all are held now.
    pub fn try_lock_for(&mut self, command: &Command, args: Args) -> bool {
        let store = self.store;
        let mut all_there = !command.reaches_unnamed(args);
        command.keys.each(args, &mut |at| {
            let needed = args.get(at).map(|key| store.shard_of(key));
            let Some(number) = needed.filter(|number| !self.holds(*number)) else {
                return;
            };
            match store.locked[number].shard.try_lock() {
                Some(shard) => {
                    self.hold(number, shard);
                }
                None => all_there = false,
            }
        });
        all_there
    }

    pub(super) fn holds(&self, shard: usize) -> bool {
        self.find_held(shard).is_ok()
    }

    /// Returns the place of a shard among the held ones.
    #[inline]
    pub(super) fn find_held(&self, shard: usize) -> Result<usize, usize> {
        self.held.binary_search_by_key(&shard, |h| h.0)
    }

    /// Adds a locked shard to the held ones.
    pub(super) fn hold(&mut self, number: usize, shard: OrderedGuard<'s, Shard>) {
        self.logged = self.store.is_logged();
        self.read_only = self.store.read_only.load(Ordering::SeqCst);
        if self.store.notify.any() || self.recorder.any() {
            self.renew_rules();
        }
        self.observed |= shard.watched.any()
            || shard.waiters.any()
            || shard.tracked.any()
            || self.store.notes_changes()
            || self.store.tracking.broadcasts()
            || self.limits.uses == Uses::Changed;
        let at = self.held.partition_point(|(held, _)| *held < number);
        self.held.insert(at, (number, shard));
    }

    /// Locks `shards` only. Their numbers ascend.
    fn lock(&mut self, shards: &[usize]) {
        debug_assert!(self.may_lock, "the locks are held for long");
        debug_assert!(shards.is_sorted(), "shards are locked in ascending order");
        if self.grows {
            return self.lock_more(shards);
        }
        assert!(!self.pinned, "a transaction has pinned all that it needs");
        self.release();
        'start: loop {
            let all = self.with_targets(shards);
            for &number in &*all {
                let locked = &self.store.locked[number];
                let mut shard = locked.shard.try_lock();
                if shard.is_none() && self.held.is_empty() {
                    shard = Some(locked.wait());
                }
                while shard.is_none() {
                    shard = locked.wait_for(BACK_OFF);
                    // The only turn that may lock in any order waits for a shard of this one, and may hold the next.
                    if shard.is_none() && self.holds(self.store.wanted.load(Ordering::SeqCst)) {
                        self.held.clear();
                        self.observed = false;
                        std::thread::yield_now();
                        continue 'start;
                    }
                }
                if let Some(shard) = shard {
                    self.hold(number, shard);
                }
            }
            if !self.holds_targets() {
                // There is a rule since.
                self.held.clear();
                continue;
            }
            return;
        }
    }

    /// Locks those of `shards` that are not held, and keeps the others.
    #[cold]
    fn lock_more(&mut self, shards: &[usize]) {
        for &number in &*self.with_targets(shards) {
            if self.holds(number) {
                continue;
            }
            let locked = &self.store.locked[number];
            let shard = locked.shard.try_lock().unwrap_or_else(|| {
                self.store.wanted.store(number, Ordering::SeqCst);
                let shard = locked.wait();
                self.store.wanted.store(usize::MAX, Ordering::SeqCst);
                shard
            });
            self.hold(number, shard);
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

    /// Locks these shards, or all of them without a list, and keeps them until [`Turn::unpin`]. The commands meanwhile must
    /// need no others. No other thread sees or changes anything in them.
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

    /// As [`Turn::pin`] with the shards of `keys`, but the commands meanwhile add the shards that they need, in any order.
    /// Only one turn at a time may do so.
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

    /// Locks every shard until [`Turn::end_whole`], for commands that no other thread may see one by one: the stream of a
    /// primary. Transactions and scripts among them may pin what they need.
    pub fn hold_whole(&mut self) {
        self.lock_all();
        self.whole = true;
    }

    /// Ends [`Turn::hold_whole`]. The shards stay locked until others are needed or the turn is released.
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
            let all = self.with_targets(&[number]).into_owned();
            for number in all {
                let locked = &self.store.locked[number];
                let shard = locked.shard.try_lock();
                let shard = shard.or_else(|| locked.wait_for(patience));
                let Some(shard) = shard else {
                    self.held.clear();
                    return false;
                };
                self.hold(number, shard);
            }
            if !self.holds_targets() {
                self.held.clear();
                return false;
            }
        }
        true
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
