//! HRANDFIELD: random fields.

use punctual_resp::{Args, Protocol, Reply};
use rand::RngExt as _;
use rand::rngs::SmallRng;

use crate::arguments::{int, is};
use crate::command::replies::reply_element;
use crate::error::Error;
use crate::random::{below, drawn};
use crate::time::Now;
use crate::turn::Cx;
use crate::value::hash::{Entry, Hash, Table};

const OUT_OF_RANGE: Error = Error::fixed("ERR value is out of range");
const COUNT_RANGE: Error = Error::fixed(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);
/// Number of random picks before a search of all fields.
const PICKS_MAX: usize = 100;
/// Smallest ratio of all fields to wanted fields at which repeated draws are faster than a sample
/// of all fields.
const SPARSE: usize = 3;
/// Smallest size in bytes of a field in a reply.
const REPLY_BYTES_MIN: u64 = 6;

pub(super) fn hrandfield(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let now = cx.now();
    let random = &mut cx.store().draws.generator();
    let Some(count) = args.get(2) else {
        cx.expire_before_count(&args[1]);
        let hash = cx.read_as::<Hash>(&args[1])?;
        match hash.and_then(|hash| Candidates::of(hash, now).one(random)) {
            Some(entry) => reply_element(reply, entry.name),
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
    // Redis has no limit; here a reply of repeated fields is at most as long as a string.
    let bytes_max = cx.store().string_max();
    let Some(hash) = cx.read_as::<Hash>(&args[1])? else {
        reply.array(0);
        return Ok(());
    };
    let candidates = Candidates::of(hash, now);
    if count >= 0 {
        let wanted = usize::try_from(count).unwrap_or(usize::MAX);
        let entries = candidates.distinct(wanted, random);
        open(reply, entries.len(), with_values);
        for entry in entries {
            write_entry(reply, entry, with_values);
        }
        return Ok(());
    }
    let wanted = count.unsigned_abs();
    if candidates.is_empty(random) {
        reply.array(0);
        return Ok(());
    }
    if wanted > bytes_max / REPLY_BYTES_MIN {
        return Err(OUT_OF_RANGE);
    }
    let start = reply.len();
    open(reply, wanted as usize, with_values);
    for _ in 0..wanted {
        // `one` returns a field each time, because no field becomes due during the command.
        if let Some(entry) = candidates.one(random) {
            write_entry(reply, entry, with_values);
        }
        if (reply.len() - start) as u64 > bytes_max {
            return Err(OUT_OF_RANGE);
        }
    }
    Ok(())
}

fn open(reply: &mut Reply, len: usize, with_values: bool) {
    match reply.protocol() {
        Protocol::Resp2 if with_values => reply.array(len * 2),
        _ => reply.array(len),
    }
}

/// Writes a field, and its value if `with_values`. In RESP3, field and value are an array.
fn write_entry(reply: &mut Reply, entry: Entry<'_>, with_values: bool) {
    if !with_values {
        return reply_element(reply, entry.name);
    }
    if reply.protocol() != Protocol::Resp2 {
        reply.array(2);
    }
    reply_element(reply, entry.name);
    reply_element(reply, entry.value);
}

/// The fields of a hash that are not due.
enum Candidates<'h> {
    /// A table, some of whose fields may be due.
    Table(&'h Table, Now),
    /// A list of fields.
    Listed(Vec<Entry<'h>>),
}

impl<'h> Candidates<'h> {
    fn of(hash: &'h Hash, now: Now) -> Self {
        match hash.table() {
            Some(table) => Self::Table(table, now),
            None => {
                let stays = |entry: &Entry<'_>| !now.is_due(entry.deadline);
                Self::Listed(hash.iter().filter(stays).collect())
            }
        }
    }

    /// Returns a random field that is not due.
    fn pick(table: &Table, now: Now, random: &mut SmallRng) -> Option<u32> {
        let is_live = |id: &u32| !now.is_due(table.keyed().deadline_of(table.field(*id)));
        let picks = (0..PICKS_MAX).filter_map(|_| table.at_random(below(random)));
        picks.into_iter().find(is_live).or_else(|| {
            // Nearly all fields are due; more random picks would take long.
            let left: Vec<u32> = table.fields().map(|(id, _)| id).filter(is_live).collect();
            (!left.is_empty()).then(|| left[random.random_range(0..left.len())])
        })
    }

    fn is_empty(&self, random: &mut SmallRng) -> bool {
        match self {
            Self::Table(table, now) => Self::pick(table, *now, random).is_none(),
            Self::Listed(entries) => entries.is_empty(),
        }
    }

    /// Returns a random field.
    fn one(&self, random: &mut SmallRng) -> Option<Entry<'h>> {
        match self {
            Self::Table(table, now) => {
                Some(table.entry(table.field(Self::pick(table, *now, random)?)))
            }
            Self::Listed(entries) if entries.is_empty() => None,
            Self::Listed(entries) => Some(entries[random.random_range(0..entries.len())]),
        }
    }

    /// Returns `wanted` distinct random fields, or all fields if there are fewer.
    fn distinct(self, wanted: usize, random: &mut SmallRng) -> Vec<Entry<'h>> {
        match self {
            Self::Table(table, now)
                if table.keyed().with_deadline() == 0
                    && wanted.saturating_mul(SPARSE) <= table.len() =>
            {
                let mut seen = drawn(wanted);
                let mut entries = Vec::with_capacity(wanted);
                while entries.len() < wanted
                    && let Some(id) = Self::pick(table, now, random)
                {
                    if seen.insert(id) {
                        entries.push(table.entry(table.field(id)));
                    }
                }
                entries
            }
            Self::Table(table, now) => {
                let fields = table.fields().map(|(_, field)| table.entry(field));
                sample(
                    fields.filter(|e| !now.is_due(e.deadline)).collect(),
                    wanted,
                    random,
                )
            }
            Self::Listed(entries) => sample(entries, wanted, random),
        }
    }
}

/// Returns a uniform sample of `wanted` elements in their order.
fn sample<T: Copy>(all: Vec<T>, wanted: usize, random: &mut SmallRng) -> Vec<T> {
    if wanted >= all.len() {
        return all;
    }
    let mut picks = rand::seq::index::sample(random, all.len(), wanted).into_vec();
    picks.sort_unstable();
    picks.into_iter().map(|at| all[at]).collect()
}
