//! Checks of a database: its table, wheel, counters and lists agree with its records.

use std::collections::BTreeSet;

use punctual::queue::wheel::Timers as _;

use super::Db;
use crate::check::Check;
use crate::keyspace::records::{Id, Record};
use crate::keyspace::value_timers::{Armed, OF_VALUE};
use crate::time::NEVER;
use crate::value::Value;

/// What the records give.
#[derive(Default)]
struct Counted {
    with_deadline: usize,
    /// Fields and members with a deadline that the database has counted.
    parts: usize,
    fields: usize,
    timers: usize,
    queues: usize,
    value_timers: usize,
    slots: Vec<u32>,
}

impl Db {
    /// Checks the database; `belongs` returns whether a key belongs to this shard.
    pub(crate) fn check(&self, to: &mut Check, belongs: impl Fn(&[u8]) -> bool) {
        to.within(|| "records".to_owned(), |to| self.records.check(to));
        to.within(|| "timers of values".to_owned(), |to| self.values.check(to));
        to.within(
            || "table".to_owned(),
            |to| self.index.check(to, self.records.len()),
        );
        let mut counted = Counted {
            slots: vec![
                0;
                if self.names.slots().any() {
                    self.names.slots().numbers()
                } else {
                    0
                }
            ],
            ..Counted::default()
        };
        for (id, record) in self.records.iter() {
            to.within(
                || format!("key {}", record.key.as_bytes().escape_ascii()),
                |to| {
                    to.holds("the key is in its shard", belongs(record.key.as_bytes()));
                    self.check_record(to, id, record, &mut counted);
                },
            );
        }
        to.equal(
            "keys with a deadline",
            self.with_deadline,
            counted.with_deadline,
        );
        let parts = (self.parts_with_deadline(), self.fields_with_deadline());
        to.equal(
            "elements with a deadline",
            parts,
            (counted.parts, counted.fields),
        );
        to.equal("timers", self.timers.len(), counted.timers);
        to.equal("queues", self.queues.len(), counted.queues);
        to.equal("timers of values", self.values.len(), counted.value_timers);
        self.check_wheel(to);
        if self.names.slots().any() {
            self.slot_counts.check(to, &counted.slots);
        }
        for &(deadline, id) in self.local_keys.iter().flat_map(|local| local.iter()) {
            let found = self.records.get(id).map(|record| record.deadline);
            to.equal("deadline of a local key", Some(deadline), found);
        }
    }

    fn check_record(&self, to: &mut Check, id: Id, record: &Record, counted: &mut Counted) {
        let hash = self.names.hash(record.key.as_bytes());
        to.equal("hash", record.hash, hash.place);
        let found = self.index.find(hash, |other| other == id);
        to.equal("place in the table", found, Some(id));
        if self.names.slots().any() {
            counted.slots[self.names.slots().number(record.hash)] += 1;
        }
        let has_deadline = record.deadline != NEVER;
        to.equal(
            "it has an entry in the wheel",
            record.stamp != 0,
            has_deadline,
        );
        counted.with_deadline += usize::from(has_deadline);
        match &record.value {
            Value::Timer(_) => {
                counted.timers += 1;
                to.holds(
                    "the timer is listed at its deadline",
                    self.timers.contains((record.deadline, id)),
                );
            }
            Value::Jobs(_) => {
                counted.queues += 1;
                to.holds("the queue is listed", self.queues.contains(&id));
            }
            _ => {}
        }
        let content = record.value.content();
        content.check(to);
        let next = content.next_due();
        let timer = record.value.timeline_timer();
        let armed = timer.and_then(|timer| self.values.get(timer));
        to.equal("the value's timer exists", timer.is_some(), armed.is_some());
        if let Some(armed) = armed {
            counted.value_timers += 1;
            to.equal("record of the value's timer", armed.record, id);
        }
        // A timer may be too early, because a removed element does not move it.
        let in_time = next.is_none_or(|next| armed.is_some_and(|armed| armed.deadline <= next));
        to.holds("the value's timer is armed for what is due next", in_time);
        if let Some(deadlines) = content.deadlines() {
            to.equal(
                "counted deadlines of elements",
                deadlines.counted(),
                deadlines.len(),
            );
            counted.parts += deadlines.counted();
            if let Value::Hash(_) = record.value {
                counted.fields += deadlines.counted();
            }
        }
    }

    /// Checks that each record with a deadline and each timer of a value has one live entry in the
    /// wheel, not filed too late.
    fn check_wheel(&self, to: &mut Check) {
        let armed = Armed {
            records: &self.records,
            values: &self.values,
        };
        let mut live = BTreeSet::new();
        let mut filed = 0;
        self.wheel.each_entry(|tick, index, stamp| {
            filed += 1;
            let Some(deadline) = armed.deadline(index, stamp) else {
                return;
            };
            let place = || match index & OF_VALUE {
                0 => format!("entry of record {index}"),
                _ => format!("entry of the value's timer {}", index & !OF_VALUE),
            };
            to.within(place, |to| {
                to.holds("it is the only live one", live.insert(index));
                // The wheel may keep an entry for the last tick although a deadline is earlier.
                let in_time = tick.is_none_or(|tick| tick <= deadline || tick == NEVER);
                to.holds("it is filed at the deadline or earlier", in_time);
                let bound = self.wheel.next_wakeup();
                to.holds(
                    "the wheel wakes up for it",
                    bound.is_some_and(|bound| bound <= deadline),
                );
            });
        });
        let expected = self.with_deadline + self.values.len();
        to.equal("entries of the wheel", self.wheel.entries(), filed);
        to.equal("live entries of the wheel", live.len(), expected);
        to.equal(
            "entries that the wheel counts as live",
            self.wheel.live(),
            expected,
        );
    }
}
