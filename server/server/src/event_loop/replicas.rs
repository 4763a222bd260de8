//! Connections that have become replicas: their output is the replication stream.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::event_loop::EventLoop;
use crate::event_loop::connection::Flushed;
use crate::log;
use crate::replication::replica::Phase;

/// Number of blocks of the stream in one call of the system.
const BLOCKS_A_CALL: usize = 32;
/// Number of calls for one replica a turn, so that others are served too.
const CALLS_A_TURN: usize = 4;

impl EventLoop {
    /// Prepares a connection that has just sent SYNC or PSYNC.
    pub(crate) fn attach_replica(&mut self, slot: usize) {
        let nodelay = !self.settings.repl_disable_tcp_nodelay;
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let Some(replica) = &connection.session.replica else {
            return;
        };
        self.replicas.push(slot);
        connection.socket.set_nodelay(nodelay);
        match connection.socket.duplicate() {
            Ok(socket) => {
                // Nobody else sets it.
                let _ = replica.socket.set(socket);
                self.shared.call_upkeep();
            }
            Err(error) => {
                log::warning!(
                    self.shared.logger,
                    "Can't send a snapshot to replica {replica}: {error}"
                );
                self.close(slot);
            }
        }
    }

    /// Marks the replicas of this loop, for which the stream may have more.
    pub(crate) fn feed_replicas(&mut self) {
        // First, so that what is appended from here on orders again.
        self.shared.replication.replicas.heard(self.number);
        // A replica that has just got its snapshot counts from now on.
        self.shared.answer_acked(self.number);
        for at in 0..self.replicas.len() {
            self.mark_dirty(self.replicas[at]);
        }
    }

    /// Sends a replica what the stream has for it, and closes the connection if it has ended or is too far behind.
    pub(crate) fn flush_replica(&mut self, slot: usize) {
        let shared = Arc::clone(&self.shared);
        let mut limit = self.settings.output_limits[crate::config::Settings::OUTPUT_REPLICA];
        let backlog = self.settings.repl_backlog_size;
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let Some(replica) = connection.session.replica.clone() else {
            return;
        };
        if connection.session.closing || connection.ended {
            return self.close(slot);
        }
        let mut sent = 0;
        let mut flushed = Flushed::Blocked;
        if replica.phase() == Phase::Online {
            flushed = connection.flush(connection.output_len(), &mut sent);
            if flushed == Flushed::All {
                flushed = self.send_stream(slot, &mut sent);
            }
        }
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let next = replica.next();
        // A replica that waits for its snapshot needs nothing yet.
        let left = match next {
            u64::MAX => 0,
            next => shared.replication.offset() + 1 - next.min(shared.replication.offset() + 1),
        };
        let stats = &shared.observed.stats[self.number];
        let info = &connection.session.info;
        info.output_bytes.store(left, Ordering::Relaxed);
        if sent > 0 {
            stats.net_out.add(sent);
            stats.writes.add(1);
            shared
                .replication
                .replicas
                .counts
                .bytes
                .fetch_add(sent, Ordering::Relaxed);
            // Only this loop writes the counter, so a load and a store are enough.
            let net_out = info.net_out.load(Ordering::Relaxed) + sent;
            info.net_out.store(net_out, Ordering::Relaxed);
            info.seen_ms.store(self.turn_ms, Ordering::Relaxed);
        }
        match flushed {
            Flushed::Broken => self.close(slot),
            // More follows in the next turn, or there is none.
            Flushed::All if left == 0 => connection.over_soft_since = None,
            Flushed::All => self.mark_dirty(slot),
            Flushed::Blocked | Flushed::Held => {
                // As in Redis, a replica that may continue is not cut off for what the backlog keeps for it.
                if limit.hard_bytes > 0 {
                    limit.hard_bytes = limit.hard_bytes.max(backlog);
                }
                self.check_output(slot, limit, left);
            }
        }
    }

    /// Sends a part of the stream.
    fn send_stream(&mut self, slot: usize, count: &mut u64) -> Flushed {
        let shared = Arc::clone(&self.shared);
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return Flushed::Broken;
        };
        let Some(replica) = &connection.session.replica else {
            return Flushed::Broken;
        };
        for _ in 0..CALLS_A_TURN {
            let (mut blocks, mut last) = (Vec::new(), Vec::new());
            let next = replica.next();
            {
                let stream = shared.replication.replicas.stream();
                let gone = replica.is_gone();
                match &stream.backlog {
                    Some(backlog) if !gone && backlog.reaches(next) => {
                        backlog.read(next, BLOCKS_A_CALL, &mut blocks, &mut last);
                    }
                    // The history has ended; the replica asks again.
                    _ => return Flushed::Broken,
                }
            }
            let mut buffers: Vec<IoSlice<'_>> = blocks
                .iter()
                .map(|block| IoSlice::new(block.bytes()))
                .collect();
            if !last.is_empty() {
                buffers.push(IoSlice::new(&last));
            }
            let all: usize = buffers.iter().map(|buffer| buffer.len()).sum();
            if all == 0 {
                return Flushed::All;
            }
            match connection.socket.write_vectored(&buffers) {
                Ok(0) => return Flushed::Broken,
                Ok(sent) => {
                    replica.set_next(next + sent as u64);
                    *count += sent as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Flushed::Blocked,
                Err(_) => return Flushed::Broken,
            }
        }
        Flushed::All
    }
}
