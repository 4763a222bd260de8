//! The timers, without a clock, a thread or a runtime: `now` is passed in, and wakers are handed
//! out. What the driver and the handles do under the lock is all here, so tests jump through it.
//!
//! For whoever holds the lock: waking a task or dropping a waker may run a task's destructor,
//! which drops timers, which takes the lock. So neither is done here. Wakers leave by value, and
//! are woken or dropped when the lock is free.

use std::task::Waker;

use punctual::{DeadlineQueue, TimerKey};

use crate::stats::Stats;

/// The queue that holds the timers, each with the task to wake. Any [`DeadlineQueue`] will do.
type Queue = punctual::Wheel<Option<Waker>>;

/// How many timers one turn fires at most: how long others may wait for the lock.
pub(crate) const BATCH: usize = 64;

/// What the driver does after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// There may be more to fire now.
    Turn,
    /// Nothing is due before this tick; ever, if it is `u64::MAX`.
    SleepUntil(u64),
}

/// Whether a timer has fired.
#[derive(Debug)]
pub(crate) enum Asked {
    Fired,
    /// Not yet. Whom it would have woken before, to be dropped.
    Armed {
        replaced: Option<Waker>,
    },
}

/// The tick until which the driver is to sleep, if it sleeps for too long.
#[must_use = "the driver would oversleep"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hurry(pub(crate) Option<u64>);

#[derive(Debug, Default)]
pub(crate) struct Schedule {
    queue: Queue,
    /// The driver looks at the queue at this tick or before: when it wakes. 0 while it is awake
    /// and looks once more before it sleeps.
    wakeup: u64,
    pub(crate) stats: Stats,
}

impl Schedule {
    /// Arms a timer. O(1).
    #[inline]
    pub(crate) fn arm(&mut self, deadline: u64) -> (TimerKey, Hurry) {
        let key = self.queue.insert(deadline, None);
        self.stats.arms += 1;
        (key, self.hurry(deadline))
    }

    /// Arms a timer anew. O(1); a write to its record only, if it has not fired and is due later
    /// than before.
    #[inline]
    pub(crate) fn rearm(&mut self, key: &mut TimerKey, deadline: u64) -> Hurry {
        if self.queue.reset(*key, deadline) {
            self.stats.rearms += 1;
            return self.hurry(deadline);
        }
        let (armed, hurry) = self.arm(deadline);
        *key = armed;
        hurry
    }

    /// Whether a timer has fired; if not, `waker` is woken when it does. O(1).
    #[inline]
    pub(crate) fn ask(&mut self, key: TimerKey, waker: &Waker) -> Asked {
        match self.queue.get_mut(key) {
            None => Asked::Fired,
            Some(Some(known)) if known.will_wake(waker) => Asked::Armed { replaced: None },
            Some(known) => Asked::Armed {
                replaced: known.replace(waker.clone()),
            },
        }
    }

    /// Disarms a timer. Whom it would have woken is the caller's to drop. O(1).
    pub(crate) fn disarm(&mut self, key: TimerKey) -> Option<Waker> {
        let waker = self.queue.remove(key)?;
        self.stats.disarms += 1;
        waker
    }

    /// Fires what is due at `now`, at most [`BATCH`] timers, and puts whom to wake into `due`.
    pub(crate) fn turn(&mut self, now: u64, due: &mut Vec<Waker>) -> Next {
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
            return Next::Turn;
        }
        self.wakeup = self.queue.next_deadline().unwrap_or(u64::MAX);
        Next::SleepUntil(self.wakeup)
    }

    #[inline]
    fn hurry(&mut self, deadline: u64) -> Hurry {
        if deadline >= self.wakeup {
            return Hurry(None);
        }
        self.wakeup = deadline;
        self.stats.hurries += 1;
        Hurry(Some(deadline))
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
    struct Bell(AtomicUsize);

    impl Bell {
        fn rung(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A schedule whose driver sleeps as long as it may, as the real one does.
    #[derive(Default)]
    struct Driven {
        schedule: Schedule,
        wakes_at: u64,
    }

    impl Driven {
        fn turn(&mut self, now: u64) {
            let mut due = Vec::new();
            loop {
                let next = self.schedule.turn(now, &mut due);
                due.drain(..).for_each(Waker::wake);
                if let Next::SleepUntil(tick) = next {
                    self.wakes_at = tick;
                    return;
                }
            }
        }

        /// Jumps to `now`, looking whenever the driver would have.
        fn jump(&mut self, now: u64) {
            while self.wakes_at <= now {
                self.turn(self.wakes_at);
            }
        }

        fn hurry(&mut self, hurry: Hurry) {
            if let Hurry(Some(tick)) = hurry {
                assert!(tick < self.wakes_at);
                self.wakes_at = tick;
            }
        }
    }

    fn pending(schedule: &mut Schedule, key: TimerKey, bell: &Arc<Bell>) -> bool {
        match schedule.ask(key, &Waker::from(bell.clone())) {
            Asked::Fired => false,
            Asked::Armed { replaced } => {
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

        /// The model: a timer has fired exactly when time has reached its deadline. The driver
        /// looks only when it wakes by itself or is woken, so it must not oversleep either.
        #[test]
        fn timers_fire_at_their_deadlines_and_never_before(steps in steps()) {
            struct Modelled { key: TimerKey, deadline: u64, bell: Arc<Bell> }
            let mut driven = Driven::default();
            driven.turn(0);
            let mut timers: Vec<Modelled> = Vec::new();
            let mut now = 0;
            for step in steps {
                match step {
                    Step::Arm { delay } => {
                        let deadline = now + delay;
                        let (key, hurry) = driven.schedule.arm(deadline);
                        timers.push(Modelled { key, deadline, bell: Arc::default() });
                        let timer = timers.last().unwrap();
                        prop_assert!(pending(&mut driven.schedule, key, &timer.bell));
                        driven.hurry(hurry);
                        driven.jump(now);
                    }
                    Step::Rearm { timer, delay } if !timers.is_empty() => {
                        let at = timer % timers.len();
                        let timer = &mut timers[at];
                        timer.deadline = now + delay;
                        timer.bell = Arc::default();
                        let hurry = driven.schedule.rearm(&mut timer.key, timer.deadline);
                        prop_assert!(pending(&mut driven.schedule, timer.key, &timer.bell));
                        driven.hurry(hurry);
                        driven.jump(now);
                    }
                    Step::Drop { timer } if !timers.is_empty() => {
                        let timer = timers.swap_remove(timer % timers.len());
                        let rung = timer.bell.rung();
                        drop(driven.schedule.disarm(timer.key));
                        prop_assert_eq!(timer.bell.rung(), rung);
                        prop_assert_eq!(Arc::strong_count(&timer.bell), 1);
                    }
                    Step::Rearm { .. } | Step::Drop { .. } => {}
                    Step::Jump { by } => {
                        now += by;
                        driven.jump(now);
                    }
                }
                for timer in &timers {
                    let due = timer.deadline <= now;
                    prop_assert_eq!(timer.bell.rung(), usize::from(due));
                    prop_assert_eq!(driven.schedule.queue.get(timer.key).is_none(), due);
                }
            }
            let stats = driven.schedule.stats;
            let armed = driven.schedule.queue.len() as u64;
            prop_assert_eq!(stats.arms, armed + stats.fires + stats.disarms);
        }
    }

    #[test]
    fn the_driver_hurries_for_an_earlier_deadline_only() {
        let mut schedule = Schedule::default();
        let (mut key, hurry) = schedule.arm(1_000);
        assert_eq!(hurry, Hurry(None), "it has yet to look for the first time");
        let mut due = Vec::new();
        assert_eq!(schedule.turn(0, &mut due), Next::SleepUntil(1_000));

        let mut rearm = |deadline| schedule.rearm(&mut key, deadline);
        assert_eq!(rearm(2_000), Hurry(None), "it looks before, in vain");
        assert_eq!(rearm(1_000), Hurry(None));
        assert_eq!(rearm(999), Hurry(Some(999)));
        assert_eq!(rearm(999), Hurry(None));
        assert_eq!(rearm(5), Hurry(Some(5)));
        assert_eq!(schedule.turn(4, &mut due), Next::SleepUntil(5));
        assert_eq!(schedule.turn(5, &mut due), Next::SleepUntil(u64::MAX));
        assert_eq!(schedule.stats.hurries, 2);
    }

    #[test]
    fn a_deadline_put_off_costs_one_turn_in_vain() {
        let mut driven = Driven::default();
        let (mut key, _) = driven.schedule.arm(10);
        driven.turn(0);
        let before = driven.schedule.stats;
        for later in 11..1_000 {
            assert_eq!(driven.schedule.rearm(&mut key, later), Hurry(None));
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
        let bell = Arc::new(Bell::default());
        for _ in 0..BATCH + 1 {
            let (key, _) = schedule.arm(7);
            assert!(pending(&mut schedule, key, &bell));
        }
        let mut due = Vec::new();
        assert_eq!(schedule.turn(7, &mut due), Next::Turn);
        assert_eq!(due.len(), BATCH);
        assert_eq!(schedule.turn(7, &mut due), Next::SleepUntil(u64::MAX));
        assert_eq!(due.len(), BATCH + 1);
        assert_eq!(
            bell.rung(),
            0,
            "to wake them is the driver's, after unlocking"
        );
    }

    #[test]
    fn another_task_takes_a_timer_over() {
        let mut driven = Driven::default();
        let (key, _) = driven.schedule.arm(10);
        let [first, second] = [0; 2].map(|_| Arc::new(Bell::default()));
        assert!(pending(&mut driven.schedule, key, &first));
        assert!(pending(&mut driven.schedule, key, &second));
        driven.turn(0);
        driven.jump(10);
        assert_eq!((first.rung(), second.rung()), (0, 1));
        assert!(!pending(&mut driven.schedule, key, &first));
    }
}
