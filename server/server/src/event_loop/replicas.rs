//! Connections that have become replicas. Their output is a snapshot, and then the replication
//! stream.
//!
//! Only the loop writes to the socket. Other threads add blocks to a replica's transfer, or append
//! to the stream, and send an order to the loop. A turn sends a bounded part to each replica.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::event_loop::EventLoop;
use crate::event_loop::connection::{Connection, Flushed};
use crate::log;
use crate::replication::replica::{Phase, Replica};
use crate::replication::transfer::{Next, Transfer};

/// Maximum number of blocks of the stream in one system call.
const BLOCKS_A_CALL: usize = 32;
/// Maximum number of system calls for one replica in a turn, so that other clients are served too.
const CALLS_A_TURN: usize = 4;

impl EventLoop {
    /// Prepares a connection that has sent SYNC or PSYNC.
    pub(crate) fn attach_replica(&mut self, slot: usize) {
        let nodelay = !self.settings.repl_disable_tcp_nodelay;
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        connection.socket.set_nodelay(nodelay);
        self.replicas.push(slot);
        self.shared.request_upkeep();
    }

    /// Marks the replicas of this loop as having output.
    pub(crate) fn feed_replicas(&mut self) {
        // This call comes first, so that bytes that are appended later cause another order.
        self.shared
            .replication
            .replicas
            .handle_feed_order(self.number);
        // A replica that has just received its snapshot counts for WAIT from now on.
        self.shared.answer_acked(self.number);
        for at in 0..self.replicas.len() {
            self.mark_dirty(self.replicas[at]);
        }
    }

    /// Sends a replica its pending bytes. Closes the connection if it has ended or the replica is
    /// too far behind.
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
        let flushed = match replica.phase() {
            Phase::Waiting | Phase::Receiving => self.send_snapshot(slot, &replica, &mut sent),
            Phase::Loading => Flushed::Held,
            Phase::Online => match connection.flush(connection.output_len(), &mut sent) {
                Flushed::All => self.send_stream(slot, &mut sent),
                other => other,
            },
        };
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let next = replica.next();
        // A replica that waits for its snapshot gets no stream yet.
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
            // If bytes are left, the next turn sends more of them.
            Flushed::All if left == 0 => connection.over_soft_since = None,
            Flushed::All => self.mark_dirty(slot),
            Flushed::Blocked | Flushed::Held => {
                // As in Redis, the hard limit is at least the size of the backlog. With fewer bytes
                // left, a disconnected replica would only return and continue from the backlog.
                if limit.hard_bytes > 0 {
                    limit.hard_bytes = limit.hard_bytes.max(backlog);
                }
                self.check_output(slot, limit, left);
            }
        }
    }

    /// Sends blocks of a replica's transfer, and ends the transfer. Closes the connection if its
    /// socket accepts no byte for too long.
    fn send_snapshot(&mut self, slot: usize, replica: &Replica, count: &mut u64) -> Flushed {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return Flushed::Broken;
        };
        let flushed = send_blocks(connection, &replica.transfer, count);
        let now_ms = self.shared.world.stopwatch_ms();
        if *count > 0 || flushed != Flushed::Blocked {
            replica.transfer.note_progress(now_ms);
        }
        match flushed {
            Flushed::All => return self.end_transfer(replica),
            // The next turn sends more.
            Flushed::Held if *count > 0 => self.mark_dirty(slot),
            Flushed::Blocked
                if replica.transfer.stuck_ms(now_ms) > self.settings.repl_timeout_s * 1_000 =>
            {
                log::warning!(
                    self.shared.logger,
                    "Disconnecting timedout replica (full sync): {replica}"
                );
                return Flushed::Broken;
            }
            _ => {}
        }
        flushed
    }

    /// Begins the stream of a replica that has the whole snapshot, or disconnects a replica that
    /// asked for the snapshot only.
    fn end_transfer(&self, replica: &Replica) -> Flushed {
        let shared = &self.shared;
        if replica.peer.rdb_only {
            log::notice!(
                shared.logger,
                "RDB transfer completed, rdb only replica ({replica}) should be disconnected asap"
            );
            return Flushed::Broken;
        }
        let at_once = replica.transfer.is_at_once();
        if !at_once {
            log::notice!(
                shared.logger,
                "Streamed RDB transfer with replica {replica} succeeded (socket). Waiting for REPLCONF ACK from slave to enable streaming"
            );
        }
        replica.end_transfer(at_once);
        shared.count_good_replicas();
        log::notice!(
            shared.logger,
            "Synchronization with replica {replica} succeeded"
        );
        shared.order_feed(self.number);
        Flushed::Held
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
                    // The backlog lacks the next byte, or the server disconnects the replica. In
                    // both cases the replica must synchronize again.
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
                Err(e) => return e.into(),
            }
        }
        Flushed::All
    }
}

/// Sends blocks of a transfer. Returns [`Flushed::All`] at the end of the transfer, and
/// [`Flushed::Held`] if blocks may follow.
fn send_blocks(connection: &mut Connection, transfer: &Transfer, count: &mut u64) -> Flushed {
    for _ in 0..CALLS_A_TURN {
        let next = transfer.next();
        let Next::Send(block, from) = next else {
            return match (next, connection.socket.flush()) {
                (Next::Close, _) => Flushed::Broken,
                (_, Err(e)) => e.into(),
                (Next::End, Ok(())) => Flushed::All,
                (_, Ok(())) => Flushed::Held,
            };
        };
        match connection.socket.write(&block[from..]) {
            Ok(0) => return Flushed::Broken,
            Ok(sent) => {
                transfer.sent(sent);
                *count += sent as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return e.into(),
        }
    }
    Flushed::Held
}
