//! Full synchronization: a snapshot for replicas that cannot continue from the backlog, encoded on
//! a separate thread.
//!
//! All replicas that wait when the synchronization begins, and that want the same data, share one
//! walk (a snapshot's way through the keyspace). It begins in a turn that holds every shard: the
//! snapshot is the keyspace at the offset that `+FULLRESYNC` names, and the backlog keeps the
//! stream from this offset on. The thread locks one shard at a time, encodes records, and adds
//! blocks of bytes to the replicas' transfers. It holds no lock while it waits for a slow replica.
//! The event loops of the replicas send the blocks.
//!
//! With `repl-diskless-sync`, and for replicas that want a part of the data only, a snapshot is
//! streamed between `$EOF:<mark>` and the mark. All of these replicas must have the capability
//! `eof`. Otherwise the thread first writes the complete snapshot to a temporary file, and then
//! sends the file after `$<length>`.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_rdb::Dialect;
use punctual_store::snapshot::{Format, Snapshot};
use punctual_store::{Now, Turn};

use crate::config::Settings;
use crate::log;
use crate::node::Shared;
use crate::persist::encode::{self, Header, HistoryPosition, Piece};
use crate::reclaim::rounds;
use crate::replication::replica::{Filter, Peer, Phase, Replica};
use crate::script::functions::registry::Libraries;

/// Maximum size of a block in bytes. A TLS session accepts this many bytes in a call, and an event
/// loop writes a few blocks in a turn.
const BLOCK_BYTES: usize = 64 << 10;

/// Begins a synchronization of the waiting replicas if it is due, or sets the time of the next
/// check.
pub(crate) fn begin_if_due(shared: &Arc<Shared>, settings: &Settings, turn: &mut Turn) {
    let mut waiting = shared.replication.replicas.all();
    waiting.retain(|replica| replica.phase() == Phase::Waiting);
    let Some(first) = waiting.first() else {
        return;
    };
    if shared.durability.is_loading() || shared.stopping.load(Ordering::Acquire) {
        return;
    }
    // Replicas that want the same bytes share a walk.
    let (filter, dialect) = (first.peer.filter, first.peer.dialect);
    waiting.retain(|replica| replica.peer.filter == filter && replica.peer.dialect == dialect);
    let to_sockets = waiting.iter().all(|replica| replica.peer.eof)
        && (settings.repl_diskless_sync || filter.is_some());
    if to_sockets && filter.is_none() {
        let enough = settings.repl_diskless_sync_max_replicas;
        let due_ms = waiting
            .iter()
            .map(|replica| replica.asked_ms + settings.repl_diskless_sync_delay_s * 1_000)
            .min()
            .unwrap_or(0);
        if shared.world.stopwatch_ms() < due_ms && (enough == 0 || waiting.len() < enough) {
            shared
                .replication
                .replicas
                .upkeep_ms
                .fetch_min(due_ms, Ordering::SeqCst);
            return;
        }
    }
    // Only one walk runs at a time. During another walk, a later upkeep tries again.
    if shared.durability.begin_walk() {
        begin(shared, turn, waiting, to_sockets);
    }
}

/// Walk of a synchronization. Dropping this value, also after a failure, allows the next walk.
struct Walk {
    shared: Arc<Shared>,
    snapshot: Snapshot,
    /// Whether all records are encoded.
    complete: bool,
}

impl Drop for Walk {
    fn drop(&mut self) {
        if !self.complete {
            std::mem::take(&mut self.snapshot).abandon(&self.shared.store);
        }
        self.shared.durability.end_walk();
        self.shared.request_upkeep();
    }
}

/// A synchronization that has begun. Its thread owns this value.
struct Job {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
    now: Now,
    libraries: Libraries,
    position: HistoryPosition,
    dialect: Dialect,
    replicas: Vec<Arc<Replica>>,
    /// Whether the bytes are sent while they are encoded, and not from a file.
    to_sockets: bool,
}

fn begin(shared: &Arc<Shared>, turn: &mut Turn, replicas: Vec<Arc<Replica>>, to_sockets: bool) {
    let settings = shared.settings();
    let Some(Peer {
        filter, dialect, ..
    }) = replicas.first().map(|replica| replica.peer.clone())
    else {
        return;
    };
    turn.release();
    turn.lock_all();
    let libraries = match filter {
        Some(Filter { functions: false }) => Libraries::default(),
        _ => (*shared.scripting.functions.libraries()).clone(),
    };
    let walk = Walk {
        shared: Arc::clone(shared),
        snapshot: match filter {
            None => {
                let format = encode::format(&settings);
                Snapshot::begin(turn, Format { dialect, ..format })
            }
            Some(_) => Snapshot::default(),
        },
        complete: false,
    };
    shared.durability.changelog.force_select();
    // REPLCONF GETACK may be appended at any time, so the offset is read under the lock of the
    // stream.
    let stream = shared.replication.replicas.stream();
    let position = HistoryPosition {
        id: shared.replication.ids().current,
        offset: shared.replication.offset(),
        // A replica passes on its primary's stream, in which no SELECT follows the snapshot.
        db: match shared.replication.is_replica() {
            true => shared.replication.upstream.db(),
            false => 0,
        },
    };
    for replica in &replicas {
        replica.set_next(position.offset + 1);
        replica.set_phase(Phase::Receiving);
        if !replica.old_protocol {
            let HistoryPosition { id, offset, .. } = position;
            replica
                .transfer
                .announce(&format!("+FULLRESYNC {id} {offset}\r\n"));
            shared.order_feed(replica.client.loop_number);
        }
    }
    drop(stream);
    turn.release();
    log::notice!(
        shared.logger,
        "Starting BGSAVE for SYNC with target: {}",
        if to_sockets {
            "replicas sockets"
        } else {
            "disk"
        }
    );
    if walk.snapshot.has_field_deadlines() && dialect == Dialect::Redis {
        log::warning!(
            shared.logger,
            "Hash fields have deadlines: replicas before Redis 7.4 and Valkey 9.0 can't load the snapshot"
        );
    }
    let job = Job {
        shared: Arc::clone(shared),
        settings,
        now: turn.now,
        libraries,
        position,
        dialect,
        replicas: replicas.clone(),
        to_sockets,
    };
    let thread = shared.world.spawn("punctual-sync", move || job.run(walk));
    match thread {
        Ok(thread) => shared.replication.replicas.full_sync.add(thread, replicas),
        Err(error) => {
            log::warning!(
                shared.logger,
                "Can't start the thread of a full synchronization: {error}"
            );
            replicas.iter().for_each(|r| shared.close_replica(r));
        }
    }
}

impl Job {
    fn run(self, walk: Walk) {
        let shared = &self.shared;
        let pushed = match self.to_sockets {
            true => self.stream(walk),
            false => self.by_file(walk),
        };
        match pushed.and_then(|()| self.complete()) {
            Ok(()) if self.to_sockets => {
                log::notice!(
                    shared.logger,
                    "Background RDB transfer terminated with success"
                );
            }
            Ok(()) => {}
            Err(failure) => {
                match failure {
                    Failure::NoneLeft => {
                        log::warning!(shared.logger, "No replica is left for the RDB transfer");
                    }
                    Failure::File(error) => log::warning!(
                        shared.logger,
                        "SYNC failed. BGSAVE for replication failed: {error}"
                    ),
                }
                // A part of a snapshot is useless, so the replicas must ask again.
                self.replicas.iter().for_each(|r| shared.close_replica(r));
            }
        }
        rounds::report_freed(shared, 0);
    }

    /// Encodes the snapshot, and ends the walk.
    fn encode(
        &self,
        mut walk: Walk,
        mut write: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut header = Header::new(self.now, &self.libraries);
        header.position = Some(self.position);
        header.dialect = self.dialect;
        let store = &self.shared.store;
        let done = encode::encode(
            self.shared.world,
            &self.settings,
            &header,
            &mut walk.snapshot,
            |snapshot, out| snapshot.next(store, out),
            |piece| match piece {
                Piece::Bytes(bytes) => write(bytes),
                Piece::Keys(_) => self.check(),
            },
        );
        walk.complete = done.is_ok();
        done
    }

    /// Pushes the bytes while they are encoded.
    fn stream(&self, walk: Walk) -> Result<(), Failure> {
        let mark = self.shared.world.hex_digits::<40>();
        self.push(&[b"$EOF:", &mark[..], b"\r\n"].concat())?;
        self.encode(walk, |bytes| self.push(bytes))?;
        self.push(&mark)
    }

    /// Writes a file, then pushes its bytes.
    fn by_file(&self, walk: Walk) -> Result<(), Failure> {
        let name = format!("temp-{}-sync.rdb", std::process::id());
        let path = self.settings.dir.join(name);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)?;
        // The file exists only through this descriptor, so a crash of the server leaves no file.
        std::fs::remove_file(&path)?;
        self.encode(walk, |bytes| Ok(file.write_all(bytes)?))?;
        let len = file.metadata()?.len();
        file.rewind()?;
        self.push(format!("${len}\r\n").as_bytes())?;
        let mut buffer = vec![0; BLOCK_BYTES];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(()),
                count => self.push(&buffer[..count])?,
            }
        }
    }

    /// Adds bytes to the transfers, in blocks that the replicas share. Waits while a replica is too
    /// far behind.
    fn push(&self, bytes: &[u8]) -> Result<(), Failure> {
        for piece in bytes.chunks(BLOCK_BYTES) {
            let block = Arc::from(piece);
            for replica in &self.replicas {
                if replica.transfer.push(&block) {
                    self.shared.order_feed(replica.client.loop_number);
                }
            }
        }
        self.check()
    }

    /// Completes the transfers. After a file, the replication stream follows at once. After a
    /// streamed snapshot, it follows when the replica has acknowledged the snapshot.
    fn complete(&self) -> Result<(), Failure> {
        for replica in &self.replicas {
            replica.transfer.complete(!self.to_sockets);
            self.shared.order_feed(replica.client.loop_number);
        }
        self.check()
    }

    /// Returns an error if all transfers are closed.
    fn check(&self) -> Result<(), Failure> {
        let mut replicas = self.replicas.iter();
        match replicas.all(|replica| replica.transfer.is_closed()) {
            true => Err(Failure::NoneLeft),
            false => Ok(()),
        }
    }
}

/// Reason why a synchronization has failed.
enum Failure {
    /// All transfers are closed, because the replicas have disconnected or the server stops.
    NoneLeft,
    /// The file cannot be written or read.
    File(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}
