//! Reading from several connections before their commands run.
//!
//! A client that waits for each reply has one command in flight, so there is no pipeline to look
//! ahead in. The loop therefore reads from several connections first, and fetches the cache lines
//! of the keys of all of their first commands together.
//!
//! Ground rules: gathered commands run in the order in which they were read, and before the loop
//! does anything except handle events. If one of these commands runs a script that becomes busy,
//! the gathered commands after it run while the script runs, because one may be SCRIPT KILL.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_resp::Limits;
use punctual_store::Turn;
use punctual_store::hash_table::WARM_MAX;

use crate::event_loop::{EventLoop, READ_SIZE};

/// Number of bytes at which gathering stops: clients that send this much have pipelines.
const GATHERED_BYTES_MAX: usize = 4 << 10;

/// Bytes that were read from one connection.
struct Piece {
    slot: usize,
    /// ID of the client. Another client may have got the slot since the read.
    client: u64,
    bytes: Range<usize>,
    /// Whether the read has filled the buffer, so that the socket may have more.
    more: bool,
}

/// Bytes that were read from several connections.
pub(crate) struct Gathered {
    /// Shared, because its pieces run while the loop is borrowed.
    buffer: Arc<[u8]>,
    filled: usize,
    pieces: VecDeque<Piece>,
    /// Whether the turn keeps its locks from one piece to the next.
    holds: bool,
}

impl Default for Gathered {
    fn default() -> Self {
        Self {
            buffer: vec![0; READ_SIZE].into(),
            filled: 0,
            pieces: VecDeque::with_capacity(WARM_MAX),
            holds: false,
        }
    }
}

impl EventLoop {
    /// Reads once from a connection. Its commands run together with commands of other connections,
    /// or at once if enough bytes are gathered.
    pub(crate) fn gather(&mut self, slot: usize, turn: &mut Turn) {
        let Gathered {
            buffer,
            filled,
            pieces,
            ..
        } = &mut self.reading.gathered;
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        if connection.socket.is_handshaking() {
            return self.shake_hands(slot, turn);
        }
        let session = &connection.session;
        let ready = !session.closing && !connection.ended && !connection.waits();
        let killed = session.info.killed.load(Ordering::Acquire);
        let Some(buffer) =
            Arc::get_mut(buffer).filter(|_| ready && !killed && !session.is_primary())
        else {
            return self.read(slot, false, turn);
        };
        connection.readable = false;
        match connection.socket.read(&mut buffer[*filled..]) {
            Ok(n @ 1..) => {
                let end = *filled + n;
                pieces.push_back(Piece {
                    slot,
                    client: session.id,
                    bytes: *filled..end,
                    more: end == buffer.len() || connection.socket.has_more(),
                });
                *filled = end;
                if end >= GATHERED_BYTES_MAX || pieces.len() == WARM_MAX {
                    self.run_gathered(turn);
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            // The end of the stream, or an error: `read` handles it.
            Ok(_) | Err(_) => self.read(slot, false, turn),
        }
    }

    /// Runs the gathered commands.
    pub(crate) fn run_gathered(&mut self, turn: &mut Turn) {
        let buffer = Arc::clone(&self.reading.gathered.buffer);
        while !self.reading.gathered.pieces.is_empty() {
            let count = self.prepare_gathered(&buffer, turn);
            self.reading.gathered.holds = count > 1;
            for _ in 0..count {
                let Some(piece) = self.reading.gathered.pieces.pop_front() else {
                    break;
                };
                self.run_piece(piece, &buffer, turn);
            }
            self.reading.gathered.holds = false;
            self.release_between(turn);
        }
        self.reading.gathered.filled = 0;
    }

    fn run_piece(&mut self, piece: Piece, buffer: &[u8], turn: &mut Turn) {
        let Some(connection) = self.connection(piece.slot) else {
            return;
        };
        // Another client's command may have closed this connection.
        if connection.session.id != piece.client || connection.session.closing {
            return;
        }
        if connection.session.info.killed.load(Ordering::Acquire) {
            return self.close(piece.slot);
        }
        self.received(piece.slot, &buffer[piece.bytes], turn);
        if piece.more {
            self.read_again(piece.slot);
        }
    }

    /// Releases the locks between the commands of two clients, so that other loops do not wait
    /// while this loop reads and writes. Keeps them between gathered clients whose keys were
    /// prefetched.
    pub(crate) fn release_between(&self, turn: &mut Turn) {
        if self.shared.mailboxes.len() > 1 && !self.reading.gathered.holds {
            turn.release();
        }
    }

    /// Locks the shards of the first commands of the next pieces, and prefetches their keys
    /// together. Returns the number of these pieces.
    fn prepare_gathered(&mut self, buffer: &[u8], turn: &mut Turn) -> usize {
        let shared = &self.shared;
        // While a script of this loop is busy (`nested`), its other clients must not lock. A load
        // holds shards for long. With several loops, a command may have to wait for a script, and
        // must hold no lock while it waits.
        let may = !self.busy.nested
            && !shared.durability.is_loading()
            && (shared.mailboxes.len() == 1 || !shared.scripting.running.is_active());
        if !may || self.reading.gathered.pieces.len() == 1 || !turn.is_worth_looking_ahead() {
            return 1;
        }
        let Self {
            connections,
            reading,
            settings,
            ..
        } = self;
        let limits = Limits {
            bulk_max: settings.max_bulk_len,
            ..Limits::default()
        };
        let inputs = reading.gathered.pieces.iter().map(|piece| {
            let connection = connections.get(piece.slot).and_then(Option::as_ref);
            let begins = connection
                .filter(|client| client.input.is_empty() && client.session.authenticated)
                .map(|client| (client.session.db, &buffer[piece.bytes.clone()]));
            begins.unwrap_or((0, &[]))
        });
        let commands = reading.lookahead.parse_first(inputs, &limits);
        turn.look_ahead_of_clients(commands).max(1)
    }
}
