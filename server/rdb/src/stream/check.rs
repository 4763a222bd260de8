//! The checks of an untrusted block.

use super::StreamId;
use super::block::{Block, MASTER_END_LEN};
use super::entries::{DELETED, Header, elements};
use crate::corrupt::{Corrupt, Flaw};
use crate::listpack::{self, Element, HEADER_LEN, Listpack};

/// A position in the elements of a checked listpack.
struct Cursor<'b> {
    elements: &'b [u8],
    at: usize,
}

impl<'b> Cursor<'b> {
    /// Returns an error at the current position.
    fn error(&self, flaw: Flaw) -> Corrupt {
        Corrupt::new(HEADER_LEN + self.at, flaw)
    }

    /// Reads the next element. At the end of the listpack, the error is `flaw`.
    fn element(&mut self, flaw: Flaw) -> Result<Element<'b>, Corrupt> {
        let (element, end) =
            listpack::next(self.elements, self.at).ok_or_else(|| self.error(flaw))?;
        self.at = end;
        Ok(element)
    }

    /// Reads a number of the master entry.
    fn count(&mut self) -> Result<u32, Corrupt> {
        let wrong = self.error(Flaw::Master);
        match self.element(Flaw::Master)? {
            Element::Int(count) => u32::try_from(count).map_err(|_| wrong),
            Element::Bytes(_) => Err(wrong),
        }
    }
}

/// Checks the listpack of the block `id`.
pub(super) fn check(id: StreamId, bytes: &[u8]) -> Result<Block<&[u8]>, Corrupt> {
    let whole = Listpack::new(bytes)?;
    let mut cursor = Cursor {
        elements: whole.entries(),
        at: 0,
    };
    let (live, deleted) = (cursor.count()?, cursor.count()?);
    let fields = cursor.count()?;
    let start = cursor.at;
    for _ in 0..fields {
        cursor.element(Flaw::Master)?;
    }
    let fields_end = cursor.at;
    if cursor.element(Flaw::Master)? != Element::Int(0) || cursor.at != fields_end + MASTER_END_LEN
    {
        return Err(cursor.error(Flaw::Master));
    }
    let mut last_id = None;
    let mut found = [0, 0];
    while cursor.at < cursor.elements.len() {
        let wrong = cursor.error(Flaw::StreamEntry);
        let header = Header::read(cursor.elements, cursor.at, fields as usize).ok_or(wrong)?;
        let entry_id = id.offset(header.ms, header.seq);
        if entry_id < id || last_id.is_some_and(|last| entry_id <= last) {
            return Err(cursor.error(Flaw::StreamOrder));
        }
        last_id = Some(entry_id);
        found[usize::from(header.flags & DELETED)] += 1;
        cursor.at = header.data;
        for _ in 0..header.data_elements() {
            cursor.element(Flaw::StreamEntry)?;
        }
        let count = elements(header.count, header.same_fields());
        if cursor.element(Flaw::StreamEntry)? != Element::Int(count as i64) {
            return Err(wrong);
        }
    }
    let Some(last_id) = last_id.filter(|_| found == [live, deleted]) else {
        return Err(Corrupt::new(HEADER_LEN, Flaw::Count));
    };
    Ok(Block {
        bytes: &cursor.elements[start..],
        id,
        last_id,
        live,
        deleted,
        // The block's bytes lack the three numbers of the master entry. The number of elements fits
        // in 32 bits, because an element has at least two bytes and a listpack is shorter than 4
        // GiB.
        elements: whole.count() as u32 - 3,
        fields,
        fields_end: (fields_end - start) as u32,
    })
}
