//! Tests with disks that fail: the replies to clients, and the contents of the files afterwards.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use punctual_harness::{PATIENCE, Wire, eventually};

use crate::server::{Builder, Server};
use crate::world::disk::{Disk, Files, Output};

/// Maximum duration of a simulated stall.
const STALL_MAX: Duration = Duration::from_secs(20);

/// Switches that make a disk fail.
#[derive(Clone, Default)]
struct Faults(Arc<Switches>);

#[derive(Default)]
struct Switches {
    /// Writes of incremental files write half of their bytes and fail, as on a full disk.
    full: AtomicBool,
    /// Writes of incremental files block.
    write_stalled: AtomicBool,
    /// The next sync of an incremental file fails, and the bytes since the last sync are lost.
    loses: AtomicBool,
    /// Syncs of incremental files that begin while this is set block, except the first `permits`.
    stalled: AtomicBool,
    permits: AtomicU64,
    /// Number of syncs that were begun while `stalled` was set.
    arrived: AtomicU64,
    /// Syncs of other files block.
    base_stalled: AtomicBool,
    /// The next sync of another file fails.
    base_fails: AtomicBool,
    /// Creation of files fails.
    read_only: AtomicBool,
    /// Number of operations that `full`, `loses` and `read_only` have affected.
    failures: AtomicU64,
}

struct FaultyFile {
    file: Box<dyn Output>,
    path: PathBuf,
    synced: AtomicU64,
    faults: Faults,
}

impl Faults {
    fn fails(&self, fault: impl Fn(&Switches) -> &AtomicBool) -> bool {
        let fails = fault(&self.0).load(Ordering::SeqCst);
        self.0.failures.fetch_add(fails.into(), Ordering::SeqCst);
        fails
    }
}

fn no_space() -> io::Error {
    io::Error::from_raw_os_error(28)
}

impl FaultyFile {
    fn is_incremental(&self) -> bool {
        self.path.to_string_lossy().ends_with(".incr.aof")
    }
}

impl io::Write for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_incremental() && self.faults.fails(|switches| &switches.full) {
            let half = bytes.len() / 2;
            if half > 0 {
                // The rest of the bytes fails in the next write.
                return self.file.write(&bytes[..half]);
            }
            return Err(no_space());
        }
        let end = Instant::now() + STALL_MAX;
        while self.is_incremental()
            && self.faults.0.write_stalled.load(Ordering::SeqCst)
            && Instant::now() < end
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for FaultyFile {
    fn sync(&self) -> io::Result<()> {
        let len = fs::metadata(&self.path)?.len();
        if self.is_incremental() && self.faults.0.stalled.load(Ordering::SeqCst) {
            let switches = &*self.faults.0;
            let number = switches.arrived.fetch_add(1, Ordering::SeqCst);
            let end = Instant::now() + STALL_MAX;
            while Instant::now() < end
                && switches.stalled.load(Ordering::SeqCst)
                && number >= switches.permits.load(Ordering::SeqCst)
            {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let end = Instant::now() + STALL_MAX;
        while !self.is_incremental()
            && self.faults.0.base_stalled.load(Ordering::SeqCst)
            && Instant::now() < end
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !self.is_incremental() && self.faults.0.base_fails.swap(false, Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(5));
        }
        if self.is_incremental() && self.faults.0.loses.swap(false, Ordering::SeqCst) {
            self.faults.0.failures.fetch_add(1, Ordering::SeqCst);
            // The kernel drops the pages, so a later reader finds zeros.
            let file = fs::OpenOptions::new().write(true).open(&self.path)?;
            file.set_len(self.synced.load(Ordering::SeqCst))?;
            file.set_len(len)?;
            return Err(io::Error::from_raw_os_error(5));
        }
        self.file.sync()?;
        self.synced.store(len, Ordering::SeqCst);
        Ok(())
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.file.truncate(bytes)
    }
}

impl Faults {
    fn wrap(&self, path: &Path, file: Box<dyn Output>) -> io::Result<Box<dyn Output>> {
        Ok(Box::new(FaultyFile {
            file,
            path: path.to_owned(),
            synced: fs::metadata(path)?.len().into(),
            faults: self.clone(),
        }))
    }
}

impl Files for Faults {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        if self.fails(|switches| &switches.read_only) {
            return Err(io::Error::from_raw_os_error(30));
        }
        self.wrap(path, Disk::default().create(path)?)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        self.wrap(path, Disk::default().append(path)?)
    }
}

struct Client {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Client {
    fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        Self { stream, lines }
    }

    fn send(&mut self, line: &str) {
        self.stream
            .write_all(format!("{line}\r\n").as_bytes())
            .unwrap();
    }

    /// Returns the first line of the reply, or the body of a bulk string; `None` if the connection
    /// is closed.
    fn reply(&mut self) -> Option<String> {
        let mut line = String::new();
        // A reset also ends the connection.
        if self.lines.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        if let Some(len) = line.strip_prefix('$') {
            if len.trim() == "-1" {
                return Some("$-1".to_owned());
            }
            let mut body = vec![0; len.trim().parse::<usize>().unwrap() + 2];
            self.lines.read_exact(&mut body).unwrap();
            line = String::from_utf8(body).unwrap();
        }
        Some(line.trim_end().to_owned())
    }

    fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.reply().expect("the connection is open")
    }

    /// Returns whether a line of INFO begins with `field`.
    fn info(&mut self, field: &str) -> bool {
        let info = self.ask("INFO everything");
        info.lines().any(|line| line.starts_with(field))
    }

    /// Returns whether a reply has arrived.
    fn has_reply(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let read = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        read.is_ok()
    }
}

fn builder(folder: &Path, sync: &str) -> Builder {
    Server::builder()
        .port(0)
        .option("dir", folder.to_str().unwrap())
        .option("logfile", folder.join("log").to_str().unwrap())
        .option("save", "")
        .option("appendonly", "yes")
        .option("appendfsync", sync)
}

fn start(folder: &Path, sync: &str) -> (Server, Faults) {
    start_with(builder(folder, sync))
}

fn start_with(builder: Builder) -> (Server, Faults) {
    let faults = Faults::default();
    let disk = Disk::new(Arc::new(faults.clone()));
    let server = builder.disk(disk).spawn().unwrap();
    (server, faults)
}

const FULL: &str = "-MISCONF Errors writing to the AOF file: No space left on device";

/// Asserts that a server that loads the files has this value.
#[track_caller]
fn assert_loaded(folder: &Path, key: &str, value: &str) {
    let server = builder(folder, "no").spawn().unwrap();
    assert_eq!(Client::connect(&server).ask(&format!("GET {key}")), value);
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    for sync in ["everysec", "no"] {
        let folder = tempfile::tempdir().unwrap();
        let (server, faults) = start(folder.path(), sync);
        let mut c = Client::connect(&server);
        assert_eq!(c.ask("SET k 1"), "+OK");
        let path = folder
            .path()
            .join("appendonlydir/appendonly.aof.1.incr.aof");
        let written = fs::read(&path).unwrap();
        assert!(written.ends_with(b"1\r\n"));
        faults.0.full.store(true, Ordering::SeqCst);
        // The server accepts the write, because the writer's first failure comes later.
        c.send("SET k accepted");
        assert_eq!(c.reply(), None, "disconnected");
        let mut c = Client::connect(&server);
        assert!(c.info("aof_last_write_status:err"));
        assert_eq!(c.ask("SET k 3"), FULL);
        assert_eq!(c.ask("PING"), FULL);
        assert_eq!(c.ask("GET k"), "accepted");
        // Acknowledged writes stay in the file while the writer retries.
        eventually(|| faults.0.failures.load(Ordering::SeqCst) >= 5);
        assert!(fs::read(&path).unwrap().starts_with(&written));
        faults.0.full.store(false, Ordering::SeqCst);
        eventually(|| c.info("aof_last_write_status:ok"));
        assert_eq!(c.ask("SET later 1"), "+OK");
        server.shutdown();
        assert_loaded(folder.path(), "k", "accepted");
        assert_loaded(folder.path(), "later", "1");
    }
}

/// Returns the values of BACKUP STATUS that are texts.
fn backup_status(c: &mut Wire) -> String {
    let reply = c.run("BACKUP STATUS");
    let fields = reply.as_slice().unwrap().iter();
    let texts = fields.map(|field| String::from_utf8_lossy(field.as_bytes().unwrap_or(b"")));
    texts.collect::<Vec<_>>().join(" ")
}

/// Without an append-only file, a full disk fails a backup and no write.
#[test]
fn a_full_disk_fails_only_the_backup() {
    let folder = tempfile::tempdir().unwrap();
    let (server, faults) = start_with(builder(folder.path(), "always").option("appendonly", "no"));
    let mut c = Wire::to(server.port());
    c.run("BACKUP START");
    eventually(|| backup_status(&mut c).contains("incrementing"));
    faults.0.full.store(true, Ordering::SeqCst);
    c.expect(&["SET k 1", "SET k 2"], "+OK|+OK|");
    eventually(|| backup_status(&mut c).contains("No space left on device"));
    c.expect(&["SET k 3", "PING"], "+OK|+PONG|");
    assert_eq!(c.info("persistence", "aof_last_write_status"), "ok");
    faults.0.full.store(false, Ordering::SeqCst);
    let backups = folder.path().join("backupdir");
    eventually(|| fs::read_dir(&backups).unwrap().next().is_none());
    c.run("BACKUP START");
    eventually(|| backup_status(&mut c).contains("incrementing"));
    c.expect(&["BACKUP SEAL"], "+OK|");
}

/// A backup takes the base of a rewrite that is running, and a failed sync fails its SEAL.
#[test]
fn a_backup_joins_a_rewrite() {
    let folder = tempfile::tempdir().unwrap();
    let (server, faults) = start(folder.path(), "no");
    let mut c = Wire::to(server.port());
    faults.0.base_stalled.store(true, Ordering::SeqCst);
    c.run("SET k 1");
    c.run("BGREWRITEAOF");
    c.expect(&["BACKUP START"], "+OK|");
    assert!(backup_status(&mut c).contains("snapshotting"));
    faults.0.base_stalled.store(false, Ordering::SeqCst);
    eventually(|| backup_status(&mut c).contains("incrementing"));
    eventually(|| c.info("persistence", "aof_rewrite_in_progress") == "0");
    assert_eq!(c.info("persistence", "aof_rewrites"), "1");
    c.run("SET k 2");
    faults.0.loses.store(true, Ordering::SeqCst);
    c.send(&["BACKUP SEAL"]);
    assert!(c.value().is_error());
    assert!(backup_status(&mut c).contains("failed"));
    let backups = folder.path().join("backupdir");
    assert!(fs::read_dir(&backups).unwrap().next().is_none());
}

#[test]
fn a_failed_sync_never_counts_as_done() {
    let folder = tempfile::tempdir().unwrap();
    let (server, faults) = start(folder.path(), "everysec");
    let mut c = Client::connect(&server);
    faults.0.loses.store(true, Ordering::SeqCst);
    assert_eq!(c.ask("SET k written"), "+OK");
    eventually(|| faults.0.failures.load(Ordering::SeqCst) > 0);
    eventually(|| c.info("aof_last_write_status:ok"));
    // The status in INFO may be from before the failure.
    eventually(|| c.ask("SET later 1") == "+OK");
    server.shutdown();
    assert_loaded(folder.path(), "k", "written");
    assert_loaded(folder.path(), "later", "1");
}

#[test]
fn with_always_no_reply_reveals_a_lost_write() {
    let folder = tempfile::tempdir().unwrap();
    let (server, faults) = start(folder.path(), "always");
    let (mut writer, mut reader) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(writer.ask("SET k 1"), "+OK");
    faults.0.full.store(true, Ordering::SeqCst);
    writer.send("SET k 2");
    assert_eq!(writer.reply(), None, "disconnected");
    assert_eq!(reader.ask("SET k 3"), FULL);
    assert!(["1", "2"].contains(&&*reader.ask("GET k")));
    assert_eq!(reader.ask("GET none"), "$-1");
    faults.0.full.store(false, Ordering::SeqCst);
    eventually(|| reader.info("aof_last_write_status:ok"));
    // The failing sync may cover only bytes that are written again, for which no client waits.
    eventually(|| {
        faults.0.loses.store(true, Ordering::SeqCst);
        reader.send("SET k 4");
        reader.reply().is_none()
    });
    let mut c = Client::connect(&server);
    eventually(|| c.ask("SET after 1") == "+OK");
    server.shutdown();
    assert_loaded(folder.path(), "k", "4");
    assert_loaded(folder.path(), "after", "1");
}

#[test]
fn a_sync_that_fails_after_a_failed_write_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (server, faults) = start(folder.path(), "always");
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(&server)).collect();
    let [first, second, other] = &mut clients[..] else {
        unreachable!();
    };
    assert_eq!(other.ask("SET other 1"), "+OK");
    faults.0.stalled.store(true, Ordering::SeqCst);
    first.send("SET k synced-in-vain");
    eventually(|| faults.0.arrived.load(Ordering::SeqCst) > 0);
    // Another thread writes the next change, and fails, while the first change is being synced.
    faults.0.full.store(true, Ordering::SeqCst);
    second.send("SET l 1");
    eventually(|| other.info("aof_last_write_status:err"));
    faults.0.loses.store(true, Ordering::SeqCst);
    faults.0.stalled.store(false, Ordering::SeqCst);
    eventually(|| !faults.0.loses.load(Ordering::SeqCst));
    faults.0.full.store(false, Ordering::SeqCst);
    eventually(|| other.info("aof_last_write_status:ok"));
    eventually(|| other.ask("SET later 1") == "+OK");
    server.shutdown();
    for (key, value) in [("k", "synced-in-vain"), ("l", "1"), ("later", "1")] {
        assert_loaded(folder.path(), key, value);
    }
}

#[test]
fn a_rewrite_that_fails_leaves_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let (server, faults) = start(folder.path(), "everysec");
    let mut c = Client::connect(&server);
    assert_eq!(c.ask("SET k 1"), "+OK");
    faults.0.read_only.store(true, Ordering::SeqCst);
    assert_eq!(
        c.ask("BGREWRITEAOF"),
        "+Background append only file rewriting started"
    );
    eventually(|| c.info("aof_last_bgrewrite_status:err") && c.info("aof_rewrite_in_progress:0"));
    assert_eq!(c.ask("SET k 2"), "+OK", "the old files go on");
    faults.0.read_only.store(false, Ordering::SeqCst);
    c.ask("BGREWRITEAOF");
    eventually(|| c.info("aof_last_bgrewrite_status:ok") && c.info("aof_rewrite_in_progress:0"));
    assert_eq!(c.ask("SET later 1"), "+OK");
    server.shutdown();
    assert_loaded(folder.path(), "k", "2");
    assert_loaded(folder.path(), "later", "1");
}

#[test]
fn a_first_base_that_fails_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let builder = builder(folder.path(), "everysec").option("appendonly", "no");
    let (server, faults) = start_with(builder);
    let mut c = Client::connect(&server);
    assert_eq!(c.ask("SET k 1"), "+OK");
    faults.0.base_fails.store(true, Ordering::SeqCst);
    assert_eq!(c.ask("CONFIG SET appendonly yes"), "+OK");
    eventually(|| !faults.0.base_fails.load(Ordering::SeqCst));
    eventually(|| c.info("aof_last_bgrewrite_status:ok") && c.info("aof_rewrite_in_progress:0"));
    assert_eq!(c.ask("SET later 1"), "+OK");
    server.shutdown();
    assert_loaded(folder.path(), "k", "1");
    assert_loaded(folder.path(), "later", "1");
}

#[test]
fn with_always_replies_wait_only_for_what_they_reveal() {
    let folder = tempfile::tempdir().unwrap();
    let (server, faults) = start(folder.path(), "always");
    let mut clients: Vec<_> = (0..4).map(|_| Client::connect(&server)).collect();
    let [writer, same, whole, other] = &mut clients[..] else {
        unreachable!();
    };
    assert_eq!(other.ask("SET other 1"), "+OK");
    faults.0.stalled.store(true, Ordering::SeqCst);
    writer.send("SET k 1");
    eventually(|| other.info("cmdstat_set:calls=2,"));
    same.send("GET k");
    whole.send("DBSIZE");
    eventually(|| other.info("cmdstat_get:calls=1,") && other.info("cmdstat_dbsize:calls=1,"));
    assert_eq!(other.ask("GET other"), "1");
    for (name, waits) in [("writer", &mut *writer), ("same", same), ("whole", whole)] {
        assert!(!waits.has_reply(), "{name}: {:?}", waits.reply());
    }
    // A later write waits for a later sync, and does not delay the first reply.
    writer.send("SET k 2");
    eventually(|| other.info("cmdstat_set:calls=3,"));
    faults.0.permits.store(1, Ordering::SeqCst);
    assert_eq!(writer.reply().unwrap(), "+OK");
    assert_eq!(same.reply().unwrap(), "1");
    assert_eq!(whole.reply().unwrap(), ":2");
    assert_eq!(other.ask("GET other"), "1");
    assert!(!writer.has_reply());
    faults.0.stalled.store(false, Ordering::SeqCst);
    assert_eq!(writer.reply().unwrap(), "+OK");
    server.shutdown();
}

#[test]
fn a_slow_write_delays_only_replies_that_reveal_it() {
    for (sync, threads) in [("everysec", 1), ("no", 1), ("everysec", 3)] {
        let folder = tempfile::tempdir().unwrap();
        let (server, faults) = start_with(builder(folder.path(), sync).threads(threads));
        let mut clients: Vec<_> = (0..6).map(|_| Client::connect(&server)).collect();
        let [writer, same, whole, script, other, another] = &mut clients[..] else {
            unreachable!();
        };
        assert_eq!(other.ask("SET other 1"), "+OK");
        faults.0.write_stalled.store(true, Ordering::SeqCst);
        writer.send("SET k 1");
        eventually(|| other.info("cmdstat_set:calls=2,"));
        same.send("GET k");
        whole.send("DBSIZE");
        script.send("EVAL \"return redis.call('INCR','n')\" 1 n");
        eventually(|| other.info("cmdstat_get:calls=1,") && other.info("cmdstat_eval:calls=1,"));
        eventually(|| other.info("cmdstat_dbsize:calls=1,"));
        for number in 0..100 {
            assert_eq!(other.ask("GET other"), "1");
            assert_eq!(another.ask(&format!("GET none{number}")), "$-1");
        }
        let waiting = [&mut *writer, same, whole, script];
        for (number, client) in waiting.into_iter().enumerate() {
            assert!(!client.has_reply(), "{number}: {:?}", client.reply());
        }
        faults.0.write_stalled.store(false, Ordering::SeqCst);
        assert_eq!(writer.reply().unwrap(), "+OK");
        assert_eq!(same.reply().unwrap(), "1");
        assert!([":2", ":3"].contains(&&*whole.reply().unwrap()));
        assert_eq!(script.reply().unwrap(), ":1");
        server.shutdown();
        assert_loaded(folder.path(), "n", "1");
    }
}

#[test]
fn with_everysec_a_slow_sync_delays_no_write() {
    let folder = tempfile::tempdir().unwrap();
    let (server, faults) = start(folder.path(), "everysec");
    let mut c = Client::connect(&server);
    faults.0.stalled.store(true, Ordering::SeqCst);
    let path = folder
        .path()
        .join("appendonlydir/appendonly.aof.1.incr.aof");
    for n in 1..=2 {
        assert_eq!(c.ask(&format!("SET k written{n}")), "+OK");
        // Only one sync runs at a time.
        eventually(|| faults.0.arrived.load(Ordering::SeqCst) == 1);
        let end = format!("written{n}\r\n");
        eventually(|| fs::read(&path).is_ok_and(|bytes| bytes.ends_with(end.as_bytes())));
    }
    faults.0.stalled.store(false, Ordering::SeqCst);
    assert_eq!(c.ask("WAITAOF 1 0 0"), "*2");
    assert_eq!(c.reply().as_deref(), Some(":1"));
    server.shutdown();
    assert_loaded(folder.path(), "k", "written2");
}

#[test]
fn no_appendfsync_on_rewrite_stops_syncs_during_a_rewrite() {
    let folder = tempfile::tempdir().unwrap();
    let (server, faults) = start(folder.path(), "always");
    let (mut c, mut writer) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(c.ask("SET k 1"), "+OK");
    assert_eq!(c.ask("CONFIG SET no-appendfsync-on-rewrite yes"), "+OK");
    faults.0.base_stalled.store(true, Ordering::SeqCst);
    c.ask("BGREWRITEAOF");
    let next = "appendonlydir/appendonly.aof.2.incr.aof";
    eventually(|| folder.path().join(next).exists());
    faults.0.stalled.store(true, Ordering::SeqCst);
    assert_eq!(writer.ask("SET k 2"), "+OK");
    assert!(c.info("aof_rewrite_in_progress:1"));
    assert_eq!(c.ask("CONFIG SET no-appendfsync-on-rewrite no"), "+OK");
    writer.send("SET k 3");
    eventually(|| c.info("cmdstat_set:calls=3,"));
    assert!(!writer.has_reply());
    faults.0.stalled.store(false, Ordering::SeqCst);
    assert_eq!(writer.reply().unwrap(), "+OK");
    faults.0.base_stalled.store(false, Ordering::SeqCst);
    eventually(|| c.info("aof_rewrite_in_progress:0"));
    server.shutdown();
    assert_loaded(folder.path(), "k", "3");
}

#[test]
fn clients_wait_for_a_disk_that_is_far_behind() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let (server, faults) = start(folder.path(), "everysec");
    let mut c = Client::connect(&server);
    faults.0.stalled.store(true, Ordering::SeqCst);
    let mut sender = Client::connect(&server);
    let sender = std::thread::spawn(move || {
        let value = "x".repeat(1 << 15);
        // 400 values of 32 KiB are much more than the 4 MiB that the log keeps for a slow disk in
        // tests.
        for number in 0..400 {
            assert_eq!(sender.ask(&format!("SET k {number}{value}")), "+OK");
        }
    });
    let waits = || fs::read_to_string(&log).is_ok_and(|text| text.contains("taking too long"));
    eventually(waits);
    assert!(!sender.is_finished());
    faults.0.stalled.store(false, Ordering::SeqCst);
    sender.join().unwrap();
    assert!(!c.info("aof_delayed_fsync:0"));
    assert_eq!(c.ask("SET later 1"), "+OK");
    server.shutdown();
    let value = format!("399{}", "x".repeat(1 << 15));
    assert_loaded(folder.path(), "k", &value);
    assert_loaded(folder.path(), "later", "1");
}
