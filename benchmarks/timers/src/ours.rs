//! Punctual's own queues. One tick is one microsecond.

use punctual::{Heap, TimerKey, Wheel};

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
