//! Tests of the cost, the start and the outcome of a timeout.

use super::*;

/// A future that is ready after this number of polls.
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
    assert!(!bounded.has_started());
    assert_eq!((armed(), task.waker_clones()), (0, 0));
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
    assert_eq!((armed(), task.waker_clones()), (0, 0));
    let mut dropped = timeout_at(now() + MS, After(1));
    assert!(task.poll(&mut dropped).is_pending() && armed() == 1);
    assert_eq!(dropped.into_inner().0, 0);
    assert_eq!((armed(), task.waker_clones()), (0, 0));
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
