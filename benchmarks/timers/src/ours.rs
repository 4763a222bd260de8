//! Punctual's own queues. One tick is one microsecond.

use std::time::{Duration, Instant};

use punctual::{Heap, Timeouts, TimerKey, Wheel};

use crate::contender::{Contender, Role};

macro_rules! ours {
    ($queue:ty, $name:literal) => {
        impl Contender for $queue {
            const NAME: &'static str = $name;
            const ROLE: Role = Role::Ours;
            type Handle = TimerKey;

            fn arm(&mut self, deadline: u64, payload: u64) -> TimerKey {
                self.insert(deadline, payload)
            }

            fn cancel(&mut self, handle: TimerKey) -> bool {
                self.remove(handle).is_some()
            }

            fn rearm(&mut self, handle: &mut TimerKey, deadline: u64) {
                self.reset(*handle, deadline);
            }

            fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) {
                while let Some(expired) = self.pop_due(now) {
                    out(expired.value);
                }
            }

            fn next_deadline(&mut self) -> Option<u64> {
                <$queue>::next_deadline(self)
            }

            fn next_wakeup(&mut self) -> Option<u64> {
                <$queue>::next_wakeup(self)
            }
        }
    };
}

ours!(Wheel<u64>, "Wheel");
ours!(Heap<u64, 4>, "Heap<4>");

/// `Timeouts`. A microsecond of the benchmark is 1,024 ns here, which is the queue's granularity,
/// so that all queues round alike. Figures include the conversion of the benchmark's times to
/// instants and back, which a program with instants does not need.
pub struct Instants {
    queue: Timeouts<u64>,
    start: Instant,
}

impl Default for Instants {
    fn default() -> Self {
        let start = Instant::now();
        Instants {
            queue: Timeouts::new(start, Duration::from_nanos(1 << 10)),
            start,
        }
    }
}

impl Instants {
    #[inline]
    fn instant(&self, micros: u64) -> Instant {
        self.start + Duration::from_nanos(micros << 10)
    }
}

impl Contender for Instants {
    const NAME: &'static str = "Timeouts";
    const ROLE: Role = Role::Ours;
    type Handle = TimerKey;

    fn arm(&mut self, deadline: u64, payload: u64) -> TimerKey {
        self.queue.insert(self.instant(deadline), payload)
    }

    fn cancel(&mut self, handle: TimerKey) -> bool {
        self.queue.remove(handle).is_some()
    }

    fn rearm(&mut self, handle: &mut TimerKey, deadline: u64) {
        self.queue.reset(*handle, self.instant(deadline));
    }

    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) {
        let now = self.instant(now);
        self.queue.take_until(now).for_each(out);
    }

    fn next_deadline(&mut self) -> Option<u64> {
        let since = self.queue.next_time()?.duration_since(self.start);
        Some((since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())) >> 10)
    }
}
