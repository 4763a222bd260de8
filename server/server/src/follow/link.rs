//! The link to the primary until the stream begins: a thread connects, introduces the server, and asks to continue. A full
//! synchronization is received here too. Then loop 0 gets the socket, and serves it as the connection of the primary.
//!
//! Ground rules: the thread locks no shard of the keyspace, and changes nothing but the phase of the link.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::follow::sync;
use crate::log;
use crate::node::Shared;
use crate::node::order::Order;
use crate::replication::attachment::{Attachment, Start};
use crate::replication::state::ReplicationId;
use crate::replication::upstream::{Attempt, Phase};
use crate::replication::wire::Wire;

/// Why an attempt has failed.
pub(crate) enum Failure {
    /// The server follows another primary, or none, or stops.
    Unwanted,
    /// The log says why.
    Logged,
    /// The transfer of the snapshot failed.
    Transfer(io::Error),
    /// The snapshot cannot be loaded.
    Refused(String),
}

/// Runs the thread of the link until the server stops.
pub(crate) fn run(shared: &Arc<Shared>) {
    while let Some(attempt) = shared.replication.upstream.next_attempt() {
        let generation = attempt.generation;
        match establish(shared, attempt) {
            Ok(attachment) => {
                shared.mailboxes[0].order(Order::AttachPrimary(Box::new(attachment)));
                while shared.replication.upstream.wait_while_linked(generation) {
                    shared.mailboxes[0].order(Order::AcknowledgePrimary);
                }
            }
            Err(failure) => {
                report(shared, failure);
                shared.replication.upstream.failed(generation);
            }
        }
    }
}

fn report(shared: &Shared, failure: Failure) {
    let logger = &shared.logger;
    match failure {
        Failure::Unwanted | Failure::Logged => {}
        Failure::Transfer(error) if error.kind() == io::ErrorKind::TimedOut => log::warning!(
            logger,
            "Timeout receiving bulk data from MASTER... If the problem persists try to set the 'repl-timeout' parameter in redis.conf to a larger value."
        ),
        Failure::Transfer(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Failure::Transfer(error) => log::warning!(
            logger,
            "I/O error trying to sync with MASTER: {}",
            match error.kind() {
                io::ErrorKind::UnexpectedEof => "connection lost".to_owned(),
                _ => error.to_string(),
            }
        ),
        Failure::Refused(reason) => log::warning!(
            logger,
            "Failed trying to load the MASTER synchronization DB from socket: {reason}"
        ),
    }
}

/// Connects, and brings the link to the beginning of the stream.
fn establish(shared: &Shared, attempt: Attempt) -> Result<Attachment, Failure> {
    let (logger, settings) = (&shared.logger, shared.settings());
    let timeout = Duration::from_secs(settings.replica.timeout_s.into());
    log::notice!(logger, "Connecting to MASTER {}", attempt.primary);
    log::notice!(logger, "MASTER <-> REPLICA sync started");
    let failed = |error: io::Error| {
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::TimedOut => {
                log::warning!(logger, "Timeout connecting to the MASTER...");
            }
            _ => log::warning!(logger, "Error condition on socket for SYNC: {error}"),
        }
        Failure::Logged
    };
    let (upstream, generation) = (&shared.replication.upstream, attempt.generation);
    let session = match settings.tls.replication {
        true => Some(shared.tls.connect().map_err(failed)?),
        false => None,
    };
    let mut wire =
        Wire::connect(upstream, generation, &attempt.primary, timeout, session).map_err(failed)?;
    if !upstream.advance(generation, Phase::Handshake) {
        return Err(Failure::Unwanted);
    }
    log::notice!(logger, "Non blocking connect for SYNC fired the event.");
    introduce(shared, &mut wire).map_err(|failure| failure.map_or(Failure::Logged, failed))?;
    let start = ask(shared, &mut wire, &attempt)
        .map_err(|failure| failure.map_or(Failure::Logged, failed))?;
    let (start, mut rest) = match start {
        Asked::Continued(id) => (Start::Continued(id), Vec::new()),
        Asked::Full(id, offset) => {
            let (data, rest) = sync::receive(shared, &mut wire, generation, id, offset)?;
            (Start::Full(Box::new(data)), rest)
        }
    };
    let (channel, unread) = wire.into_parts();
    rest.extend_from_slice(&unread);
    Ok(Attachment {
        attempt,
        channel,
        rest,
        start,
    })
}

/// Says who this server is. The error is `None` if the log has it.
fn introduce(shared: &Shared, wire: &mut Wire<'_>) -> Result<(), Option<io::Error>> {
    let (logger, settings) = (&shared.logger, shared.settings());
    let replica = &settings.replica;
    wire.send_command(&[b"PING"])?;
    let reply = wire.line()?;
    let tolerated = ["-NOAUTH", "-NOPERM", "-ERR operation not permitted"];
    if !reply.starts_with('+') && !tolerated.iter().any(|text| reply.starts_with(text)) {
        log::warning!(logger, "Error reply to PING from master: '{reply}'");
        return Err(None);
    }
    log::notice!(
        logger,
        "Master replied to PING, replication can continue..."
    );
    if let Some(password) = &replica.auth {
        match &replica.user {
            Some(user) => wire.send_command(&[b"AUTH", user, password])?,
            None => wire.send_command(&[b"AUTH", password])?,
        }
        let reply = wire.line()?;
        if reply.starts_with('-') {
            log::warning!(logger, "Unable to AUTH to MASTER: {reply}");
            return Err(None);
        }
    }
    let port = match replica.announce_port {
        0 if settings.tls.replication => shared.tls_port.load(Ordering::Relaxed),
        0 => shared.tcp_port.load(Ordering::Relaxed),
        port => port.into(),
    };
    let port = port.to_string();
    let mut said: Vec<(&str, Vec<&[u8]>)> = vec![(
        "listening-port",
        vec![b"REPLCONF", b"listening-port", port.as_bytes()],
    )];
    if let Some(ip) = &replica.announce_ip {
        said.push(("ip-address", vec![b"REPLCONF", b"ip-address", ip]));
    }
    said.push((
        "capa",
        vec![b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"],
    ));
    for (what, command) in said {
        wire.send_command(&command)?;
        let reply = wire.line()?;
        if reply.starts_with('-') {
            log::notice!(
                logger,
                "(Non critical) Master does not understand REPLCONF {what}: {reply}"
            );
        }
    }
    Ok(())
}

/// Answer to PSYNC.
enum Asked {
    Continued(Option<ReplicationId>),
    Full(ReplicationId, u64),
}

/// Asks to continue. The error is `None` if the log has it.
fn ask(
    shared: &Shared,
    wire: &mut Wire<'_>,
    attempt: &Attempt,
) -> Result<Asked, Option<io::Error>> {
    let logger = &shared.logger;
    let (id, from) = if attempt.continues {
        let id = shared.replication.ids().current.as_str().to_owned();
        let from = (shared.replication.offset() + 1).to_string();
        log::notice!(
            logger,
            "Trying a partial resynchronization (request {id}:{from})."
        );
        (id, from)
    } else {
        log::notice!(
            logger,
            "Partial resynchronization not possible (no cached master)"
        );
        ("?".to_owned(), "-1".to_owned())
    };
    let failover = shared.replication.failover.is_in_progress();
    let mut command = vec![b"PSYNC".as_slice(), id.as_bytes(), from.as_bytes()];
    if failover {
        command.push(b"FAILOVER");
    }
    wire.send_command(&command)?;
    let reply = loop {
        let line = wire.line()?;
        if !line.is_empty() {
            break line;
        }
    };
    if failover {
        let accepted = reply.starts_with('+');
        shared.mailboxes[0].order(Order::FailoverAnswered(accepted));
    }
    let mut words = reply.split_ascii_whitespace();
    match words.next() {
        Some("+FULLRESYNC") => {
            let id = words
                .next()
                .and_then(|id| ReplicationId::parse(id.as_bytes()));
            let offset = words.next().and_then(|offset| offset.parse().ok());
            if let (Some(id), Some(offset)) = (id, offset) {
                log::notice!(logger, "Full resync from master: {id}:{offset}");
                if attempt.continues {
                    log::notice!(logger, "Discarding previously cached master state.");
                }
                return Ok(Asked::Full(id, offset));
            }
            log::warning!(logger, "Master replied with wrong +FULLRESYNC syntax.");
        }
        Some("+CONTINUE") if attempt.continues => {
            log::notice!(logger, "Successful partial resynchronization with master.");
            let id = words
                .next()
                .and_then(|id| ReplicationId::parse(id.as_bytes()));
            return Ok(Asked::Continued(id));
        }
        Some("-NOMASTERLINK" | "-LOADING") => log::notice!(
            logger,
            "Master is currently unable to PSYNC but should be in the future: {reply}"
        ),
        _ if reply.starts_with("-ERR") => log::notice!(
            logger,
            "Master does not support PSYNC or is in error state (reply: {reply}). There is no fallback to SYNC: a primary must be Redis 2.8 or later"
        ),
        _ => log::warning!(logger, "Unexpected reply to PSYNC from master: {reply}"),
    }
    Err(None)
}
