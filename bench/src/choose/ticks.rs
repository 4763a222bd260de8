//! How exact a wheel is with ticks of a nanosecond, a microsecond and a millisecond, and what each costs.

use punctual::{DeadlineQueue, TimerKey, Wheel};

use super::{Scale, Shown, Study, measured, sizes};
use crate::clock::Pace;
use crate::contender::{Contender, Role};
use crate::exactness;
use crate::field::Entry;
use crate::figure::{Figure, GaveUp};
use crate::random::Random;
use crate::run::Plan;
use crate::table::{Table, thousands};
use crate::workload::Workload;

/// A wheel whose tick is `NANOS` nanoseconds. Deadlines are rounded up to ticks and the time down, so
/// that nothing fires early.
struct Ticking<const NANOS: u64>(Wheel<u64>);

impl<const NANOS: u64> Contender for Ticking<NANOS> {
    const NAME: &'static str = match NANOS {
        1 => "ticks of 1 ns",
        1_000 => "ticks of 1 us",
        _ => "ticks of 1 ms",
    };
    const TICK: u64 = if NANOS <= 1_000 { 1 } else { NANOS / 1_000 };
    const ROLE: Role = Role::Ours;
    const REFUSES_STALE: bool = true;
    type Handle = TimerKey;

    fn new() -> Self {
        Ticking(Wheel::new())
    }

    fn arm(&mut self, deadline: u64, payload: u64) -> TimerKey {
        self.0.insert((deadline * 1_000).div_ceil(NANOS), payload)
    }

    fn cancel(&mut self, handle: TimerKey) -> bool {
        self.0.remove(handle).is_some()
    }

    fn rearm(&mut self, handle: &mut TimerKey, deadline: u64) {
        self.0.reset(*handle, (deadline * 1_000).div_ceil(NANOS));
    }

    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize {
        let tick = now * 1_000 / NANOS;
        let mut fired = 0;
        while let Some(due) = self.0.pop_due(tick) {
            out(due.value);
            fired += 1;
        }
        fired
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.0.next_deadline().map(|tick| tick * NANOS / 1_000)
    }

    fn next_wakeup(&mut self) -> Option<u64> {
        self.0.next_wakeup().map(|tick| tick * NANOS / 1_000)
    }
}

const WHAT: [(Workload, Figure); 5] = [
    (Workload::Arm, Figure::Arm),
    (Workload::Steady, Figure::ArmCancel),
    (Workload::Fire, Figure::Fire),
    (Workload::FireAtOnce, Figure::FireAtOnce),
    (Workload::Quic, Figure::Quic),
];

fn wheels() -> [Entry; 3] {
    [
        Entry::of::<Ticking<1>>(),
        Entry::of::<Ticking<1_000>>(),
        Entry::of::<Ticking<1_000_000>>(),
    ]
}

pub fn study(quick: bool) -> Study {
    let counts: &[usize] = if quick {
        &[1, 1_000, 100_000]
    } else {
        &[1, 10, 1_000, 100_000, 1_000_000]
    };
    let entries = wheels();
    let measure = move |series: usize, point: usize, random: &mut Random, pace: &Pace| {
        let size = counts[point];
        WHAT.iter()
            .map(|&(workload, figure)| {
                measured(&entries[series], workload, figure, size, random, pace)
            })
            .collect::<Result<Vec<_>, GaveUp>>()
    };
    Study {
        title: "What does a tick cost?",
        about: "The same deadlines, to the microsecond, in wheels with ticks of 1 ns, 1 us and 1 ms",
        x_axis: "timers, N (logarithmic)",
        scale: Scale::Logarithmic,
        shown: WHAT
            .iter()
            .map(|&(_, figure)| Shown {
                name: format!("ticks-{}", figure.name()),
                title: format!("ticks: {}", figure.title()),
                unit: figure.unit(),
            })
            .collect(),
        points: sizes(counts),
        series: entries.iter().map(|entry| entry.name.to_owned()).collect(),
        measure: Box::new(measure),
        says: super::says_nothing,
    }
}

/// How late each fires at most, and whether ever early.
pub fn exactness(plan: &Plan) -> String {
    let operations = if plan.quick { 100_000 } else { 1_000_000 };
    let mut table = Table::new(
        1,
        [
            "how exact a wheel is",
            "fired",
            "early",
            "latest us",
            "other faults",
        ],
    );
    for entry in wheels() {
        let verdict: exactness::Verdict = (entry.check)(plan.seed, operations);
        table.row([
            entry.name.to_owned(),
            thousands(verdict.fired),
            thousands(verdict.early),
            thousands(verdict.latest as usize),
            thousands(verdict.faults() - verdict.early),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tick_makes_a_timer_early_or_late_by_a_tick() {
        for (entry, tick) in wheels().into_iter().zip([1, 1, 1_000]) {
            let verdict = (entry.check)(2, 100_000);
            assert_eq!(verdict.faults(), 0, "{}: {verdict:?}", entry.name);
            assert!(verdict.latest < tick, "{}", entry.name);
        }
    }
}
