//! [`Content`] of lists, and reading lists from snapshots. A snapshot walks piece by piece while
//! the list changes.
//!
//! [`UnwrittenPieces`] has the numbers of the unwritten pieces that have not changed, and copies of
//! the unwritten pieces that have changed. Every change of a piece calls [`List::before_change`]
//! first. An inserted or removed piece shifts the numbers of the pieces after it.

use punctual_rdb::{Encoder, Kind, Node, Nodes, Source};

use super::{Chunk, End, List, Piece, PieceSize, Rest};
use crate::check::Check;
use crate::limits::Limits;
use crate::unwritten::{Next, UnwrittenPieces};
use crate::value::content::{Content, Facts, LARGE_PIECES, Read};
use crate::value::digest::Digest;

impl Content for List {
    #[inline]
    fn facts(&self) -> Facts {
        Facts::new("list", 1, Facts::AWAITED)
    }

    /// Returns `listpack` for one small piece, otherwise `quicklist`.
    fn encoding(&self) -> &'static str {
        match self.rest {
            None => "listpack",
            Some(_) => "quicklist",
        }
    }

    #[inline]
    fn elements(&self) -> usize {
        self.len()
    }

    /// O(pieces).
    fn heap_bytes(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| {
            let buffers: usize = rest.chunks.iter().map(Chunk::heap_bytes).sum();
            size_of::<Rest>() + rest.chunks.capacity() * size_of::<Chunk>() + buffers
        });
        size_of::<Self>() + self.first.heap_bytes() + rest
    }

    fn check(&self, to: &mut Check) {
        self.check_pieces(to);
        to.holds("a list is not empty", !self.is_empty());
    }

    #[inline]
    fn warm(&self) -> u8 {
        self.first.count() as u8
    }

    fn kind(&self) -> Kind {
        Kind::ListListpacks
    }

    fn write(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        to.len(out, self.pieces().count() as u64);
        for piece in self.pieces() {
            write_piece(to, out, piece);
        }
    }

    fn is_large(&self) -> bool {
        self.piece_count() >= LARGE_PIECES
    }

    /// O(1).
    fn begin_walk(&mut self, to: &mut Encoder, out: &mut Vec<u8>) {
        to.len(out, self.piece_count() as u64);
        let walk = UnwrittenPieces::new(self.piece_count());
        self.become_quicklist();
        if let Some(rest) = &mut self.rest {
            rest.walk = Some(Box::new(walk));
        }
    }

    fn walk_on(&mut self, _: Kind, to: &mut Encoder, out: &mut Vec<u8>, full: usize) -> bool {
        let walk = self.rest.as_mut().and_then(|rest| rest.walk.take());
        let Some(mut walk) = walk else {
            return true;
        };
        while let Some(next) = walk.take() {
            match next {
                Next::Kept(chunk) => write_piece(to, out, chunk.piece()),
                Next::Same(number) => write_piece(to, out, self.chunk(number).piece()),
            }
            if out.len() >= full {
                break;
            }
        }
        let ended = walk.is_empty();
        if !ended && let Some(rest) = &mut self.rest {
            rest.walk = Some(walk);
        }
        ended
    }

    fn end_walk(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.walk = None;
        }
    }

    fn digest(&self, to: &mut Digest) {
        self.iter()
            .for_each(|element| element.with_text(|text| to.chain(text)));
    }
}

fn write_piece(to: &mut Encoder, out: &mut Vec<u8>, piece: Piece<'_>) {
    match piece {
        Piece::Entries(entries, count) => to.node_packed(out, entries, count),
        Piece::Plain(text) => to.node_plain(out, text),
    }
}

impl List {
    /// Reads the nodes of a list. O(bytes).
    pub(crate) fn read<S: Source>(mut nodes: Nodes<'_, S>, limits: &Limits) -> Read<Self, S> {
        let mut list = Self::new();
        while let Some(node) = nodes.next()? {
            match node {
                Node::Packed(pack) => list.push_piece(pack.entries(), pack.count()),
                Node::Plain(element) => element.with_text(|text| list.push_plain(text)),
            }
        }
        list.normalize(PieceSize::of(limits.list_piece));
        Ok(list)
    }

    /// Returns whether a snapshot's walk is in progress.
    pub(crate) fn is_walked(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.walk.is_some())
    }

    /// Copies a piece before it changes if a snapshot's walk has not written it.
    #[inline]
    pub(super) fn before_change(&mut self, number: usize) {
        if self.is_walked() {
            self.keep_piece(number);
        }
    }

    /// Same as [`List::before_change`], for the piece at an end.
    #[inline]
    pub(super) fn before_change_at(&mut self, end: End) {
        if self.is_walked() {
            let number = match end {
                End::Head => 0,
                End::Tail => self.chunk_count() - 1,
            };
            self.keep_piece(number);
        }
    }

    #[cold]
    fn keep_piece(&mut self, number: usize) {
        let walk = self.rest.as_mut().and_then(|rest| rest.walk.take());
        if let Some(mut walk) = walk {
            walk.keep(number, self.chunk(number));
            if let Some(rest) = &mut self.rest {
                rest.walk = Some(walk);
            }
        }
    }
}
