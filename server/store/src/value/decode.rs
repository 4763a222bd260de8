//! Decodes values from the bytes of a snapshot.

use punctual_rdb::{Contents, Element, Failure, Node, Source};

use crate::limits::Limits;
use crate::time::NEVER;
use crate::value::hash::Hash;
use crate::value::jobs::Jobs;
use crate::value::list::{List, PieceSize};
use crate::value::packed::Packed;
use crate::value::set::{Ints, Set};
use crate::value::stream::Stream;
use crate::value::string::Str;
use crate::value::text::Text;
use crate::value::timer::Timer;
use crate::value::zset::Zset;
use crate::value::{Kind, Value};

/// An error of [`read_value`].
#[derive(Debug, thiserror::Error)]
pub enum Unreadable<E> {
    /// The bytes are invalid, or reading them failed.
    #[error(transparent)]
    Failure(#[from] Failure<E>),
    /// A duplicate element, or a score that is not a number.
    #[error("duplicate element, or a score that is not a number")]
    Elements,
    /// A pending entry of a stream was delivered more often than can be counted here.
    #[error("more than 4294967295 deliveries of a stream's entry")]
    Deliveries,
    /// A timer that is not understood.
    #[error("a timer that is not understood")]
    Timer,
    /// A queue of jobs that is not understood.
    #[error("a queue of jobs that is not understood")]
    Jobs,
}

/// Preallocation limit in elements: a length read from the input is not trustworthy.
const PREALLOC_MAX: u64 = 1 << 16;

/// Decodes a value into the form that `limits` asks for. Returns `None` if it has no elements. O(bytes).
///
/// # Errors
/// [`Unreadable`].
pub fn read_value<S: Source>(
    contents: Contents<'_, S>,
    limits: &Limits,
) -> Result<Option<Value>, Unreadable<S::Error>> {
    let value = match contents {
        Contents::String(element) => Value::from_str(match element {
            Element::Int(int) => Str::Int(int.into()),
            Element::Bytes(text) => Str::new(text),
        }),
        Contents::List(mut nodes) => {
            let mut list = List::new();
            while let Some(node) = nodes.next()? {
                match node {
                    Node::Packed(pack) => list.push_piece(pack.entries(), pack.count()),
                    Node::Plain(element) => element.with_text(|text| list.push_plain(text)),
                }
            }
            list.normalize(PieceSize::of(limits.list_piece));
            list.into_value()
        }
        Contents::SetIntset(ints) => Value::Set(Set::from_ints(Ints::from_intset(ints), limits)),
        Contents::SetListpack(pack) => {
            let packed = Packed::from_entries(pack.entries(), pack.count());
            Value::Set(Set::from_packed(packed, limits))
        }
        Contents::Set(mut members) => {
            let about = members.remaining().min(PREALLOC_MAX) as usize;
            let mut set = None;
            while let Some(member) = members.next()? {
                let set = set.get_or_insert_with(|| {
                    member.with_text(|text| Set::for_members(text, about, limits))
                });
                if !set.insert_element(member, limits) {
                    return Err(Unreadable::Elements);
                }
            }
            match set {
                Some(set) => Value::Set(set),
                None => return Ok(None),
            }
        }
        Contents::HashListpack(pack) => {
            let hash = Hash::of_packed(pack.entries(), pack.count(), limits);
            Value::Hash(hash.ok_or(Unreadable::Elements)?)
        }
        Contents::Hash(mut pairs) => {
            let mut fields = Vec::with_capacity(pairs.remaining().min(PREALLOC_MAX) as usize);
            while let Some((name, value)) = pairs.next()? {
                fields.push((owned(name), owned(value), NEVER));
            }
            hash_of(&fields, limits)?
        }
        Contents::HashExpiry(mut pairs) => {
            let mut fields = Vec::with_capacity(pairs.remaining().min(PREALLOC_MAX) as usize);
            while let Some((name, value, expire_ms)) = pairs.next()? {
                fields.push((owned(name), owned(value), deadline(expire_ms)));
            }
            hash_of(&fields, limits)?
        }
        Contents::HashExpiryListpack(pack) => {
            let mut fields = Vec::with_capacity(pack.count() / 3);
            let mut elements = pack.iter();
            while let (Some(name), Some(value), Some(time)) =
                (elements.next(), elements.next(), elements.next())
            {
                let expire_ms = time.as_int().filter(|ms| *ms > 0);
                fields.push((owned(name), owned(value), deadline(expire_ms)));
            }
            hash_of(&fields, limits)?
        }
        Contents::ZsetListpack(pack) => {
            let packed = Packed::from_entries(pack.entries(), pack.count());
            let zset = Zset::from_packed(packed, *limits);
            Value::Zset(zset.ok_or(Unreadable::Elements)?)
        }
        Contents::Zset(mut entries) => {
            let mut pairs = Vec::with_capacity(entries.remaining().min(PREALLOC_MAX) as usize);
            while let Some((name, score)) = entries.next()? {
                pairs.push((name.with_text(Text::new), score));
            }
            let zset = Zset::from_pairs(pairs, *limits);
            Value::Zset(zset.ok_or(Unreadable::Elements)?)
        }
        Contents::Stream(parts) => Stream::read(parts)?.into_value(),
        Contents::Timer(text) => {
            let timer = text.with_text(Timer::from_bytes);
            Value::Timer(timer.ok_or(Unreadable::Timer)?)
        }
        Contents::Jobs(parts) => Jobs::read(parts)?.into_value(),
    };
    Ok((!value.is_empty_collection()).then_some(value))
}

/// Describes a flaw of a value of this kind, with the words that Redis's log has.
pub fn damage(kind: punctual_rdb::Kind, flaw: impl std::fmt::Display) -> String {
    format!("{} integrity check failed: {flaw}", kind.title())
}

fn owned(element: Element<'_>) -> Vec<u8> {
    element.with_text(<[u8]>::to_vec)
}

fn deadline(expire_ms: Option<i64>) -> u64 {
    expire_ms.map_or(NEVER, |ms| u64::try_from(ms).unwrap_or(0))
}

fn hash_of<E>(fields: &[(Vec<u8>, Vec<u8>, u64)], limits: &Limits) -> Result<Value, Unreadable<E>> {
    let entries = fields
        .iter()
        .map(|(name, value, deadline)| (&name[..], &value[..], *deadline));
    let hash = Hash::of_entries(entries, limits);
    Ok(Value::Hash(hash.ok_or(Unreadable::Elements)?))
}
