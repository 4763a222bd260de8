//! What SSCAN, HSCAN and ZSCAN have in common: a collection in small pieces, with SCAN's options.
//!
//! A large collection's cursor is the hash of a name, as in SCAN: all elements with a lower one have been seen. Compact
//! forms are shown in one go, whatever cursor comes.

use punctual_rdb::listpack::Element as Packed;
use punctual_resp::{Args, Reply};

use crate::command::scan::{Cursor, Filter, Of};
use crate::error::Error;
use crate::glob;
use crate::turn::Cx;
use crate::value::Kind;
use crate::value::keyed::{Element, Keyed};

/// What one call shows: the elements are shown one by one, each filtered by its name.
pub(crate) struct Piece<'a, 'o> {
    cursor: Cursor,
    filter: Filter<'a>,
    write: Reply<'o>,
    shown: usize,
}

impl Piece<'_, '_> {
    /// Shows a name, unless the pattern is against it; whether it was shown, so that what belongs to it must follow.
    pub(crate) fn name(&mut self, name: &[u8]) -> bool {
        let shows = self
            .filter
            .pattern
            .is_none_or(|pattern| glob::matches(pattern, name));
        if shows {
            self.bulk(name);
        }
        shows
    }

    /// Whether names are shown without what belongs to them.
    pub(crate) fn names_only(&self) -> bool {
        self.filter.names_only
    }

    /// As [`Piece::name`], of a compact form's element.
    pub(crate) fn packed_name(&mut self, name: Packed<'_>) -> bool {
        match name {
            Packed::Bytes(name) => self.name(name),
            Packed::Int(int) => self.name(itoa::Buffer::new().format(int).as_bytes()),
        }
    }

    /// Shows what belongs to the name before: a value, a score.
    pub(crate) fn bulk(&mut self, text: &[u8]) {
        self.write.bulk(text);
        self.shown += 1;
    }

    /// As [`Piece::bulk`], of a compact form's element.
    pub(crate) fn packed(&mut self, text: Packed<'_>) {
        match text {
            Packed::Bytes(text) => self.bulk(text),
            Packed::Int(int) => self.bulk(itoa::Buffer::new().format(int).as_bytes()),
        }
    }

    /// Goes on through a large collection; `show` is called with each element. Gives where to go on, `None` at the
    /// end. O(count) on average.
    pub(crate) fn walk<E: Element>(
        &mut self,
        keyed: &Keyed<E>,
        mut show: impl FnMut(&mut Self, &E),
    ) -> Option<u32> {
        // A cursor beyond every hash has everything behind it.
        let mut at = u32::try_from(self.cursor.0).ok();
        let mut looked_at = 0;
        let mut steps = self.filter.count.saturating_mul(10);
        while let Some(from) = at
            && looked_at < self.filter.count
            && steps > 0
        {
            steps -= 1;
            at = keyed.scan(from, |element| {
                looked_at += 1;
                show(self, element);
            });
        }
        at
    }
}

/// Runs SSCAN and its kin on a `K`: `walk` shows a piece of it, and gives where to go on, `None` at the end.
///
/// # Errors
/// Those of the arguments; [`Error::WrongType`] if the key holds something else. Options are looked at only if the
/// key is there.
pub(crate) fn scan_elements<K: Kind>(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    walk: impl FnOnce(&K, &mut Piece<'_, '_>) -> Option<u32>,
) -> Result<(), Error> {
    scan(cx, args, reply, Of::Elements, walk)
}

/// Runs HSCAN, as [`scan_elements`]; `NOVALUES` is among its options.
///
/// # Errors
/// As [`scan_elements`].
pub(crate) fn scan_fields<K: Kind>(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    walk: impl FnOnce(&K, &mut Piece<'_, '_>) -> Option<u32>,
) -> Result<(), Error> {
    scan(cx, args, reply, Of::Fields, walk)
}

fn scan<K: Kind>(
    cx: &mut Cx<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    of: Of,
    walk: impl FnOnce(&K, &mut Piece<'_, '_>) -> Option<u32>,
) -> Result<(), Error> {
    let cursor = Cursor::parse(&args[2])?;
    let mut elements = Vec::new();
    let (next, shown) = match cx.read_as::<K>(&args[1])? {
        None => (None, 0),
        Some(collection) => {
            let mut piece = Piece {
                cursor,
                filter: Filter::parse(args.skip(3), of)?,
                write: Reply::new(&mut elements, reply.protocol()),
                shown: 0,
            };
            (walk(collection, &mut piece), piece.shown)
        }
    };
    reply.array(2);
    reply.bulk(
        itoa::Buffer::new()
            .format(next.unwrap_or_default())
            .as_bytes(),
    );
    reply.array(shown);
    reply.out().extend_from_slice(&elements);
    Ok(())
}
