//! The futures on a virtual clock, polled by hand. Threads are in `stress.rs`, other people's executors in
//! `tests/executors.rs`, and the order of a poll and a deadline in `model.rs`.

use core::future::{Future, pending, ready};
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::time::Instant;

use futures_core::Stream;
use proptest::prelude::*;

use super::*;
use crate::time::timeline::Timeline;
use crate::time::{VirtualTime, now};

const MS: Duration = Duration::from_millis(1);

/// A task's waker that counts.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A task that is polled by hand.
struct Task {
    count: Arc<Count>,
    waker: Waker,
}

impl Task {
    fn new() -> Self {
        let count = Arc::<Count>::default();
        let waker = count.clone().into();
        Task { count, waker }
    }

    fn cx(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }

    fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut self.cx())
    }

    /// How often it was woken since this was last asked.
    fn woken(&self) -> usize {
        self.count.0.swap(0, Ordering::Relaxed)
    }

    /// How many wakers of it there are elsewhere.
    fn held(&self) -> usize {
        Arc::strong_count(&self.count) - 2
    }
}

/// How many alarms are armed on this thread's clock.
fn armed() -> usize {
    match Timeline::current() {
        Timeline::Virtual(simulation) => simulation.pending(),
        Timeline::Real => panic!("no virtual clock was entered"),
    }
}

#[test]
fn a_sleep_is_armed_by_a_poll_and_disarmed_by_a_drop() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut one = sleep(10 * MS);
    assert_eq!(armed(), 0);
    assert!(task.poll(&mut one).is_pending());
    let mut two = sleep(20 * MS);
    assert!(task.poll(&mut two).is_pending());
    assert_eq!((armed(), task.held()), (2, 2));
    drop(two);
    assert_eq!((armed(), task.held()), (1, 1));
    time.advance(10 * MS);
    assert_eq!((armed(), task.held(), task.woken()), (0, 0, 1));
    assert_eq!(task.poll(&mut one), Poll::Ready(()));
    assert_eq!(task.poll(&mut one), Poll::Ready(()), "it stays ready");
    assert!(one.is_elapsed());
}

#[test]
fn a_sleep_counts_from_its_call() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut late = sleep(10 * MS);
    time.advance(4 * MS);
    let mut sooner = sleep(5 * MS);
    assert_eq!(late.deadline() - sooner.deadline(), MS);
    assert!(task.poll(&mut late).is_pending() && task.poll(&mut sooner).is_pending());
    time.advance(5 * MS);
    assert!(task.poll(&mut late).is_pending() && task.poll(&mut sooner).is_ready());
    time.advance(MS);
    assert!(task.poll(&mut late).is_ready());
    assert_eq!(task.woken(), 2);
}

#[test]
fn what_has_passed_needs_no_driver() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut created = sleep(10 * MS);
    time.advance(10 * MS);
    assert!(task.poll(&mut created).is_ready());
    assert!(task.poll(&mut sleep(Duration::ZERO)).is_ready());
    let past = now() - MS;
    assert!(task.poll(&mut sleep_until(past)).is_ready());
    assert_eq!((armed(), task.woken()), (0, 0));
}

#[test]
fn never_is_far_off() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut never = sleep(Duration::MAX);
    assert!(task.poll(&mut never).is_pending());
    time.advance(Duration::from_secs(500 * 365 * 86_400));
    assert!(task.poll(&mut never).is_pending() && task.woken() == 0);
    assert!(never.deadline() > Instant::now());
}

#[test]
fn the_last_waker_is_woken_and_a_known_one_is_not_cloned() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let (first, second) = (Task::new(), Task::new());
    let mut moved = sleep(10 * MS);
    for _ in 0..3 {
        assert!(first.poll(&mut moved).is_pending());
        assert_eq!(first.held(), 1);
    }
    assert!(second.poll(&mut moved).is_pending());
    assert_eq!((first.held(), second.held(), armed()), (0, 1, 1));
    time.advance(10 * MS);
    assert_eq!((first.woken(), second.woken()), (0, 1));
}

#[test]
fn a_reset_moves_the_deadline_of_a_waiting_task() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let start = now();
    let mut idle = sleep(10 * MS);
    idle.reset(start + 5 * MS);
    assert_eq!(armed(), 0, "nobody waits");
    assert!(task.poll(&mut idle).is_pending());
    idle.reset(start + 20 * MS);
    time.advance(19 * MS);
    assert_eq!(task.woken(), 0);
    idle.reset(start + 30 * MS);
    idle.reset(start + 21 * MS);
    time.advance(2 * MS);
    assert_eq!(task.woken(), 1);
    // It fired, and no poll has seen it yet.
    idle.reset(start + 40 * MS);
    assert_eq!(armed(), 0);
    assert!(task.poll(&mut idle).is_pending() && armed() == 1);
    time.advance(19 * MS);
    assert!(task.poll(&mut idle).is_ready());
    // It is ready, and used again.
    idle.reset(start + 50 * MS);
    assert!(!idle.is_elapsed());
    assert!(task.poll(&mut idle).is_pending());
    time.advance(10 * MS);
    assert!(task.poll(&mut idle).is_ready());
    // To a time that has passed.
    idle.reset(start + 90 * MS);
    assert!(task.poll(&mut idle).is_pending());
    task.woken();
    idle.reset(start + 10 * MS);
    assert_eq!((task.woken(), armed()), (1, 0));
    assert!(task.poll(&mut idle).is_ready());
}

/// Ready at the given poll.
struct After(u32);

impl Future for After {
    type Output = &'static str;

    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.0 == 0 {
            return Poll::Ready("done");
        }
        self.0 -= 1;
        Poll::Pending
    }
}

#[test]
fn a_ready_future_costs_no_timer() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut bounded = timeout(10 * MS, ready(7));
    assert_eq!(task.poll(&mut bounded), Poll::Ready(Ok(7)));
    assert!(!bounded.has_begun());
    assert_eq!((armed(), task.held()), (0, 0));
}

#[test]
fn a_timeout_counts_from_its_first_poll() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut bounded = timeout(10 * MS, pending::<()>());
    time.advance(100 * MS);
    assert!(task.poll(&mut bounded).is_pending());
    time.advance(9 * MS);
    assert!(task.poll(&mut bounded).is_pending() && task.woken() == 0);
    time.advance(MS);
    assert_eq!(task.woken(), 1);
    assert_eq!(task.poll(&mut bounded), Poll::Ready(Err(Elapsed)));
    assert_eq!(armed(), 0);
}

#[test]
fn a_future_that_is_ready_when_its_time_is_up_is_in_time() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut bounded = timeout(10 * MS, After(1));
    assert!(task.poll(&mut bounded).is_pending());
    time.advance(10 * MS);
    assert_eq!(task.poll(&mut bounded), Poll::Ready(Ok("done")));
    let past = now() - MS;
    assert_eq!(
        task.poll(&mut timeout_at(past, After(0))),
        Poll::Ready(Ok("done"))
    );
    assert_eq!(
        task.poll(&mut timeout_at(past, After(1))),
        Poll::Ready(Err(Elapsed))
    );
    assert_eq!(
        task.poll(&mut timeout(Duration::ZERO, After(0))),
        Poll::Ready(Ok("done"))
    );
    let mut none = timeout(Duration::ZERO, pending::<()>());
    assert_eq!(task.poll(&mut none), Poll::Ready(Err(Elapsed)));
    assert_eq!(armed(), 0);
}

#[test]
fn a_timeout_disarms_when_it_is_done_and_when_it_is_dropped() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut bounded = timeout(10 * MS, After(2));
    assert!(task.poll(&mut bounded).is_pending() && task.poll(&mut bounded).is_pending());
    assert_eq!(armed(), 1);
    assert!(task.poll(&mut bounded).is_ready());
    assert_eq!((armed(), task.held()), (0, 0));
    let mut dropped = timeout_at(now() + MS, After(1));
    assert!(task.poll(&mut dropped).is_pending() && armed() == 1);
    assert_eq!(dropped.into_inner().0, 0);
    assert_eq!((armed(), task.held()), (0, 0));
    let mut longest = timeout(Duration::MAX, After(1));
    assert!(task.poll(&mut longest).is_pending());
    assert!(task.poll(&mut longest).is_ready());
    time.advance(10 * MS);
    assert_eq!(task.woken(), 0);
}

#[test]
fn an_elapsed_timeout_is_an_io_error() {
    let error = std::io::Error::from(Elapsed);
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(error.to_string(), Elapsed.to_string());
}

#[test]
fn an_interval_skips_and_does_not_drift() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let start = now();
    let mut ticks = interval(10 * MS).unwrap();
    assert!(task.poll(&mut ticks.tick()).is_pending());
    time.advance(12 * MS);
    assert_eq!(task.woken(), 1);
    assert_eq!(task.poll(&mut ticks.tick()), Poll::Ready(start + 10 * MS));
    assert_eq!(ticks.deadline(), start + 20 * MS, "not 22");
    time.advance(33 * MS);
    // The receiver slept through 20, 30 and 40.
    assert_eq!(task.poll(&mut ticks.tick()), Poll::Ready(start + 40 * MS));
    assert!(task.poll(&mut ticks.tick()).is_pending());
    time.advance(5 * MS);
    let next = Pin::new(&mut ticks).poll_next(&mut task.cx());
    assert_eq!(next, Poll::Ready(Some(start + 50 * MS)));
    time.advance(7 * MS);
    ticks.reset();
    assert_eq!(ticks.deadline(), start + 67 * MS);
    drop(ticks);
    assert_eq!(armed(), 0);
}

#[test]
fn an_interval_may_start_at_once_or_never_tick() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let start = now();
    time.advance(25 * MS);
    let mut ticks = interval_at(start, 10 * MS).unwrap();
    assert_eq!(task.poll(&mut ticks.tick()), Poll::Ready(start + 20 * MS));
    assert!(task.poll(&mut ticks.tick()).is_pending());
    let mut rare = interval(Duration::MAX).unwrap();
    assert!(task.poll(&mut rare.tick()).is_pending());
    time.advance(Duration::from_secs(1 << 33));
    assert!(task.poll(&mut rare.tick()).is_pending());
    assert!(interval(Duration::ZERO).is_err());
    assert!(interval_at(start, Duration::ZERO).is_err());
}

#[test]
fn a_delay_queue_wakes_its_task_for_the_earliest() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut queue = DelayQueue::new();
    assert_eq!(queue.poll_expired(&mut task.cx()), Poll::Ready(None));
    let late = queue.insert("late", 50 * MS);
    assert_eq!(armed(), 0, "nobody waits");
    assert!(queue.poll_expired(&mut task.cx()).is_pending());
    queue.insert("sooner", 20 * MS);
    queue.insert("latest", 60 * MS);
    assert_eq!(armed(), 1);
    time.advance(20 * MS);
    assert_eq!(task.woken(), 1);
    let Poll::Ready(Some(expired)) = queue.poll_expired(&mut task.cx()) else {
        panic!("its time has come");
    };
    assert_eq!(expired.value, "sooner");
    assert_eq!(expired.deadline, now());
    assert!(queue.poll_expired(&mut task.cx()).is_pending());
    assert!(queue.reset(late, 5 * MS));
    time.advance(5 * MS);
    assert_eq!(task.woken(), 1);
    let next = Pin::new(&mut queue).poll_next(&mut task.cx());
    assert!(matches!(next, Poll::Ready(Some(expired)) if expired.value == "late"));
    assert_eq!((queue.len(), armed()), (1, 0));
}

#[test]
fn a_delay_queue_that_is_emptied_tells_its_task() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut queue = DelayQueue::new();
    let key = queue.insert((), 50 * MS);
    assert!(queue.poll_expired(&mut task.cx()).is_pending());
    assert_eq!(queue.remove(key), Some(()));
    assert_eq!((task.woken(), armed()), (1, 0));
    assert_eq!(queue.poll_expired(&mut task.cx()), Poll::Ready(None));
    queue.insert((), 50 * MS);
    assert!(queue.poll_expired(&mut task.cx()).is_pending());
    queue.clear();
    assert_eq!((task.woken(), armed()), (1, 0));
    queue.insert((), 50 * MS);
    assert!(queue.poll_expired(&mut task.cx()).is_pending());
    drop(queue);
    assert_eq!((armed(), task.woken(), task.held()), (0, 0, 0));
}

/// Wakers run the executor's code: here it drops, and makes, what stands in the same shard.
#[test]
fn wakers_are_woken_and_dropped_with_no_lock_held() {
    struct Drops(Mutex<Vec<Sleep>>, AtomicUsize);
    impl Wake for Drops {
        fn wake(self: Arc<Self>) {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.lock().unwrap().clear();
            let task = Task::new();
            assert!(task.poll(&mut sleep(MS)).is_pending());
        }
    }
    impl Drop for Drops {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
            let task = Task::new();
            assert!(task.poll(&mut sleep(MS)).is_pending());
            self.0.lock().unwrap().clear();
        }
    }
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let sleeping = || {
        let mut other = sleep(20 * MS);
        assert!(task.poll(&mut other).is_pending());
        Mutex::new([other].into())
    };
    let wakes = Arc::new(Drops(sleeping(), AtomicUsize::new(0)));
    let mut one = sleep(10 * MS);
    let waker = wakes.clone().into();
    assert!(
        Pin::new(&mut one)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    time.advance(10 * MS);
    assert_eq!((armed(), wakes.1.load(Ordering::Relaxed)), (0, 1));

    // The last of its wakers is dropped by a poll with another waker, then by a drop.
    for replaced in [true, false] {
        let mut one = sleep(10 * MS);
        let waker: Waker = Arc::new(Drops(sleeping(), AtomicUsize::new(0))).into();
        assert!(
            Pin::new(&mut one)
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        drop(waker);
        assert_eq!(armed(), 2);
        if replaced {
            assert!(task.poll(&mut one).is_pending());
            assert_eq!(armed(), 1);
        }
        drop(one);
        assert_eq!(armed(), 0);
    }
}

#[test]
fn a_waker_that_panics_harms_nothing() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics, as this test wants it");
        }
    }
    let time = VirtualTime::new();
    let _entered = time.enter();
    let (waker, task) = (Waker::from(Arc::new(Panics)), Task::new());
    let mut first = sleep(MS);
    let mut second = sleep(MS);
    assert!(
        Pin::new(&mut first)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    assert!(task.poll(&mut second).is_pending());
    time.advance(MS);
    assert_eq!(task.woken(), 1);
    assert!(task.poll(&mut first).is_ready() && task.poll(&mut second).is_ready());
}

/// As an executor does: polls when woken, and has the clock moved when there is nothing to poll.
fn run<F: Future>(time: &VirtualTime, future: F) -> F::Output {
    let task = Task::new();
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut task.cx()) {
            return output;
        }
        while task.woken() == 0 {
            time.advance(MS);
        }
    }
}

#[test]
fn they_await_one_another() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let start = now();
    let hour = Duration::from_secs(3600);
    let late = run(
        &time,
        timeout(50 * MS, async {
            sleep(20 * MS).await;
            timeout(hour, sleep(20 * MS)).await.unwrap();
            interval(20 * MS).unwrap().tick().await
        }),
    );
    assert_eq!(late, Err(Elapsed));
    assert_eq!(now() - start, 50 * MS);
    assert_eq!(armed(), 0);
}

#[test]
fn futures_may_go_to_other_threads() {
    fn goes<T: Send + Sync + Unpin>(_: &T) {}
    goes(&sleep(MS));
    goes(&timeout(MS, ready(())));
    goes(&interval(MS).unwrap());
    goes(&DelayQueue::<u32>::new());
    // Values of any kind, and futures that want to be pinned.
    fn stays<T: Unpin>(_: &T) {}
    stays(&DelayQueue::<core::marker::PhantomPinned>::new());
    assert!(size_of::<Sleep>() <= 40);
    assert!(size_of::<Timeout<core::future::Ready<()>>>() <= 48);
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Remove(usize),
    Reset(usize, u64),
    Poll,
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..300u64).prop_map(Step::Insert),
        1 => any::<usize>().prop_map(Step::Remove),
        1 => (any::<usize>(), 0..300u64).prop_map(|(which, delay)| Step::Reset(which, delay)),
        4 => Just(Step::Poll),
        3 => (0..100u64).prop_map(Step::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The order is that of a sorted map, and whoever waits is woken when something falls due, or nothing is left.
    #[test]
    fn a_delay_queue_does_as_a_sorted_map(steps in prop::collection::vec(step(), 1..200)) {
        let time = VirtualTime::new();
        let _entered = time.enter();
        let task = Task::new();
        let mut queue = DelayQueue::new();
        // (deadline, order of arming) -> name
        let mut model = BTreeMap::new();
        let mut keys = Vec::new();
        let (mut now, mut order) = (0, 0);
        let (mut waits, mut woken) = (false, false);
        let nanos = Duration::from_nanos;
        for step in steps {
            order += 1;
            let find = |name: usize, model: &BTreeMap<(u64, usize), usize>| {
                model.iter().find(|(_, other)| **other == name).map(|(at, _)| *at)
            };
            match step {
                Step::Insert(delay) => {
                    model.insert((now + delay, order), keys.len());
                    keys.push(queue.insert(keys.len(), nanos(delay)));
                }
                Step::Remove(which) if !keys.is_empty() => {
                    let name = which % keys.len();
                    let at = find(name, &model);
                    prop_assert_eq!(queue.remove(keys[name]), at.map(|_| name));
                    at.map(|at| model.remove(&at));
                }
                Step::Reset(which, delay) if !keys.is_empty() => {
                    let name = which % keys.len();
                    let at = find(name, &model);
                    prop_assert_eq!(queue.reset(keys[name], nanos(delay)), at.is_some());
                    if let Some(at) = at {
                        model.remove(&at);
                        model.insert((now + delay, order), name);
                    }
                }
                Step::Poll => {
                    waits = false;
                    match queue.poll_expired(&mut task.cx()) {
                        Poll::Pending => {
                            waits = true;
                            prop_assert!(model.first_key_value().is_some_and(|(at, _)| at.0 > now));
                        }
                        Poll::Ready(None) => prop_assert!(model.is_empty()),
                        Poll::Ready(Some(expired)) => {
                            let ((due, _), name) = model.pop_first().unwrap();
                            prop_assert!(due <= now);
                            prop_assert_eq!((expired.key, expired.value), (keys[name], name));
                        }
                    }
                    woken = false;
                    task.woken();
                }
                Step::Advance(by) => {
                    time.advance(nanos(by));
                    now += by;
                }
                _ => {}
            }
            woken |= task.woken() > 0;
            if waits {
                let ready = model.first_key_value().is_none_or(|(at, _)| at.0 <= now);
                prop_assert!(woken || !ready, "it would wait for ever");
            }
            prop_assert!(armed() <= 1);
            prop_assert_eq!(queue.len(), model.len());
        }
    }
}
