//! The locks of a turn.
//!
//! - A command's row names its keys. The turn locks their shards in ascending order, all before the
//!   command runs, so commands on several keys are atomic and cannot deadlock. Out of order a turn
//!   may only *try* a lock. It keeps the locks until a command needs another shard, until a command
//!   on the whole keyspace has ended, or until the turn is released.
//! - A transaction *pins* the shards that all of its commands need: until it ends, no shard is
//!   locked or unlocked.
//! - The turn of a script *grows*: it pins further shards when its commands need them, in any
//!   order. Only one turn may grow at a time. While it waits for a shard, another turn that holds
//!   that shard and waits for further shards releases all of its shards.
//! - A thread that holds a shard's lock waits only for further locks, and not for input, a disk or
//!   another thread. The server's MIGRATE in a transaction or script is the exception.
//! - A turn that holds any shard also holds the *target shards*: the shards of the streams that the
//!   rules of NOTIFY name. `Turn::acquire`, the only function that adds locks, ensures this. In
//!   cluster mode there are no target shards, because an event's stream is in the key's shard.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_resp::Args;
use smallvec::SmallVec;

use super::ahead::Name;
use super::{Command, Turn};
use crate::keyspace::shard::{NAP, Shard};
use crate::lock_order::OrderedGuard;
use crate::planted::Bug;
use crate::uses::Uses;

/// If a command of a pipeline needs at least `1 / PART` of all shards, the turn locks all shards
/// until the prepared stretch of the pipeline ends: the commands that follow probably need as many
/// shards, and each would wait for locks of other loops.
const PART: usize = 8;
/// Time after which a turn that holds shards and waits for another shard checks whether it must
/// release its shards.
const BACK_OFF: Duration = Duration::from_micros(50);

/// How a turn waits for a shard that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// It does not wait.
    None,
    /// At most this long.
    AtMost(Duration),
    /// Until the shard is free, or until the growing turn waits for a shard that this turn holds.
    Yielding,
    /// Until the shard is free. Only the growing turn waits in this way.
    Unlimited,
}

impl<'s> Turn<'s> {
    /// Locks the shards that `command` needs. Returns false if the held shards suffice, and true if
    /// shards had to be locked.
    pub(crate) fn lock_for(&mut self, command: &Command, args: Args) -> bool {
        self.only_shard = None;
        self.hashed_key = std::mem::replace(&mut self.next, Name::NONE);
        self.keys.clear();
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
                self.hash_keys(command, args);
            }
            return !enough;
        }
        if let Some(key) = command.keys.only().and_then(|at| args.get(at)) {
            if !self.hashed_key.is(key) {
                self.hashed_key = Name::new(key, store.hash(key));
            }
            let number = self.hashed_key.hash.shard(shards);
            self.only_shard = Some(number);
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
        self.hash_keys(command, args);
        let numbers = self.keys.iter().map(|name| name.hash.shard(shards));
        let mut needed: SmallVec<[usize; 16]> = numbers.collect();
        needed.sort_unstable();
        needed.dedup();
        if let [one] = needed[..] {
            self.only_shard = Some(one);
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
    fn hash_keys(&mut self, command: &Command, args: Args) {
        let (store, keys) = (self.store, &mut self.keys);
        (self.keys_used, self.keys_warm) = (0, 0);
        // `keys` contains the first key as well.
        self.hashed_key = Name::NONE;
        command.keys.each(args, &mut |at| {
            keys.extend(args.get(at).map(|key| Name::new(key, store.hash(key))));
        });
    }

    /// Adds the shards that `command` needs and that are free to the held shards. Returns whether
    /// all shards that the command needs are held now.
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

    /// Returns the index of a shard in `held`, or the index at which it would be inserted.
    #[inline]
    pub(super) fn find_held(&self, shard: usize) -> Result<usize, usize> {
        self.held.binary_search_by_key(&shard, |h| h.0)
    }

    /// Adds these shards and the target shards to the held shards. Returns false if a shard was not
    /// free in time, or if a rule of NOTIFY was added meanwhile; the turn may then hold some of the
    /// shards or none. Rules change only while every shard is locked, so they cannot change while
    /// the turn holds a shard.
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
            // The turn held no shard before, because it would have held the target shards as well.
            self.drop_locks();
        }
        free && complete
    }

    /// Waits for a shard that another turn has locked. Returns `None` if `patience` ends before the
    /// shard is free.
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
                // The growing turn waits for a shard of this turn, and may hold the shard for which
                // this turn waits.
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

    /// Unlocks all shards if the turn holds all of several shards, so that other threads need not
    /// wait for the following commands. Does nothing if the shards are pinned or if the command
    /// waits.
    #[inline]
    pub fn release_whole(&mut self) {
        if self.held.len() > 1 && self.held.len() == self.store.shards() && self.wait.is_none() {
            self.release();
        }
    }

    /// Unlocks all shards, in which the turn has changed nothing.
    fn drop_locks(&mut self) {
        self.held.clear();
        self.observed = false;
    }

    /// Unlocks all shards and sleeps for a moment, because the growing turn waits for one of them.
    #[cold]
    fn give_way(&mut self) {
        self.drop_locks();
        (self.store.nap)(NAP);
    }

    /// Locks `shards` in place of the held shards, or adds them to the held shards if the turn
    /// grows. The numbers must ascend.
    fn lock(&mut self, shards: &[usize]) {
        debug_assert!(self.may_lock, "the caller must not let this turn lock");
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

    /// Returns these shards and the target shards, ascending.
    #[inline]
    fn with_targets<'a>(&self, shards: &'a [usize]) -> Cow<'a, [usize]> {
        if !self.store.notify.any() || Bug::RuleStreamUnlocked.is_active() {
            return Cow::Borrowed(shards);
        }
        let mut all = [shards, self.store.notify.rules().shards()].concat();
        all.sort_unstable();
        all.dedup();
        Cow::Owned(all)
    }

    /// Locks the shards of these keys unless all of them are held. O(length of the keys).
    pub(crate) fn lock_keys<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        let store = self.store;
        let mut needed: SmallVec<[usize; 8]> = keys.map(|key| store.shard_of(key)).collect();
        needed.sort_unstable();
        needed.dedup();
        if !needed.iter().all(|n| self.holds(*n)) {
            self.lock(&needed);
        }
    }

    /// Locks these shards, or every shard for `None`, and keeps them until [`Turn::unpin`]. The
    /// commands until then must need no other shards. No other thread can read or change the
    /// shards.
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

    /// Same as [`Turn::pin`] with the shards of `keys`, but the turn *grows*: commands until
    /// [`Turn::unpin`] add the shards that they need, in any order. Only one turn at a time may
    /// grow.
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

    /// Ends [`Turn::pin`]. The shards stay locked until other shards are needed or the turn is
    /// released.
    pub fn unpin(&mut self) {
        self.pinned = false;
        self.grows = false;
    }

    /// Locks every shard until [`Turn::end_whole`], for commands whose intermediate states no other
    /// thread may see: a stretch of a primary's stream. Transactions and scripts among the commands
    /// may pin shards.
    pub fn hold_whole(&mut self) {
        self.lock_all();
        self.whole = true;
    }

    /// Ends [`Turn::hold_whole`]. The shards stay locked until other shards are needed or the turn
    /// is released.
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

    /// Same as [`Turn::lock_one`], but waits at most this long. Returns whether the shard is held.
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

    /// Releases the held shards and tries to lock `shards`. Skips a shard that another thread
    /// holds. Does nothing while there are rules of NOTIFY, because each lock would need the locks
    /// of the target shards.
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
            cluster: false,
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
            cluster: false,
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
