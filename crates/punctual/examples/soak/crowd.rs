//! A queue in a soak test, and the model of its timers.

use punctual::{DeadlineQueue, Expired, TimerKey};
use punctual_harness::Random;

/// A result with a message about a violation.
pub type Checked<T = ()> = Result<T, String>;

macro_rules! ensure {
    ($holds:expr, $($message:tt)*) => {
        if !$holds {
            return Err(format!($($message)*));
        }
    };
}

/// The model of a timer. Its value encodes its slot and a count of timers in that slot.
#[derive(Clone, Copy)]
struct Timer {
    key: TimerKey,
    deadline: u64,
    arming: u64,
    /// The number of drains before it was armed.
    look: u64,
    value: u64,
    /// Its position in `live`; meaningless when it is stale.
    place: u32,
}

#[derive(Default)]
pub struct Counts {
    pub armed: u64,
    pub cancelled: u64,
    pub later: u64,
    pub earlier: u64,
    pub fired: u64,
    pub looks: u64,
    pub asked: u64,
}

impl Counts {
    pub fn all(&self) -> u64 {
        self.armed
            + self.cancelled
            + self.later
            + self.earlier
            + self.fired
            + self.looks
            + self.asked
    }
}

/// A phase of operations.
#[derive(Clone, Copy)]
pub struct Phase {
    pub ends: u64,
    /// The number of timers to which it leads.
    crowd: u64,
    /// Weights, of 64, of the operations that do not arm or cancel to reach that number.
    weights: [u64; 6],
    /// Timeouts are below 2^bits.
    bits: u64,
}

pub struct Soak<Q> {
    queue: Q,
    random: Random,
    pub now: u64,
    timers: Vec<Timer>,
    pub live: Vec<u32>,
    /// Free positions in `timers`.
    free: Vec<u32>,
    armings: u64,
    /// Number of polls that took all due timers.
    look: u64,
    pub counts: Counts,
    pub bytes_per_timer: f64,
    bound: Bound,
    /// Maximum number of timers since the queue was last empty.
    peak: usize,
    /// The worst ratio of memory to its bound, and the maximum of both.
    pub worst: f64,
    pub most_bytes: usize,
    pub most_live: usize,
    pub emptied: u64,
}

/// The memory that a queue may take.
#[derive(Clone, Copy)]
pub struct Bound {
    /// Factor on the memory for the maximum number of timers since it was empty.
    pub times: f64,
    /// Additional bytes.
    pub spare: f64,
}

impl<Q: DeadlineQueue<u64> + Default> Soak<Q> {
    pub fn new(seed: u64, bound: Bound) -> Self {
        Soak {
            queue: Q::default(),
            random: Random::new(seed),
            now: 0,
            timers: Vec::new(),
            live: Vec::new(),
            free: Vec::new(),
            armings: 0,
            look: 0,
            counts: Counts::default(),
            bytes_per_timer: bytes_per_timer::<Q>(),
            bound,
            peak: 0,
            worst: 0.0,
            most_bytes: 0,
            most_live: 0,
            emptied: 0,
        }
    }

    pub fn phase(&mut self, most: u64) -> Phase {
        let crowd = match self.random.below(8) {
            0 => 0,
            1 => most,
            _ => self
                .random
                .length(64 - u64::from(most.leading_zeros()))
                .min(most),
        };
        let distance = crowd.abs_diff(self.live.len() as u64);
        // In half of the phases the clock stands still, so that only sweeps can remove the dead entries
        // of cancels and re-arms.
        let weights = match self.random.below(8) {
            0 => [8, 8, 8, 8, 8, 8],
            1 => [4, 4, 4, 32, 10, 2], // fired
            2 => [2, 40, 8, 8, 2, 2],  // put off
            3 => [2, 2, 40, 8, 2, 2],  // brought forward
            4 => [8, 40, 20, 0, 0, 2], // put off, and brought forward again
            5 => [2, 2, 40, 0, 0, 2],  // brought forward
            6 => [40, 2, 2, 0, 0, 2],  // cancelled and armed
            _ => [20, 20, 20, 0, 0, 2],
        };
        Phase {
            ends: self.counts.all() + 4 * distance + self.random.length(22),
            crowd,
            weights,
            bits: [8, 12, 20, 20, 30, 40, 63][self.random.below(7) as usize],
        }
    }

    fn deadline(&mut self, phase: &Phase) -> u64 {
        let timeout = if self.random.below(4) == 0 {
            self.random.length(phase.bits)
        } else {
            self.random.below(1 << phase.bits)
        };
        self.now.saturating_add(timeout)
    }

    fn pick(&mut self) -> usize {
        let place = self.random.below(self.live.len() as u64) as usize;
        self.live[place] as usize
    }

    pub fn step(&mut self, phase: &Phase) -> Checked {
        let (live, crowd) = (self.live.len() as u64, phase.crowd);
        let to_crowd = self.random.below(100) < 40;
        if live == 0 || to_crowd && live < crowd {
            let deadline = self.deadline(phase);
            return self.arm(deadline);
        }
        if to_crowd && live > crowd {
            let at = self.pick();
            return self.cancel(at);
        }
        let [churn, later, earlier, advance, next, _] = phase.weights;
        let mut what = self.random.below(phase.weights.iter().sum());
        let mut is = |weight| {
            let chosen = what < weight;
            what = what.wrapping_sub(weight);
            chosen
        };
        if is(churn) {
            let at = self.pick();
            self.cancel(at)?;
            let deadline = self.deadline(phase);
            self.arm(deadline)
        } else if is(later) {
            let at = self.pick();
            let deadline = self.timers[at].deadline.max(self.deadline(phase));
            self.counts.later += 1;
            self.rearm(at, deadline)
        } else if is(earlier) {
            let at = self.pick();
            let left = self.timers[at].deadline.saturating_sub(self.now);
            let deadline = self.now + self.random.below(left.max(1));
            self.counts.earlier += 1;
            self.rearm(at, deadline)
        } else if is(advance) {
            // So far that a few fire each time, if they were spread evenly.
            let span = (4 << phase.bits) / (live + 1);
            let now = self.now.saturating_add(self.random.below(span.max(2)));
            self.fire(now, None)
        } else if is(next) {
            self.jump()
        } else {
            self.ask().map(|_| ())
        }
    }

    fn arm(&mut self, deadline: u64) -> Checked {
        let at = self.free.pop().unwrap_or(self.timers.len() as u32);
        let place = self.live.len() as u32;
        self.armings += 1;
        let value = self.armings << 32 | u64::from(at);
        let key = self.queue.insert(deadline, value);
        let timer = Timer {
            key,
            deadline,
            arming: self.armings,
            look: self.look,
            value,
            place,
        };
        if at as usize == self.timers.len() {
            self.timers.push(timer);
        } else {
            let stale = self.timers[at as usize].key;
            ensure!(stale != key, "{key:?} was given to two timers");
            ensure!(
                self.queue.deadline(stale).is_none(),
                "{stale:?} is stale, but not refused"
            );
            self.timers[at as usize] = timer;
        }
        self.live.push(at);
        self.peak = self.peak.max(self.live.len());
        self.most_live = self.most_live.max(self.live.len());
        self.counts.armed += 1;
        Ok(())
    }

    fn cancel(&mut self, at: usize) -> Checked {
        let Timer { key, value, .. } = self.timers[at];
        let removed = self.queue.remove(key);
        ensure!(
            removed == Some(value),
            "cancelling {value:x} gave {removed:x?}"
        );
        self.forget(at);
        self.counts.cancelled += 1;
        Ok(())
    }

    fn rearm(&mut self, at: usize, deadline: u64) -> Checked {
        self.armings += 1;
        let timer = &mut self.timers[at];
        ensure!(
            self.queue.reset(timer.key, deadline),
            "{:x} was refused, but lives",
            timer.value
        );
        (timer.deadline, timer.arming, timer.look) = (deadline, self.armings, self.look);
        Ok(())
    }

    fn forget(&mut self, at: usize) {
        let place = self.timers[at].place as usize;
        self.live.swap_remove(place);
        if let Some(&moved) = self.live.get(place) {
            self.timers[moved as usize].place = place as u32;
        }
        self.free.push(at as u32);
        if self.live.is_empty() {
            self.peak = 0;
            self.emptied += 1;
        }
    }

    /// Checks a fired timer. `after` is the timer popped just before in the same poll.
    fn popped(&mut self, expired: Expired<u64>, drained: u64, after: &mut (u64, u64)) -> Checked {
        let Expired {
            key,
            deadline,
            value,
        } = expired;
        let at = (value & u64::from(u32::MAX)) as usize;
        let timer = self.timers[at];
        let lives = self.live.get(timer.place as usize) == Some(&(at as u32));
        ensure!(
            lives && timer.value == value && timer.key == key,
            "{value:x} fired, but had gone"
        );
        ensure!(
            deadline == timer.deadline,
            "due at {}, told {deadline}",
            timer.deadline
        );
        ensure!(
            deadline <= self.now,
            "due at {deadline}, fired at {}",
            self.now
        );
        let was_there = timer.look < self.look;
        ensure!(
            !was_there || deadline > drained,
            "due at {deadline}, not taken at {drained}"
        );
        let order = (deadline, timer.arming);
        ensure!(*after < order, "{order:?} fired after {after:?}");
        *after = order;
        self.forget(at);
        self.counts.fired += 1;
        Ok(())
    }

    /// Moves the clock and takes all due timers; `foretold` is the expected deadline of the first, if known.
    fn fire(&mut self, now: u64, foretold: Option<u64>) -> Checked {
        let (drained, mut after) = (self.now, (0, 0));
        self.now = now;
        let mut next = self.queue.pop_due(now);
        if let Some(foretold) = foretold {
            let fired = next.map(|expired| expired.deadline);
            ensure!(
                fired == Some(foretold),
                "the next deadline was {foretold}, but that of {fired:?} fired"
            );
        }
        while let Some(expired) = next {
            self.popped(expired, drained, &mut after)?;
            next = self.queue.pop_due(now);
        }
        self.look += 1;
        self.counts.looks += 1;
        Ok(())
    }

    fn ask(&mut self) -> Checked<Option<u64>> {
        self.counts.asked += 1;
        let wakeup = self.queue.next_wakeup();
        let next = self.queue.next_deadline();
        ensure!(
            next.is_none() == self.live.is_empty(),
            "{} timers, the next at {next:?}",
            self.live.len()
        );
        ensure!(
            wakeup <= next && wakeup.is_none() == next.is_none(),
            "wake-up {wakeup:?} for {next:?}"
        );
        if let Some(next) = next {
            let at = self.pick();
            let deadline = self.timers[at].deadline;
            ensure!(
                next <= deadline,
                "the next at {next}, but there is one at {deadline}"
            );
        }
        Ok(next)
    }

    /// Moves the clock to the next deadline, at which a timer fires.
    fn jump(&mut self) -> Checked {
        match self.ask()? {
            Some(next) => self.fire(self.now.max(next), Some(next)),
            None => Ok(()),
        }
    }

    pub fn check_memory(&mut self) -> Checked {
        ensure!(
            self.queue.len() == self.live.len(),
            "{} timers, not {}",
            self.queue.len(),
            self.live.len()
        );
        let bytes = self.queue.memory();
        let Bound { times, spare } = self.bound;
        let allowed = (times * self.bytes_per_timer * self.peak as f64 + spare) as usize;
        ensure!(
            bytes <= allowed,
            "{bytes} bytes for {} timers, {} at most",
            self.live.len(),
            self.peak
        );
        self.worst = self.worst.max(bytes as f64 / allowed as f64);
        self.most_bytes = self.most_bytes.max(bytes);
        Ok(())
    }

    /// Checks every timer.
    pub fn check_all(&mut self) -> Checked {
        self.fire(self.now, None)?;
        for &at in &self.live {
            let Timer {
                key,
                deadline,
                value,
                ..
            } = self.timers[at as usize];
            ensure!(
                deadline > self.now,
                "due at {deadline}, not taken at {}",
                self.now
            );
            ensure!(
                self.queue.deadline(key) == Some(deadline),
                "{value:x} has another deadline"
            );
            ensure!(
                self.queue.get(key) == Some(&value),
                "{value:x} has another value"
            );
        }
        ensure!(
            self.queue.iter().count() == self.live.len(),
            "iterating gave another number"
        );
        Ok(())
    }

    /// Takes all timers, and starts at tick 0 again.
    pub fn start_over(&mut self) -> Checked {
        self.fire(u64::MAX, None)?;
        ensure!(
            self.queue.is_empty() && self.queue.next_deadline().is_none(),
            "not empty in the end"
        );
        ensure!(self.live.is_empty(), "{} timers were lost", self.live.len());
        let Counts {
            armed,
            fired,
            cancelled,
            ..
        } = self.counts;
        ensure!(
            armed == fired + cancelled,
            "{armed} armed, {fired} fired, {cancelled} cancelled"
        );
        self.now = 0;
        Ok(())
    }
}

/// Returns the memory per timer in a queue of a few thousand. Vectors grow by doubling, so it may be
/// twice that for another number.
fn bytes_per_timer<Q: DeadlineQueue<u64> + Default>() -> f64 {
    const MANY: u64 = 4_096;
    let (mut queue, mut random) = (Q::default(), Random::new(1));
    (0..MANY).for_each(|value| {
        queue.insert(random.below(1 << 20), value);
    });
    queue.memory() as f64 / MANY as f64
}
