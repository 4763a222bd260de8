//! The link to the primary until the stream begins: the replica's side of the handshake.
//!
//! Ground rules: loop 0 owns the link. The link locks no shard and changes no key. It passes the
//! snapshot of a full synchronization to a thread that loads it ([`crate::follow::sync`]). Then the
//! socket becomes the connection of the primary.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::config::Settings;
use crate::follow::sync::Announced;
use crate::log;
use crate::net::dial::{Conversation, take_lines};
use crate::node::Shared;
use crate::node::order::Order;
use crate::replication::incoming::Incoming;
use crate::replication::state::ReplicationId;
use crate::replication::upstream::{Attempt, Phase};

/// A version of Valkey whose snapshots we read. Valkey sends deadlines of hash fields only to a
/// replica that announces such a version.
const VALKEY_VERSION: &[u8] = b"9.1.0";
/// Maximum length of a line from the primary, in bytes.
const LINE_MAX: usize = 4 << 10;

/// Stage of the handshake: the command whose answer is next, or a result.
enum Stage {
    Ping,
    Auth,
    Port,
    Address,
    Capabilities,
    Version,
    Psync,
    /// The primary has announced a full synchronization of this history at this offset. Next it
    /// announces the snapshot's size.
    FullSync(ReplicationId, u64),
    /// The link passes the snapshot to the thread that loads it.
    Snapshot(Arc<Incoming>),
    /// The stream continues the server's data. Contains the ID of the history, if the primary has
    /// sent it.
    Continued(Option<ReplicationId>),
    /// The attempt has failed. The log has the reason.
    Failed,
}

/// The link of one attempt.
pub(crate) struct Link {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
    pub(crate) attempt: Attempt,
    stage: Stage,
    /// Whether the link has sent its request, so that the primary's answer is next.
    requested: bool,
    /// Whether PSYNC FAILOVER has asked the other server, until now a replica, to become the
    /// primary.
    failover: bool,
}

impl Link {
    pub(crate) fn new(shared: &Arc<Shared>, attempt: Attempt) -> Self {
        Self {
            shared: Arc::clone(shared),
            settings: shared.settings(),
            attempt,
            stage: Stage::Ping,
            requested: false,
            failover: false,
        }
    }

    /// Returns the queue for the bytes of the snapshot while the primary sends it.
    pub(crate) fn snapshot(&self) -> Option<&Arc<Incoming>> {
        match &self.stage {
            Stage::Snapshot(incoming) => Some(incoming),
            _ => None,
        }
    }

    /// Returns the result at the end of the conversation: `Some` if the stream continues the
    /// server's data, with the ID of the history if the primary has sent it; `None` if the attempt
    /// has failed.
    pub(crate) fn continued(&self) -> Option<Option<ReplicationId>> {
        match self.stage {
            Stage::Continued(id) => Some(id),
            _ => None,
        }
    }

    /// Logs the error of a connection that broke before the snapshot.
    pub(crate) fn report_broken(&self, error: &io::Error) {
        let logger = &self.shared.logger;
        match (&self.stage, error.kind()) {
            (Stage::FullSync(..), _) => {
                log::warning!(logger, "I/O error reading bulk count from MASTER: {error}");
            }
            (_, io::ErrorKind::TimedOut) => {
                log::warning!(logger, "Timeout connecting to the MASTER...");
            }
            _ => log::warning!(logger, "Error condition on socket for SYNC: {error}"),
        }
    }

    /// Processes a line of the primary, and moves to the next stage.
    fn answered(&mut self, reply: &str) {
        let logger = &self.shared.logger;
        let refused = reply.starts_with('-');
        let unsupported = |what: &str| {
            if refused {
                log::notice!(
                    logger,
                    "(Non critical) Master does not understand REPLCONF {what}: {reply}"
                );
            }
        };
        let next = match self.stage {
            Stage::Ping => {
                let tolerated = ["-NOAUTH", "-NOPERM", "-ERR operation not permitted"];
                if reply.starts_with('+') || tolerated.iter().any(|text| reply.starts_with(text)) {
                    log::notice!(
                        logger,
                        "Master replied to PING, replication can continue..."
                    );
                    match &self.settings.replica.auth {
                        Some(_) => Stage::Auth,
                        None => Stage::Port,
                    }
                } else {
                    log::warning!(logger, "Error reply to PING from master: '{reply}'");
                    Stage::Failed
                }
            }
            Stage::Auth if refused => {
                log::warning!(logger, "Unable to AUTH to MASTER: {reply}");
                Stage::Failed
            }
            Stage::Auth => Stage::Port,
            Stage::Port => {
                unsupported("listening-port");
                match &self.settings.replica.announce_ip {
                    Some(_) => Stage::Address,
                    None => Stage::Capabilities,
                }
            }
            Stage::Address => {
                unsupported("ip-address");
                Stage::Capabilities
            }
            Stage::Capabilities => {
                unsupported("capa");
                Stage::Version
            }
            // Redis does not know this announcement.
            Stage::Version => Stage::Psync,
            // The primary sends empty lines while its answer is not ready.
            Stage::Psync | Stage::FullSync(..) if reply.is_empty() => return,
            Stage::Psync => self.psync_answered(reply),
            Stage::FullSync(id, offset) => self.announced(reply, id, offset),
            Stage::Snapshot(_) | Stage::Continued(_) | Stage::Failed => return,
        };
        self.requested = matches!(next, Stage::FullSync(..));
        self.stage = next;
    }

    fn psync_answered(&self, reply: &str) -> Stage {
        let logger = &self.shared.logger;
        if self.failover {
            let accepted = reply.starts_with('+');
            self.shared.mailboxes[0].order(Order::FailoverAnswered(accepted));
        }
        let mut words = reply.split_ascii_whitespace();
        let first = words.next();
        let id = words
            .next()
            .and_then(|id| ReplicationId::parse(id.as_bytes()));
        match first {
            Some("+FULLRESYNC") => {
                let offset = words.next().and_then(|offset| offset.parse().ok());
                if let (Some(id), Some(offset)) = (id, offset) {
                    log::notice!(logger, "Full resync from master: {id}:{offset}");
                    if self.attempt.continues {
                        log::notice!(logger, "Discarding previously cached master state.");
                    }
                    return Stage::FullSync(id, offset);
                }
                log::warning!(logger, "Master replied with wrong +FULLRESYNC syntax.");
            }
            Some("+CONTINUE") if self.attempt.continues => {
                log::notice!(logger, "Successful partial resynchronization with master.");
                return Stage::Continued(id);
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
        Stage::Failed
    }

    /// Begins to load the snapshot that the line announces.
    fn announced(&self, line: &str, id: ReplicationId, offset: u64) -> Stage {
        let (shared, generation) = (&self.shared, self.attempt.generation);
        let Some(snapshot) = Announced::parse(shared, line, id, offset) else {
            return Stage::Failed;
        };
        (shared.replication.upstream).advance(generation, Phase::Transfer);
        match snapshot.load(shared, generation) {
            Ok(incoming) => Stage::Snapshot(incoming),
            Err(error) => {
                log::warning!(
                    shared.logger,
                    "Can't start the thread of a full synchronization: {error}"
                );
                Stage::Failed
            }
        }
    }

    /// Returns the arguments of PSYNC: the history's ID, and the offset of the next byte.
    fn wanted_history(&self) -> (String, String) {
        let (shared, logger) = (&self.shared, &self.shared.logger);
        if !self.attempt.continues {
            log::notice!(
                logger,
                "Partial resynchronization not possible (no cached master)"
            );
            return ("?".to_owned(), "-1".to_owned());
        }
        let id = shared.replication.ids().current.as_str().to_owned();
        let from = (shared.replication.offset() + 1).to_string();
        log::notice!(
            logger,
            "Trying a partial resynchronization (request {id}:{from})."
        );
        (id, from)
    }
}

impl Drop for Link {
    /// Ends the thread that loads a snapshot, if the thread still waits for bytes.
    fn drop(&mut self) {
        if let Stage::Snapshot(incoming) = &self.stage {
            incoming.end(io::ErrorKind::Interrupted);
        }
    }
}

impl Conversation for Link {
    fn write_output(&mut self, _: u64, output: &mut Vec<u8>) {
        if std::mem::replace(&mut self.requested, true) {
            return;
        }
        let (shared, replica) = (&self.shared, &self.settings.replica);
        let mut say = |words: &[&[u8]]| punctual_resp::encode_command(output, words);
        match &self.stage {
            Stage::Ping => {
                let upstream = &shared.replication.upstream;
                upstream.advance(self.attempt.generation, Phase::Handshake);
                upstream.note_input(0);
                log::notice!(
                    shared.logger,
                    "Non blocking connect for SYNC fired the event."
                );
                say(&[b"PING"]);
            }
            Stage::Auth => {
                let words = [&replica.user, &replica.auth].into_iter().flatten();
                let words: Vec<&[u8]> = std::iter::once(&b"AUTH"[..])
                    .chain(words.map(|word| &word[..]))
                    .collect();
                say(&words);
            }
            Stage::Port => {
                let port = match replica.announce_port {
                    0 if self.settings.tls.replication => shared.tls_port.load(Ordering::Relaxed),
                    0 => shared.tcp_port.load(Ordering::Relaxed),
                    port => port.into(),
                };
                say(&[b"REPLCONF", b"listening-port", port.to_string().as_bytes()]);
            }
            Stage::Address => {
                let ip = replica.announce_ip.as_deref().unwrap_or_default();
                say(&[b"REPLCONF", b"ip-address", ip]);
            }
            Stage::Capabilities => say(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"]),
            Stage::Version => say(&[b"REPLCONF", b"version", VALKEY_VERSION]),
            Stage::Psync => {
                let (id, from) = self.wanted_history();
                let words = [&b"PSYNC"[..], id.as_bytes(), from.as_bytes(), b"FAILOVER"];
                self.failover = shared.replication.failover.is_in_progress();
                say(&words[..if self.failover { 4 } else { 3 }]);
            }
            _ => {}
        }
    }

    fn read_input(&mut self, input: &mut Vec<u8>) -> bool {
        let before = input.len();
        if self.snapshot().is_none() {
            take_lines(input, |line| {
                self.answered(&String::from_utf8_lossy(line));
                matches!(self.stage, Stage::FullSync(..) | Stage::Psync) && self.requested
            });
        }
        match &self.stage {
            Stage::Snapshot(incoming) => incoming.push(std::mem::take(input)),
            Stage::Continued(_) | Stage::Failed => {}
            _ if input.len() > LINE_MAX => {
                self.report_broken(&io::Error::other("the line is too long"));
                self.stage = Stage::Failed;
            }
            _ => {}
        }
        (self.shared.replication.upstream).note_input(before - input.len());
        matches!(self.stage, Stage::Continued(_) | Stage::Failed)
    }

    fn room(&self) -> usize {
        self.snapshot()
            .map_or(usize::MAX, |incoming| incoming.room())
    }
}
