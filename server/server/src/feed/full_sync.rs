//! Full synchronization: a snapshot for the replicas that cannot continue, on a thread of its own.
//!
//! All replicas that wait when it begins share one walk. It begins in a turn that holds every shard: the snapshot is the
//! keyspace at the offset that `+FULLRESYNC` names, and the backlog keeps what follows for each of them. The thread then
//! locks one shard at a time, for the walk, and none while it writes to a socket. Clients of the server do not notice it.
//!
//! A replica that can find the end of a payload of unknown length gets the bytes as they are made (`$EOF:<mark>`), others
//! after they are complete (`$<length>`), from a file that exists meanwhile.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_store::snapshot::Snapshot;
use punctual_store::{Now, Turn};

use crate::config::Settings;
use crate::feed::senders::{NoneLeft, Senders};
use crate::log;
use crate::node::Shared;
use crate::persist::encode::{self, Header, Piece, Place};
use crate::reclaim::rounds;
use crate::replication::replica::{Filter, Phase, Replica};
use crate::script::functions::registry::Libraries;

/// Bytes that are read from the file at once.
const READ_BYTES: usize = 1 << 20;

/// Begins a synchronization of waiting replicas, if it is time, or plans the next look.
pub(crate) fn begin_if_due(shared: &Arc<Shared>, settings: &Settings, turn: &mut Turn) {
    let mut waiting = shared.replication.replicas.all();
    waiting.retain(|r| r.phase() == Phase::Waiting && r.socket.get().is_some());
    let Some(first) = waiting.first() else {
        return;
    };
    if shared.durability.is_loading() || shared.stopping.load(Ordering::Acquire) {
        return;
    }
    // Those who want the same parts share a walk.
    let filter = first.peer.filter;
    waiting.retain(|replica| replica.peer.filter == filter);
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
    // Only one walk goes through the keyspace at a time; the end of the other one calls for upkeep.
    if shared.durability.begin_walk() {
        begin(shared, turn, waiting, filter, to_sockets);
    }
}

/// The walk of a synchronization. Dropping it lets others begin, whatever has happened.
struct Walk {
    shared: Arc<Shared>,
    snapshot: Snapshot,
    complete: bool,
}

impl Drop for Walk {
    fn drop(&mut self) {
        if !self.complete {
            std::mem::take(&mut self.snapshot).abandon(&self.shared.store);
        }
        self.shared.durability.end_walk();
        self.shared.call_upkeep();
    }
}

/// A synchronization that has begun.
struct Job {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
    now: Now,
    libraries: Libraries,
    place: Place,
    replicas: Vec<Arc<Replica>>,
}

fn begin(
    shared: &Arc<Shared>,
    turn: &mut Turn,
    replicas: Vec<Arc<Replica>>,
    filter: Option<Filter>,
    to_sockets: bool,
) {
    let settings = shared.settings();
    turn.release();
    turn.lock_all();
    let libraries = match filter {
        Some(Filter { functions: false }) => Libraries::default(),
        _ => (*shared.scripting.functions.libraries()).clone(),
    };
    let walk = Walk {
        shared: Arc::clone(shared),
        snapshot: match filter {
            None => Snapshot::begin(turn, encode::format(&settings)),
            Some(_) => Snapshot::default(),
        },
        complete: false,
    };
    shared.durability.changelog.force_select();
    let place = {
        // PINGs are appended at any time, so the offset is read under the lock of the stream.
        let _stream = shared.replication.replicas.stream();
        let offset = shared.replication.offset();
        for replica in &replicas {
            replica.set_next(offset + 1);
            replica.set_phase(Phase::Receiving);
        }
        Place {
            id: shared.replication.ids().current,
            offset,
            // A replica passes its primary's stream on, which does not select again.
            db: match shared.replication.is_replica() {
                true => shared.replication.upstream.db(),
                false => 0,
            },
        }
    };
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
    if walk.snapshot.has_field_deadlines() {
        log::warning!(
            shared.logger,
            "Hash fields have deadlines: replicas before Redis 7.4 can't load the snapshot"
        );
    }
    let job = Job {
        shared: Arc::clone(shared),
        settings,
        now: turn.now,
        libraries,
        place,
        replicas: replicas.clone(),
    };
    let thread = shared
        .world
        .spawn("punctual-sync", move || job.run(walk, to_sockets));
    match thread {
        Ok(thread) => shared.replication.replicas.full_sync.add(thread),
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
    fn run(self, walk: Walk, to_sockets: bool) {
        let timeout = Duration::from_secs(self.settings.repl_timeout_s);
        let mut senders = Senders::new(&self.shared, timeout);
        for replica in &self.replicas {
            let mut head = Vec::new();
            if !replica.old_protocol {
                let Place { id, offset, .. } = self.place;
                head = format!("+FULLRESYNC {id} {offset}\r\n").into_bytes();
            }
            senders.add(replica, head);
        }
        let result = if to_sockets {
            self.stream(&mut senders, walk)
        } else {
            self.by_file(&mut senders, walk)
        };
        let shared = &self.shared;
        match result {
            Ok(()) if to_sockets => {
                log::notice!(
                    shared.logger,
                    "Background RDB transfer terminated with success"
                );
            }
            Ok(()) => {}
            Err(Failure::NoneLeft) => {
                log::warning!(shared.logger, "No replica is left for the RDB transfer");
            }
            Err(Failure::File(error)) => {
                log::warning!(
                    shared.logger,
                    "SYNC failed. BGSAVE for replication failed: {error}"
                );
                // They ask again.
                self.replicas.iter().for_each(|r| shared.close_replica(r));
            }
        }
        rounds::report_freed(shared, 0);
    }

    /// Encodes the snapshot, and ends the walk.
    fn encode<E>(
        &self,
        mut walk: Walk,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), Failure>
    where
        Failure: From<E>,
    {
        let mut header = Header::new(self.now, &self.libraries);
        header.place = Some(self.place);
        let shared = &self.shared;
        let store = &shared.store;
        let done = encode::encode(
            self.shared.world,
            &self.settings,
            &header,
            &mut walk.snapshot,
            |snapshot, out| snapshot.next(store, out),
            |piece| match piece {
                Piece::Bytes(bytes) => write(bytes).map_err(Failure::from),
                Piece::Keys(_) if shared.replication.replicas.full_sync.is_aborted() => {
                    Err(Failure::NoneLeft)
                }
                Piece::Keys(_) => Ok(()),
            },
        );
        walk.complete = done.is_ok();
        done
    }

    /// Sends the bytes as they are made.
    fn stream(&self, senders: &mut Senders<'_>, walk: Walk) -> Result<(), Failure> {
        let mark = self.shared.world.hex_digits::<40>();
        senders.push([b"$EOF:", &mark[..], b"\r\n"].concat())?;
        let sent = self.encode(walk, |bytes| senders.push(bytes.to_vec()));
        if sent.is_err() {
            // Half a payload is useless.
            senders.close_all();
        }
        sent?;
        senders.push(mark.to_vec())?;
        senders.finish(false, |replica| {
            if !replica.peer.rdb_only {
                log::notice!(
                    self.shared.logger,
                    "Streamed RDB transfer with replica {replica} succeeded (socket). Waiting for REPLCONF ACK from slave to enable streaming"
                );
            }
        })?;
        Ok(())
    }

    /// Writes a file, then sends it.
    fn by_file(&self, senders: &mut Senders<'_>, walk: Walk) -> Result<(), Failure> {
        let name = format!("temp-{}-sync.rdb", std::process::id());
        let path = self.settings.dir.join(name);
        let created = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path);
        // Only this descriptor keeps it, so nothing is left if the server ends.
        let opened = created.and_then(|file| std::fs::remove_file(&path).map(|()| file));
        let written = match opened {
            Ok(mut file) => self
                .encode(walk, |bytes| file.write_all(bytes))
                .map(|()| file),
            Err(error) => Err(error.into()),
        };
        let mut file = written.inspect_err(|_| senders.close_all())?;
        let len = file.metadata()?.len();
        file.rewind()?;
        senders.push(format!("${len}\r\n").into_bytes())?;
        loop {
            let mut block = Vec::with_capacity(READ_BYTES);
            if (&file).take(READ_BYTES as u64).read_to_end(&mut block)? == 0 {
                break;
            }
            senders.push(block)?;
        }
        senders.finish(true, |_| {})?;
        Ok(())
    }
}

/// Why a synchronization has failed.
enum Failure {
    /// No replica is left, or the server stops.
    NoneLeft,
    /// The file cannot be written or read.
    File(io::Error),
}

impl From<NoneLeft> for Failure {
    fn from(_: NoneLeft) -> Self {
        Self::NoneLeft
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}
