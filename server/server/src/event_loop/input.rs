//! Reading from sockets and running the received commands.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_resp::{Limits, Reply};
use punctual_store::Turn;

use crate::changelog::Hold;
use crate::dispatch::{Dispatcher, Flow};
use crate::event_loop::EventLoop;
use crate::event_loop::connection::Connection;
use crate::event_loop::lookahead::Lookahead;
use crate::log;
use crate::node::Shared;
use crate::node::scripts::Scripts;
use crate::session::Session;

/// Maximum number of reads from one connection in a turn, so that other connections are served too.
const READS_A_TURN: usize = 16;
/// Maximum number of bytes of input that are kept for a client before it has authenticated.
const UNAUTHENTICATED_INPUT_MAX: usize = 1 << 20;
/// Maximum number of reads in a turn from connections whose command waits. Their input only takes
/// memory, and time from other connections.
const HELD_READS_A_TURN: usize = 64;

impl EventLoop {
    /// Reads and runs a connection's commands, with at most [`READS_A_TURN`] reads. If
    /// `peer_closed` is true, the peer may have closed its end, so this reads until the end of the
    /// stream. While a command waits, the input after it is read too, because the end of the stream
    /// follows that input.
    pub(crate) fn read(&mut self, slot: usize, peer_closed: bool, turn: &mut Turn) {
        let mut buffer = std::mem::take(&mut self.reading.buffer);
        let mut reads = 0;
        let nested = self.busy.nested;
        while let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) {
            let session = &connection.session;
            if session.closing || connection.ended {
                break;
            }
            if connection.socket.is_handshaking() {
                self.reading.buffer = buffer;
                return self.shake_hands(slot, turn);
            }
            if nested && session.is_primary() {
                // The primary's stream waits for the end of the script.
                self.read_again(slot);
                break;
            }
            if session.info.killed.load(Ordering::Acquire) {
                self.close(slot);
                break;
            }
            if connection.holds_input() {
                if self.reading.held_reads == HELD_READS_A_TURN {
                    self.read_again(slot);
                    break;
                }
                self.reading.held_reads += 1;
            }
            connection.readable = false;
            match connection.socket.read(&mut buffer) {
                Ok(0) => {
                    self.end_stream(slot);
                    break;
                }
                Ok(n) => {
                    // A read that did not fill the buffer has emptied the socket. Only the end of
                    // the stream may remain.
                    let emptied = n < buffer.len() && !peer_closed && !connection.socket.has_more();
                    self.received(slot, &buffer[..n], turn);
                    reads += 1;
                    if emptied {
                        break;
                    }
                    let holds = self.connection(slot).is_some_and(|c| c.holds_input());
                    if holds || reads == READS_A_TURN {
                        self.read_again(slot);
                        break;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.close(slot);
                    break;
                }
            }
        }
        self.reading.buffer = buffer;
    }

    /// Schedules another read from a connection in the next turn.
    pub(crate) fn read_again(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut)
            && !std::mem::replace(&mut connection.readable, true)
        {
            self.reading.readable.push(slot);
        }
    }

    /// Runs the commands in bytes that were read from a connection. Keeps the bytes for later if a
    /// command of the connection waits.
    pub(crate) fn received(&mut self, slot: usize, bytes: &[u8], turn: &mut Turn) {
        turn.now = self.shared.clock.now();
        self.received_now(slot, bytes, turn);
    }

    /// Same as [`EventLoop::received`], for a turn that has just read the clock.
    pub(crate) fn received_now(&mut self, slot: usize, bytes: &[u8], turn: &mut Turn) {
        let stats = &self.shared.observed.stats[self.number];
        stats.net_in.add(bytes.len() as u64);
        stats.reads.add(1);
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        if connection.session.is_primary() {
            self.shared.replication.upstream.note_input(bytes.len());
        }
        let info = &connection.session.info;
        info.seen_ms.store(turn.now.read_ms(), Ordering::Relaxed);
        // Only this loop writes the counter, so a load and a store are enough.
        let net_in = info.net_in.load(Ordering::Relaxed) + bytes.len() as u64;
        info.net_in.store(net_in, Ordering::Relaxed);
        if let Some(replica) = &connection.session.replica {
            // A replica sends newlines while it loads a snapshot.
            replica.record_contact();
        }
        let held = connection.input_len() + bytes.len();
        info.query_bytes.store(held as u64, Ordering::Relaxed);
        stats.input_peak.record(held as u64, turn.now.read_ms());
        if self.settings.maxmemory_clients > 0 && connection.input_len() > 0 {
            // The memory is checked before the commands run, because they free the input.
            self.count_client(slot);
            self.limit_client_memory();
        }
        let Some(connection) = self.connection(slot) else {
            return;
        };
        if connection.holds_input() {
            connection.held_input.append(bytes);
            self.count_client(slot);
        } else {
            self.run_input(slot, bytes, turn);
        }
        self.check_input(slot);
    }

    /// Runs the complete commands in a connection's kept input and `bytes`, and keeps the rest.
    fn run_input(&mut self, slot: usize, bytes: &[u8], turn: &mut Turn) {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        if connection.out.capacity() == 0 {
            connection.out = self.reading.spare_outputs.pop().unwrap_or_default();
        }
        if connection.input.is_empty() {
            let used = self.run_commands(slot, bytes, turn);
            if let Some(connection) = self.connection(slot)
                && used < bytes.len()
                && !connection.session.closing
            {
                connection.keep_input(&bytes[used..]);
            }
        } else {
            connection.keep_input(bytes);
            self.run_kept(slot, turn);
        }
    }

    /// Runs the input that was held while a command waited: the kept input and at most
    /// [`READS_A_TURN`] chunks. If more chunks may be left, the next turn continues.
    pub(crate) fn resume(&mut self, slot: usize, turn: &mut Turn) {
        self.run_kept(slot, turn);
        for _ in 0..READS_A_TURN {
            let Some(connection) = self.connection(slot) else {
                return;
            };
            if connection.waits() || connection.session.closing || connection.ended {
                return;
            }
            let Some(chunk) = connection.held_input.pop() else {
                return connection.publish_input_size();
            };
            self.run_input(slot, &chunk, turn);
        }
        self.resuming.unblocked.push(slot);
    }

    /// Runs the complete commands in a connection's kept input.
    pub(crate) fn run_kept(&mut self, slot: usize, turn: &mut Turn) {
        let Some(connection) = self.connection(slot) else {
            return;
        };
        let input = std::mem::take(&mut connection.input);
        let used = self.run_commands(slot, &input, turn);
        if let Some(connection) = self.connection(slot) {
            connection.input = input;
            connection.consume_input(used);
            connection.publish_input_size();
        }
    }

    /// Runs the complete commands in `bytes`. Returns their length in bytes.
    pub(crate) fn run_commands(&mut self, slot: usize, bytes: &[u8], turn: &mut Turn) -> usize {
        if self
            .connection(slot)
            .is_some_and(|c| c.session.separates_messages())
            && !self.busy.nested
        {
            self.collect_messages();
        }
        let output_limits = self.settings.output_limits;
        let Some(mut taken) = self.connections.get_mut(slot).and_then(Option::take) else {
            return 0;
        };
        let connection = &mut *taken;
        let hard_bytes = match output_limits[connection.output_class()].hard_bytes {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        let mut limits = Limits {
            bulk_max: self.settings.max_bulk_len,
            ..Limits::default()
        };
        let shared = self.shared();
        if connection.session.is_primary() {
            limits.bulk_max = usize::MAX;
        }
        // On a replica, due keys are hidden but do not expire, because the primary expires them.
        // For commands that write, the dispatcher decides whether due keys expire.
        turn.frozen = shared.replication.is_replica() && !connection.session.is_primary();
        let number = self.number;
        let stopwatch = self.stopwatch.clone();
        let scripts = self.scripts.take();
        let mut scripts = scripts.unwrap_or_else(|| Box::new(Scripts::new(&shared)));
        let mut lookahead = std::mem::take(&mut self.reading.lookahead);
        let (nested, released) = (self.busy.nested, self.writing.released);
        let mut dispatcher = Dispatcher::new(
            &shared,
            number,
            turn,
            &mut scripts,
            &stopwatch,
            connection.output_max(hard_bytes),
            (!nested).then_some(&mut *self),
        );
        dispatcher.hold = Hold::new(released);
        if connection.session.replica.is_none() && !connection.session.is_primary() {
            dispatcher.chunks = Some(std::mem::take(&mut connection.chunks));
        }
        let mailbox = &shared.mailboxes[number];
        let session = &mut connection.session;
        let stats = &shared.observed.stats[number];
        stats.client.store(session.id, Ordering::Relaxed);
        dispatcher.turn.client = session.id;
        let out = &mut connection.out;
        session.dirty_before = dispatcher.turn.stats.dirty;
        let (replied, start) = (dispatcher.output_len(out), out.len());
        let was_replica = session.replica.is_some();
        if session.separates_messages() && !nested {
            session.separated = true;
            mailbox.separate(session.id, out);
        }
        if session.users_version != shared.clients.users.version() {
            session.refresh_user(&shared.clients.users);
        }
        let (flow, used) = run_pipeline(
            &mut dispatcher,
            connection,
            &mut lookahead,
            bytes,
            &mut limits,
        );
        let (session, out) = (&mut connection.session, &mut connection.out);
        if std::mem::take(&mut session.separated) {
            mailbox.end_separation(out);
        }
        dispatcher.turn.end_ahead();
        dispatcher.turn.client = 0;
        let exceeded = dispatcher.exceeded;
        if let Some(chunks) = dispatcher.chunks.take() {
            connection.chunks = chunks;
        }
        let until = dispatcher.hold.until;
        session.has_written |= dispatcher.turn.stats.dirty != session.dirty_before;
        if was_replica && out.len() > start {
            // A replica's output contains only the stream.
            log_reply_to_replica(&shared, session);
            out.truncate(start);
            session.closing = true;
        }
        session.end_stretch(&shared, turn);
        if until > 0 {
            connection.hold(replied, until);
            self.writing.holding.push(slot);
        }
        self.connections[slot] = Some(taken);
        if !nested {
            self.scripts = Some(scripts);
            self.reading.lookahead = lookahead;
            self.end_busy(slot);
        }
        self.release_between(turn);
        let output_max = (!exceeded).then_some(hard_bytes);
        self.end_commands(slot, flow, was_replica, output_max);
        used
    }

    /// Updates a connection after its commands have run. If `output_max` is `None`, the dispatcher
    /// has already found the output too long.
    #[inline]
    fn end_commands(
        &mut self,
        slot: usize,
        flow: Flow,
        was_replica: bool,
        output_max: Option<usize>,
    ) {
        let Some(connection) = self.connection(slot) else {
            return;
        };
        if !was_replica && connection.session.replica.is_some() {
            self.attach_replica(slot);
        }
        let Some(connection) = self.connection(slot) else {
            return;
        };
        if output_max.is_none_or(|max| connection.unwritten() > max) {
            return self.close_over_limit(slot);
        }
        match flow {
            Flow::Done => {}
            Flow::Paused => {
                connection.paused = true;
                let info = Arc::clone(&connection.session.info);
                self.shared.clients.registry.set_waiting(&info, true);
                self.resuming.paused.push(slot);
            }
            Flow::Blocked => self.block(slot),
        }
        if flow != Flow::Done && self.connection(slot).is_some_and(|c| c.hung_up) {
            self.end_stream(slot);
        }
        self.mark_dirty(slot);
    }

    /// Closes a connection if its input that has not run, including commands queued by MULTI,
    /// exceeds the limit.
    pub(crate) fn check_input(&mut self, slot: usize) {
        let mut limit = self.settings.query_buffer_limit;
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        connection.publish_input_size();
        let queued = connection.session.multi.as_ref().map_or(0, |m| m.bytes());
        if !connection.session.authenticated {
            limit = limit.min(UNAUTHENTICATED_INPUT_MAX);
        }
        let len = connection.input_len();
        if len + queued > limit && !connection.session.is_primary() {
            self.shared.observed.stats[self.number]
                .input_limit_closed
                .add(1);
            log::warning!(
                self.shared.logger,
                "Closing client that reached max query buffer length: id={} addr={}",
                connection.session.id,
                connection.session.info.addr
            );
            self.close(slot);
        }
    }

    /// Resumes the paused clients if a pause has ended.
    pub(crate) fn resume_paused(&mut self, turn: &mut Turn) {
        if self.resuming.paused.is_empty() && !self.shared.clients.pauses.any() {
            return;
        }
        // Another pause may still be in force, and may delay some of the clients again.
        let ended = self.shared.clients.pauses.forget_ended(turn.now);
        if std::mem::replace(&mut self.resuming.pauses_ended, ended) == ended {
            return;
        }
        for slot in std::mem::take(&mut self.resuming.paused) {
            let connection = self.connections.get_mut(slot).and_then(Option::as_mut);
            if let Some(connection) = connection
                && std::mem::take(&mut connection.paused)
            {
                let info = &connection.session.info;
                self.shared.clients.registry.set_waiting(info, false);
                self.resume(slot, turn);
            }
        }
    }
}

/// Runs the complete commands in `bytes`. Returns the outcome of the last command, and the length
/// in bytes of the commands that ran.
#[inline]
fn run_pipeline(
    dispatcher: &mut Dispatcher<'_, '_>,
    connection: &mut Connection,
    lookahead: &mut Lookahead,
    bytes: &[u8],
    limits: &mut Limits,
) -> (Flow, usize) {
    let (parser, session) = (&mut connection.parser, &mut connection.session);
    let out = &mut connection.out;
    let mut used = 0;
    let flow = 'run: loop {
        if session.closing {
            break Flow::Done;
        }
        limits.authenticated = session.authenticated;
        match parser.parse(&bytes[used..], limits) {
            Ok(None) => break Flow::Done,
            Ok(Some(command)) => {
                let flow = match command.args.is_empty() {
                    true => Flow::Done,
                    false => dispatcher.run(session, command.args, out),
                };
                if flow == Flow::Paused {
                    parser.reset();
                    break flow;
                }
                session.applied(&bytes[used..used + command.consumed]);
                used += command.consumed;
                if flow == Flow::Blocked {
                    break flow;
                }
            }
            Err(e) => {
                dispatcher.stats.protocol_errors.add(1);
                Reply::new(out, session.protocol).protocol_error(&e);
                session.closing = true;
                break Flow::Done;
            }
        }
        // The next commands of the pipeline are parsed ahead, so that their keys are prefetched
        // together. The connection's own parser is between two commands here.
        while used < bytes.len() && session.authenticated && !session.closing {
            let ahead = lookahead.parse(&bytes[used..], limits);
            if ahead.len() < 2 {
                break;
            }
            let (mut prepared, mut at) = (0, 0);
            for (number, command) in ahead.iter().enumerate() {
                if session.closing || !session.authenticated {
                    continue 'run;
                }
                if number == prepared {
                    at = number;
                    prepared += dispatcher.look_ahead(session, &ahead[number..]).max(1);
                }
                dispatcher.turn.begin_ahead(number - at);
                let flow = match command.args.is_empty() {
                    true => Flow::Done,
                    false => dispatcher.run(session, command.args, out),
                };
                if flow == Flow::Paused {
                    break 'run flow;
                }
                session.applied(&bytes[used..used + command.consumed]);
                used += command.consumed;
                if flow == Flow::Blocked {
                    break 'run flow;
                }
            }
        }
        if used == bytes.len() {
            break Flow::Done;
        }
    };
    (flow, used)
}

#[cold]
fn log_reply_to_replica(shared: &Shared, session: &Session) {
    let name = session.info.last_command.load(Ordering::Relaxed);
    let table = shared.commands.table();
    let name = table.name_of((name as usize).wrapping_sub(1));
    log::warning!(
        shared.logger,
        "Replica generated a reply to command '{}', disconnecting it: id={} addr={}",
        name.unwrap_or("<unknown>"),
        session.id,
        session.info.addr
    );
}
