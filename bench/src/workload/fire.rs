//! Fire N timers. The payload is the deadline, so that checking the order reads no other memory.

use super::{MS, SPAN, uniform};
use crate::clock::{Pace, Sections, Stopwatch};
use crate::contender::Contender;
use crate::figure::{Figure, GaveUp, Sample};
use crate::random::Random;

/// Timers in a section, from several queues if necessary.
const WARM_TIMERS: usize = 32;

/// Number of fired timers, and of those that were early or out of order.
#[derive(Default)]
struct Fired {
    count: usize,
    faults: usize,
    last: u64,
}

impl Fired {
    /// Counts a fired timer. A coarse queue may fire timers of one tick in any order.
    #[inline]
    fn note<C: Contender>(&mut self, deadline: u64, now: u64) {
        let disordered = deadline + (C::TICK - 1) < self.last;
        self.faults += usize::from(disordered || deadline > now);
        self.last = deadline;
        self.count += 1;
    }
}

/// Advances the clock millisecond by millisecond, and stops only where a timer is due.
pub fn ticking<C: Contender>(
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<Vec<Sample>, GaveUp> {
    round::<C>(Figure::Fire, size, random, pace, |deadlines| {
        let mut steps: Vec<u64> = deadlines
            .iter()
            .map(|deadline| deadline.next_multiple_of(MS))
            .collect();
        steps.sort_unstable();
        steps.dedup();
        steps
    })
}

/// Advances the clock beyond all deadlines at once.
pub fn at_once<C: Contender>(
    size: usize,
    random: &mut Random,
    pace: &Pace,
) -> Result<Vec<Sample>, GaveUp> {
    round::<C>(Figure::FireAtOnce, size, random, pace, |deadlines| {
        vec![deadlines.iter().max().unwrap_or(&0) + SPAN]
    })
}

fn round<C: Contender>(
    figure: Figure,
    size: usize,
    random: &mut Random,
    pace: &Pace,
    steps_for: impl Fn(&[u64]) -> Vec<u64>,
) -> Result<Vec<Sample>, GaveUp> {
    let queues = (WARM_TIMERS / size).max(1);
    let mut warm: Vec<C> = (0..queues).map(|_| C::new()).collect();
    let mut sections = Sections::of(size * queues);
    let (mut now, mut faults, mut warmed_up) = (0, 0, size * queues >= 50_000);
    let mut deadlines = vec![0; size * queues];
    let start = Stopwatch::start();
    while sections.wants_more(pace) {
        // All queues get the same deadlines, so that the clock stops at the same steps.
        for deadline in &mut deadlines[..size] {
            *deadline = now + uniform(random);
        }
        for queue in &mut warm {
            for (n, &deadline) in deadlines[..size].iter().enumerate() {
                if n.is_multiple_of(1024) && start.elapsed() > pace.patience {
                    return Err(GaveUp {
                        doing: "arming the timers",
                        seconds: pace.patience.as_secs(),
                    });
                }
                queue.arm(deadline, deadline);
            }
        }
        let steps = steps_for(&deadlines[..size]);
        let last = steps.last().copied().unwrap_or(now);
        sections.time(|| {
            for queue in &mut warm {
                let mut fired = Fired::default();
                for &step in &steps {
                    queue.fire(step, &mut |deadline| fired.note::<C>(deadline, step));
                }
                // Coarse ticks may end after the last step.
                let mut late = last;
                while fired.count < size && late < last + 4 * C::TICK {
                    late += C::TICK;
                    queue.fire(late, &mut |deadline| fired.note::<C>(deadline, late));
                }
                faults += fired.faults + size.abs_diff(fired.count);
            }
            size * queues
        });
        now = last + 4 * C::TICK;
        if !warmed_up && sections.operations() > pace.operations / 8 {
            warmed_up = true;
            sections = Sections::of(size * queues);
        }
        if start.elapsed() > pace.patience * 2 {
            break;
        }
    }
    Ok(vec![
        Sample::timing(figure, sections.took(pace)).with_faults(faults),
    ])
}
