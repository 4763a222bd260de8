//! A snapshot's walk through a large value, in steps, while commands change the value.
//!
//! A walk begins when a snapshot reaches the value, or before the first change of the value that the snapshot has not reached. From
//! then on the collection itself keeps what the snapshot needs: an element, or a piece of a list, is copied before it changes or is
//! removed (`Keyed`, `list/snapshot.rs`, `stream/snapshot.rs`). So the walk finds the value as it was when it began. Ground rules: every
//! change of an element goes through [`Keyed`](super::keyed::Keyed), [`List`](super::list::List) or [`Stream`](super::stream::Stream), and a walked value keeps its form.

use punctual_rdb::{Element, Encoder, Kind};

use super::encode::{kind, millis, write_piece};
use super::keyed::Element as _;
use super::{Value, hash};
use crate::time::NEVER;

/// Smallest number of elements of a table that is walked in steps.
const LARGE: usize = if cfg!(test) { 3 } else { 2_048 };
/// Smallest number of pieces of a list, or blocks of a stream, some kilobytes each.
const LARGE_PIECES: usize = if cfg!(test) { 3 } else { 32 };

/// Base of the deadlines of a large hash: the earliest deadline is not known without a look at all fields.
const DEADLINE_BASE: i64 = 0;

impl Value {
    /// Returns whether a snapshot must walk through the value in steps.
    pub(crate) fn is_large(&self) -> bool {
        match self {
            Self::Str(_) | Self::Timer(_) => false,
            Self::List(list) => list.piece_count() >= LARGE_PIECES,
            Self::Stream(stream) => stream.blocks() >= LARGE_PIECES,
            Self::Jobs(jobs) => jobs.len() >= LARGE,
            Self::Hash(hash) => hash.table().is_some_and(|table| table.len() >= LARGE),
            Self::Set(set) => match set.view() {
                super::set::View::Table(table) => table.members().len() >= LARGE,
                _ => false,
            },
            Self::Zset(zset) => match zset.view() {
                super::zset::View::Table(entries) => entries.len() >= LARGE,
                _ => false,
            },
        }
    }

    /// Begins a walk through a [large](Self::is_large) value: appends the value's start to `out`. Returns the type of the
    /// elements that follow. O(elements / 64).
    pub(crate) fn begin_walk(&mut self, to: &mut Encoder, out: &mut Vec<u8>) -> Kind {
        let kind = kind(self);
        match self {
            Self::Str(_) | Self::Timer(_) => debug_assert!(false, "one piece is never large"),
            Self::Stream(stream) => stream.begin_walk(to, out),
            Self::Jobs(jobs) => jobs.begin_walk(to, out),
            Self::List(list) => {
                to.len(out, list.piece_count() as u64);
                list.begin_walk();
            }
            Self::Hash(hash) => {
                if kind == Kind::HashExpiry {
                    to.millis(out, DEADLINE_BASE);
                }
                to.len(out, hash.len() as u64);
                if let Some(table) = hash.table_mut() {
                    table.keyed_mut().begin_walk();
                }
            }
            Self::Set(set) => {
                to.len(out, set.len() as u64);
                if let Some(members) = set.keyed_mut() {
                    members.begin_walk();
                }
            }
            Self::Zset(zset) => {
                to.len(out, zset.len() as u64);
                if let Some(entries) = zset.keyed_mut() {
                    entries.begin_walk();
                }
            }
        }
        kind
    }

    /// Appends elements of the walk until `out` has `full` bytes. Returns true at the end.
    pub(crate) fn walk(
        &mut self,
        kind: Kind,
        to: &mut Encoder,
        out: &mut Vec<u8>,
        full: usize,
    ) -> bool {
        match self {
            Self::Str(_) | Self::Timer(_) => true,
            Self::Stream(stream) => stream.walk_on(to, out, full),
            Self::Jobs(jobs) => jobs.walk_on(to, out, full),
            Self::List(list) => list.walk_pieces(|piece| {
                write_piece(to, out, piece);
                out.len() < full
            }),
            Self::Hash(hash) => hash.table_mut().is_none_or(|table| {
                table.keyed_mut().walk(|field| {
                    if kind == Kind::HashExpiry {
                        let deadline = field.deadline();
                        let deadline = (deadline != NEVER).then(|| millis(deadline));
                        to.field_expiry(out, DEADLINE_BASE, deadline);
                    }
                    to.string(out, field.name());
                    to.element(out, hash::element(&field.value));
                    out.len() < full
                })
            }),
            Self::Set(set) => set.keyed_mut().is_none_or(|members| {
                members.walk(|member| {
                    to.string(out, member.name());
                    out.len() < full
                })
            }),
            Self::Zset(zset) => zset.keyed_mut().is_none_or(|entries| {
                entries.walk(|entry| {
                    to.element(out, Element::Bytes(entry.name()));
                    to.score(out, entry.score);
                    out.len() < full
                })
            }),
        }
    }

    /// Ends a walk before its end.
    pub(crate) fn end_walk(&mut self) {
        match self {
            Self::Str(_) | Self::Timer(_) => {}
            Self::Stream(stream) => stream.end_walk(),
            Self::Jobs(jobs) => jobs.end_walk(),
            Self::List(list) => list.end_walk(),
            Self::Hash(hash) => {
                if let Some(table) = hash.table_mut() {
                    table.keyed_mut().end_walk();
                }
            }
            Self::Set(set) => {
                if let Some(members) = set.keyed_mut() {
                    members.end_walk();
                }
            }
            Self::Zset(zset) => {
                if let Some(entries) = zset.keyed_mut() {
                    entries.end_walk();
                }
            }
        }
    }
}
