//! The timers without a clock, a thread or a runtime: callers pass `now` and receive wakers. All work
//! that the driver and the handles do under the lock is here, so tests can jump through time.
//!
//! Waking a task or dropping a waker may run a task's destructor, which may drop timers, which takes
//! the lock. So neither is done here: wakers are returned by value, to be woken or dropped without
//! the lock.

use std::task::Waker;

use punctual::{DeadlineQueue, TimerKey};

use crate::stats::Stats;

/// The queue of timers, each with the task to wake. Any [`DeadlineQueue`] works.
type Queue = punctual::Wheel<Option<Waker>>;

/// Maximum number of timers fired under one lock, which bounds how long others wait for it.
pub(crate) const BATCH: usize = 64;

/// The driver's next step after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// More timers may be due.
    FireMore,
    /// Nothing is due before this tick; `u64::MAX` means never.
    SleepUntil(u64),
}

/// The state of a timer.
#[derive(Debug)]
pub(crate) enum TimerState {
    Fired,
    /// Not fired yet. The waker it had before must be dropped by the caller.
    Armed {
        replaced: Option<Waker>,
    },
}

/// The tick at which the driver must wake, if it sleeps longer than that.
#[must_use = "the driver would oversleep"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EarlierWakeup(pub(crate) Option<u64>);

#[derive(Debug, Default)]
pub(crate) struct Schedule {
    queue: Queue,
    /// The driver checks the queue at this tick or earlier. 0 while it is awake and will check once more
    /// before it sleeps.
    wakeup: u64,
    pub(crate) stats: Stats,
}

impl Schedule {
    /// Arms a timer. O(1).
    #[inline]
    pub(crate) fn arm(&mut self, deadline: u64) -> (TimerKey, EarlierWakeup) {
        let key = self.queue.insert(deadline, None);
        self.stats.arms += 1;
        (key, self.shorten_sleep(deadline))
    }

    /// Re-arms a timer. O(1); if it has not fired and the new deadline is later, this only writes to its
    /// record.
    #[inline]
    pub(crate) fn rearm(&mut self, key: &mut TimerKey, deadline: u64) -> EarlierWakeup {
        if self.queue.reset(*key, deadline) {
            self.stats.rearms += 1;
            return self.shorten_sleep(deadline);
        }
        let (armed, wakeup) = self.arm(deadline);
        *key = armed;
        wakeup
    }

    /// Returns whether a timer has fired; if not, `waker` will be woken when it does. O(1).
    #[inline]
    pub(crate) fn poll(&mut self, key: TimerKey, waker: &Waker) -> TimerState {
        match self.queue.get_mut(key) {
            None => TimerState::Fired,
            Some(Some(known)) if known.will_wake(waker) => TimerState::Armed { replaced: None },
            Some(known) => TimerState::Armed {
                replaced: known.replace(waker.clone()),
            },
        }
    }

    /// Disarms a timer and returns its waker, which the caller must drop. O(1).
    pub(crate) fn disarm(&mut self, key: TimerKey) -> Option<Waker> {
        let waker = self.queue.remove(key)?;
        self.stats.disarms += 1;
        waker
    }

    /// Fires timers due at `now`, at most [`BATCH`], and appends their wakers to `due`.
    pub(crate) fn fire_batch(&mut self, now: u64, due: &mut Vec<Waker>) -> Next {
        let mut fires = 0;
        while fires < BATCH
            && let Some(expired) = self.queue.pop_due(now)
        {
            due.extend(expired.value);
            fires += 1;
        }
        self.stats.turns += 1;
        self.stats.fires += fires as u64;
        self.stats.spurious += u64::from(fires == 0);
        if fires == BATCH {
            self.wakeup = 0;
            return Next::FireMore;
        }
        self.wakeup = self.queue.next_deadline().unwrap_or(u64::MAX);
        Next::SleepUntil(self.wakeup)
    }

    #[inline]
    fn shorten_sleep(&mut self, deadline: u64) -> EarlierWakeup {
        if deadline >= self.wakeup {
            return EarlierWakeup(None);
        }
        self.wakeup = deadline;
        self.stats.hurries += 1;
        EarlierWakeup(Some(deadline))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use proptest::prelude::*;

    use super::*;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct CountingWaker(AtomicUsize);

    impl CountingWaker {
        fn wakes(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A schedule whose driver sleeps as long as it may, like the real one.
    #[derive(Default)]
    struct Driven {
        schedule: Schedule,
        wakes_at: u64,
    }

    impl Driven {
        fn fire_batch(&mut self, now: u64) {
            let mut due = Vec::new();
            loop {
                let next = self.schedule.fire_batch(now, &mut due);
                due.drain(..).for_each(Waker::wake);
                if let Next::SleepUntil(tick) = next {
                    self.wakes_at = tick;
                    return;
                }
            }
        }

        /// Jumps to `now`, running the driver whenever it would have woken.
        fn jump(&mut self, now: u64) {
            while self.wakes_at <= now {
                self.fire_batch(self.wakes_at);
            }
        }

        fn shorten_sleep(&mut self, wakeup: EarlierWakeup) {
            if let EarlierWakeup(Some(tick)) = wakeup {
                assert!(tick < self.wakes_at);
                self.wakes_at = tick;
            }
        }
    }

    fn pending(schedule: &mut Schedule, key: TimerKey, counter: &Arc<CountingWaker>) -> bool {
        match schedule.poll(key, &Waker::from(counter.clone())) {
            TimerState::Fired => false,
            TimerState::Armed { replaced } => {
                drop(replaced);
                true
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arm { delay: u64 },
        Rearm { timer: usize, delay: u64 },
        Drop { timer: usize },
        Jump { by: u64 },
    }

    fn delays() -> impl Strategy<Value = u64> {
        prop_oneof![0..50u64, 0..5_000u64, 0..40_000_000u64]
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let timer = any::<prop::sample::Index>().prop_map(|index| index.index(1 << 16));
        let step = prop_oneof![
            2 => delays().prop_map(|delay| Step::Arm { delay }),
            6 => (timer.clone(), delays()).prop_map(|(timer, delay)| Step::Rearm { timer, delay }),
            1 => timer.prop_map(|timer| Step::Drop { timer }),
            3 => delays().prop_map(|by| Step::Jump { by }),
        ];
        prop::collection::vec(step, 1..300)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The model: a timer has fired exactly if its deadline has been reached. The driver
        /// runs only when it wakes by itself or is woken, so it must not oversleep either.
        #[test]
        fn timers_fire_at_their_deadlines_and_never_before(steps in steps()) {
            struct Modelled { key: TimerKey, deadline: u64, counter: Arc<CountingWaker> }
            let mut driven = Driven::default();
            driven.fire_batch(0);
            let mut timers: Vec<Modelled> = Vec::new();
            let mut now = 0;
            for step in steps {
                match step {
                    Step::Arm { delay } => {
                        let deadline = now + delay;
                        let (key, wakeup) = driven.schedule.arm(deadline);
                        timers.push(Modelled { key, deadline, counter: Arc::default() });
                        let timer = timers.last().unwrap();
                        prop_assert!(pending(&mut driven.schedule, key, &timer.counter));
                        driven.shorten_sleep(wakeup);
                        driven.jump(now);
                    }
                    Step::Rearm { timer, delay } if !timers.is_empty() => {
                        let at = timer % timers.len();
                        let timer = &mut timers[at];
                        timer.deadline = now + delay;
                        timer.counter = Arc::default();
                        let wakeup = driven.schedule.rearm(&mut timer.key, timer.deadline);
                        prop_assert!(pending(&mut driven.schedule, timer.key, &timer.counter));
                        driven.shorten_sleep(wakeup);
                        driven.jump(now);
                    }
                    Step::Drop { timer } if !timers.is_empty() => {
                        let timer = timers.swap_remove(timer % timers.len());
                        let wakes = timer.counter.wakes();
                        drop(driven.schedule.disarm(timer.key));
                        prop_assert_eq!(timer.counter.wakes(), wakes);
                        prop_assert_eq!(Arc::strong_count(&timer.counter), 1);
                    }
                    Step::Rearm { .. } | Step::Drop { .. } => {}
                    Step::Jump { by } => {
                        now += by;
                        driven.jump(now);
                    }
                }
                for timer in &timers {
                    let due = timer.deadline <= now;
                    prop_assert_eq!(timer.counter.wakes(), usize::from(due));
                    prop_assert_eq!(driven.schedule.queue.get(timer.key).is_none(), due);
                }
            }
            let stats = driven.schedule.stats;
            let armed = driven.schedule.queue.len() as u64;
            prop_assert_eq!(stats.arms, armed + stats.fires + stats.disarms);
        }
    }

    #[test]
    fn only_an_earlier_deadline_shortens_the_sleep() {
        let mut schedule = Schedule::default();
        let (mut key, wakeup) = schedule.arm(1_000);
        assert_eq!(
            wakeup,
            EarlierWakeup(None),
            "the first check is still to come"
        );
        let mut due = Vec::new();
        assert_eq!(schedule.fire_batch(0, &mut due), Next::SleepUntil(1_000));

        let mut rearm = |deadline| schedule.rearm(&mut key, deadline);
        assert_eq!(
            rearm(2_000),
            EarlierWakeup(None),
            "the driver wakes earlier, spuriously"
        );
        assert_eq!(rearm(1_000), EarlierWakeup(None));
        assert_eq!(rearm(999), EarlierWakeup(Some(999)));
        assert_eq!(rearm(999), EarlierWakeup(None));
        assert_eq!(rearm(5), EarlierWakeup(Some(5)));
        assert_eq!(schedule.fire_batch(4, &mut due), Next::SleepUntil(5));
        assert_eq!(schedule.fire_batch(5, &mut due), Next::SleepUntil(u64::MAX));
        assert_eq!(schedule.stats.hurries, 2);
    }

    #[test]
    fn a_postponed_deadline_costs_one_spurious_wakeup() {
        let mut driven = Driven::default();
        let (mut key, _) = driven.schedule.arm(10);
        driven.fire_batch(0);
        let before = driven.schedule.stats;
        for later in 11..1_000 {
            assert_eq!(driven.schedule.rearm(&mut key, later), EarlierWakeup(None));
        }
        driven.jump(998);
        let stats = driven.schedule.stats.since(before);
        assert_eq!((stats.turns, stats.spurious, stats.fires), (1, 1, 0));
        driven.jump(999);
        assert_eq!(driven.schedule.stats.fires, 1);
    }

    #[test]
    fn many_due_at_once_fire_in_batches() {
        let mut schedule = Schedule::default();
        let counter = Arc::new(CountingWaker::default());
        for _ in 0..BATCH + 1 {
            let (key, _) = schedule.arm(7);
            assert!(pending(&mut schedule, key, &counter));
        }
        let mut due = Vec::new();
        assert_eq!(schedule.fire_batch(7, &mut due), Next::FireMore);
        assert_eq!(due.len(), BATCH);
        assert_eq!(schedule.fire_batch(7, &mut due), Next::SleepUntil(u64::MAX));
        assert_eq!(due.len(), BATCH + 1);
        assert_eq!(counter.wakes(), 0, "the driver wakes them after unlocking");
    }

    #[test]
    fn another_task_takes_a_timer_over() {
        let mut driven = Driven::default();
        let (key, _) = driven.schedule.arm(10);
        let [first, second] = [0; 2].map(|_| Arc::new(CountingWaker::default()));
        assert!(pending(&mut driven.schedule, key, &first));
        assert!(pending(&mut driven.schedule, key, &second));
        driven.fire_batch(0);
        driven.jump(10);
        assert_eq!((first.wakes(), second.wakes()), (0, 1));
        assert!(!pending(&mut driven.schedule, key, &first));
    }
}
