//! One block of entries: appending, deleting, and the listpack around it.

use super::StreamId;
use super::check::check;
use super::entries::{self, DELETED, Entries, Entry, SAME_FIELDS};
use crate::corrupt::Corrupt;
use crate::listpack::{self, Element};

/// Maximum length in bytes of a block's listpack, and of an entry. The caller must not append more:
/// writing a block far beyond this length panics.
pub const BLOCK_LEN_MAX: usize = 1 << 30;
/// Length in bytes of the 0 after the master's fields.
pub(super) const MASTER_END_LEN: usize = 2;

/// A block of entries. The bytes are in a `Vec`, or borrowed while a snapshot is read.
///
/// The block's listpack starts with the *master entry* ("the master"). Each entry has flags, the
/// difference between its ID and the block's ID, and its fields and values. The last element of an
/// entry is the number of its other elements, for walking backwards:
///
/// | element | master entry | entry |
/// |---|---|---|
/// | 1 | number of live entries | flags: 1 if deleted, 2 if the fields are the master entry's |
/// | 2 | number of deleted entries | milliseconds minus the milliseconds of the block's ID |
/// | 3 | number of fields | sequence number minus the sequence number of the block's ID |
/// | then | the fields | with flag 2: the values; otherwise: number of fields, fields with values |
/// | last | 0 | number of elements of this entry before this one |
///
/// In memory, the numbers of the master are integers beside the bytes, so appending and deleting
/// never move entries.
///
/// ```
/// use punctual_rdb::{Element, stream::{Block, StreamId}};
///
/// let pair = [(&b"temp"[..], &b"21"[..])];
/// let mut block = Block::new(StreamId { ms: 5, seq: 1 }, 128, pair.into_iter());
/// block.append(StreamId { ms: 9, seq: 0 }, [(&b"temp"[..], &b"22"[..])].into_iter());
///
/// let last = block.entries().next_back().unwrap();
/// assert_eq!(last.id, StreamId { ms: 9, seq: 0 });
/// assert_eq!(last.pairs().next(), Some((Element::Bytes(b"temp"), Element::Int(22))));
/// let at = last.at;
/// assert!(block.delete(at));
/// assert_eq!((block.live(), block.deleted()), (1, 1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<B = Vec<u8>> {
    /// Bare entries of a listpack: the master's fields and its final 0, then the entries.
    pub(super) bytes: B,
    pub(super) id: StreamId,
    pub(super) last_id: StreamId,
    pub(super) live: u32,
    pub(super) deleted: u32,
    /// Number of elements in `bytes`.
    pub(super) elements: u32,
    /// Number of the master's fields.
    pub(super) fields: u32,
    /// End of the master's fields in `bytes`.
    pub(super) fields_end: u32,
}

impl Block<Vec<u8>> {
    /// Returns a block with one entry, whose ID becomes the block's ID and whose fields become the
    /// master's fields. Allocates at least `capacity` bytes.
    pub fn new<'p>(
        id: StreamId,
        capacity: usize,
        pairs: impl ExactSizeIterator<Item = (&'p [u8], &'p [u8])> + Clone,
    ) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        for (field, _) in pairs.clone() {
            listpack::encode(&mut bytes, field);
        }
        let fields_end = bytes.len() as u32;
        listpack::encode_int(&mut bytes, 0);
        let mut block = Block {
            id,
            last_id: id,
            live: 0,
            deleted: 0,
            elements: pairs.len() as u32 + 1,
            fields: pairs.len() as u32,
            fields_end,
            bytes,
        };
        block.append(id, pairs);
        block
    }

    /// Appends an entry, whose ID must be higher than all other IDs of the block. If its fields are
    /// the master's fields, only its values are stored.
    ///
    /// **O(n)** in the entry's bytes, amortized over the growth of the `Vec`; **O(1)** in entries.
    #[inline]
    pub fn append<'p>(
        &mut self,
        id: StreamId,
        pairs: impl ExactSizeIterator<Item = (&'p [u8], &'p [u8])> + Clone,
    ) {
        debug_assert!(id > self.last_id || self.live == 0);
        let count = pairs.len();
        let same = self.has_fields(pairs.clone().map(|(field, _)| field));
        let (ms, seq) = id.distance(self.id);
        let out = &mut self.bytes;
        listpack::encode_int(out, if same { SAME_FIELDS } else { 0 }.into());
        listpack::encode_int(out, ms);
        listpack::encode_int(out, seq);
        if same {
            for (_, value) in pairs {
                listpack::encode(out, value);
            }
        } else {
            listpack::encode_int(out, count as i64);
            for (field, value) in pairs {
                listpack::encode(out, field);
                listpack::encode(out, value);
            }
        }
        let elements = entries::elements(count, same);
        listpack::encode_int(out, elements as i64);
        self.elements += elements as u32 + 1;
        self.live += 1;
        self.last_id = id;
    }

    /// Marks the entry at the position [`Entry::at`] as deleted. Returns false if it was already
    /// deleted. **O(1)**.
    ///
    /// # Panics
    ///
    /// If the byte at the position cannot be the first byte of an entry. A wrong position whose
    /// byte can be one is not noticed, and corrupts the block.
    pub fn delete(&mut self, at: usize) -> bool {
        let first = self.first();
        let flags = &mut self.bytes[first + at];
        assert!(*flags <= DELETED | SAME_FIELDS);
        if *flags & DELETED != 0 {
            return false;
        }
        *flags |= DELETED;
        self.live -= 1;
        self.deleted += 1;
        true
    }

    /// Frees the memory that is reserved for further entries.
    pub fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Returns the number of allocated bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

impl<'b> Block<&'b [u8]> {
    /// Checks an untrusted listpack that is the block `id`. **O(n)** in elements.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] with the offset into `listpack`: if the bytes are not a listpack, if the master
    /// entry contradicts the entries, or if the IDs do not ascend from `id` on.
    pub fn read(id: StreamId, listpack: &'b [u8]) -> Result<Self, Corrupt> {
        check(id, listpack)
    }

    /// Copies the block. Makes one allocation.
    pub fn to_owned(&self) -> Block {
        Block {
            bytes: self.bytes.to_vec(),
            id: self.id,
            last_id: self.last_id,
            live: self.live,
            deleted: self.deleted,
            elements: self.elements,
            fields: self.fields,
            fields_end: self.fields_end,
        }
    }
}

impl<B: AsRef<[u8]>> Block<B> {
    /// Returns the block's ID, to which the stored IDs of the entries are relative. It is the ID of
    /// the first entry that was added, even if that entry is deleted.
    #[inline]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Returns the ID of the last entry, even if that entry is deleted.
    #[inline]
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// Returns the number of entries that are not deleted. It may be 0.
    #[inline]
    pub fn live(&self) -> usize {
        self.live as usize
    }

    /// Returns the number of entries that are deleted.
    #[inline]
    pub fn deleted(&self) -> usize {
        self.deleted as usize
    }

    /// Returns the length of the block's listpack. **O(1)**.
    #[inline]
    pub fn listpack_len(&self) -> usize {
        let master = self.counts().map(|n| Element::Int(n.into()).entry_len());
        listpack::wrapped_len(master.iter().sum::<usize>() + self.bytes.as_ref().len())
    }

    /// Appends the block's listpack. **O(n)** in bytes.
    ///
    /// # Panics
    ///
    /// Like [`listpack::wrap`].
    pub fn write_listpack(&self, out: &mut Vec<u8>) {
        let (count, len) = (self.elements as usize + 3, self.listpack_len());
        listpack::wrap_written(out, len, count, |out| {
            for number in self.counts() {
                listpack::encode_int(out, number.into());
            }
            out.extend_from_slice(self.bytes.as_ref());
        });
    }

    /// Returns the numbers at the start of the master entry.
    #[inline]
    fn counts(&self) -> [u32; 3] {
        [self.live, self.deleted, self.fields]
    }

    /// Returns the start of the first entry in the bytes.
    #[inline]
    fn first(&self) -> usize {
        self.fields_end as usize + MASTER_END_LEN
    }

    /// Iterates over all entries, including deleted ones, from either end.
    #[inline]
    pub fn entries(&self) -> Entries<'_> {
        let bytes = self.bytes.as_ref();
        let end = self.fields_end as usize;
        Entries::new(
            self.id,
            &bytes[..end],
            self.fields as usize,
            &bytes[self.first()..],
        )
    }

    /// Returns the entry `id`, even if it is deleted. **O(n)** in elements.
    pub fn find(&self, id: StreamId) -> Option<Entry<'_>> {
        self.entries()
            .find(|entry| entry.id >= id)
            .filter(|entry| entry.id == id)
    }

    /// Returns true if `fields` are the master's fields.
    #[inline]
    fn has_fields<'p>(&self, fields: impl ExactSizeIterator<Item = &'p [u8]>) -> bool {
        let mut rest = &self.bytes.as_ref()[..self.fields_end as usize];
        fields.len() == self.fields as usize
            && fields
                .into_iter()
                .all(|field| entries::take(&mut rest).is_some_and(|element| element.is_text(field)))
    }
}
