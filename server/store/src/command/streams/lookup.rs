//! Look-ups of streams. Handlers that read or change entries call functions of this file, so that
//! no handler sees an entry older than the stream's retention (XRETAIN). [`Cx::settle`] removes
//! such entries. While the turn is frozen (may not expire entries), handlers leave out the entries
//! below `Stream::floor` instead.

use crate::error::Error;
use crate::keyspace::records::Id as RecordId;
use crate::turn::Cx;
use crate::turn::cx::Place;
use crate::value::stream::{Id, Stream};

impl Cx<'_, '_> {
    /// Removes the entries of a stream that are too old, unless the turn is frozen. O(1) if no
    /// entry is too old.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the value has another type.
    pub(super) fn settle(&mut self, place: Place, id: RecordId, key: &[u8]) -> Result<(), Error> {
        let now = self.now();
        if self.view::<Stream>(place, id)?.floor(now).is_some() {
            self.turn.settle_stream(place.shard(), place.db(), key, id);
        }
        Ok(())
    }

    /// Finds a stream to read, as `Cx::read` does. Returns the stream, and the first ID that is not
    /// hidden.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the value has another type.
    pub(super) fn read_stream(&mut self, key: &[u8]) -> Result<Option<(&Stream, Id)>, Error> {
        let (place, found) = self.seek_to_read(key);
        let Some(id) = found else {
            return Ok(None);
        };
        self.settle(place, id, key)?;
        let now = self.now();
        let stream = self.view::<Stream>(place, id)?;
        Ok(Some((stream, stream.floor(now).unwrap_or(Id::MIN))))
    }

    /// Finds a stream to change, as `Cx::seek_as` does.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the value has another type.
    pub(super) fn seek_stream(&mut self, key: &[u8]) -> Result<(Place, Option<RecordId>), Error> {
        let (place, found) = self.seek_as::<Stream>(key)?;
        if let Some(id) = found {
            self.settle(place, id, key)?;
        }
        Ok((place, found))
    }
}
