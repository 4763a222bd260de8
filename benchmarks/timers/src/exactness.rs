//! Checks exactness: runs the same random operations on a queue and on a simple model, and compares
//! them.
//!
//! The clock moves in steps from a microsecond to minutes. A timer may be late by less than the
//! queue's tick.

use std::collections::BTreeSet;

use fastrand::Rng;

use crate::contender::Contender;

/// The numbers of a queue's faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Number of timers that fired before their deadlines.
    pub early: usize,
    /// Number of timers that fired after a timer with a later deadline, in one call.
    pub disordered: usize,
    /// Number of overdue timers that did not fire.
    pub late: usize,
    /// Number of timers that fired although they were not armed, or were armed and not found.
    pub lost: usize,
    /// Number of wrong results of `next_deadline` and `next_wakeup`.
    pub next: usize,
    /// Number of fired timers.
    pub fired: usize,
}

impl Verdict {
    /// Returns the number of faults.
    pub fn faults(&self) -> usize {
        self.early + self.disordered + self.late + self.lost + self.next
    }
}

struct Trial<C: Contender> {
    queue: C,
    random: Rng,
    /// Handles and deadlines of all timers, indexed by payload.
    timers: Vec<(C::Handle, u64)>,
    /// Payloads of the armed timers.
    live: Vec<u64>,
    by_deadline: BTreeSet<(u64, u64)>,
    now: u64,
    verdict: Verdict,
}

/// Runs `operations` random operations on a queue, and returns its faults.
pub fn check<C: Contender>(seed: u64, operations: usize) -> Verdict {
    let mut trial = Trial::<C> {
        queue: C::default(),
        random: Rng::with_seed(seed),
        timers: Vec::new(),
        live: Vec::new(),
        by_deadline: BTreeSet::new(),
        now: 0,
        verdict: Verdict::default(),
    };
    for operation in 0..operations {
        // The maximum number of timers changes between few and many.
        let wanted = [3, 60, 1_500][(operation / 4_096) % 3];
        match trial.random.u8(..8) {
            0..=2 if trial.live.len() < wanted => trial.arm(),
            0..=3 => trial.cancel(),
            4 | 5 => trial.rearm(),
            6 => {
                let step = trial.delay();
                trial.advance(step);
            }
            _ => trial.check_next(),
        }
    }
    // All timers are due after this.
    trial.advance(1 << 29);
    trial.verdict
}

impl<C: Contender> Trial<C> {
    /// Returns a random delay from a microsecond to minutes, with a random number of bits.
    fn delay(&mut self) -> u64 {
        let bits = self.random.u32(..28);
        self.random.u64(1..=1 << bits)
    }

    fn arm(&mut self) {
        let (deadline, payload) = (self.now + self.delay(), self.timers.len() as u64);
        let handle = self.queue.arm(deadline, payload);
        self.timers.push((handle, deadline));
        self.live.push(payload);
        self.by_deadline.insert((deadline, payload));
    }

    fn any(&mut self) -> Option<u64> {
        self.random.choice(&self.live).copied()
    }

    fn cancel(&mut self) {
        if let Some(payload) = self.any() {
            let found = self.queue.cancel(self.timers[payload as usize].0);
            self.verdict.lost += usize::from(!found);
            self.forget(payload);
        }
    }

    fn rearm(&mut self) {
        let Some(payload) = self.any() else { return };
        let deadline = self.now + self.delay();
        let (handle, before) = &mut self.timers[payload as usize];
        self.queue.rearm(handle, deadline);
        self.by_deadline.remove(&(*before, payload));
        self.by_deadline.insert((deadline, payload));
        *before = deadline;
    }

    /// Removes a timer from the model.
    fn forget(&mut self, payload: u64) {
        self.by_deadline
            .remove(&(self.timers[payload as usize].1, payload));
        self.live.retain(|&live| live != payload);
    }

    /// Advances the clock, and fires due timers.
    fn advance(&mut self, by: u64) {
        self.now += by;
        let mut fired = Vec::new();
        self.queue
            .fire(self.now, &mut |payload| fired.push(payload));
        let mut last = 0;
        for payload in fired {
            let deadline = match self.timers.get(payload as usize) {
                Some(&(_, deadline)) if self.by_deadline.contains(&(deadline, payload)) => deadline,
                _ => {
                    self.verdict.lost += 1;
                    continue;
                }
            };
            self.verdict.fired += 1;
            self.verdict.early += usize::from(deadline > self.now);
            self.verdict.disordered += usize::from(deadline + (C::TICK - 1) < last);
            last = last.max(deadline);
            self.forget(payload);
        }
        // An overdue timer counts as late once, and is then removed from the queue and the model.
        while let Some(&(deadline, payload)) = self.by_deadline.first()
            && deadline + (C::TICK - 1) <= self.now
        {
            self.verdict.late += 1;
            self.queue.cancel(self.timers[payload as usize].0);
            self.forget(payload);
        }
    }

    fn check_next(&mut self) {
        let earliest = self.by_deadline.first().map(|&(deadline, _)| deadline);
        let (next, wakeup) = (self.queue.next_deadline(), self.queue.next_wakeup());
        let right = match (earliest, next) {
            (Some(earliest), Some(next)) => (earliest..earliest + C::TICK).contains(&next),
            _ => earliest == next,
        };
        let in_time = earliest.is_none_or(|at| wakeup.is_some_and(|wakeup| wakeup < at + C::TICK));
        self.verdict.next += usize::from(!right || !in_time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::{Entry, Role};
    use crate::peers::Tree;

    #[test]
    fn queues_have_no_faults() {
        for entry in Entry::all() {
            if entry.role != Role::Floor {
                let verdict = (entry.check)(1, 50_000);
                assert_eq!(verdict.faults(), 0, "{}: {verdict:?}", entry.name);
                assert!(verdict.fired > 1_000);
            }
        }
    }

    const EARLY: u8 = 0;
    const LATE: u8 = 1;
    const FORGETS_CANCEL: u8 = 2;
    const NEXT_OFF: u8 = 3;

    /// A correct queue to which a flaw was added.
    #[derive(Default)]
    struct Flawed<const FLAW: u8>(Tree);

    impl<const FLAW: u8> Contender for Flawed<FLAW> {
        const NAME: &'static str = "flawed";
        type Handle = (u64, u64);

        fn arm(&mut self, deadline: u64, payload: u64) -> Self::Handle {
            self.0.arm(deadline, payload)
        }

        fn cancel(&mut self, handle: Self::Handle) -> bool {
            FLAW == FORGETS_CANCEL || self.0.cancel(handle)
        }

        fn rearm(&mut self, handle: &mut Self::Handle, deadline: u64) {
            self.0.rearm(handle, deadline);
        }

        fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) {
            let now = match FLAW {
                EARLY => now + 3,
                LATE => now - 1,
                _ => now,
            };
            self.0.fire(now, out);
        }

        fn next_deadline(&mut self) -> Option<u64> {
            Some(self.0.next_deadline()? - u64::from(FLAW == NEXT_OFF))
        }
    }

    #[test]
    fn each_mistake_is_caught() {
        assert!(check::<Flawed<EARLY>>(5, 40_000).early > 0);
        assert!(check::<Flawed<LATE>>(5, 40_000).late > 0);
        assert!(check::<Flawed<FORGETS_CANCEL>>(5, 40_000).lost > 0);
        assert!(check::<Flawed<NEXT_OFF>>(5, 40_000).next > 0);
    }
}
