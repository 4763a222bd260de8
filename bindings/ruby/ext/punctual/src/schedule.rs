//! [`Timers`]: Ruby objects with deadlines on a `punctual::Wheel`, which groups of timers use. Also
//! the class `Punctual::Schedule` over it, which event timers use.

use std::cell::{Cell, RefCell};

use magnus::gc::{Compactor, Marker};
use magnus::value::Opaque;
use magnus::{DataTypeFunctions, Error, Module, RArray, RModule, Ruby, TypedData, Value, method};
use punctual::{TimerKey, Wheel};

use crate::own::Own;
use crate::seconds;

/// Which call of `fire` fires a timer that a callback arms for the past.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Past {
    /// The call that runs the callback.
    SameTime,
    /// The next call, so that a callback cannot keep `fire` busy forever.
    NextTime,
}

/// A wheel of Ruby objects, which it marks for the garbage collector.
#[derive(Default)]
pub(crate) struct Timers {
    wheel: RefCell<Wheel<Opaque<Value>>>,
    /// The earliest tick of a new deadline. While timers fire under [`Past::NextTime`], it is after
    /// the current tick.
    earliest: Cell<u64>,
    /// Estimated number of cancelled timers whose records are still in the wheel. New timers reuse
    /// the records.
    cancelled: Cell<usize>,
}

/// The cancelled timers are a *crowd* if there are at least `CROWD` of them, and at least
/// `CROWD_RATIO` for each live timer.
const CROWD: usize = 1 << 16;
const CROWD_RATIO: usize = 16;

impl Timers {
    /// Arms a timer. The caller then calls the write barrier for `object`.
    #[inline]
    pub(crate) fn insert(&self, seconds: f64, object: Value) -> TimerKey {
        let tick = seconds::deadline(seconds).max(self.earliest.get());
        self.cancelled.set(self.cancelled.get().saturating_sub(1));
        self.wheel.borrow_mut().insert(tick, object.into())
    }

    /// Moves a timer to another deadline. Returns false if the key is stale.
    #[inline]
    pub(crate) fn reset(&self, key: TimerKey, seconds: f64) -> bool {
        let tick = seconds::deadline(seconds).max(self.earliest.get());
        self.wheel.borrow_mut().reset(key, tick)
    }

    #[inline]
    pub(crate) fn remove(&self, key: TimerKey) -> bool {
        let removed = self.wheel.borrow_mut().remove(key).is_some();
        self.cancelled
            .set(self.cancelled.get() + usize::from(removed));
        removed
    }

    pub(crate) fn len(&self) -> usize {
        self.wheel.borrow().len()
    }

    /// Returns the earliest deadline in seconds; after a crowd of timers was cancelled, a lower
    /// bound of it. To find the exact deadline, the wheel would visit all entries of the crowd,
    /// which takes milliseconds.
    pub(crate) fn first(&self) -> Option<f64> {
        let mut wheel = self.wheel.borrow_mut();
        let cancelled = self.cancelled.get();
        let first = if wheel.is_empty() {
            self.cancelled.set(0);
            None
        } else if cancelled >= CROWD && cancelled / CROWD_RATIO >= wheel.len() {
            wheel.next_wakeup()
        } else {
            wheel.next_deadline()
        };
        first.map(seconds::of_tick)
    }

    /// Removes each due object and passes it to `each`, until `each` fails. The other due objects
    /// stay armed.
    pub(crate) fn fire(
        &self,
        ruby: &Ruby,
        seconds: f64,
        past: Past,
        mut each: impl FnMut(Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let now = seconds::reading(seconds);
        let earliest = self.earliest.get();
        let before = self.earliest.replace(match past {
            Past::SameTime => earliest,
            Past::NextTime => now + 1,
        });
        let mut result = Ok(());
        while result.is_ok() {
            let Some(due) = self.wheel.borrow_mut().pop_due(now) else {
                break;
            };
            result = each(ruby.get_inner(due.value));
        }
        self.earliest.set(before);
        result
    }

    /// Returns all objects, in no particular order.
    pub(crate) fn objects(&self, ruby: &Ruby) -> Result<RArray, Error> {
        let objects = ruby.ary_new_capa(self.len());
        // The array has room for all objects: `push` allocates nothing, so no garbage collection
        // starts during the borrow.
        for (_, _, &object) in self.wheel.borrow().iter() {
            objects.push(ruby.get_inner(object))?;
        }
        Ok(objects)
    }

    pub(crate) fn clear(&self) {
        self.wheel.borrow_mut().clear();
    }

    pub(crate) fn mark(&self, marker: &Marker) {
        // A garbage collection begins only in Ruby's code, and no mutable borrow is held while that
        // runs.
        for (_, _, &object) in self.wheel.borrow().iter() {
            marker.mark_movable(object);
        }
    }

    pub(crate) fn compact(&self, compactor: &Compactor) {
        let mut wheel = self.wheel.borrow_mut();
        let keys: Vec<TimerKey> = wheel.iter().map(|(key, _, _)| key).collect();
        for key in keys {
            if let Some(object) = wheel.get_mut(key) {
                *object = compactor.location(*object);
            }
        }
    }
}

#[derive(Default, TypedData)]
#[magnus(
    class = "Punctual::Schedule",
    free_immediately,
    mark,
    compact,
    wb_protected
)]
pub(crate) struct Schedule {
    timers: Timers,
}

impl DataTypeFunctions for Schedule {
    fn mark(&self, marker: &Marker) {
        self.timers.mark(marker);
    }

    fn compact(&self, compactor: &Compactor) {
        self.timers.compact(compactor);
    }
}

impl Schedule {
    fn insert(
        ruby: &Ruby,
        rb_self: Own<Self>,
        seconds: Value,
        object: Value,
    ) -> Result<u64, Error> {
        let seconds = seconds::parse(ruby, seconds, "the time")?;
        let key = rb_self.timers.insert(seconds, object);
        rb_self.stored(object);
        Ok(key.to_bits())
    }

    fn remove(rb_self: Own<Self>, key: u64) -> bool {
        rb_self.timers.remove(TimerKey::from_bits(key))
    }

    fn size(rb_self: Own<Self>) -> usize {
        rb_self.timers.len()
    }

    fn first_time(rb_self: Own<Self>) -> Option<f64> {
        rb_self.timers.first()
    }

    fn fire_all(ruby: &Ruby, rb_self: Own<Self>, now: Value) -> Result<(), Error> {
        let now = seconds::parse(ruby, now, "the time")?;
        rb_self.timers.fire(ruby, now, Past::SameTime, |object| {
            ruby.yield_value::<_, Value>(object).map(drop)
        })
    }

    fn objects(ruby: &Ruby, rb_self: Own<Self>) -> Result<RArray, Error> {
        rb_self.timers.objects(ruby)
    }

    fn clear(rb_self: Own<Self>) {
        rb_self.timers.clear();
    }
}

pub(crate) fn define(ruby: &Ruby, punctual: RModule) -> Result<(), Error> {
    let class = punctual.define_class("Schedule", ruby.class_object())?;
    magnus::Class::define_alloc_func::<Schedule>(class);
    class.define_method("insert", method!(Schedule::insert, 2))?;
    class.define_method("remove", method!(Schedule::remove, 1))?;
    class.define_method("size", method!(Schedule::size, 0))?;
    class.define_method("first_time", method!(Schedule::first_time, 0))?;
    class.define_method("fire_all", method!(Schedule::fire_all, 1))?;
    class.define_method("objects", method!(Schedule::objects, 0))?;
    class.define_method("clear", method!(Schedule::clear, 0))?;
    Ok(())
}
