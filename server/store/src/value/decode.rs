//! Decodes values from the bytes of a snapshot.

use punctual_rdb::{Contents, Own, Source};

use crate::limits::Limits;
use crate::value::hash::{self, Hash, read_field};
use crate::value::jobs::Jobs;
use crate::value::list::List;
use crate::value::packed::Packed;
use crate::value::set::{Ints, Set};
use crate::value::stream::Stream;
use crate::value::timer::Timer;
use crate::value::zset::Zset;
use crate::value::{Kind, Value};

pub use super::content::Unreadable;

/// Decodes a value, in the compact form if `limits` allow it. Returns `None` for an empty
/// collection of a type whose empty keys are removed. O(bytes); a sorted set O(n log n).
///
/// # Errors
/// [`Unreadable`] if the bytes or the content are invalid, or if reading fails.
pub fn read_value<S: Source>(
    contents: Contents<'_, S>,
    limits: &Limits,
) -> Result<Option<Value>, Unreadable<S::Error>> {
    let value = match contents {
        Contents::String(element) => hash::string(element).into_value(),
        Contents::List(nodes) => List::read(nodes, limits)?.into_value(),
        Contents::SetIntset(ints) => Set::from_ints(Ints::from_intset(ints), limits).into_value(),
        Contents::SetListpack(pack) => {
            let packed = Packed::from_entries(pack.entries(), pack.count());
            Set::from_packed(packed, limits).into_value()
        }
        Contents::Set(members) => Set::read(members, limits)?.into_value(),
        Contents::HashListpack(pack) => Hash::of_packed(pack.entries(), pack.count(), limits)
            .ok_or(Unreadable::ELEMENTS)?
            .into_value(),
        Contents::Hash(mut pairs) => Value::Hash(Hash::read(pairs.remaining(), limits, || {
            let pair = pairs.next()?;
            Ok(pair.map(|(name, value)| read_field(name, value, None)))
        })?),
        Contents::HashExpiry(mut pairs) => {
            Value::Hash(Hash::read(pairs.remaining(), limits, || {
                let field = pairs.next()?;
                Ok(field.map(|(name, value, expire_ms)| read_field(name, value, expire_ms)))
            })?)
        }
        Contents::HashExpiryListpack(pack) => {
            let mut elements = pack.iter();
            let mut next = || {
                let (name, value) = (elements.next()?, elements.next()?);
                let expire_ms = elements.next()?.as_int().filter(|ms| *ms > 0);
                Some(read_field(name, value, expire_ms))
            };
            Value::Hash(Hash::read(pack.count() as u64 / 3, limits, || Ok(next()))?)
        }
        Contents::ZsetListpack(pack) => {
            let packed = Packed::from_entries(pack.entries(), pack.count());
            Zset::from_packed(packed, *limits)
                .ok_or(Unreadable::ELEMENTS)?
                .into_value()
        }
        Contents::Zset(entries) => Zset::read(entries, limits)?.into_value(),
        Contents::Stream(parts) => Stream::read(parts)?.into_value(),
        Contents::OwnText(Own::Timer, text) => Timer::read(text)?.into_value(),
        Contents::OwnParts(Own::Jobs, parts) => Jobs::read(parts)?.into_value(),
        Contents::OwnParts(Own::Zset, parts) => Zset::read_timed(parts, limits)?.into_value(),
        Contents::OwnParts(Own::Set, parts) => Set::read_timed(parts, limits)?.into_value(),
        Contents::OwnText(..) | Contents::OwnParts(..) => {
            return Err(Unreadable::Content("the value is encoded as another type"));
        }
    };
    Ok((!value.is_empty_collection()).then_some(value))
}

/// Describes a flaw of a value of this kind in the words of Redis's log.
pub fn damage(kind: punctual_rdb::Kind, flaw: impl std::fmt::Display) -> String {
    format!("{} integrity check failed: {flaw}", kind.title())
}
