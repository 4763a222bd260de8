//! Tests of channels with plain threads. Without Python's GIL, more interleavings of the threads
//! happen.

#![allow(dead_code)] // the Python class uses more methods than these tests

#[path = "channel.rs"]
mod channel;
#[path = "waiter.rs"]
mod waiter;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use channel::{AlreadyClosed, Channel, Refused};
use waiter::{Outcome, Waiter, Woken};

type Chan = Channel<Box<u32>>;

/// A case of an operation, as in `block.rs`.
enum Case<'a> {
    Receive(&'a Chan),
    Send(&'a Chan, Option<Box<u32>>),
}

fn poll(case: &mut Case<'_>) -> Option<Outcome<Box<u32>>> {
    match case {
        Case::Receive(chan) => chan.try_receive(),
        Case::Send(chan, item) => match chan.try_send(item.take()?) {
            Ok(()) => Some(Outcome::Sent),
            Err(Refused::Full(back)) => {
                *item = Some(back);
                None
            }
            Err(Refused::Closed(_)) => Some(Outcome::Closed),
        },
    }
}

fn select(cases: &mut [Case<'_>], first: usize) -> (usize, Outcome<Box<u32>>) {
    loop {
        for at in 0..cases.len() {
            let at = (at + first) % cases.len();
            if let Some(outcome) = poll(&mut cases[at]) {
                return (at, outcome);
            }
        }
        let waiter = Arc::new(Waiter::new());
        let joined = (0..)
            .zip(cases.iter_mut())
            .all(|(number, case)| match case {
                Case::Receive(chan) => chan.wait_to_receive(&waiter, number),
                Case::Send(chan, item) => {
                    match chan.wait_to_send(&waiter, number, item.take().unwrap()) {
                        Ok(()) => true,
                        Err(back) => {
                            *item = Some(back);
                            false
                        }
                    }
                }
            });
        if joined {
            while waiter.sleep(None) == Woken::Early {}
        }
        let done = waiter.withdraw();
        let mut unsent = Vec::new();
        for case in cases.iter() {
            let (Case::Receive(chan) | Case::Send(chan, _)) = case;
            chan.leave(&waiter, &mut unsent);
        }
        for (number, back) in unsent {
            let Case::Send(_, item) = &mut cases[number] else {
                panic!("a receiver had an item");
            };
            *item = Some(back);
        }
        if let Some(done) = done {
            return done;
        }
    }
}

fn receive(chan: &Chan) -> Option<u32> {
    match select(&mut [Case::Receive(chan)], 0).1 {
        Outcome::Received(item) => Some(*item),
        Outcome::Closed => None,
        Outcome::Sent => panic!("a receiver sent"),
    }
}

fn send(chan: &Chan, item: u32) -> bool {
    select(&mut [Case::Send(chan, Some(Box::new(item)))], 0).1 == Outcome::Sent
}

#[test]
fn buffered_items_arrive_in_order_even_after_the_close() {
    for capacity in [1, 2, 5] {
        let chan = Chan::new(capacity);
        for round in 0..3 {
            for n in 0..capacity {
                assert_eq!(chan.try_send(Box::new(n + round)), Ok(()));
                assert_eq!(chan.len(), n as usize + 1);
            }
            assert_eq!(
                chan.try_send(Box::new(99)),
                Err(Refused::Full(Box::new(99)))
            );
            if round == 2 {
                assert_eq!(chan.close(), Ok(()));
                assert_eq!(
                    chan.try_send(Box::new(99)),
                    Err(Refused::Closed(Box::new(99)))
                );
            }
            for n in 0..capacity {
                assert_eq!(
                    chan.try_receive(),
                    Some(Outcome::Received(Box::new(n + round)))
                );
            }
        }
        assert_eq!(chan.try_receive(), Some(Outcome::Closed));
        assert_eq!(chan.close(), Err(AlreadyClosed));
    }
}

#[test]
fn without_a_buffer_a_sender_waits_for_its_receiver() {
    let chan = Chan::new(0);
    assert_eq!(chan.try_send(Box::new(1)), Err(Refused::Full(Box::new(1))));
    assert_eq!(chan.try_receive(), None);
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(send(&chan, 7)));
        assert_eq!(receive(&chan), Some(7));
    });
    assert_eq!(chan.len(), 0);
}

#[test]
fn the_longest_waiting_receiver_is_served_first() {
    let chan = Chan::new(0);
    let waiters: Vec<_> = (0..3).map(|_| Arc::new(Waiter::new())).collect();
    for (number, waiter) in (0..).zip(&waiters) {
        assert!(chan.wait_to_receive(waiter, number));
    }
    // The second waiter withdraws.
    assert_eq!(waiters[1].withdraw(), None);
    assert_eq!(chan.try_send(Box::new(10)), Ok(()));
    assert_eq!(chan.try_send(Box::new(12)), Ok(()));
    assert_eq!(
        chan.try_send(Box::new(13)),
        Err(Refused::Full(Box::new(13)))
    );
    assert_eq!(
        waiters[0].withdraw(),
        Some((0, Outcome::Received(Box::new(10))))
    );
    assert_eq!(
        waiters[2].withdraw(),
        Some((2, Outcome::Received(Box::new(12))))
    );
}

#[test]
fn a_waiting_sender_gets_the_free_room() {
    let chan = Chan::new(1);
    let waiter = Arc::new(Waiter::new());
    assert_eq!(
        chan.wait_to_send(&waiter, 4, Box::new(1)),
        Err(Box::new(1)),
        "there is room"
    );
    assert_eq!(chan.try_send(Box::new(1)), Ok(()));
    assert_eq!(chan.wait_to_send(&waiter, 4, Box::new(2)), Ok(()));
    assert_eq!(chan.try_receive(), Some(Outcome::Received(Box::new(1))));
    assert_eq!(
        (waiter.withdraw(), chan.len()),
        (Some((4, Outcome::Sent)), 1)
    );
    assert_eq!(chan.try_receive(), Some(Outcome::Received(Box::new(2))));
}

#[test]
fn an_operation_does_not_complete_itself() {
    let chan = Chan::new(0);
    let waiter = Arc::new(Waiter::new());
    assert_eq!(chan.wait_to_send(&waiter, 0, Box::new(1)), Ok(()));
    assert!(chan.wait_to_receive(&waiter, 1));
    let mut unsent = Vec::new();
    chan.leave(&waiter, &mut unsent);
    assert_eq!(unsent, [(0, Box::new(1))]);
}

#[test]
fn a_close_ends_all_waiting_operations() {
    let (full, empty) = (Chan::new(1), Chan::new(1));
    assert!(send(&full, 1));
    std::thread::scope(|scope| {
        let receivers = [(); 3].map(|()| scope.spawn(|| receive(&empty)));
        let sender = scope.spawn(|| send(&full, 2));
        std::thread::sleep(Duration::from_millis(20));
        full.close().unwrap();
        empty.close().unwrap();
        assert!(
            receivers
                .into_iter()
                .all(|receiver| receiver.join().unwrap().is_none())
        );
        assert!(!sender.join().unwrap());
    });
    assert_eq!(receive(&full), Some(1));
    assert_eq!(receive(&full), None);
}

#[test]
fn an_ended_select_keeps_its_unsent_items() {
    let (left, right) = (Chan::new(0), Chan::new(0));
    let waiter = Arc::new(Waiter::new());
    assert_eq!(left.wait_to_send(&waiter, 0, Box::new(1)), Ok(()));
    assert_eq!(right.wait_to_send(&waiter, 1, Box::new(2)), Ok(()));
    assert_eq!(right.try_receive(), Some(Outcome::Received(Box::new(2))));
    // The waiter has ended, so no receive may take its item in the other queue.
    assert_eq!(left.try_receive(), None);
    let other = Arc::new(Waiter::new());
    assert!(left.wait_to_receive(&other, 0), "no sender waits");
    let mut unsent = Vec::new();
    left.leave(&waiter, &mut unsent);
    right.leave(&waiter, &mut unsent);
    assert_eq!(unsent, [(0, Box::new(1))]);
}

#[test]
fn a_fork_has_no_waiting_operations() {
    // Increasing the global fork count would end the waits of other tests. So this waiter has a
    // count that is one lower, like a waiter of the parent process.
    let parent = Arc::new(Waiter::of_process(waiter::forks().wrapping_sub(1)));
    let other = Chan::new(0);
    assert!(other.wait_to_receive(&parent, 0));
    assert!(!parent.is_waiting());
    assert_eq!(other.try_send(Box::new(1)), Err(Refused::Full(Box::new(1))));
    assert_eq!(other.close(), Ok(()));
}

/// Every item arrives once. Some threads use one channel at a time; others use selects that send on
/// one channel or receive from the other.
#[test]
fn concurrent_operations_lose_and_duplicate_nothing() {
    const THREADS: usize = 4;
    const EACH: usize = 2_000;
    for capacity in [0, 1, 3] {
        let (left, right) = (Chan::new(capacity), Chan::new(capacity));
        let got = Mutex::new(vec![0_u32; THREADS * EACH]);
        let received = AtomicUsize::new(0);
        let note = |item: u32| {
            got.lock().unwrap()[item as usize] += 1;
            if received.fetch_add(1, Ordering::Relaxed) + 1 == THREADS * EACH {
                left.close().unwrap();
                right.close().unwrap();
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (left, right, note) = (&left, &right, &note);
                scope.spawn(move || {
                    for n in 0..EACH {
                        let item = (thread * EACH + n) as u32;
                        let (here, there) = if n % 3 == 0 {
                            (left, right)
                        } else {
                            (right, left)
                        };
                        if thread % 2 == 0 {
                            assert!(send(here, item));
                            continue;
                        }
                        // Each select sends `item` on one channel or receives from the other.
                        // Repeats until `item` is sent.
                        let mut cases =
                            [Case::Send(here, Some(Box::new(item))), Case::Receive(there)];
                        loop {
                            match select(&mut cases, n % 2) {
                                (0, Outcome::Sent) => break,
                                (1, Outcome::Received(item)) => note(*item),
                                other => panic!("{other:?}"),
                            }
                        }
                    }
                });
                scope.spawn(move || {
                    let mut cases = [Case::Receive(left), Case::Receive(right)];
                    while let (_, Outcome::Received(item)) = select(&mut cases, thread % 2) {
                        note(*item);
                    }
                });
            }
        });
        assert!(got.lock().unwrap().iter().all(|&times| times == 1));
    }
}
