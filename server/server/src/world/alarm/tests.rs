//! Every form of the alarm passes the same tests.

use std::time::{Duration, UNIX_EPOCH};

use mio::{Events, Poll, Token};

use super::{SLEEP_MAX, sleep_until};
use crate::world::World;

const TOKEN: Token = Token(7);
const HOUR_MS: u64 = 3_600_000;
/// A poll that takes this long has missed its alarm.
const LOST: Duration = Duration::from_secs(60);

fn now_ms() -> u64 {
    World::new(1).wall_micros() / 1000
}

/// Tests of one form. Its loop sleeps and wakes as an event loop does.
macro_rules! form {
    ($form:ident) => {
        mod $form {
            use super::*;
            use crate::world::alarm::$form::Alarm;

            struct Loop {
                alarm: Alarm,
                poll: Poll,
                events: Events,
            }

            impl Loop {
                fn new() -> Self {
                    let poll = Poll::new().unwrap();
                    Self {
                        alarm: Alarm::new(World::new(1), poll.registry(), TOKEN).unwrap(),
                        poll,
                        events: Events::with_capacity(8),
                    }
                }

                /// Sleeps until the next event, or until the alarm's timeout.
                fn sleep(&mut self, at_ms: u64) {
                    let timeout = self.alarm.set(at_ms);
                    let timeout_or_lost = timeout.unwrap_or(LOST);
                    self.poll
                        .poll(&mut self.events, Some(timeout_or_lost))
                        .unwrap();
                    let fired = self.events.iter().any(|event| event.token() == TOKEN);
                    assert!(fired || timeout.is_some(), "the alarm is lost");
                    if fired {
                        self.alarm.fired();
                    }
                }
            }

            #[test]
            fn fires_at_each_deadline_and_not_before() {
                let mut own = Loop::new();
                for _ in 0..3 {
                    let at_ms = now_ms() + 5;
                    let mut turns = 0;
                    while now_ms() < at_ms {
                        own.sleep(at_ms);
                        turns += 1;
                    }
                    // A timeout may end a little early, and then the loop sleeps again.
                    assert!(turns <= 2, "{turns} turns");
                }
            }

            #[test]
            fn an_earlier_deadline_replaces_a_later_one() {
                let mut own = Loop::new();
                own.alarm.set(now_ms() + HOUR_MS);
                let at_ms = now_ms() + 5;
                while now_ms() < at_ms {
                    own.sleep(at_ms);
                }
            }

            #[test]
            fn a_deadline_in_the_past_fires_at_once() {
                let mut own = Loop::new();
                for at_ms in [0, 1, now_ms()] {
                    own.sleep(at_ms);
                }
            }

            #[test]
            fn no_deadline_sets_no_timeout() {
                assert_eq!(Loop::new().alarm.set(u64::MAX), None);
            }
        }
    };
}

#[cfg(any(target_os = "linux", target_os = "android"))]
form!(timerfd);
form!(timeout);
form!(thread);

#[test]
fn a_sleep_ends_at_the_deadline_or_after_its_maximum() {
    let now = UNIX_EPOCH + Duration::from_micros(10_000_400);
    let cases = [
        (0, Duration::ZERO),
        (10_000, Duration::ZERO),
        (10_001, Duration::from_micros(600)),
        (10_999, Duration::from_micros(998_600)),
        (10_000 + HOUR_MS, SLEEP_MAX),
        (u64::MAX, SLEEP_MAX),
    ];
    for (at_ms, expected) in cases {
        assert_eq!(sleep_until(at_ms, now), expected, "until {at_ms}");
    }
}
