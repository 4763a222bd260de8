//! Tests of the driver with real threads and on a virtual clock. `model.rs` tests all interleavings
//! of a few threads.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;

/// Sends its name and the clock's tick to a channel when it fires.
struct Reporting {
    to: Sender<Report>,
    name: u32,
    /// Number of times that the alarm arms itself again, each time `period` ticks later.
    again: u32,
    period: u64,
    handle: Option<Handle>,
}

impl Alarm for Reporting {
    type Job = (u32, u64);

    fn fire(&mut self, due: u64, now: u64) -> Fired<Self::Job> {
        assert!(now >= due, "early");
        assert!(self.handle.is_some());
        let _ = self.to.send((self.name, now));
        if self.again > 0 {
            self.again -= 1;
            return Fired::Again(due + self.period);
        }
        Fired::Do((self.name, now))
    }

    fn armed(&mut self, handle: Handle) {
        assert_ne!(self.handle, Some(handle));
        self.handle = Some(handle);
    }
}

type Done = Arc<Mutex<Vec<Report>>>;
type Report = (u32, u64);

struct Collect(Done);

impl Runner<(u32, u64)> for Collect {
    fn run(&mut self, jobs: &mut Vec<Report>) {
        self.0.lock().unwrap().append(jobs);
    }
}

fn reporting(to: &Sender<Report>, name: u32) -> Reporting {
    Reporting {
        to: to.clone(),
        name,
        again: 0,
        period: 0,
        handle: None,
    }
}

fn simulated() -> (Driver<Reporting>, Done, Sender<Report>, Receiver<Report>) {
    let done = Done::default();
    let (sender, receiver) = channel();
    (
        Driver::virtual_clock(Collect(done.clone())),
        done,
        sender,
        receiver,
    )
}

const MS: u64 = 1_000_000;

#[test]
fn the_thread_fires_what_other_threads_arm() {
    let done = Done::default();
    let (sender, receiver) = channel();
    let driver = Driver::new(Collect(done.clone()));
    let each = if cfg!(miri) { 10 } else { 1_000 };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (driver, sender) = (&driver, sender.clone());
            scope.spawn(move || {
                for n in 0..each {
                    let deadline = driver.now() + u64::from(n) % 3 * MS;
                    driver.arm(deadline, reporting(&sender, thread * each + n));
                }
            });
        }
    });
    drop(sender);
    // The iteration ends when the last alarm, and its sender, is dropped.
    let mut names: Vec<u32> = receiver.iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    assert!(names.into_iter().eq(0..4 * each));
    drop(driver); // waits for the jobs
    assert_eq!(done.lock().unwrap().len(), 4 * each as usize);
}

#[test]
fn an_earlier_deadline_wakes_the_thread() {
    let (sender, receiver) = channel();
    let driver = Driver::new(Collect(Done::default()));
    let hour = driver.arm(driver.now() + 3_600_000 * MS, reporting(&sender, 0));
    for name in 1..20 {
        driver.arm(driver.now() + MS / 10, reporting(&sender, name));
        assert_eq!(receiver.recv().unwrap().0, name);
    }
    assert!(driver.rearm(hour, driver.now()));
    assert_eq!(receiver.recv().unwrap().0, 0);
    assert!(driver.is_empty());
}

/// Arms more alarms than a wheel of few timers holds, and more than `EXACT_MAX`.
#[test]
fn the_thread_fires_due_alarms_among_many() {
    let (sender, receiver) = channel();
    let driver = Driver::new(Collect(Done::default()));
    let (far, due) = if cfg!(miri) {
        (1_200, 10)
    } else {
        (50_000, 2_000)
    };
    for name in 0..far {
        let hour = 3_600_000 + u64::from(name) * 10;
        driver.arm(driver.now() + hour * MS, reporting(&sender, name));
    }
    for name in far..far + due {
        let delay = u64::from(name) % 30;
        driver.arm(driver.now() + delay * MS, reporting(&sender, name));
    }
    let mut names: Vec<u32> = (0..due).map(|_| receiver.recv().unwrap().0).collect();
    names.sort_unstable();
    assert!(names.into_iter().eq(far..far + due));
    assert_eq!(driver.len(), far as usize);
    assert!(receiver.try_recv().is_err());
}

#[test]
fn a_timer_is_disarmed_or_fires_but_never_both() {
    let fired = Arc::new(AtomicUsize::new(0));
    struct Count(Arc<AtomicUsize>, Arc<AtomicBool>);
    impl Alarm for Count {
        type Job = ();
        fn fire(&mut self, _due: u64, _now: u64) -> Fired<()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            self.1.store(true, Ordering::Relaxed);
            Fired::Done
        }
    }
    struct Nothing;
    impl Runner<()> for Nothing {
        fn run(&mut self, _jobs: &mut Vec<()>) {}
    }

    let driver = Driver::new(Nothing);
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let mut disarmed = 0;
    for round in 0..rounds {
        let flag = Arc::new(AtomicBool::new(false));
        let handle = driver.arm(
            driver.now() + round % 50 * 100,
            Count(fired.clone(), flag.clone()),
        );
        for _ in 0..round % 64 {
            core::hint::spin_loop();
        }
        match driver.disarm(handle) {
            Some(_) => {
                disarmed += 1;
                assert!(!flag.load(Ordering::Relaxed));
            }
            None => assert!(flag.load(Ordering::Relaxed), "its `fire` has completed"),
        }
    }
    drop(driver);
    assert_eq!(fired.load(Ordering::Relaxed) + disarmed, rounds as usize);
}

#[test]
fn a_virtual_clock_stops_at_every_deadline() {
    let (driver, done, sender, receiver) = simulated();
    let mut ticker = reporting(&sender, 1);
    (ticker.again, ticker.period) = (2, 10);
    driver.arm(10, ticker);
    driver.arm(25, reporting(&sender, 2));
    driver.arm(20, reporting(&sender, 3)); // armed before the ticker arms its second tick
    driver.arm(u64::MAX, reporting(&sender, 4));
    driver.advance(Duration::from_nanos(9));
    assert!(receiver.try_recv().is_err());
    driver.advance(Duration::from_nanos(91));
    let reports: Vec<_> = receiver.try_iter().collect();
    assert_eq!(reports, [(1, 10), (3, 20), (1, 20), (2, 25), (1, 30)]);
    assert_eq!(*done.lock().unwrap(), [(3, 20), (2, 25), (1, 30)]);
    assert_eq!((driver.now(), driver.len()), (100, 1));
    driver.advance(Duration::MAX);
    assert_eq!(driver.len(), 1, "never does not come");
}

#[test]
fn jobs_arm_within_an_advance() {
    struct Chain(u32);
    impl Alarm for Chain {
        type Job = u32;
        fn fire(&mut self, _due: u64, _now: u64) -> Fired<u32> {
            Fired::Do(self.0)
        }
    }
    type Own = Arc<Mutex<Option<Driver<Chain>>>>;
    struct Next(Own, Arc<Mutex<Vec<Report>>>);
    impl Runner<u32> for Next {
        fn run(&mut self, jobs: &mut Vec<u32>) {
            for left in jobs.drain(..) {
                let own = self.0.lock().unwrap();
                let driver = own.as_ref().unwrap();
                self.1.lock().unwrap().push((left, driver.now()));
                if left > 0 {
                    driver.arm(driver.now() + 5, Chain(left - 1));
                }
            }
        }
    }
    let (own, seen) = (Own::default(), Arc::new(Mutex::new(Vec::new())));
    let driver = Driver::virtual_clock(Next(own.clone(), seen.clone()));
    let shared = driver.shared.clone();
    driver.arm(5, Chain(3));
    *own.lock().unwrap() = Some(driver);
    shared.advance(Duration::from_nanos(17));
    assert_eq!(*seen.lock().unwrap(), [(3, 5), (2, 10), (1, 15)]);
    shared.advance(Duration::from_nanos(3));
    assert_eq!(seen.lock().unwrap().last(), Some(&(0, 20)));
    *own.lock().unwrap() = None;
}

#[test]
#[should_panic(expected = "advance: the clock of this driver is real")]
fn a_real_clock_cannot_be_moved() {
    Driver::<Reporting>::new(Collect(Done::default())).advance(Duration::ZERO);
}

#[test]
fn dropping_a_driver_drops_its_alarms() {
    let (sender, receiver) = channel();
    let driver = Driver::new(Collect(Done::default()));
    driver.arm(driver.now() + 3_600_000 * MS, reporting(&sender, 0));
    drop((driver, sender));
    assert!(receiver.recv().is_err());
}

#[derive(Clone, Debug)]
enum Step {
    Arm(u64),
    Disarm(usize),
    Rearm(usize, u64),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..300u64).prop_map(Step::Arm),
        any::<usize>().prop_map(Step::Disarm),
        (any::<usize>(), 0..300u64).prop_map(|(which, delay)| Step::Rearm(which, delay)),
        (0..100u64).prop_map(Step::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_matches_a_sorted_map(steps in prop::collection::vec(step(), 1..200)) {
        let (driver, done, sender, _receiver) = simulated();
        // (deadline, order of arming) -> name
        let mut model = BTreeMap::new();
        let mut handles = Vec::new();
        let (mut now, mut order, mut expected) = (0, 0, Vec::new());
        for step in steps {
            order += 1;
            match step {
                Step::Arm(delay) => {
                    let name = handles.len() as u32;
                    handles.push(driver.arm(now + delay, reporting(&sender, name)));
                    model.insert((now + delay, order), name);
                }
                Step::Disarm(which) if !handles.is_empty() => {
                    let name = which % handles.len();
                    let at = model.iter().find(|(_, other)| **other == name as u32).map(|(at, _)| *at);
                    prop_assert_eq!(driver.disarm(handles[name]).is_some(), at.is_some());
                    at.map(|at| model.remove(&at));
                }
                Step::Rearm(which, delay) if !handles.is_empty() => {
                    let name = which % handles.len();
                    let at = model.iter().find(|(_, other)| **other == name as u32).map(|(at, _)| *at);
                    prop_assert_eq!(driver.rearm(handles[name], now + delay), at.is_some());
                    if let Some(at) = at {
                        model.remove(&at);
                        model.insert((now + delay, order), name as u32);
                    }
                }
                Step::Advance(by) => {
                    driver.advance(Duration::from_nanos(by));
                    while let Some((&(due, at), &name)) = model.first_key_value() && due <= now + by {
                        expected.push((name, due.max(now)));
                        model.remove(&(due, at));
                    }
                    now += by;
                }
                _ => {}
            }
            prop_assert_eq!(&*done.lock().unwrap(), &expected);
            prop_assert_eq!(driver.len(), model.len());
            prop_assert_eq!(driver.next_deadline(), model.first_key_value().map(|(at, _)| at.0));
        }
    }
}
