//! Checks exactness: runs random operations on a queue and on a simple model side by side.
//!
//! The model has all armed timers and their deadlines. The clock moves in steps from a microsecond
//! to seconds; a timer is late if an earlier step should have fired it.

use std::collections::BTreeSet;

use crate::contender::Contender;
use crate::random::Random;

/// Counts of a queue's mistakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Fired before its deadline.
    pub early: usize,
    /// Fired after a timer with a later deadline in one call; coarse queues: by more than a tick.
    pub disordered: usize,
    /// Overdue by more than a tick, and not fired.
    pub late: usize,
    /// Never fired.
    pub lost: usize,
    /// Fired again, or after being cancelled.
    pub ghosts: usize,
    /// Cancels that did not find a live timer, or accepted a stale handle.
    pub handles: usize,
    /// Wrong next deadlines: too late, or not exact in a queue with exact answers.
    pub next: usize,
    /// Greatest delay of a timer that was due at one call and fired at a later one, in microseconds.
    pub latest: u64,
    /// Number of fired timers.
    pub fired: usize,
}

impl Verdict {
    /// Number of mistakes that no tick excuses.
    pub fn faults(&self) -> usize {
        self.early
            + self.disordered
            + self.late
            + self.lost
            + self.ghosts
            + self.handles
            + self.next
    }
}

#[derive(Clone, Copy)]
struct Timer<H> {
    handle: H,
    deadline: u64,
    armed: bool,
    /// Number of calls of `look` before the timer was armed.
    looks: usize,
}

struct Trial<C: Contender> {
    queue: C,
    /// Timers by payload.
    timers: Vec<Timer<C::Handle>>,
    /// Payloads of the timers that are armed in the model, unordered; `place` has each one's index.
    live: Vec<u32>,
    place: Vec<u32>,
    by_deadline: BTreeSet<(u64, u32)>,
    now: u64,
    looks: usize,
    verdict: Verdict,
}

/// Runs `operations` random operations on a queue and returns its mistakes.
pub fn check<C: Contender>(seed: u64, operations: usize) -> Verdict {
    let mut random = Random::new(seed);
    let mut trial = Trial::<C> {
        queue: C::new(),
        timers: Vec::new(),
        live: Vec::new(),
        place: Vec::new(),
        by_deadline: BTreeSet::new(),
        now: 0,
        looks: 0,
        verdict: Verdict::default(),
    };
    for operation in 0..operations {
        // The number of timers varies between few and many.
        let wanted = [3, 60, 1_500][(operation / 4_096) % 3].min(C::MAX_TIMERS);
        trial.step(&mut random, wanted);
    }
    trial.finish();
    trial.verdict
}

impl<C: Contender> Trial<C> {
    fn step(&mut self, random: &mut Random, wanted: usize) {
        match random.below(8) {
            0..=2 if self.live.len() < wanted => self.arm(random),
            0..=2 => self.cancel(random),
            3 => self.cancel(random),
            4 | 5 => self.rearm(random),
            6 => self.look(ahead(random)),
            _ => self.ask(),
        }
    }

    fn arm(&mut self, random: &mut Random) {
        let deadline = self.now + 1 + ahead(random);
        let payload = self.timers.len() as u32;
        let handle = self.queue.arm(deadline, u64::from(payload));
        self.timers.push(Timer {
            handle,
            deadline,
            armed: true,
            looks: self.looks,
        });
        self.place.push(self.live.len() as u32);
        self.live.push(payload);
        self.by_deadline.insert((deadline, payload));
    }

    fn any(&self, random: &mut Random) -> Option<usize> {
        (!self.live.is_empty()).then(|| self.live[random.place(self.live.len())] as usize)
    }

    fn cancel(&mut self, random: &mut Random) {
        if C::REFUSES_STALE && !self.timers.is_empty() && random.below(4) == 0 {
            let any = self.timers[random.place(self.timers.len())];
            if !any.armed {
                self.verdict.handles += usize::from(self.queue.cancel(any.handle));
            }
        }
        let Some(payload) = self.any(random) else {
            return;
        };
        let done = self.queue.cancel(self.timers[payload].handle);
        self.verdict.handles += usize::from(!done);
        self.gone(payload);
    }

    fn rearm(&mut self, random: &mut Random) {
        let Some(payload) = self.any(random) else {
            return;
        };
        let deadline = self.now + 1 + ahead(random);
        let timer = &mut self.timers[payload];
        self.queue.rearm(&mut timer.handle, deadline);
        self.by_deadline.remove(&(timer.deadline, payload as u32));
        self.by_deadline.insert((deadline, payload as u32));
        timer.deadline = deadline;
        timer.looks = self.looks;
    }

    /// Removes a timer from the model.
    fn gone(&mut self, payload: usize) {
        let timer = &mut self.timers[payload];
        timer.armed = false;
        self.by_deadline.remove(&(timer.deadline, payload as u32));
        let at = self.place[payload] as usize;
        self.live.swap_remove(at);
        if let Some(&moved) = self.live.get(at) {
            self.place[moved as usize] = at as u32;
        }
    }

    /// Advances the clock by `by` microseconds, and fires due timers.
    fn look(&mut self, by: u64) {
        let before = self.now;
        self.now += by;
        let mut fired = Vec::new();
        let count = self
            .queue
            .fire(self.now, &mut |payload| fired.push(payload));
        self.verdict.ghosts += count.abs_diff(fired.len());
        let mut last = 0;
        for payload in fired {
            let known = self.timers.get(payload as usize).copied();
            let Some(timer) = known.filter(|timer| timer.armed) else {
                self.verdict.ghosts += 1;
                continue;
            };
            self.verdict.fired += 1;
            self.verdict.early += usize::from(timer.deadline > self.now);
            self.verdict.disordered += usize::from(timer.deadline + (C::TICK - 1) < last);
            last = last.max(timer.deadline);
            if timer.looks < self.looks {
                self.verdict.latest = self
                    .verdict
                    .latest
                    .max(before.saturating_sub(timer.deadline));
            }
            self.gone(payload as usize);
        }
        self.looks += 1;
        // A timer that did not fire counts as late once; then it is removed from queue and model.
        let bound = (self.now + 1).saturating_sub(C::TICK);
        while let Some(&(deadline, payload)) = self.by_deadline.first() {
            if deadline > bound || self.now < C::TICK - 1 {
                break;
            }
            self.verdict.late += 1;
            self.verdict.latest = self.verdict.latest.max(self.now - deadline);
            let handle = self.timers[payload as usize].handle;
            self.queue.cancel(handle);
            self.gone(payload as usize);
        }
    }

    fn ask(&mut self) {
        let earliest = self.by_deadline.first().map(|&(deadline, _)| deadline);
        let answer = self.queue.next_deadline();
        let wakeup = self.queue.next_wakeup();
        self.verdict.next += usize::from(!good_answer::<C>(earliest, answer, C::EXACT_NEXT));
        self.verdict.next += usize::from(!good_answer::<C>(earliest, wakeup, false));
    }

    /// Advances the clock until all timers are due.
    fn finish(&mut self) {
        for _ in 0..64 {
            self.look(4_000_000);
        }
        self.look(4 * C::TICK);
        self.verdict.lost += self.live.len();
    }
}

/// Returns whether `answer` is right, within a tick for coarse queues.
fn good_answer<C: Contender>(earliest: Option<u64>, answer: Option<u64>, exact: bool) -> bool {
    match (earliest, answer) {
        (None, None) => true,
        // An empty queue may return any lower bound.
        (None, Some(_)) => !exact,
        (Some(_), None) => false,
        (Some(earliest), Some(answer)) => {
            let soon_enough = answer < earliest + C::TICK;
            soon_enough && (!exact || answer + C::TICK > earliest)
        }
    }
}

/// Returns a random delay from a microsecond to minutes, with a random number of bits.
fn ahead(random: &mut Random) -> u64 {
    let bits = random.below(28);
    random.below(1 << bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A correct queue with one optional flaw.
    struct Flawed<const FLAW: u8> {
        timers: BTreeSet<(u64, u64, u64)>,
        deadlines: Vec<Option<(u64, u64)>>,
        counter: u64,
    }

    const NONE: u8 = 0;
    const EARLY: u8 = 1;
    const DISORDERED: u8 = 2;
    const LATE: u8 = 3;
    const LOSES: u8 = 4;
    const TWICE: u8 = 5;
    const FORGETS_CANCEL: u8 = 6;
    const NEXT_OFF: u8 = 7;
    const TAKES_STALE: u8 = 8;

    impl<const FLAW: u8> Contender for Flawed<FLAW> {
        const NAME: &'static str = "flawed";
        const REFUSES_STALE: bool = true;
        type Handle = u64;

        fn new() -> Self {
            Flawed {
                timers: BTreeSet::new(),
                deadlines: Vec::new(),
                counter: 0,
            }
        }

        fn arm(&mut self, deadline: u64, payload: u64) -> u64 {
            self.counter += 1;
            let handle = self.deadlines.len() as u64;
            self.deadlines.push(Some((deadline, payload)));
            if FLAW != LOSES || !self.counter.is_multiple_of(100) {
                self.timers.insert((deadline, handle, payload));
            }
            handle
        }

        fn cancel(&mut self, handle: u64) -> bool {
            self.counter += 1;
            let Some((deadline, payload)) = self.deadlines[handle as usize].take() else {
                return FLAW == TAKES_STALE;
            };
            if FLAW != FORGETS_CANCEL || !self.counter.is_multiple_of(100) {
                self.timers.remove(&(deadline, handle, payload));
            }
            true
        }

        fn rearm(&mut self, handle: &mut u64, deadline: u64) {
            if let Some((_, payload)) = self.deadlines[*handle as usize] {
                self.cancel(*handle);
                *handle = self.arm(deadline, payload);
            }
        }

        fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize {
            self.counter += 1;
            let now = match FLAW {
                EARLY => now + 3,
                LATE => now.saturating_sub(1),
                _ => now,
            };
            let mut due: Vec<_> = self
                .timers
                .iter()
                .copied()
                .take_while(|timer| timer.0 <= now)
                .collect();
            due.iter().for_each(|timer| {
                self.timers.remove(timer);
                self.deadlines[timer.1 as usize] = None;
            });
            if FLAW == DISORDERED {
                due.reverse();
            }
            if FLAW == TWICE
                && let Some(&first) = due.first()
            {
                due.push(first);
            }
            due.iter().for_each(|timer| out(timer.2));
            due.len()
        }

        fn next_deadline(&mut self) -> Option<u64> {
            let off = u64::from(FLAW == NEXT_OFF);
            self.timers.first().map(|timer| timer.0 - off)
        }
    }

    fn verdict<const FLAW: u8>() -> Verdict {
        check::<Flawed<FLAW>>(5, 40_000)
    }

    #[test]
    fn a_right_queue_has_no_faults() {
        let verdict = verdict::<NONE>();
        assert_eq!((verdict.faults(), verdict.latest), (0, 0));
        assert!(verdict.fired > 1_000);
    }

    #[test]
    fn each_mistake_is_caught() {
        assert!(verdict::<EARLY>().early > 0);
        assert!(verdict::<DISORDERED>().disordered > 0);
        assert!(verdict::<LATE>().late > 0);
        assert!(verdict::<LOSES>().faults() > 0);
        assert!(verdict::<TWICE>().ghosts > 0);
        assert!(verdict::<FORGETS_CANCEL>().ghosts > 0);
        assert!(verdict::<NEXT_OFF>().next > 0);
        assert!(verdict::<TAKES_STALE>().handles > 0);
    }

    #[test]
    fn ours_have_no_faults() {
        struct All;
        impl crate::contender::Visitor for All {
            fn visit<C: Contender>(&mut self) {
                let verdict = check::<C>(1, 100_000);
                assert_eq!(
                    (verdict.faults(), verdict.latest),
                    (0, 0),
                    "{}: {verdict:?}",
                    C::NAME
                );
            }
        }
        crate::ours::for_each(&mut All);
    }
}
