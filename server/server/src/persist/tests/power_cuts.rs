//! Power cuts at random moments of saves and of the append-only file. A server that starts after a
//! cut has the state after some number of complete writes (a transaction is one write), and no
//! write that was acknowledged as durable is lost.
//!
//! A server runs with files that record every operation
//! ([`recorder`](crate::world::disk::recorder)). For each of many cuts, a second server starts with
//! files that a device may hold after a cut at a random position of the recording.
//! `PUNCTUAL_POWER_CUTS` sets the number of cuts of each test, and `PUNCTUAL_SEED` their seed,
//! which a failure prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_harness::{Wire, number};
use punctual_resp::Value;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tempfile::TempDir;

use crate::config::Config;
use crate::server::{Builder, Server};
use crate::start_error::StartError;
use crate::world::disk::Disk;
use crate::world::disk::recorder::{Device, Log, Mark, Recorder, Remains};

/// Number of cuts of each test, unless `PUNCTUAL_POWER_CUTS` sets another number.
const CUTS: u64 = 120;
/// Number of keys that plain writes use.
const KEYS: u64 = 25;
/// Each write whose number is a multiple of this number is a FLUSHALL.
const FLUSH_EVERY: u64 = 97;

/// The keys and values of a keyspace.
type State = BTreeMap<String, String>;

/// Returns the commands of write `n`: a transaction, a plain write or a FLUSHALL.
fn commands(n: u64) -> Vec<String> {
    match n {
        _ if n.is_multiple_of(FLUSH_EVERY) => vec!["FLUSHALL".into()],
        _ if n.is_multiple_of(3) => vec![
            "MULTI".into(),
            format!("SET a {n}"),
            format!("SET b {n}"),
            format!("SET c{} {n}", n % KEYS),
            "EXEC".into(),
        ],
        _ => vec![format!("SET k{} {n}", n % KEYS)],
    }
}

/// Applies write `n` to a state, as the server does.
fn apply(state: &mut State, n: u64) {
    for command in commands(n) {
        match command.split(' ').collect::<Vec<_>>()[..] {
            ["SET", key, value] => drop(state.insert(key.to_owned(), value.to_owned())),
            ["FLUSHALL"] => state.clear(),
            _ => {}
        }
    }
}

/// Returns the states after 0, 1, 2 ... writes.
fn states(writes: u64) -> Vec<State> {
    let mut states = vec![State::new()];
    for n in 1..=writes {
        let mut state = states[states.len() - 1].clone();
        apply(&mut state, n);
        states.push(state);
    }
    states
}

/// Returns all keys and values of a server.
fn found(server: &Server) -> State {
    let mut client = Wire::to(server.port());
    let text = |value: &Value| String::from_utf8_lossy(value.as_bytes().unwrap()).into_owned();
    let keys: Vec<String> = match client.run("KEYS *").as_slice() {
        Some([]) => return State::new(),
        Some(keys) => keys.iter().map(text).collect(),
        None => panic!("KEYS"),
    };
    let values = client.run(&format!("MGET {}", keys.join(" ")));
    let values = values.as_slice().unwrap().iter().map(text);
    keys.into_iter().zip(values).collect()
}

/// A server on recorded files, with a client.
struct Recording {
    recorder: Recorder,
    /// Number of writes that are sent, and number of writes that are durable.
    mark: Mark,
    client: Wire,
    /// Whether every acknowledged write is durable.
    always: bool,
    server: Server,
}

impl Recording {
    fn begin(folder: &Path, options: &Options) -> Self {
        let recorder = Recorder::default();
        let disk = Disk::new(Arc::new(recorder.clone()));
        let server = options.builder(folder).disk(disk).spawn().unwrap();
        Self {
            recorder,
            mark: Mark::default(),
            client: Wire::to(server.port()),
            always: options.always,
            server,
        }
    }

    /// Sends `count` writes at once and waits for their replies.
    fn write(&mut self, count: u64) {
        let first = self.mark.sent + 1;
        self.mark.sent += count;
        self.recorder.mark(self.mark);
        let lines: Vec<Vec<String>> = (first..first + count).map(commands).collect();
        self.client.send(&lines.concat());
        for (n, commands) in (first..).zip(lines) {
            for command in &commands {
                let reply = self.client.value();
                assert!(!reply.is_error(), "{command}: {reply:?}");
            }
            if self.always {
                self.durable(n);
            }
        }
    }

    /// Records that from now on a cut must not lose the first `writes` writes.
    fn durable(&mut self, writes: u64) {
        self.mark.durable = writes;
        self.recorder.mark(self.mark);
    }

    fn end(self) -> (Log, u64) {
        let log = self.recorder.log();
        self.server.shutdown();
        (log, self.mark.sent)
    }
}

/// Configuration of the recorded server and of the servers that start after a cut.
struct Options {
    /// Built once, because that takes longer than the rest of a start.
    config: Config,
    always: bool,
}

impl Options {
    fn new(options: &[(&str, &str)], always: bool) -> Self {
        let mut config = Config::new().unwrap();
        for (name, value) in options {
            config.option(name, value).unwrap();
        }
        Self { config, always }
    }

    fn builder(&self, folder: &Path) -> Builder {
        let builder = Server::builder().config(self.config.clone()).port(0);
        builder.option("dir", folder.to_str().unwrap())
    }
}

/// With `appendfsync always`, one in this many starts after a cut is followed by a second cut.
const CUTS_AGAIN: u64 = 4;

/// The cuts of one test.
struct Cuts<'s> {
    /// The folder of the recorded server.
    folder: &'s Path,
    options: &'s Options,
    rng: StdRng,
    /// Number of refused starts, by reason.
    refused: BTreeMap<String, u64>,
}

impl Cuts<'_> {
    /// Writes the contents of a device into a folder.
    fn write(&self, remains: &Remains, to: &Path) -> Remains {
        let place = |path: &Path| to.join(path.strip_prefix(self.folder).unwrap());
        let folders: BTreeSet<PathBuf> = remains.folders.iter().map(|path| place(path)).collect();
        let files = remains.files.iter();
        let files: BTreeMap<PathBuf, Vec<u8>> = files.map(|(p, b)| (place(p), b.clone())).collect();
        for path in &folders {
            fs::create_dir_all(path).unwrap();
        }
        for (path, bytes) in &files {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let mark = remains.mark;
        Remains {
            files,
            folders,
            mark,
        }
    }

    /// Starts a server with the contents of a device. Returns `None` if the server refuses the
    /// files. The server may refuse them only after a cut of [`Device::AnyOrder`], and the error
    /// must name a path in the folder.
    fn start(
        &mut self,
        remains: &Remains,
        to: &Path,
        device: Device,
        cut: &str,
    ) -> Option<(Server, Recorder)> {
        let Remains { files, folders, .. } = self.write(remains, to);
        let recorder = Recorder::holding(&files, &folders);
        let disk = Disk::new(Arc::new(recorder.clone()));
        match self.options.builder(to).disk(disk).spawn() {
            Ok(server) => Some((server, recorder)),
            Err(StartError::Load(error)) => {
                let (text, folder) = (error.to_string(), to.to_str().unwrap());
                assert!(
                    device == Device::AnyOrder && text.contains(folder),
                    "{cut}: {text}"
                );
                // The reason, without the path and the numbers.
                let text = text.replace(folder, "");
                let reason = text.chars().filter(|c| !c.is_ascii_digit()).collect();
                *self.refused.entry(reason).or_default() += 1;
                None
            }
            Err(error) => panic!("{cut}: {error}"),
        }
    }

    /// Writes to a server that has started after a cut, cuts the power again, and checks that the
    /// next server finds the same state, with at least the acknowledged ones of these writes.
    fn again(&mut self, server: Server, recorder: &Recorder, state: State, to: &Path, cut: &str) {
        let mut client = Wire::to(server.port());
        for n in 1..=3 {
            let acknowledged = Mark {
                sent: n,
                durable: n,
            };
            recorder.mark(Mark {
                durable: n - 1,
                ..acknowledged
            });
            client.run(&format!("SET again {n}"));
            recorder.mark(acknowledged);
        }
        let log = recorder.log();
        server.shutdown();
        let position = self.rng.random_range(0..=log.len());
        let remains = log.after_cut(position, Device::InOrder, &mut self.rng);
        let mut back = Cuts {
            folder: to,
            options: self.options,
            rng: StdRng::seed_from_u64(0),
            refused: BTreeMap::new(),
        };
        let folder = memory_folder();
        let cut = format!("{cut}, and then at operation {position} of {}", log.len());
        let (server, _) = back
            .start(&remains, folder.path(), Device::InOrder, &cut)
            .expect("files of a device that writes in order are never refused");
        let mut found = found(&server);
        server.shutdown();
        let again = found.remove("again").map_or(0, |n| n.parse().unwrap());
        let mark = remains.mark;
        assert!(
            (mark.durable..=mark.sent).contains(&again),
            "{cut}: {mark:?}, but {again}"
        );
        assert_eq!(found, state, "{cut}");
    }
}

/// Returns a temporary folder, in memory if possible: recovered servers need no real device.
fn memory_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    folder.unwrap()
}

/// Cuts the power at random positions, and starts a server with the remaining files.
fn cut(folder: &Path, log: &Log, writes: u64, options: &Options) {
    let seed = number("PUNCTUAL_SEED").unwrap_or_else(rand::random);
    let states = states(writes);
    let mut lost = 0;
    let mut all = Cuts {
        folder,
        options,
        rng: StdRng::seed_from_u64(seed),
        refused: BTreeMap::new(),
    };
    let cuts = number("PUNCTUAL_POWER_CUTS").unwrap_or(CUTS);
    for number in 0..cuts {
        let device = if number % 2 == 0 {
            Device::InOrder
        } else {
            Device::AnyOrder
        };
        let position = all.rng.random_range(0..=log.len());
        let remains = log.after_cut(position, device, &mut all.rng);
        let cut = format!(
            "PUNCTUAL_SEED={seed}, cut {number} at operation {position} of {}, {device:?}",
            log.len()
        );
        let mark = remains.mark;
        let after = memory_folder();
        let Some((server, recorder)) = all.start(&remains, after.path(), device, &cut) else {
            continue;
        };
        let state = found(&server);
        let possible = mark.durable as usize..=mark.sent as usize;
        lost += u64::from(state != states[mark.sent as usize]);
        if !states[possible].contains(&state) {
            let which = states.iter().position(|known| *known == state);
            panic!("{cut}: {mark:?}, but the state is that of write {which:?}: {state:?}");
        }
        if options.always && number % CUTS_AGAIN == 0 {
            all.again(server, &recorder, state, after.path(), &cut);
        } else {
            server.shutdown();
        }
    }
    println!(
        "{cuts} cuts over {} operations: {lost} starts without the last writes, refused: {:#?}",
        log.len(),
        all.refused
    );
    assert!(lost > 0, "no cut has lost a write: nothing was cut");
}

#[test]
fn a_cut_during_saves_loses_no_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    // FLUSHALL saves because there is a save point. The save point itself is never reached.
    let options = Options::new(&[("save", "10000 100000")], false);
    let mut recording = Recording::begin(folder.path(), &options);
    let mut saves = 0;
    while recording.mark.sent < 400 {
        let before = recording.mark.sent;
        recording.write(7);
        if let Some(flushed) = (before + 1..=before + 7).find(|n| n.is_multiple_of(FLUSH_EVERY)) {
            saves += 1;
            recording.durable(flushed);
        }
        match recording.mark.sent % 4 {
            0 => {
                recording.client.run("SAVE");
                saves += 1;
                recording.durable(recording.mark.sent);
            }
            1 | 2 => {
                let saved = recording.mark.sent;
                recording.client.run("BGSAVE");
                recording.write(1);
                while recording
                    .client
                    .info("persistence", "rdb_bgsave_in_progress")
                    == "1"
                {
                    std::thread::yield_now();
                }
                saves += 1;
                // FLUSHALL aborts a running save and saves by itself.
                let flushed = saved + 1;
                recording.durable(if flushed.is_multiple_of(FLUSH_EVERY) {
                    flushed
                } else {
                    saved
                });
            }
            _ => {}
        }
    }
    assert!(saves > 50);
    let (log, writes) = recording.end();
    cut(folder.path(), &log, writes, &options);
}

/// With `appendfsync always`, every acknowledged write survives: in incremental files, in rewrites,
/// and while manifests change.
#[test]
fn a_cut_loses_no_acknowledged_write() {
    let folder = tempfile::tempdir().unwrap();
    let options = [
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("auto-aof-rewrite-percentage", "0"),
        ("save", ""),
    ];
    let options = Options::new(&options, true);
    let mut recording = Recording::begin(folder.path(), &options);
    let rewritten = |client: &mut Wire| {
        while client.info("persistence", "aof_rewrite_in_progress") == "1" {
            std::thread::yield_now();
        }
    };
    for step in 0..150 {
        recording.write(1 + step % 5);
        match step % 16 {
            // The writes of the next steps may run during this rewrite.
            3 => drop(recording.client.run("BGREWRITEAOF")),
            // No write runs during this rewrite.
            7 | 11 => {
                rewritten(&mut recording.client);
                recording.client.run("BGREWRITEAOF");
                rewritten(&mut recording.client);
            }
            9 => drop(recording.client.run("SAVE")),
            13 => {
                rewritten(&mut recording.client);
                // Until the new base is complete, a start loads the files as they are after this
                // command, so the writes below are not durable.
                recording.client.run("CONFIG SET appendonly no");
                recording.always = false;
                recording.write(3);
                recording.client.run("CONFIG SET appendonly yes");
                recording.write(2);
                rewritten(&mut recording.client);
                recording.always = true;
                recording.durable(recording.mark.sent);
            }
            _ => {}
        }
    }
    let (log, writes) = recording.end();
    cut(folder.path(), &log, writes, &options);
}

/// A sealed backup loads with the writes before SEAL, however the power fails afterwards. Before
/// that, the folder has no manifest or loads with some number of complete writes.
#[test]
fn a_cut_loses_no_sealed_backup() {
    for append_only in ["yes", "no"] {
        let folder = tempfile::tempdir().unwrap();
        let recorded = [("appendonly", append_only), ("save", "")];
        let recorded = Options::new(&recorded, false);
        let mut recording = Recording::begin(folder.path(), &recorded);
        recording.write(10);
        recording.client.run("BACKUP START");
        let listed = |client: &mut Wire| client.run("BACKUP LIST").as_slice().map_or(0, <[_]>::len);
        while listed(&mut recording.client) == 0 {
            std::thread::yield_now();
        }
        for _ in 0..40 {
            recording.write(1);
        }
        assert!(!recording.client.run("BACKUP SEAL").is_error());
        recording.durable(recording.mark.sent);
        // The backup does not have what follows.
        for n in 0..10 {
            recording.client.run(&format!("SET later {n}"));
        }
        recording.client.run("BGREWRITEAOF");
        let rewrites = |client: &mut Wire| client.info("persistence", "aof_rewrite_in_progress");
        while rewrites(&mut recording.client) == "1" {
            std::thread::yield_now();
        }
        let (log, writes) = recording.end();
        let restored = [
            ("appendonly", "yes"),
            ("appenddirname", "backupdir"),
            ("save", ""),
        ];
        let restored = Options::new(&restored, false);
        cut(folder.path(), &log, writes, &restored);
    }
}
