//! Tests the time API on a virtual clock against a model that keeps alarms in a list. Applies
//! random operations to both and compares all results.

use std::boxed::Box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const SLOTS: usize = 4;

#[derive(Clone, Debug)]
enum Op {
    /// Creates a timer in this slot; the slot's previous timer is dropped.
    Timer(usize, u64),
    Func(usize, u64),
    /// Creates a timer whose callback arms another timer.
    Chain(usize, u64, u64),
    Stop(usize),
    Reset(usize, u64),
    Receive(usize),
    Detach(usize),
    Ticker(usize, u64),
    StopTicker(usize),
    ResetTicker(usize, u64),
    ReceiveTick(usize),
    After(usize, u64),
    ReceiveAfter(usize),
    Advance(u64),
    AdvanceToNext,
}

fn op() -> impl Strategy<Value = Op> {
    let slot = 0..SLOTS;
    // Mostly short delays, so that many timers are due at once.
    let delay = prop_oneof![8 => 0_u64..20, 1 => 1_000_u64..1_000_000_000_000, 1 => Just(u64::MAX)];
    let period = prop_oneof![8 => 1_u64..8, 1 => Just(u64::MAX)];
    prop_oneof![
        1 => (slot.clone(), delay.clone()).prop_map(|(slot, delay)| Op::Timer(slot, delay)),
        1 => (slot.clone(), delay.clone()).prop_map(|(slot, delay)| Op::Func(slot, delay)),
        1 => (slot.clone(), delay.clone(), delay.clone())
            .prop_map(|(slot, delay, then)| Op::Chain(slot, delay, then)),
        1 => slot.clone().prop_map(Op::Stop),
        1 => (slot.clone(), delay.clone()).prop_map(|(slot, delay)| Op::Reset(slot, delay)),
        1 => slot.clone().prop_map(Op::Receive),
        1 => slot.clone().prop_map(Op::Detach),
        1 => (slot.clone(), period.clone()).prop_map(|(slot, period)| Op::Ticker(slot, period)),
        1 => slot.clone().prop_map(Op::StopTicker),
        1 => (slot.clone(), period).prop_map(|(slot, period)| Op::ResetTicker(slot, period)),
        1 => slot.clone().prop_map(Op::ReceiveTick),
        1 => (slot.clone(), delay).prop_map(|(slot, delay)| Op::After(slot, delay)),
        1 => slot.prop_map(Op::ReceiveAfter),
        4 => (0_u64..30).prop_map(Op::Advance),
        1 => Just(Op::AdvanceToNext),
    ]
}

/// The action of an armed alarm in the model, with the number of its timer. Timers are numbered in
/// the order of creation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Send(usize),
    Call(usize, Option<u64>),
    Tick(usize, u64),
}

/// A list of armed alarms. Deadlines are nanoseconds since the start; `u64::MAX` is never due.
#[derive(Default)]
struct Model {
    now: u64,
    /// Deadlines and actions, in the order of arming.
    armed: Vec<(u64, Action)>,
    /// The value in the channel of each timer, by the timer's number.
    values: Vec<Option<u64>>,
    calls: Vec<(usize, u64)>,
}

impl Model {
    fn number(&mut self) -> usize {
        self.values.push(None);
        self.values.len() - 1
    }

    fn arm(&mut self, delay: u64, action: Action) {
        self.armed.push((self.now.saturating_add(delay), action));
    }

    /// Disarms the alarm with this action. Returns whether it was armed. (The call that a `Chain`
    /// callback arms has another action and stays armed.)
    fn disarm(&mut self, action: Action) -> bool {
        let before = self.armed.len();
        self.armed.retain(|&(_, armed)| armed != action);
        self.armed.len() < before
    }

    fn disarm_ticker(&mut self, number: usize) {
        self.armed
            .retain(|(_, armed)| !matches!(armed, Action::Tick(n, _) if *n == number));
    }

    /// Returns the place and the deadline of the alarm that is due first.
    fn next(&self) -> Option<(usize, u64)> {
        let deadlines = self.armed.iter().map(|&(due, _)| due).enumerate();
        deadlines
            .min_by_key(|&(_, due)| due)
            .filter(|&(_, due)| due != u64::MAX)
    }

    fn advance(&mut self, by: u64) {
        let target = self.now + by;
        while let Some((place, due)) = self.next().filter(|&(_, due)| due <= target) {
            let (_, action) = self.armed.remove(place);
            self.now = self.now.max(due);
            match action {
                Action::Send(number) => self.values[number] = Some(due),
                Action::Tick(number, period) => {
                    self.values[number].get_or_insert(due);
                    self.arm(period, action);
                }
                Action::Call(number, then) => {
                    self.calls.push((number, self.now));
                    if let Some(delay) = then {
                        self.arm(delay, Action::Call(number, None));
                    }
                }
            }
        }
        self.now = target;
    }
}

type Log = Arc<Mutex<Vec<(usize, Instant)>>>;

/// The model and the real API. A slot has a timer of the model and the same timer of the API.
struct Pair {
    model: Model,
    time: VirtualTime,
    start: Instant,
    log: Log,
    timers: [Option<(usize, Action, Timer)>; SLOTS],
    tickers: [Option<(usize, Ticker)>; SLOTS],
    afters: [Option<(usize, Receiver<Instant>)>; SLOTS],
}

impl Pair {
    fn new() -> Pair {
        let time = VirtualTime::new();
        Pair {
            model: Model::default(),
            start: time.now(),
            time,
            log: Log::default(),
            timers: Default::default(),
            tickers: Default::default(),
            afters: Default::default(),
        }
    }

    fn received(&self, receiver: &Receiver<Instant>) -> Option<u64> {
        let value = receiver.try_recv().ok()?;
        Some((value - self.start).as_nanos() as u64)
    }

    fn timer(
        &mut self,
        slot: usize,
        delay: u64,
        action: impl FnOnce(usize) -> Action,
        make: impl FnOnce(Duration, Box<dyn Fn() + Send + Sync>) -> Timer,
    ) {
        if let Some((_, action, _)) = self.timers[slot].take() {
            self.model.disarm(action);
        }
        let number = self.model.number();
        let action = action(number);
        let log = self.log.clone();
        let note = Box::new(move || log.lock().unwrap().push((number, now())));
        self.model.arm(delay, action);
        self.timers[slot] = Some((number, action, make(nanos(delay), note)));
    }

    fn reset(&mut self, slot: usize, delay: u64) -> Result<(), TestCaseError> {
        let Some((number, action, timer)) = &self.timers[slot] else {
            return Ok(());
        };
        let armed = self.model.armed.iter().any(|(_, armed)| armed == action);
        prop_assert_eq!(timer.is_armed(), armed);
        let expected = if armed {
            Err(ResetError::Armed)
        } else {
            self.model.values[*number] = None;
            self.model.arm(delay, *action);
            Ok(())
        };
        prop_assert_eq!(timer.reset(nanos(delay)), expected);
        Ok(())
    }

    fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Timer(slot, delay) => {
                self.timer(slot, delay, Action::Send, |delay, _| Timer::new(delay));
            }
            Op::Func(slot, delay) => {
                self.timer(slot, delay, |number| Action::Call(number, None), after_func);
            }
            Op::Chain(slot, delay, then) => {
                let action = |number| Action::Call(number, Some(then));
                self.timer(slot, delay, action, |delay, note| {
                    let note: Arc<dyn Fn() + Send + Sync> = note.into();
                    after_func(delay, move || {
                        note();
                        let note = note.clone();
                        after_func(nanos(then), move || note()).detach();
                    })
                });
            }
            Op::Stop(slot) => {
                if let Some((number, action, timer)) = &self.timers[slot] {
                    self.model.values[*number] = None;
                    prop_assert_eq!(timer.stop(), self.model.disarm(*action));
                    prop_assert!(timer.c().is_empty());
                }
            }
            Op::Reset(slot, delay) => self.reset(slot, delay)?,
            Op::Receive(slot) => {
                if let Some((number, _, timer)) = &self.timers[slot] {
                    let expected = self.model.values[*number].take();
                    prop_assert_eq!(self.received(timer.c()), expected);
                }
            }
            Op::Detach(slot) => {
                if let Some((_, _, timer)) = self.timers[slot].take() {
                    timer.detach();
                }
            }
            Op::Ticker(slot, period) => {
                if let Some((number, _)) = self.tickers[slot].take() {
                    self.model.disarm_ticker(number);
                }
                let number = self.model.number();
                self.model.arm(period, Action::Tick(number, period));
                self.tickers[slot] = Some((number, Ticker::new(nanos(period)).unwrap()));
            }
            Op::StopTicker(slot) => {
                if let Some((number, ticker)) = &self.tickers[slot] {
                    self.model.disarm_ticker(*number);
                    self.model.values[*number] = None;
                    ticker.stop();
                    prop_assert!(ticker.c().is_empty());
                }
            }
            Op::ResetTicker(slot, period) => {
                if let Some((number, ticker)) = &self.tickers[slot] {
                    self.model.disarm_ticker(*number);
                    self.model.values[*number] = None;
                    self.model.arm(period, Action::Tick(*number, period));
                    ticker.reset(nanos(period)).unwrap();
                }
            }
            Op::ReceiveTick(slot) => {
                if let Some((number, ticker)) = &self.tickers[slot] {
                    let expected = self.model.values[*number].take();
                    prop_assert_eq!(self.received(ticker.c()), expected);
                }
            }
            Op::After(slot, delay) => {
                let number = self.model.number();
                // The API arms no timer for an `after` that is never due.
                if delay != u64::MAX {
                    self.model.arm(delay, Action::Send(number));
                }
                self.afters[slot] = Some((number, after(nanos(delay))));
            }
            Op::ReceiveAfter(slot) => {
                if let Some((number, receiver)) = &self.afters[slot] {
                    let expected = self.model.values[*number].take();
                    prop_assert_eq!(self.received(receiver), expected);
                    // The channel never disconnects.
                    let again = receiver.try_recv();
                    prop_assert_eq!(again, Err(crossbeam_channel::TryRecvError::Empty));
                }
            }
            Op::Advance(by) => {
                self.model.advance(by);
                self.time.advance(nanos(by));
            }
            Op::AdvanceToNext => {
                let next = self.model.next();
                prop_assert_eq!(self.time.advance_to_next(), next.is_some());
                if let Some((_, due)) = next {
                    self.model.advance(due.saturating_sub(self.model.now));
                }
            }
        }
        self.compare()
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        let shown = self.time.now() - self.start;
        prop_assert_eq!(shown.as_nanos(), u128::from(self.model.now));
        prop_assert_eq!(self.time.pending(), self.model.armed.len());
        let log = self.log.lock().unwrap();
        let calls = log.iter().map(|&(number, at)| {
            let at = (at - self.start).as_nanos() as u64;
            (number, at)
        });
        prop_assert!(calls.eq(self.model.calls.iter().copied()));
        Ok(())
    }
}

/// Returns a delay as a `Duration`. `u64::MAX` stands for `Duration::MAX`.
fn nanos(delay: u64) -> Duration {
    if delay == u64::MAX {
        Duration::MAX
    } else {
        Duration::from_nanos(delay)
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 512 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_operations_match_the_model(
        ops in prop::collection::vec(op(), 1..if cfg!(miri) { 30 } else { 120 }),
    ) {
        let mut pair = Pair::new();
        let time = pair.time.clone();
        let _entered = time.enter();
        for op in ops {
            pair.apply(op)?;
        }
        // After the timers are dropped, detached timers, chained calls and `after` channels stay
        // armed.
        for (_, action, _timer) in pair.timers.iter_mut().filter_map(Option::take) {
            pair.model.disarm(action);
        }
        for (number, _ticker) in pair.tickers.iter_mut().filter_map(Option::take) {
            pair.model.disarm_ticker(number);
        }
        pair.compare()?;
    }
}
