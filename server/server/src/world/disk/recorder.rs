//! A file system that records every operation, for tests of power cuts.
//!
//! [`Recorder`] carries out each operation on the real file system, so the server runs normally,
//! and appends it to a [`Log`]. [`Log::after_cut`] builds the files that a device may hold if the
//! power fails at a position of the log: everything that was synced, and a random part of the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _};

use crate::world::disk::{Files, Output, System};

/// Number of a file. One name may refer to different files over time.
type FileId = usize;

/// State of the writes of the test's client at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Number of writes that the client has sent.
    pub(crate) sent: u64,
    /// Number of these writes, from the first on, that must survive a power cut from this instant
    /// on.
    pub(crate) durable: u64,
}

#[derive(Clone, Debug)]
enum Op {
    /// Gives a new or an existing file a name that no file has.
    Create {
        path: PathBuf,
        file: FileId,
    },
    Write {
        file: FileId,
        bytes: Arc<[u8]>,
    },
    Truncate {
        file: FileId,
        length: usize,
    },
    /// A sync of a file. It covers the operations before position `covers` of the log.
    Sync {
        file: FileId,
        covers: usize,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        file: FileId,
    },
    Remove {
        path: PathBuf,
        file: FileId,
    },
    CreateFolder {
        path: PathBuf,
    },
    /// A sync of a folder's names. It covers the operations before position `covers` of the log.
    SyncFolder {
        path: PathBuf,
        covers: usize,
    },
    /// A change of the state of the client's writes.
    Mark(Mark),
}

/// The way in which a device loses writes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// Keeps each file's unsynced writes up to a random one, and the unsynced changes of names up
    /// to a random one, as a file system with a journal does.
    InOrder,
    /// Keeps any of the unsynced changes of names, and any of the unsynced writes, each whole or in
    /// part. Lost bytes read as zeros.
    AnyOrder,
}

/// The log of operations on files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    ops: Vec<Op>,
    /// The file that each name refers to, as the running server sees it.
    names: BTreeMap<PathBuf, FileId>,
    /// Number of files that were ever created.
    files: usize,
    /// Number of operations at the start of the log that created the initial files.
    initial: usize,
}

/// Contents of a device after a power cut.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    pub(crate) files: BTreeMap<PathBuf, Vec<u8>>,
    pub(crate) folders: BTreeSet<PathBuf>,
    /// State of the client's writes at the power cut.
    pub(crate) mark: Mark,
}

impl Log {
    /// Returns the number of operations since the recorder was created.
    pub(crate) fn len(&self) -> usize {
        self.ops.len() - self.initial
    }

    /// Returns contents that a device may hold if the power fails before operation `position`.
    pub(crate) fn after_cut(&self, position: usize, device: Device, rng: &mut StdRng) -> Remains {
        let done = &self.ops[..self.initial + position];
        let mut remains = Remains::default();
        let mut names = BTreeMap::new();
        for op in names_that_survive(done, device, rng) {
            match op {
                Op::Create { path, file } => drop(names.insert(path.clone(), *file)),
                Op::Rename { from, to, file } => {
                    names.retain(|path, known| path != from || known != file);
                    names.insert(to.clone(), *file);
                }
                Op::Remove { path, file } => names.retain(|p, known| p != path || known != file),
                Op::CreateFolder { path } => drop(remains.folders.insert(path.clone())),
                _ => {}
            }
        }
        for (path, file) in names {
            remains
                .files
                .insert(path, contents(done, file, device, rng));
        }
        for op in done {
            if let Op::Mark(mark) = op {
                remains.mark = *mark;
            }
        }
        remains
    }

    fn create(&mut self, path: &Path, truncates: bool) -> FileId {
        if let Some(&file) = self.names.get(path) {
            if truncates {
                self.ops.push(Op::Truncate { file, length: 0 });
            }
            return file;
        }
        let file = self.files;
        self.files += 1;
        self.names.insert(path.to_owned(), file);
        let path = path.to_owned();
        self.ops.push(Op::Create { path, file });
        file
    }
}

/// Returns the changes of names that survive, in the order of the log.
fn names_that_survive<'l>(done: &'l [Op], device: Device, rng: &mut StdRng) -> Vec<&'l Op> {
    let synced_until = |folder: Option<&Path>| {
        let covers = |op: &Op| match op {
            Op::SyncFolder { path, covers } if Some(path.as_path()) == folder => Some(*covers),
            _ => None,
        };
        done.iter().filter_map(covers).max().unwrap_or(0)
    };
    let mut synced: BTreeMap<Option<&Path>, usize> = BTreeMap::new();
    let mut unsynced_left = None;
    let mut survivors = Vec::new();
    let changes: Vec<(usize, &Path, &Op)> = (0..)
        .zip(done)
        .filter_map(|(at, op)| match op {
            Op::Create { path, .. } | Op::Remove { path, .. } | Op::CreateFolder { path } => {
                Some((at, path.as_path(), op))
            }
            Op::Rename { to, .. } => Some((at, to.as_path(), op)),
            _ => None,
        })
        .collect();
    let mut is_synced = |at: usize, path: &'l Path| {
        let folder = path.parent();
        at < *synced.entry(folder).or_insert_with(|| synced_until(folder))
    };
    let unsynced = changes
        .iter()
        .filter(|(at, path, _)| !is_synced(*at, path))
        .count();
    for (at, path, op) in changes {
        let survives = is_synced(at, path)
            || match device {
                Device::InOrder => {
                    let left = unsynced_left.get_or_insert_with(|| rng.random_range(0..=unsynced));
                    let survives = *left > 0;
                    *left = left.saturating_sub(1);
                    survives
                }
                Device::AnyOrder => rng.random(),
            };
        if survives {
            survivors.push(op);
        }
    }
    survivors
}

/// Returns the contents of a file that survive.
fn contents(done: &[Op], file: FileId, device: Device, rng: &mut StdRng) -> Vec<u8> {
    let covers = |op: &Op| match op {
        Op::Sync {
            file: synced,
            covers,
        } if *synced == file => Some(*covers),
        _ => None,
    };
    let synced = done.iter().filter_map(covers).max().unwrap_or(0);
    let changes: Vec<(usize, &Op)> = (0..)
        .zip(done)
        .filter(|(_, op)| {
            matches!(op, Op::Write { file: changed, .. } | Op::Truncate { file: changed, .. } if *changed == file)
        })
        .collect();
    let unsynced = changes.iter().filter(|(at, _)| *at >= synced).count();
    let mut left = rng.random_range(0..=unsynced);
    let (mut bytes, mut length) = (Vec::new(), 0);
    for (at, op) in changes {
        let kept = if at < synced {
            Kept::All
        } else {
            match device {
                Device::InOrder if left > 0 => {
                    left -= 1;
                    Kept::All
                }
                // A part of the first lost write may survive.
                Device::InOrder if left == 0 => {
                    left = usize::MAX;
                    Kept::Head(rng.random_range(0.0..1.0))
                }
                Device::InOrder => break,
                Device::AnyOrder => Kept::any(rng),
            }
        };
        match op {
            Op::Write { bytes: new, .. } => {
                let (from, to) = kept.range(new.len());
                if from < to {
                    // Bytes lost before this write read as zeros.
                    bytes.resize(bytes.len().max(length + to), 0);
                    bytes[length + from..length + to].copy_from_slice(&new[from..to]);
                }
                length += new.len();
            }
            Op::Truncate { length: new, .. } => {
                length = *new;
                if kept == Kept::All {
                    bytes.truncate(length);
                }
            }
            _ => {}
        }
        if left == usize::MAX {
            break;
        }
    }
    bytes
}

/// Part of a write that survives.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    All,
    Nothing,
    /// The first part, as a share of the write's length.
    Head(f64),
    /// The part after this share of the write's length.
    Tail(f64),
}

impl Kept {
    fn any(rng: &mut StdRng) -> Self {
        match rng.next_u32() % 8 {
            0..4 => Self::All,
            4 | 5 => Self::Nothing,
            6 => Self::Head(rng.random_range(0.0..1.0)),
            _ => Self::Tail(rng.random_range(0.0..1.0)),
        }
    }

    fn range(self, length: usize) -> (usize, usize) {
        let at = |share: f64| (length as f64 * share) as usize;
        match self {
            Self::All => (0, length),
            Self::Nothing => (0, 0),
            Self::Head(share) => (0, at(share)),
            Self::Tail(share) => (at(share), length),
        }
    }
}

/// Implements [`Files`] on the operating system's files, and records every operation.
#[derive(Clone, Default)]
pub(crate) struct Recorder {
    log: Arc<Mutex<Log>>,
}

impl Recorder {
    /// Returns a recorder whose device holds these files and folders.
    pub(crate) fn holding(files: &BTreeMap<PathBuf, Vec<u8>>, folders: &BTreeSet<PathBuf>) -> Self {
        let recorder = Self::default();
        let mut log = recorder.log.lock();
        for path in folders {
            log.ops.push(Op::CreateFolder { path: path.clone() });
        }
        for (path, bytes) in files {
            let file = log.create(path, false);
            let bytes = bytes.as_slice().into();
            log.ops.push(Op::Write { file, bytes });
            let covers = log.ops.len();
            log.ops.push(Op::Sync { file, covers });
        }
        let covers = log.ops.len();
        let parents: BTreeSet<PathBuf> = folders
            .iter()
            .chain(files.keys())
            .filter_map(|path| path.parent().map(Path::to_owned))
            .collect();
        for path in parents {
            log.ops.push(Op::SyncFolder { path, covers });
        }
        log.initial = log.ops.len();
        drop(log);
        recorder
    }

    /// Records the state of the client's writes.
    pub(crate) fn mark(&self, mark: Mark) {
        self.log.lock().ops.push(Op::Mark(mark));
    }

    /// Returns a copy of the log.
    pub(crate) fn log(&self) -> Log {
        self.log.lock().clone()
    }

    fn open(&self, path: &Path, truncates: bool) -> io::Result<Box<dyn Output>> {
        // Holds the lock during the operation, so that the log has the order of the operations on
        // disk.
        let mut log = self.log.lock();
        let output = if truncates {
            System.create(path)?
        } else {
            System.append(path)?
        };
        let file = log.create(path, truncates);
        let log = Arc::clone(&self.log);
        Ok(Box::new(Recorded { log, output, file }))
    }
}

impl Files for Recorder {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        self.open(path, true)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        self.open(path, false)
    }

    fn overwrite(&self, path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
        let mut log = self.log.lock();
        System.overwrite(path, bytes, sync)?;
        let file = log.names[path];
        log.ops.push(Op::Truncate { file, length: 0 });
        let bytes = bytes.into();
        log.ops.push(Op::Write { file, bytes });
        if sync {
            let covers = log.ops.len();
            log.ops.push(Op::Sync { file, covers });
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut log = self.log.lock();
        System.rename(from, to)?;
        let file = log.names.remove(from).expect("created through the disk");
        log.names.insert(to.to_owned(), file);
        let (from, to) = (from.to_owned(), to.to_owned());
        log.ops.push(Op::Rename { from, to, file });
        Ok(())
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        let mut log = self.log.lock();
        System.exchange(one, other)?;
        let (first, second) = (log.names[one], log.names[other]);
        for (path, file) in [(other, first), (one, second)] {
            let path = path.to_owned();
            log.names.insert(path.clone(), file);
            log.ops.push(Op::Create { path, file });
        }
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut log = self.log.lock();
        System.link(from, to)?;
        let file = log.names[from];
        let path = to.to_owned();
        log.names.insert(path.clone(), file);
        log.ops.push(Op::Create { path, file });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut log = self.log.lock();
        System.remove(path)?;
        let file = log.names.remove(path).expect("created through the disk");
        let path = path.to_owned();
        log.ops.push(Op::Remove { path, file });
        Ok(())
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let mut log = self.log.lock();
        let is_new = !path.exists();
        System.create_folder(path)?;
        if is_new {
            let path = path.to_owned();
            log.ops.push(Op::CreateFolder { path });
        }
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let covers = self.log.lock().ops.len();
        System.sync_folder(path)?;
        let path = path.to_owned();
        self.log.lock().ops.push(Op::SyncFolder { path, covers });
        Ok(())
    }
}

/// A file that is open for writing, whose operations are recorded.
struct Recorded {
    log: Arc<Mutex<Log>>,
    output: Box<dyn Output>,
    file: FileId,
}

impl io::Write for Recorded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.log.lock();
        let count = self.output.write(bytes)?;
        let (file, bytes) = (self.file, bytes[..count].into());
        log.ops.push(Op::Write { file, bytes });
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

impl Output for Recorded {
    fn sync(&self) -> io::Result<()> {
        let covers = self.log.lock().ops.len();
        // The sync takes time, and the log is not locked during it, so other operations may come
        // between.
        self.output.sync()?;
        let file = self.file;
        self.log.lock().ops.push(Op::Sync { file, covers });
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut log = self.log.lock();
        self.output.truncate(length)?;
        let (file, length) = (self.file, length as usize);
        log.ops.push(Op::Truncate { file, length });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    /// Records a synced file under a temporary name, its rename, and an append that is not synced.
    #[test]
    fn what_was_synced_survives_and_nothing_else_must() {
        let folder = tempfile::tempdir().unwrap();
        let (temporary, path) = (folder.path().join("temp"), folder.path().join("final"));
        let recorder = Recorder::default();
        let mut file = recorder.create(&temporary).unwrap();
        file.write_all(b"abc").unwrap();
        file.sync().unwrap();
        recorder.rename(&temporary, &path).unwrap();
        let renamed = recorder.log().len();
        recorder.sync_folder(folder.path()).unwrap();
        let synced = recorder.log().len();
        file.write_all(b"def").unwrap();
        file.write_all(b"ghi").unwrap();
        let log = recorder.log();
        for device in [Device::InOrder, Device::AnyOrder] {
            let mut rng = StdRng::seed_from_u64(1);
            let mut seen = BTreeSet::new();
            for _ in 0..1_000 {
                let remains = log.after_cut(renamed, device, &mut rng);
                let both =
                    remains.files.contains_key(&temporary) && remains.files.contains_key(&path);
                assert!(!both, "the rename is atomic");
                assert!(remains.files.values().all(|bytes| bytes == b"abc"));
                seen.insert(remains.files.keys().next().cloned());
                let remains = log.after_cut(synced, device, &mut rng);
                assert_eq!(
                    remains.files,
                    BTreeMap::from([(path.clone(), b"abc".to_vec())])
                );
                let remains = log.after_cut(log.len(), device, &mut rng);
                let bytes = &remains.files[&path];
                assert!(bytes.starts_with(b"abc") && bytes.len() <= 9);
                if device == Device::InOrder {
                    assert!(b"abcdefghi".starts_with(bytes));
                }
            }
            assert_eq!(seen.len(), 3, "no name, the temporary one, the final one");
        }
    }
}
