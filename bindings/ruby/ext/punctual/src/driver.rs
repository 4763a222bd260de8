//! `Punctual::Driver`: the timer driver of the library for Ruby. `lib/punctual/time` uses it.
//!
//! An *alarm* is an armed timer of the driver; its *target* is the Ruby object that fires. The
//! driver's thread has no Ruby objects, only numbers of alarms. It appends the numbers of due
//! alarms to a list, and wakes the Ruby thread that waits for the list. That thread takes the
//! targets from a table, which only threads with the interpreter's lock use. For Ruby, an alarm
//! counts as armed as long as its target is in the table, even if it is due. Each target is removed
//! once: by `disarm` or by `take`.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use magnus::gc::{Compactor, Marker};
use magnus::value::Opaque;
use magnus::{
    Class, DataTypeFunctions, Error, Module, Object, RModule, Ruby, TypedData, Value, function,
    method,
};
use parking_lot::{Condvar, Mutex};
use punctual::TimerKey;
use punctual::driver::{Alarm, Driver, Fired, Handle, Runner};

use crate::own::Own;
use crate::{fork, gvl, seconds};

/// An alarm of the driver: the number of its target.
struct Number(u64);

impl Alarm for Number {
    type Job = u64;

    fn fire(&mut self, _due: u64, _now: u64) -> Fired<u64> {
        Fired::Do(self.0)
    }
}

/// The list of numbers of due alarms, which the Ruby thread has not taken yet.
#[derive(Default)]
struct DueList {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    numbers: Vec<u64>,
    interrupted: bool,
}

impl DueList {
    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.state.lock().numbers)
    }

    /// Blocks until the list has numbers, and takes them. Returns an empty list if interrupted.
    fn wait(&self) -> Vec<u64> {
        let mut state = self.state.lock();
        while state.numbers.is_empty() && !state.interrupted {
            self.changed.wait(&mut state);
        }
        state.interrupted = false;
        std::mem::take(&mut state.numbers)
    }

    fn interrupt(&self) {
        self.state.lock().interrupted = true;
        self.changed.notify_all();
    }
}

/// Appends the numbers of due alarms to the list; runs on the driver's thread.
struct Append(Arc<DueList>);

impl Runner<u64> for Append {
    fn run(&mut self, jobs: &mut Vec<u64>) {
        self.0.state.lock().numbers.append(jobs);
        self.0.changed.notify_all();
    }
}

/// Targets of armed alarms.
#[derive(Default)]
struct Targets {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    generation: u32,
    target: Option<(Opaque<Value>, Option<Handle>)>,
}

impl Targets {
    fn insert(&mut self, target: Value) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                target: None,
            });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        // The number must fit into a Fixnum, which has 62 bits and a sign.
        slot.generation = (slot.generation + 1) & (u32::MAX >> 2);
        slot.target = Some((target.into(), None));
        TimerKey::new(index, slot.generation).to_bits()
    }

    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        let key = TimerKey::from_bits(number);
        self.slots
            .get_mut(key.index() as usize)
            .filter(|slot| slot.generation == key.generation())
    }

    fn remove(&mut self, number: u64) -> Option<(Opaque<Value>, Option<Handle>)> {
        let taken = self.slot(number)?.target.take()?;
        self.free.push(TimerKey::from_bits(number).index());
        if self.free.len() == self.slots.len() && self.slots.len() > 1024 {
            // The remaining slot continues with the greatest generation, so that old numbers stay
            // stale.
            let last = self.slots.iter().map(|slot| slot.generation).max();
            self.slots.truncate(1);
            self.slots.shrink_to_fit();
            self.slots[0].generation = last.unwrap_or(0);
            self.free = vec![0];
        }
        Some(taken)
    }
}

#[derive(TypedData)]
#[magnus(
    class = "Punctual::Driver",
    free_immediately,
    mark,
    compact,
    wb_protected
)]
struct RubyDriver {
    targets: RefCell<Targets>,
    /// Not dropped in a fork: the driver's thread does not exist there.
    driver: ManuallyDrop<Driver<Number>>,
    due: Arc<DueList>,
    /// Number of forks in the history of the process that created the driver.
    forks: u32,
}

impl Drop for RubyDriver {
    fn drop(&mut self) {
        if self.is_own() {
            let driver = std::mem::replace(
                &mut self.driver,
                ManuallyDrop::new(Driver::virtual_clock(Append(Arc::clone(&self.due)))),
            );
            drop(ManuallyDrop::into_inner(driver));
        }
    }
}

impl DataTypeFunctions for RubyDriver {
    fn mark(&self, marker: &Marker) {
        for slot in &self.targets.borrow().slots {
            if let Some((target, _)) = slot.target {
                marker.mark_movable(target);
            }
        }
    }

    fn compact(&self, compactor: &Compactor) {
        for slot in &mut self.targets.borrow_mut().slots {
            if let Some((target, _)) = &mut slot.target {
                *target = compactor.location(*target);
            }
        }
    }
}

impl RubyDriver {
    fn new(is_virtual: bool) -> Self {
        let due = Arc::new(DueList::default());
        let append = Append(Arc::clone(&due));
        let driver = if is_virtual {
            Driver::virtual_clock(append)
        } else {
            Driver::new(append)
        };
        RubyDriver {
            targets: RefCell::default(),
            driver: ManuallyDrop::new(driver),
            due,
            forks: fork::count(),
        }
    }

    /// Returns true if the driver works in this process: if this process created it, or if it has a
    /// virtual clock and therefore no thread.
    fn is_own(&self) -> bool {
        self.driver.is_virtual() || self.forks == fork::count()
    }

    fn own(rb_self: Own<Self>) -> bool {
        rb_self.is_own()
    }

    fn now(rb_self: Own<Self>) -> f64 {
        seconds::of_tick(rb_self.driver.now())
    }

    fn arm_at(ruby: &Ruby, rb_self: Own<Self>, at: Value, target: Value) -> Result<u64, Error> {
        let tick = seconds::deadline(seconds::parse(ruby, at, "the time")?);
        Ok(Self::arm(rb_self, tick, target))
    }

    fn arm_after(
        ruby: &Ruby,
        rb_self: Own<Self>,
        delay: Value,
        target: Value,
    ) -> Result<u64, Error> {
        let delay = seconds::deadline(seconds::parse(ruby, delay, "the time")?);
        let tick = rb_self.driver.now().saturating_add(delay);
        Ok(Self::arm(rb_self, tick, target))
    }

    #[inline]
    fn arm(rb_self: Own<Self>, tick: u64, target: Value) -> u64 {
        let number = rb_self.targets.borrow_mut().insert(target);
        rb_self.stored(target);
        let handle = rb_self.driver.arm(tick, Number(number));
        if let Some(slot) = rb_self.targets.borrow_mut().slot(number)
            && let Some((_, place)) = &mut slot.target
        {
            *place = Some(handle);
        }
        number
    }

    /// Removes an alarm. Returns false if it was not armed: it has fired or was disarmed.
    fn disarm(rb_self: Own<Self>, number: u64) -> bool {
        let Some((_, handle)) = rb_self.targets.borrow_mut().remove(number) else {
            return false;
        };
        if let Some(handle) = handle
            && rb_self.is_own()
        {
            // If the alarm has fired, its number is in the list; the number is stale now.
            let _ = rb_self.driver.disarm(handle);
        }
        true
    }

    /// Takes the target of a due alarm. Returns `None` if the alarm was disarmed meanwhile.
    fn take(ruby: &Ruby, rb_self: Own<Self>, number: u64) -> Option<Value> {
        let (target, _) = rb_self.targets.borrow_mut().remove(number)?;
        Some(ruby.get_inner(target))
    }

    fn size(rb_self: Own<Self>) -> usize {
        let targets = rb_self.targets.borrow();
        targets.slots.len() - targets.free.len()
    }

    /// Waits until alarms fall due, and returns their numbers.
    fn wait(ruby: &Ruby, rb_self: Own<Self>) -> Result<Vec<u64>, Error> {
        let due = Arc::clone(&rb_self.due);
        let numbers = gvl::release(ruby, || due.wait(), &|| due.interrupt());
        ruby.thread_check_ints()?;
        Ok(numbers.unwrap_or_default())
    }

    fn next_time(rb_self: Own<Self>) -> Option<f64> {
        rb_self.driver.next_deadline().map(seconds::of_tick)
    }

    /// Moves a virtual clock to the next deadline, or to `limit` if that is earlier, and returns
    /// the numbers of alarms that fall due then.
    fn step(ruby: &Ruby, rb_self: Own<Self>, limit: Value) -> Result<Vec<u64>, Error> {
        let limit = seconds::reading(seconds::parse(ruby, limit, "the time")?);
        let to = rb_self
            .driver
            .next_deadline()
            .map_or(limit, |next| next.min(limit));
        let by = to.saturating_sub(rb_self.driver.now());
        rb_self.driver.advance(Duration::from_nanos(by));
        Ok(rb_self.due.take())
    }
}

pub(crate) fn define(ruby: &Ruby, punctual: RModule) -> Result<(), Error> {
    let class = punctual.define_class("Driver", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_singleton_method("new", function!(RubyDriver::new, 1))?;
    class.define_method("own?", method!(RubyDriver::own, 0))?;
    class.define_method("now", method!(RubyDriver::now, 0))?;
    class.define_method("arm_at", method!(RubyDriver::arm_at, 2))?;
    class.define_method("arm_after", method!(RubyDriver::arm_after, 2))?;
    class.define_method("disarm", method!(RubyDriver::disarm, 1))?;
    class.define_method("take", method!(RubyDriver::take, 1))?;
    class.define_method("size", method!(RubyDriver::size, 0))?;
    class.define_method("wait", method!(RubyDriver::wait, 0))?;
    class.define_method("next_time", method!(RubyDriver::next_time, 0))?;
    class.define_method("step", method!(RubyDriver::step, 1))?;
    Ok(())
}
