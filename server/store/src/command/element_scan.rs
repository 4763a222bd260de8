//! Shared implementation of SSCAN, HSCAN and ZSCAN, which have SCAN's options.
//!
//! The cursor of a large collection is a hash, as in SCAN: all elements with a lower hash have been
//! returned. A compact collection is returned as a whole for any cursor.

use punctual_rdb::listpack::Element as Packed;
use punctual_resp::{Args, Reply};

use crate::command::scan::{Cursor, Filter, ScanOf};
use crate::error::Error;
use crate::glob;
use crate::turn::Cx;
use crate::value::Kind;
use crate::value::keyed::{Element, Keyed};

/// The elements that one call returns, filtered by name.
pub(crate) struct ScanPage<'a, 'o> {
    cursor: Cursor,
    filter: Filter<'a>,
    write: Reply<'o>,
    written: usize,
}

impl ScanPage<'_, '_> {
    /// Writes a name if the pattern matches it. If it returns true, the caller must write the value
    /// or score next.
    pub(crate) fn name(&mut self, name: &[u8]) -> bool {
        let matches = self
            .filter
            .pattern
            .is_none_or(|pattern| glob::matches(pattern, name));
        if matches {
            self.bulk(name);
        }
        matches
    }

    /// Returns true if values are omitted (NOVALUES).
    pub(crate) fn names_only(&self) -> bool {
        self.filter.names_only
    }

    /// Does the same as [`ScanPage::name`] for a listpack element.
    pub(crate) fn packed_name(&mut self, name: Packed<'_>) -> bool {
        match name {
            Packed::Bytes(name) => self.name(name),
            Packed::Int(int) => self.name(itoa::Buffer::new().format(int).as_bytes()),
        }
    }

    /// Writes the value or score of the previous name.
    pub(crate) fn bulk(&mut self, text: &[u8]) {
        self.write.bulk(text);
        self.written += 1;
    }

    /// Does the same as [`ScanPage::bulk`] for a listpack element.
    pub(crate) fn packed(&mut self, text: Packed<'_>) {
        match text {
            Packed::Bytes(text) => self.bulk(text),
            Packed::Int(int) => self.bulk(itoa::Buffer::new().format(int).as_bytes()),
        }
    }

    /// Continues the scan of a large collection and calls `show` with each element. Returns the
    /// next cursor, `None` at the end. O(count) on average.
    pub(crate) fn walk<E: Element>(
        &mut self,
        keyed: &Keyed<E>,
        mut show: impl FnMut(&mut Self, &E),
    ) -> Option<u32> {
        // A cursor beyond every hash ends the scan.
        let mut at = u32::try_from(self.cursor.0).ok();
        let mut visited = 0;
        let mut steps = self.filter.count.saturating_mul(10);
        while let Some(from) = at
            && visited < self.filter.count
            && steps > 0
        {
            steps -= 1;
            at = keyed.scan(from, |element| {
                visited += 1;
                show(self, element);
            });
        }
        at
    }
}

/// Runs SSCAN, HSCAN or ZSCAN on a value of type `K`. `walk` writes a page and returns the next
/// cursor, or `None` at the end.
///
/// # Errors
/// Errors of the arguments; [`Error::WrongType`] if the key holds another type. Options are parsed
/// only if the key exists.
pub(crate) fn scan<K: Kind>(
    cx: &mut Cx,
    args: Args,
    reply: &mut Reply,
    of: ScanOf,
    walk: impl FnOnce(&K, &mut ScanPage<'_, '_>) -> Option<u32>,
) -> Result<(), Error> {
    let cursor = Cursor::parse(&args[2])?;
    let mut elements = Vec::new();
    let (next, written) = match cx.read_as::<K>(&args[1])? {
        None => (None, 0),
        Some(collection) => {
            let mut page = ScanPage {
                cursor,
                filter: Filter::parse(args.skip(3), of)?,
                write: Reply::new(&mut elements, reply.protocol()),
                written: 0,
            };
            (walk(collection, &mut page), page.written)
        }
    };
    reply.array(2);
    reply.bulk(
        itoa::Buffer::new()
            .format(next.unwrap_or_default())
            .as_bytes(),
    );
    reply.array(written);
    reply.out().extend_from_slice(&elements);
    Ok(())
}
