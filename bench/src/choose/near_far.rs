//! What a near/far split adds: a small heap for the timers that are due soon, and an array without an
//! order for all others.

use punctual::{DeadlineQueue, Heap, TimerKey};

use super::crossing::named;
use super::{Scale, Shown, Study, measured, sizes};
use crate::clock::Pace;
use crate::contender::{Contender, Role};
use crate::field::Entry;
use crate::figure::{Figure, GaveUp};
use crate::random::Random;
use crate::workload::Workload;

/// Each time the near heap runs out, it takes this share of what the far timers span: so each far
/// timer is looked at so many times at most.
const SHARES: u64 = 32;

/// Where a timer is.
#[derive(Clone, Copy)]
enum Place {
    Near(TimerKey),
    /// Its place in the far array.
    Far(u32),
}

struct Timer {
    deadline: u64,
    payload: u64,
    generation: u32,
    place: Option<Place>,
}

/// Index and generation.
#[derive(Clone, Copy)]
pub struct Handle(u32, u32);

/// The near heap and the far array, over timers that stay where they are.
pub struct NearFar {
    timers: Vec<Timer>,
    free: Vec<u32>,
    near: Heap<u32>,
    far: Vec<u32>,
    /// What is due before this is near.
    border: u64,
}

impl NearFar {
    fn file(&mut self, index: u32) {
        let timer = &mut self.timers[index as usize];
        timer.place = Some(if timer.deadline < self.border {
            Place::Near(self.near.insert(timer.deadline, index))
        } else {
            self.far.push(index);
            Place::Far(self.far.len() as u32 - 1)
        });
    }

    /// Takes a timer off its heap or array.
    fn unfile(&mut self, index: u32) {
        match self.timers[index as usize].place.take() {
            Some(Place::Near(key)) => {
                self.near.remove(key);
            }
            Some(Place::Far(at)) => {
                self.far.swap_remove(at as usize);
                if let Some(&moved) = self.far.get(at as usize) {
                    self.timers[moved as usize].place = Some(Place::Far(at));
                }
            }
            None => {}
        }
    }

    /// Moves the border until something is near.
    fn approach(&mut self) {
        if !self.near.is_empty() || self.far.is_empty() {
            return;
        }
        let deadlines = || {
            self.far
                .iter()
                .map(|&index| self.timers[index as usize].deadline)
        };
        let first = deadlines().min().unwrap_or(0);
        let last = deadlines().max().unwrap_or(0);
        self.border = first + (last - first) / SHARES + 1;
        let mut at = 0;
        while at < self.far.len() {
            let index = self.far[at];
            if self.timers[index as usize].deadline < self.border {
                self.unfile(index);
                self.file(index);
            } else {
                at += 1;
            }
        }
    }
}

impl Contender for NearFar {
    const NAME: &'static str = "near heap, far array";
    const ROLE: Role = Role::Ours;
    const REFUSES_STALE: bool = true;
    type Handle = Handle;

    fn new() -> Self {
        NearFar {
            timers: Vec::new(),
            free: Vec::new(),
            near: Heap::new(),
            far: Vec::new(),
            border: 0,
        }
    }

    fn arm(&mut self, deadline: u64, payload: u64) -> Handle {
        let index = self.free.pop().unwrap_or_else(|| {
            self.timers.push(Timer {
                deadline,
                payload,
                generation: 0,
                place: None,
            });
            self.timers.len() as u32 - 1
        });
        let timer = &mut self.timers[index as usize];
        (timer.deadline, timer.payload) = (deadline, payload);
        let generation = timer.generation;
        self.file(index);
        Handle(index, generation)
    }

    fn cancel(&mut self, Handle(index, generation): Handle) -> bool {
        let live = self.timers[index as usize].generation == generation;
        if live {
            self.unfile(index);
            self.timers[index as usize].generation += 1;
            self.free.push(index);
        }
        live
    }

    fn rearm(&mut self, handle: &mut Handle, deadline: u64) {
        let Handle(index, generation) = *handle;
        if self.timers[index as usize].generation == generation {
            self.unfile(index);
            self.timers[index as usize].deadline = deadline;
            self.file(index);
        }
    }

    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize {
        let mut fired = 0;
        loop {
            self.approach();
            let Some(due) = self.near.pop_due(now) else {
                return fired;
            };
            let timer = &mut self.timers[due.value as usize];
            timer.place = None;
            timer.generation += 1;
            self.free.push(due.value);
            out(timer.payload);
            fired += 1;
        }
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.approach();
        self.near.next_deadline()
    }

    fn pop_earliest(&mut self, out: &mut impl FnMut(u64)) -> usize {
        match self.next_deadline() {
            Some(_) => {
                let due = self.near.pop_due(u64::MAX);
                due.map_or(0, |due| {
                    let timer = &mut self.timers[due.value as usize];
                    timer.place = None;
                    timer.generation += 1;
                    self.free.push(due.value);
                    out(timer.payload);
                    1
                })
            }
            None => 0,
        }
    }
}

const WHAT: [(Workload, Figure); 5] = [
    (Workload::Arm, Figure::Arm),
    (Workload::Steady, Figure::ArmCancel),
    (Workload::Fire, Figure::Fire),
    (Workload::Quic, Figure::Quic),
    (Workload::Churn, Figure::NextChurn),
];

pub fn study(quick: bool) -> Study {
    let counts: &[usize] = if quick {
        &[10, 1_000, 100_000]
    } else {
        &[10, 100, 1_000, 10_000, 100_000, 1_000_000]
    };
    let mut entries = named(&["Heap<4>", "LazyHeap<4>", "Wheel"]);
    entries.insert(0, Entry::of::<NearFar>());
    let series = entries.iter().map(|entry| entry.name.to_owned()).collect();
    let measure = move |series: usize, point: usize, random: &mut Random, pace: &Pace| {
        let size = counts[point];
        WHAT.iter()
            .map(|&(workload, figure)| {
                measured(&entries[series], workload, figure, size, random, pace)
            })
            .collect::<Result<Vec<_>, GaveUp>>()
    };
    Study {
        title: "What does a near/far split add?",
        about: "A heap for what is due soon and an array for the rest, beside a heap for all and a wheel",
        x_axis: "timers, N (logarithmic)",
        scale: Scale::Logarithmic,
        shown: WHAT
            .iter()
            .map(|&(_, figure)| Shown {
                name: format!("near-far-{}", figure.name()),
                title: format!("near/far: {}", figure.title()),
                unit: figure.unit(),
            })
            .collect(),
        points: sizes(counts),
        series,
        measure: Box::new(measure),
        says: super::says_nothing,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_keeps_to_the_time() {
        let verdict = crate::exactness::check::<super::NearFar>(3, 200_000);
        assert_eq!((verdict.faults(), verdict.latest), (0, 0), "{verdict:?}");
    }
}
