//! HRANDFIELD: fields chosen at random.

use std::collections::HashSet;

use punctual_resp::{Args, Protocol, Reply};

use super::answer;
use crate::command::arguments::{int, is};
use crate::error::Error;
use crate::time::Now;
use crate::turn::Cx;
use crate::value::hash::{Entry, Hash, Table};

const OUT_OF_RANGE: Error = Error::fixed("ERR value is out of range");
const COUNT_RANGE: Error = Error::fixed(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);
/// Picks before the fields are looked at one by one.
const PICKS_MAX: usize = 100;
/// More than one field in so many: it is quicker to look at all of them than to draw until they are different.
const SPARSE: usize = 3;
/// The least that a field takes in a reply.
const REPLY_BYTES_MIN: u64 = 6;

pub(super) fn hrandfield(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    let now = cx.now();
    let Some(count) = args.get(2) else {
        cx.expire_before_count(&args[1]);
        let hash = cx.read_as::<Hash>(&args[1])?;
        match hash.and_then(|hash| Chosen::of(hash, now).one()) {
            Some(entry) => answer(reply, entry.name),
            None => reply.null(),
        }
        return Ok(());
    };
    let count = int(count)?;
    if count == i64::MIN {
        return Err(COUNT_RANGE);
    }
    let with_values = match args.get(3) {
        None => false,
        Some(option) if args.len() == 4 && is(option, "WITHVALUES") => true,
        Some(_) => return Err(Error::Syntax),
    };
    if with_values && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
        return Err(OUT_OF_RANGE);
    }
    cx.expire_before_count(&args[1]);
    // Redis writes until memory ends; here a reply of repeated fields is at most as long as a string may be.
    let bytes_max = cx.store().string_max();
    let Some(hash) = cx.read_as::<Hash>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let chosen = Chosen::of(hash, now);
    if count >= 0 {
        let wanted = usize::try_from(count).unwrap_or(usize::MAX);
        let entries = chosen.different(wanted);
        open(reply, entries.len(), with_values);
        for entry in entries {
            show(reply, entry, with_values);
        }
        return Ok(());
    }
    let wanted = count.unsigned_abs();
    if chosen.is_empty() {
        reply.array(0);
        return Ok(());
    }
    if wanted > bytes_max / REPLY_BYTES_MIN {
        return Err(OUT_OF_RANGE);
    }
    let start = reply.len();
    open(reply, wanted as usize, with_values);
    for _ in 0..wanted {
        // There is one: the instant is the same.
        if let Some(entry) = chosen.one() {
            show(reply, entry, with_values);
        }
        if (reply.len() - start) as u64 > bytes_max {
            return Err(OUT_OF_RANGE);
        }
    }
    Ok(())
}

fn open(reply: &mut Reply<'_>, len: usize, with_values: bool) {
    match reply.protocol() {
        Protocol::Resp2 if with_values => reply.array(len * 2),
        _ => reply.array(len),
    }
}

/// A field, in RESP3 an array of its own if the value is shown.
fn show(reply: &mut Reply<'_>, entry: Entry<'_>, with_values: bool) {
    if !with_values {
        return answer(reply, entry.name);
    }
    if reply.protocol() != Protocol::Resp2 {
        reply.array(2);
    }
    answer(reply, entry.name);
    answer(reply, entry.value);
}

/// The fields that may be chosen.
enum Chosen<'h> {
    /// All of a table, most or all of which are not due.
    Table(&'h Table, Now),
    /// These.
    Listed(Vec<Entry<'h>>),
}

impl<'h> Chosen<'h> {
    fn of(hash: &'h Hash, now: Now) -> Self {
        match hash.table() {
            Some(table) => Self::Table(table, now),
            None => Self::Listed(hash.iter().collect()),
        }
    }

    /// A field of a table at random that is not due.
    fn pick(table: &Table, now: Now) -> Option<u32> {
        let stays = |id: &u32| !now.is_due(table.field(*id).deadline());
        let picks = (0..PICKS_MAX).filter_map(|_| table.at_random(below));
        picks.into_iter().find(stays).or_else(|| {
            // Nearly everything is due: luck would take long.
            let left: Vec<u32> = table.fields().map(|(id, _)| id).filter(stays).collect();
            (!left.is_empty()).then(|| left[below(left.len() as u32) as usize])
        })
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Table(table, now) => Self::pick(table, *now).is_none(),
            Self::Listed(entries) => entries.is_empty(),
        }
    }

    /// One of them.
    fn one(&self) -> Option<Entry<'h>> {
        match self {
            Self::Table(table, now) => Some(table.field(Self::pick(table, *now)?).entry()),
            Self::Listed(entries) if entries.is_empty() => None,
            Self::Listed(entries) => Some(entries[below(entries.len() as u32) as usize]),
        }
    }

    /// `wanted` different ones, or all if they are fewer.
    fn different(self, wanted: usize) -> Vec<Entry<'h>> {
        match self {
            Self::Table(table, now)
                if table.with_deadline() == 0 && wanted.saturating_mul(SPARSE) <= table.len() =>
            {
                let mut seen = HashSet::with_capacity(wanted);
                let mut entries = Vec::with_capacity(wanted);
                while entries.len() < wanted
                    && let Some(id) = Self::pick(table, now)
                {
                    if seen.insert(id) {
                        entries.push(table.field(id).entry());
                    }
                }
                entries
            }
            Self::Table(table, now) => {
                let fields = table.fields().map(|(_, field)| field.entry());
                some(fields.filter(|e| !now.is_due(e.deadline)).collect(), wanted)
            }
            Self::Listed(entries) => some(entries, wanted),
        }
    }
}

/// `wanted` of them, each as likely as any, in the order they had.
fn some<T: Copy>(all: Vec<T>, wanted: usize) -> Vec<T> {
    if wanted >= all.len() {
        return all;
    }
    let mut picks = rand::seq::index::sample(&mut rand::rng(), all.len(), wanted).into_vec();
    picks.sort_unstable();
    picks.into_iter().map(|at| all[at]).collect()
}

fn below(end: u32) -> u32 {
    rand::random_range(0..end)
}
