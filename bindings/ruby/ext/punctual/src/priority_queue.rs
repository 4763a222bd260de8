//! `Punctual::PriorityQueue`: the methods that change or read the heap.
//! `lib/punctual/priority_queue.rb` has the other methods.

use std::cmp::Ordering;

use magnus::gc::{Compactor, Marker};
use magnus::value::{Opaque, ReprValue};
use magnus::{
    Class, DataTypeFunctions, Error, Module, RArray, RModule, Ruby, TypedData, Value, block::Proc,
    method,
};

use crate::heap::{Entry, Finder, Heap, MAX_LEN};
use crate::own::Own;
use crate::ractor::Shareable;
use crate::score;

#[derive(TypedData)]
#[magnus(
    class = "Punctual::PriorityQueue",
    free_immediately,
    mark,
    compact,
    size,
    wb_protected,
    frozen_shareable
)]
pub(crate) struct PriorityQueue {
    heap: Shareable<Heap>,
    /// The block that returns the score of a value that is pushed without one. If `None`, the value
    /// is its own score.
    scorer: Shareable<Option<Opaque<Value>>>,
    /// True while `<=>` runs for an operation: the heap must not change then.
    comparing: Shareable<bool>,
    /// True if a score that is no number is converted by `Float`, as in the gem d_heap.
    converts: Shareable<bool>,
}

impl Default for PriorityQueue {
    fn default() -> Self {
        PriorityQueue {
            heap: Shareable::new(Heap::new(4, 0, false)),
            scorer: Shareable::new(None),
            comparing: Shareable::new(false),
            converts: Shareable::new(false),
        }
    }
}

impl DataTypeFunctions for PriorityQueue {
    fn mark(&self, marker: &Marker) {
        self.heap.look(|heap| heap.mark(marker));
        if let Some(scorer) = self.scorer.look(|scorer| *scorer) {
            marker.mark_movable(scorer);
        }
    }

    fn compact(&self, compactor: &Compactor) {
        self.heap.change(|heap| heap.compact(compactor));
        if let Some(scorer) = self.scorer.look(|scorer| *scorer) {
            let scorer = compactor.location(scorer);
            self.scorer.change(|place| *place = Some(scorer));
        }
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.heap.look(Heap::memory)
    }
}

/// Resets `comparing` when the comparisons of an operation have ended, even by an exception.
struct Comparing<'a>(&'a Shareable<bool>);

impl Drop for Comparing<'_> {
    fn drop(&mut self) {
        self.0.change(|comparing| *comparing = false);
    }
}

impl PriorityQueue {
    fn set_up(
        ruby: &Ruby,
        rb_self: Own<Self>,
        d: usize,
        capacity: usize,
        tracked: bool,
        converts: bool,
    ) -> Result<(), Error> {
        rb_self.check_changeable(ruby, rb_self)?;
        rb_self.converts.change(|place| *place = converts);
        if ruby.block_given() {
            let block = ruby.block_proc()?.as_value();
            rb_self.scorer.change(|scorer| *scorer = Some(block.into()));
            rb_self.stored(block);
        }
        rb_self
            .heap
            .change(|heap| *heap = Heap::new(d, capacity, tracked));
        Ok(())
    }

    fn initialize_copy(
        ruby: &Ruby,
        rb_self: Own<Self>,
        other: Own<Self>,
    ) -> Result<Own<Self>, Error> {
        rb_self.check_changeable(ruby, rb_self)?;
        let copy = other.heap.look(Heap::clone);
        for entry in copy.entries() {
            rb_self.stored(ruby.get_inner(entry.score));
            rb_self.stored(ruby.get_inner(entry.value));
        }
        rb_self.heap.change(|heap| *heap = copy);
        let converts = other.converts.look(|converts| *converts);
        rb_self.converts.change(|place| *place = converts);
        if let Some(scorer) = other.scorer.look(|scorer| *scorer) {
            rb_self.stored(ruby.get_inner(scorer));
            rb_self.scorer.change(|place| *place = Some(scorer));
        }
        Ok(rb_self)
    }

    /// Returns an error if the queue is frozen, or while another operation compares scores.
    #[inline]
    fn check_changeable(&self, ruby: &Ruby, rb_self: Own<Self>) -> Result<(), Error> {
        rb_self.check_frozen()?;
        if self.comparing.look(|&comparing| comparing) {
            return Err(Error::new(
                ruby.exception_runtime_error(),
                "a priority queue cannot change while it compares scores: neither `<=>` nor another thread may use it then",
            ));
        }
        Ok(())
    }

    /// Finds the place of an entry, and refuses changes of the heap meanwhile.
    #[inline]
    fn find(
        &self,
        ruby: &Ruby,
        find: impl FnOnce(&Finder<'_>) -> Result<usize, Error>,
    ) -> Result<usize, Error> {
        self.comparing.change(|comparing| *comparing = true);
        let _comparing = Comparing(&self.comparing);
        find(&Finder {
            ruby,
            heap: &self.heap,
        })
    }

    fn score_of(&self, ruby: &Ruby, value: Value) -> Result<Value, Error> {
        match self.scorer.look(|scorer| *scorer) {
            None => Ok(value),
            Some(scorer) => {
                let scorer: Proc = magnus::TryConvert::try_convert(ruby.get_inner(scorer))?;
                scorer.call((value,))
            }
        }
    }

    /// Adds an entry and returns its slot. A number needs no call of Ruby.
    #[inline(always)]
    fn add(ruby: &Ruby, rb_self: Own<Self>, score: Value, value: Value) -> Result<u32, Error> {
        rb_self.check_changeable(ruby, rb_self)?;
        let slot = rb_self.heap.change(|heap| {
            let rank = heap.rank(score)?;
            (heap.len() < MAX_LEN).then(|| heap.push(rank, score, value))
        });
        let Some(slot) = slot else {
            return Self::add_object(ruby, rb_self, score, value);
        };
        rb_self.stored(score);
        rb_self.stored(value);
        Ok(slot)
    }

    /// Adds an entry with any score.
    #[cold]
    fn add_object(
        ruby: &Ruby,
        rb_self: Own<Self>,
        score: Value,
        value: Value,
    ) -> Result<u32, Error> {
        let score = rb_self.checked(ruby, score)?;
        rb_self.check_changeable(ruby, rb_self)?;
        if rb_self.heap.look(Heap::len) >= MAX_LEN {
            return Err(Error::new(
                ruby.exception_range_error(),
                "a priority queue has at most 2^32 - 2 entries",
            ));
        }
        let rank = rb_self.heap.change(|heap| heap.admit(ruby, score));
        let slot = if rb_self.heap.look(Heap::is_numeric) {
            rb_self.heap.change(|heap| heap.push(rank, score, value))
        } else {
            let to = rb_self.find(ruby, |finder| finder.place_in(score))?;
            rb_self
                .heap
                .change(|heap| heap.push_at(rank, score, value, to))
        };
        rb_self.stored(score);
        rb_self.stored(value);
        Ok(slot)
    }

    /// Converts a score if the queue converts scores, and rejects a score that cannot be compared.
    fn checked(&self, ruby: &Ruby, score: Value) -> Result<Value, Error> {
        let score = if self.converts.look(|&converts| converts) {
            score::to_float(ruby, score)?
        } else {
            score
        };
        score::check(ruby, score)?;
        Ok(score)
    }

    fn push(ruby: &Ruby, rb_self: Own<Self>, args: &[Value]) -> Result<Own<Self>, Error> {
        let (value, score) = match *args {
            [value] => (value, rb_self.score_of(ruby, value)?),
            [value, score] => (value, score),
            _ => {
                return Err(Error::new(
                    ruby.exception_arg_error(),
                    format!(
                        "wrong number of arguments (given {}, expected 1..2)",
                        args.len()
                    ),
                ));
            }
        };
        Self::add(ruby, rb_self, score, value)?;
        Ok(rb_self)
    }

    fn append(ruby: &Ruby, rb_self: Own<Self>, value: Value) -> Result<Own<Self>, Error> {
        let score = rb_self.score_of(ruby, value)?;
        Self::add(ruby, rb_self, score, value)?;
        Ok(rb_self)
    }

    fn insert(
        ruby: &Ruby,
        rb_self: Own<Self>,
        score: Value,
        value: Value,
    ) -> Result<Own<Self>, Error> {
        Self::add(ruby, rb_self, score, value)?;
        Ok(rb_self)
    }

    /// Removes the entry at `place`, if there is one.
    #[inline(always)]
    fn take(ruby: &Ruby, rb_self: Own<Self>, place: usize) -> Result<Option<Entry>, Error> {
        rb_self.check_changeable(ruby, rb_self)?;
        if place >= rb_self.heap.look(Heap::len) {
            return Ok(None);
        }
        if !rb_self.heap.look(Heap::is_numeric) {
            return Self::take_object(ruby, rb_self, place).map(Some);
        }
        let nil = ruby.qnil().as_value();
        Ok(Some(rb_self.heap.change(|heap| heap.remove(place, nil))))
    }

    /// Removes the entry at `place`, in a heap of any scores.
    #[cold]
    fn take_object(ruby: &Ruby, rb_self: Own<Self>, place: usize) -> Result<Entry, Error> {
        let to = rb_self.find(ruby, |finder| finder.place_out(place))?;
        let nil = ruby.qnil().as_value();
        Ok(rb_self.heap.change(|heap| heap.remove_at(place, to, nil)))
    }

    fn pop(ruby: &Ruby, rb_self: Own<Self>) -> Result<Value, Error> {
        let entry = Self::take(ruby, rb_self, 0)?;
        Ok(entry.map_or(ruby.qnil().as_value(), |entry| ruby.get_inner(entry.value)))
    }

    fn pop_with_score(ruby: &Ruby, rb_self: Own<Self>) -> Result<Option<(Value, Value)>, Error> {
        let entry = Self::take(ruby, rb_self, 0)?;
        Ok(entry.map(|entry| (ruby.get_inner(entry.value), ruby.get_inner(entry.score))))
    }

    /// Pops a value if `wanted` returns true for the comparison of the least score with `limit`.
    fn pop_if(
        ruby: &Ruby,
        rb_self: Own<Self>,
        limit: Value,
        wanted: fn(Ordering) -> bool,
    ) -> Result<Option<Value>, Error> {
        rb_self.check_changeable(ruby, rb_self)?;
        let limit = rb_self.checked(ruby, limit)?;
        let Some(score) = Self::peek_score(ruby, rb_self) else {
            return Ok(None);
        };
        let order = {
            rb_self.comparing.change(|comparing| *comparing = true);
            let _comparing = Comparing(&rb_self.comparing);
            score::compare(ruby, score, limit)?
        };
        if wanted(order) {
            Self::pop(ruby, rb_self).map(Some)
        } else {
            Ok(None)
        }
    }

    fn pop_lt(ruby: &Ruby, rb_self: Own<Self>, limit: Value) -> Result<Option<Value>, Error> {
        Self::pop_if(ruby, rb_self, limit, Ordering::is_lt)
    }

    fn pop_lte(ruby: &Ruby, rb_self: Own<Self>, limit: Value) -> Result<Option<Value>, Error> {
        Self::pop_if(ruby, rb_self, limit, Ordering::is_le)
    }

    fn first(ruby: &Ruby, rb_self: Own<Self>) -> Option<(Value, Value)> {
        let entry = rb_self.heap.look(|heap| heap.first().copied())?;
        Some((ruby.get_inner(entry.value), ruby.get_inner(entry.score)))
    }

    fn peek(ruby: &Ruby, rb_self: Own<Self>) -> Option<Value> {
        Self::first(ruby, rb_self).map(|(value, _)| value)
    }

    fn peek_score(ruby: &Ruby, rb_self: Own<Self>) -> Option<Value> {
        Self::first(ruby, rb_self).map(|(_, score)| score)
    }

    /// Returns all values and their scores, in the order of the heap's array.
    fn to_a(ruby: &Ruby, rb_self: Own<Self>) -> Result<RArray, Error> {
        let len = rb_self.heap.look(Heap::len);
        let all = ruby.ary_new_capa(len);
        // A finalizer may run while Ruby allocates, and change the queue.
        for place in 0..len {
            let entry = rb_self
                .heap
                .look(|heap| (place < heap.len()).then(|| *heap.at(place)));
            let Some(entry) = entry else { break };
            all.push((ruby.get_inner(entry.value), ruby.get_inner(entry.score)))?;
        }
        Ok(all)
    }

    fn clear(ruby: &Ruby, rb_self: Own<Self>) -> Result<Own<Self>, Error> {
        rb_self.check_changeable(ruby, rb_self)?;
        rb_self.heap.change(|heap| heap.clear());
        Ok(rb_self)
    }

    fn len(rb_self: Own<Self>) -> usize {
        rb_self.heap.look(Heap::len)
    }

    fn is_empty(rb_self: Own<Self>) -> bool {
        rb_self.heap.look(Heap::len) == 0
    }

    fn d(rb_self: Own<Self>) -> usize {
        rb_self.heap.look(Heap::d)
    }

    /// Adds an entry and returns its slot: for `Map`.
    fn place(ruby: &Ruby, rb_self: Own<Self>, score: Value, value: Value) -> Result<u32, Error> {
        Self::add(ruby, rb_self, score, value)
    }

    /// Removes a slot's entry and returns its score: for `Map`.
    fn displace(ruby: &Ruby, rb_self: Own<Self>, slot: u32) -> Result<Option<Value>, Error> {
        let Some(place) = rb_self.heap.look(|heap| heap.place(slot)) else {
            return Ok(None);
        };
        let entry = Self::take(ruby, rb_self, place)?;
        Ok(entry.map(|entry| ruby.get_inner(entry.score)))
    }

    /// Changes the score of a slot's entry: for `Map`.
    fn replace(ruby: &Ruby, rb_self: Own<Self>, slot: u32, score: Value) -> Result<(), Error> {
        rb_self.check_changeable(ruby, rb_self)?;
        let score = rb_self.checked(ruby, score)?;
        rb_self.check_changeable(ruby, rb_self)?;
        let Some(place) = rb_self.heap.look(|heap| heap.place(slot)) else {
            return Ok(());
        };
        let rank = rb_self.heap.change(|heap| heap.admit(ruby, score));
        if rb_self.heap.look(Heap::is_numeric) {
            rb_self.heap.change(|heap| heap.rescore(place, rank, score));
        } else {
            let to = rb_self.find(ruby, |finder| finder.place_from(place, score))?;
            rb_self
                .heap
                .change(|heap| heap.rescore_at(place, rank, score, to));
        }
        rb_self.stored(score);
        Ok(())
    }

    /// Returns the score of a slot's entry: for `Map`.
    fn slot_score(ruby: &Ruby, rb_self: Own<Self>, slot: u32) -> Option<Value> {
        rb_self
            .heap
            .look(|heap| Some(ruby.get_inner(heap.at(heap.place(slot)?).score)))
    }
}

pub(crate) fn define(ruby: &Ruby, punctual: RModule) -> Result<(), Error> {
    let class = punctual.define_class("PriorityQueue", ruby.class_object())?;
    class.define_alloc_func::<PriorityQueue>();
    class.define_private_method("set_up", method!(PriorityQueue::set_up, 4))?;
    class.define_private_method(
        "initialize_copy",
        method!(PriorityQueue::initialize_copy, 1),
    )?;
    class.define_private_method("place", method!(PriorityQueue::place, 2))?;
    class.define_private_method("displace", method!(PriorityQueue::displace, 1))?;
    class.define_private_method("replace", method!(PriorityQueue::replace, 2))?;
    class.define_private_method("slot_score", method!(PriorityQueue::slot_score, 1))?;
    class.define_method("push", method!(PriorityQueue::push, -1))?;
    class.define_method("<<", method!(PriorityQueue::append, 1))?;
    class.define_method("insert", method!(PriorityQueue::insert, 2))?;
    class.define_method("pop", method!(PriorityQueue::pop, 0))?;
    class.define_method("pop_with_score", method!(PriorityQueue::pop_with_score, 0))?;
    class.define_method("pop_lt", method!(PriorityQueue::pop_lt, 1))?;
    class.define_method("pop_lte", method!(PriorityQueue::pop_lte, 1))?;
    class.define_method("peek", method!(PriorityQueue::peek, 0))?;
    class.define_method("peek_score", method!(PriorityQueue::peek_score, 0))?;
    class.define_method("peek_with_score", method!(PriorityQueue::first, 0))?;
    class.define_method("to_a", method!(PriorityQueue::to_a, 0))?;
    class.define_method("clear", method!(PriorityQueue::clear, 0))?;
    class.define_method("size", method!(PriorityQueue::len, 0))?;
    class.define_method("empty?", method!(PriorityQueue::is_empty, 0))?;
    class.define_method("d", method!(PriorityQueue::d, 0))?;
    Ok(())
}
