//! Tests with wakers that panic, or that run other code of the executor.

use std::sync::Mutex;

use super::*;

/// A waker may run the executor's code. The wakers of this test drop and create sleeps in the same
/// shard, which would deadlock under the shard's lock.
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

    // The last clone of the waker is dropped by a poll with another waker, then by the drop of the
    // sleep.
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
fn a_waker_that_panics_has_no_other_effect() {
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
