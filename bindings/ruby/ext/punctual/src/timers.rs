//! `Punctual::Timers::Group` and `Timer`: the methods that programs call often.
//! `lib/punctual/timers` has the other methods, in Ruby.

use std::cell::Cell;
use std::time::Instant;

use magnus::gc::{Compactor, Marker};
use magnus::value::{Opaque, ReprValue};
use magnus::{
    Class, DataTypeFunctions, Error, Module, RArray, RModule, Ruby, TryConvert, TypedData, Value,
    block::Proc, method, scan_args::scan_args,
};
use punctual::TimerKey;

use crate::own::Own;
use crate::schedule::{Past, Timers};
use crate::seconds;

#[derive(TypedData)]
#[magnus(
    class = "Punctual::Timers::Group",
    free_immediately,
    mark,
    compact,
    wb_protected
)]
struct Group {
    timers: Timers,
    origin: Instant,
}

impl Default for Group {
    fn default() -> Self {
        Group {
            timers: Timers::default(),
            origin: Instant::now(),
        }
    }
}

impl DataTypeFunctions for Group {
    fn mark(&self, marker: &Marker) {
        self.timers.mark(marker);
    }

    fn compact(&self, compactor: &Compactor) {
        self.timers.compact(compactor);
    }
}

impl Group {
    #[inline]
    fn offset(&self) -> f64 {
        seconds::of_duration(self.origin.elapsed())
    }

    fn current_offset(rb_self: Own<Self>) -> f64 {
        rb_self.offset()
    }

    fn after(ruby: &Ruby, rb_self: Own<Self>, interval: Value) -> Result<Own<Timer>, Error> {
        let recurring = ruby.qfalse().as_value();
        Timer::make(ruby, rb_self, interval, recurring)
    }

    fn every(ruby: &Ruby, rb_self: Own<Self>, args: &[Value]) -> Result<Own<Timer>, Error> {
        let args = scan_args::<(Value,), (Option<Value>,), (), (), (), ()>(args)?;
        let recurring = args.optional.0.unwrap_or(ruby.qtrue().as_value());
        Timer::make(ruby, rb_self, args.required.0, recurring)
    }

    fn wait_interval(
        ruby: &Ruby,
        rb_self: Own<Self>,
        args: &[Value],
    ) -> Result<Option<f64>, Error> {
        let offset = rb_self.offset_or(ruby, args)?;
        Ok(rb_self.timers.first().map(|first| first - offset))
    }

    fn fire(ruby: &Ruby, rb_self: Own<Self>, args: &[Value]) -> Result<(), Error> {
        let offset = rb_self.offset_or(ruby, args)?;
        rb_self.timers.fire(ruby, offset, Past::NextTime, |timer| {
            let timer = Own::<Timer>::try_convert(timer)?;
            timer.key.set(None);
            Timer::run(ruby, timer, offset).map(drop)
        })
    }

    fn armed(ruby: &Ruby, rb_self: Own<Self>) -> Result<RArray, Error> {
        rb_self.timers.objects(ruby)
    }

    fn size(rb_self: Own<Self>) -> usize {
        rb_self.timers.len()
    }

    fn offset_or(&self, ruby: &Ruby, args: &[Value]) -> Result<f64, Error> {
        match args {
            [] => Ok(self.offset()),
            &[offset] => seconds::parse(ruby, offset, "the offset"),
            _ => Err(Error::new(
                ruby.exception_arg_error(),
                format!(
                    "wrong number of arguments (given {}, expected 0..1)",
                    args.len()
                ),
            )),
        }
    }
}

/// A timer. Its references to Ruby objects are in cells, because the garbage collector may move the
/// objects; the references are nil until `initialize`.
#[derive(TypedData)]
#[magnus(
    class = "Punctual::Timers::Timer",
    free_immediately,
    mark,
    compact,
    wb_protected
)]
struct Timer {
    group: Cell<Opaque<Value>>,
    block: Cell<Opaque<Value>>,
    interval: Cell<Opaque<Value>>,
    recurring: Cell<Opaque<Value>>,
    seconds: Cell<f64>,
    /// The group's time at which the timer fires or fired; NaN before `initialize`.
    offset: Cell<f64>,
    /// Key in the group's wheel; `None` unless the timer is armed.
    key: Cell<Option<TimerKey>>,
}

impl Default for Timer {
    fn default() -> Self {
        // Ruby calls allocators only under its lock.
        let nil = || {
            let nil: Value =
                Ruby::get().map_or_else(|_| unreachable!(), |ruby| ruby.qnil().as_value());
            Cell::new(Opaque::from(nil))
        };
        Timer {
            group: nil(),
            block: nil(),
            interval: nil(),
            recurring: nil(),
            seconds: Cell::new(0.0),
            offset: Cell::new(f64::NAN),
            key: Cell::new(None),
        }
    }
}

impl DataTypeFunctions for Timer {
    fn mark(&self, marker: &Marker) {
        for reference in self.references() {
            marker.mark_movable(reference.get());
        }
    }

    fn compact(&self, compactor: &Compactor) {
        for reference in self.references() {
            reference.set(compactor.location(reference.get()));
        }
    }
}

impl Timer {
    fn references(&self) -> [&Cell<Opaque<Value>>; 4] {
        [&self.group, &self.block, &self.interval, &self.recurring]
    }

    /// Creates a timer and arms it: for `after` and `every`.
    #[inline]
    fn make(
        ruby: &Ruby,
        group: Own<Group>,
        interval: Value,
        recurring: Value,
    ) -> Result<Own<Self>, Error> {
        group.check_frozen()?;
        let block = ruby.block_proc()?;
        let seconds = seconds::parse(ruby, interval, "the interval")?;
        let offset = group.offset() + seconds;
        let timer = Own::from(ruby.obj_wrap(Timer {
            group: Cell::new(group.value().into()),
            block: Cell::new(block.as_value().into()),
            interval: Cell::new(interval.into()),
            recurring: Cell::new(recurring.into()),
            seconds: Cell::new(seconds),
            offset: Cell::new(offset),
            key: Cell::new(None),
        }));
        timer
            .key
            .set(Some(group.timers.insert(offset, timer.value())));
        group.stored(timer.value());
        Ok(timer)
    }

    fn initialize(ruby: &Ruby, rb_self: Own<Self>, args: &[Value]) -> Result<(), Error> {
        let block = ruby.block_proc()?;
        let args =
            scan_args::<(Own<Group>, Value), (Option<Value>, Option<Value>), (), (), (), ()>(args)?;
        let (group, interval) = args.required;
        let (recurring, offset) = args.optional;
        let seconds = seconds::parse(ruby, interval, "the interval")?;
        let offset = match offset.filter(|offset| !offset.is_nil()) {
            Some(offset) => seconds::parse(ruby, offset, "the offset")?,
            None => group.offset(),
        };
        Self::disarm(ruby, rb_self)?;
        let recurring = recurring.unwrap_or(ruby.qfalse().as_value());
        rb_self.keep(&rb_self.group, group.value(), rb_self);
        rb_self.keep(&rb_self.block, block.as_value(), rb_self);
        rb_self.keep(&rb_self.interval, interval, rb_self);
        rb_self.keep(&rb_self.recurring, recurring, rb_self);
        rb_self.seconds.set(seconds);
        Self::arm_at(ruby, rb_self, offset + seconds)
    }

    /// Stores a reference and calls the write barrier.
    fn keep(&self, place: &Cell<Opaque<Value>>, value: Value, rb_self: Own<Self>) {
        place.set(value.into());
        rb_self.stored(value);
    }

    #[inline]
    fn group_of(ruby: &Ruby, rb_self: Own<Self>) -> Result<Own<Group>, Error> {
        Own::try_convert(ruby.get_inner(rb_self.group.get()))
    }

    #[inline]
    fn arm_at(ruby: &Ruby, rb_self: Own<Self>, offset: f64) -> Result<(), Error> {
        let group = Self::group_of(ruby, rb_self)?;
        group.check_frozen()?;
        rb_self.check_frozen()?;
        rb_self.offset.set(offset);
        if let Some(key) = rb_self.key.get()
            && group.timers.reset(key, offset)
        {
            return Ok(());
        }
        let key = group.timers.insert(offset, rb_self.value());
        rb_self.key.set(Some(key));
        group.stored(rb_self.value());
        Ok(())
    }

    #[inline]
    fn disarm(ruby: &Ruby, rb_self: Own<Self>) -> Result<bool, Error> {
        rb_self.check_frozen()?;
        match rb_self.key.take() {
            Some(key) => Ok(Self::group_of(ruby, rb_self)?.timers.remove(key)),
            None => Ok(false),
        }
    }

    fn cancel(ruby: &Ruby, rb_self: Own<Self>) -> Result<(), Error> {
        if rb_self.key.get().is_none() {
            // A paused timer is not armed, but must not resume.
            return rb_self
                .value()
                .funcall::<_, _, Value>("forget_pause", ())
                .map(drop);
        }
        Self::disarm(ruby, rb_self).map(drop)
    }

    fn reset(ruby: &Ruby, rb_self: Own<Self>, args: &[Value]) -> Result<(), Error> {
        let offset = Self::group_of(ruby, rb_self)?.offset_or(ruby, args)?;
        Self::arm_at(ruby, rb_self, offset + rb_self.seconds.get())
    }

    /// Arms the timer for an offset, independently of its interval.
    fn arm(ruby: &Ruby, rb_self: Own<Self>, offset: Value) -> Result<(), Error> {
        let offset = seconds::parse(ruby, offset, "the offset")?;
        Self::arm_at(ruby, rb_self, offset)
    }

    fn fire(ruby: &Ruby, rb_self: Own<Self>, args: &[Value]) -> Result<Value, Error> {
        let offset = Self::group_of(ruby, rb_self)?.offset_or(ruby, args)?;
        Self::disarm(ruby, rb_self)?;
        Self::run(ruby, rb_self, offset)
    }

    /// Calls the block and returns its result. Arms a recurring timer for the next time first.
    fn run(ruby: &Ruby, rb_self: Own<Self>, offset: f64) -> Result<Value, Error> {
        let recurring = ruby.get_inner(rb_self.recurring.get());
        if recurring.to_bool() {
            let strict = magnus::Symbol::from_value(recurring)
                .is_some_and(|symbol| symbol.name().is_ok_and(|name| name == "strict"));
            let from = if strict { rb_self.offset.get() } else { offset };
            Self::arm_at(ruby, rb_self, from + rb_self.seconds.get())?;
        } else {
            rb_self.offset.set(offset);
        }
        let block = Proc::try_convert(ruby.get_inner(rb_self.block.get()))?;
        // Unlike a block, a lambda must be called with exactly as many arguments as it has
        // parameters.
        if block.is_lambda() {
            return match block.arity() {
                0 => block.call(()),
                1 => block.call((offset,)),
                _ => block.call((offset, rb_self)),
            };
        }
        block.call((offset, rb_self))
    }

    fn offset(rb_self: Own<Self>) -> Option<f64> {
        Some(rb_self.offset.get()).filter(|offset| !offset.is_nan())
    }

    fn is_armed(rb_self: Own<Self>) -> bool {
        rb_self.key.get().is_some()
    }

    fn interval(ruby: &Ruby, rb_self: Own<Self>) -> Value {
        ruby.get_inner(rb_self.interval.get())
    }

    fn recurring(ruby: &Ruby, rb_self: Own<Self>) -> Value {
        ruby.get_inner(rb_self.recurring.get())
    }

    fn group(ruby: &Ruby, rb_self: Own<Self>) -> Value {
        ruby.get_inner(rb_self.group.get())
    }
}

pub(crate) fn define(ruby: &Ruby, punctual: RModule) -> Result<(), Error> {
    let timers = punctual.define_module("Timers")?;
    let group = timers.define_class("Group", ruby.class_object())?;
    group.define_alloc_func::<Group>();
    group.define_method("after", method!(Group::after, 1))?;
    group.define_method("every", method!(Group::every, -1))?;
    group.define_method("wait_interval", method!(Group::wait_interval, -1))?;
    group.define_method("fire", method!(Group::fire, -1))?;
    group.define_method("current_offset", method!(Group::current_offset, 0))?;
    group.define_method("size", method!(Group::size, 0))?;
    group.define_private_method("armed", method!(Group::armed, 0))?;

    let timer = timers.define_class("Timer", ruby.class_object())?;
    timer.define_alloc_func::<Timer>();
    timer.define_method("initialize", method!(Timer::initialize, -1))?;
    timer.define_method("cancel", method!(Timer::cancel, 0))?;
    timer.define_method("reset", method!(Timer::reset, -1))?;
    timer.define_method("fire", method!(Timer::fire, -1))?;
    timer.define_method("offset", method!(Timer::offset, 0))?;
    timer.define_method("interval", method!(Timer::interval, 0))?;
    timer.define_method("recurring", method!(Timer::recurring, 0))?;
    timer.define_method("armed?", method!(Timer::is_armed, 0))?;
    timer.define_private_method("group", method!(Timer::group, 0))?;
    timer.define_private_method("arm", method!(Timer::arm, 1))?;
    Ok(())
}
