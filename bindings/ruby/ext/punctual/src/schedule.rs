//! `Punctual::Schedule`: Ruby objects with deadlines on the engine's wheel. Timers and event timers
//! stand on it.

use std::cell::{Cell, RefCell};

use magnus::gc::{Compactor, Marker};
use magnus::value::Opaque;
use magnus::{DataTypeFunctions, Error, Module, RArray, RModule, Ruby, TypedData, Value, method};
use punctual::{TimerKey, Wheel};

use crate::own::Own;
use crate::seconds;

/// A wheel of Ruby objects that knows how to mark them.
#[derive(Default)]
pub(crate) struct Timers {
    wheel: RefCell<Wheel<Opaque<Value>>>,
    /// The earliest tick of a new deadline. While timers fire, it lies after their time, so that a
    /// callback which arms a timer for the past does not keep the loop busy for ever.
    earliest: Cell<u64>,
    /// Cancelled timers whose entries may still lie in the wheel, for new timers to take over.
    cancelled: Cell<usize>,
}

/// So many cancelled timers, and `CROWD_RATIO` times as many as are live, are a crowd.
const CROWD: usize = 1 << 16;
const CROWD_RATIO: usize = 16;

impl Timers {
    /// Arms a timer. The owner calls the write barrier.
    #[inline]
    pub(crate) fn insert(&self, seconds: f64, object: Value) -> TimerKey {
        let tick = seconds::deadline(seconds).max(self.earliest.get());
        self.cancelled.set(self.cancelled.get().saturating_sub(1));
        self.wheel.borrow_mut().insert(tick, object.into())
    }

    /// Arms a timer anew; returns false if the key is stale.
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

    /// Returns the seconds of the earliest deadline; after a crowd was cancelled, a lower bound. To
    /// find the exact deadline the wheel would pass over all entries of the crowd, which takes
    /// milliseconds.
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

    /// Takes out each object that is due and passes it on, until a call fails. The other objects
    /// stay.
    pub(crate) fn fire(
        &self,
        ruby: &Ruby,
        seconds: f64,
        mut each: impl FnMut(Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let now = seconds::reading(seconds);
        let before = self.earliest.replace(now + 1);
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

    /// All objects, in no order.
    pub(crate) fn objects(&self, ruby: &Ruby) -> Result<RArray, Error> {
        let objects = ruby.ary_new_capa(self.len());
        // The array has room for all of them: pushing allocates nothing, so no collection starts
        // meanwhile.
        for (_, _, &object) in self.wheel.borrow().iter() {
            objects.push(ruby.get_inner(object))?;
        }
        Ok(objects)
    }

    pub(crate) fn clear(&self) {
        self.wheel.borrow_mut().clear();
    }

    pub(crate) fn mark(&self, marker: &Marker) {
        // No borrow is exclusive while Ruby runs, and a collection begins only where Ruby runs.
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

    fn fire(ruby: &Ruby, rb_self: Own<Self>, now: Value) -> Result<(), Error> {
        let now = seconds::parse(ruby, now, "the time")?;
        rb_self.timers.fire(ruby, now, |object| {
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
    class.define_method("fire", method!(Schedule::fire, 1))?;
    class.define_method("objects", method!(Schedule::objects, 0))?;
    class.define_method("clear", method!(Schedule::clear, 0))?;
    Ok(())
}
