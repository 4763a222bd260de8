//! The file `nodes.conf`, and the copies of it that keep the last saves: read at the start, locked
//! while the server runs.
//!
//! A save is complete before the reply or the packet that reveals it, so a killed server has lost
//! nothing. As in Redis, only saves of the own epochs and votes are synced: a vote that a power cut
//! undoes could be given twice. Any other save may be undone, and does not wait for the disk.
//!
//! A save writes over one of three copies: not over the newest one, and not over the last one that
//! was synced. So a save that a kill or a power cut interrupts leaves the save before, and every
//! synced one. A copy keeps its name and its length, so a save creates no file and a sync has
//! nothing to write but the copy. `nodes.conf` itself, for operators and other programs, follows
//! later ([`NodesFile::publish`]), as a new file that gets the name.
//!
//! The last line of the file and of the copies has the number of the save (`saves 7`, a variable
//! that Redis skips). A start uses the newest copy if `nodes.conf` is incomplete, which a power cut
//! may leave, or is an older save.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use punctual_cluster::config::{Config, ConfigError, Style};
use punctual_rdb::crc64;

use crate::world::disk::Disk;
use crate::world::process::FileLock;

/// Error of `nodes.conf` at the start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodesFileError {
    /// Another server uses the file.
    #[error(
        "Sorry, the cluster configuration file {0} is already used by a different Redis Cluster node. Please make sure that different nodes use different cluster configuration files."
    )]
    Locked(PathBuf),
    /// The file cannot be read, created or locked.
    #[error("Can't open the cluster configuration file {path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is not in Redis's format.
    #[error(
        "Unrecoverable error: corrupted cluster config file {path}: {source}. The file is unchanged."
    )]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// The first wrong line.
        source: ConfigError,
    },
}

/// The file, locked by this server.
pub(crate) struct NodesFile {
    disk: Disk,
    path: PathBuf,
    /// Number of the last save.
    saves: u64,
    /// The last save, which `nodes.conf` may not have yet.
    text: String,
    /// Whether `nodes.conf` has the last save.
    is_published: bool,
    /// Indices of the copy that is the newest one, and of the last one that was synced.
    newest: usize,
    synced: usize,
    /// Length of the copies; `None` before the first save, which creates them.
    copy_bytes: Option<usize>,
    /// The start has used a copy, because the file was incomplete or older.
    pub(super) from_copy: bool,
    /// Locks `nodes.conf.lock`, because a lock on the file itself ends when the file is replaced.
    _lock: FileLock,
}

impl NodesFile {
    /// Locks the file and reads it. `None` if there is no file, or an empty one.
    pub(super) fn open(
        disk: &Disk,
        path: PathBuf,
    ) -> Result<(Self, Option<Config>), NodesFileError> {
        let lock = match FileLock::take(&with_ending(&path, ".lock")) {
            Ok(Some(lock)) => lock,
            Ok(None) => return Err(NodesFileError::Locked(path)),
            Err(source) => return Err(NodesFileError::File { path, source }),
        };
        let read = |path: &Path| match disk.read(path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(NodesFileError::File {
                path: path.to_owned(),
                source,
            }),
        };
        let mut text = read(&path)?;
        let mut copies = [None, None, None];
        for (copy, ending) in copies.iter_mut().zip(COPIES) {
            *copy = read(&with_ending(&path, ending))?.and_then(|record| of_record(&record));
        }
        let number = |text: &Option<String>| text.as_deref().and_then(number_of);
        let newest = copies.iter().max_by_key(|copy| number(copy)).cloned();
        let newest = newest.flatten();
        let saves = number(&newest).max(number(&text)).unwrap_or(0);
        // An operator who removes the file wants a new node, so the copies then count for nothing.
        // A file without a number is Redis's.
        let from_copy = newest.is_some()
            && text.as_deref().is_some_and(|found| {
                let is_older = |of_file| number(&newest) > Some(of_file);
                is_incomplete(found) || number_of(found).is_some_and(is_older)
            });
        if from_copy {
            text = newest;
        }
        let config = match text.as_deref() {
            None | Some("") => None,
            Some(text) => match text.parse() {
                Ok(config) => Some(config),
                Err(source) => return Err(NodesFileError::Format { path, source }),
            },
        };
        // Of a server that was killed.
        let temporary = with_ending(&path, TEMPORARY);
        if disk.exists(&temporary)
            && let Err(source) = disk.remove(&temporary)
        {
            let path = temporary;
            return Err(NodesFileError::File { path, source });
        }
        let file = Self {
            disk: disk.clone(),
            path,
            saves,
            text: String::new(),
            is_published: true,
            newest: 0,
            synced: 0,
            copy_bytes: None,
            from_copy,
            _lock: lock,
        };
        Ok((file, config))
    }

    /// Saves the table in a copy. With `sync` the save survives a power cut.
    pub(super) fn save(&mut self, config: &Config, sync: bool) -> io::Result<()> {
        self.saves += 1;
        let text = config.text(Style::Named);
        self.text = format!("{} {NUMBER}{}\n", text.trim_end(), self.saves);
        self.is_published = false;
        let record = record_of(&self.text);
        if self.copy_bytes != Some(record.len()) {
            return self.create_copies(&record);
        }
        let is_free = |copy: &usize| *copy != self.newest && *copy != self.synced;
        let copy = (0..COPIES.len()).find(is_free).unwrap_or(0);
        let path = with_ending(&self.path, COPIES[copy]);
        self.disk.overwrite(&path, &record, sync)?;
        self.newest = copy;
        if sync {
            self.synced = copy;
        }
        Ok(())
    }

    /// Gives `nodes.conf` the contents of the last save, unless it has them.
    pub(super) fn publish(&mut self) -> io::Result<()> {
        match self.is_published {
            true => Ok(()),
            false => self.replace(false),
        }
    }

    /// Creates the copies. `nodes.conf` is synced before, because a power cut may leave no copy
    /// whole.
    fn create_copies(&mut self, record: &[u8]) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new(".")).to_owned();
        self.replace(true)?;
        self.disk.sync_folder(&folder)?;
        for ending in COPIES {
            let mut copy = self.disk.create(&with_ending(&self.path, ending))?;
            copy.write_all(record)?;
            copy.sync()?;
        }
        self.disk.sync_folder(&folder)?;
        (self.newest, self.synced) = (0, 0);
        self.copy_bytes = Some(record.len());
        Ok(())
    }

    /// Writes the last save as a new file, which gets the name `nodes.conf`.
    fn replace(&mut self, sync: bool) -> io::Result<()> {
        let temporary = with_ending(&self.path, TEMPORARY);
        let mut output = self.disk.create(&temporary)?;
        output.write_all(self.text.as_bytes())?;
        if sync {
            output.sync()?;
        }
        drop(output);
        match self.disk.exchange(&temporary, &self.path) {
            Ok(()) => self.disk.remove(&temporary)?,
            Err(_) => self.disk.rename(&temporary, &self.path)?,
        }
        self.is_published = true;
        Ok(())
    }
}

/// Endings of the copies' names.
const COPIES: [&str; 3] = [".save-0", ".save-1", ".save-2"];
/// Ending of the name of a file that is being written.
const TEMPORARY: &str = ".tmp";
/// Smallest length of a copy. A longer one has a power of two, so its length seldom changes.
const COPY_BYTES: usize = 4096;
/// Name of the variable with the number of the save.
const NUMBER: &str = "saves ";

/// Returns the bytes of a copy: a checksum, the text, and empty lines.
fn record_of(text: &str) -> Vec<u8> {
    let mut record = format!("{:016x}\n{text}", crc64(text.as_bytes())).into_bytes();
    record.resize(record.len().next_power_of_two().max(COPY_BYTES), b'\n');
    record
}

/// Returns the text of a copy, unless the copy is damaged.
fn of_record(record: &str) -> Option<String> {
    let (sum, text) = record.split_once('\n')?;
    let text = format!("{}\n", text.trim_end());
    (sum == format!("{:016x}", crc64(text.as_bytes()))).then_some(text)
}

/// Returns the number of the save, if the text has one.
fn number_of(text: &str) -> Option<u64> {
    text.trim_end().rsplit_once(NUMBER)?.1.parse().ok()
}

/// Returns whether a power cut has left only a part of the text. Lost bytes are missing or 0, and
/// the last line of a whole text begins with `vars`.
fn is_incomplete(text: &str) -> bool {
    let last = text.trim_end_matches('\n').lines().next_back();
    let ends = text.ends_with('\n') && last.is_some_and(|line| line.starts_with("vars "));
    !ends || text.contains('\0')
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use punctual_cluster::NodeId;
    use punctual_cluster::nodes::{Flags, Node};
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};
    use std::fs;
    use std::sync::Arc;

    use super::*;
    use crate::world::disk::recorder::{Device, Recorder};

    fn config() -> Config {
        Config::of_new_node(NodeId::new([1; 20]), NodeId::new([2; 20]))
    }

    fn node(first: u8, second: u8) -> Node {
        let mut id = [9; 20];
        (id[0], id[1]) = (first, second);
        Node::new(NodeId::new(id), Flags::PRIMARY, 0)
    }

    fn open(folder: &Path) -> Option<Config> {
        let opened = NodesFile::open(&Disk::default(), folder.join("nodes.conf"));
        opened.expect("the file is complete").1
    }

    #[test]
    fn a_power_cut_leaves_a_whole_file_with_the_last_vote() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::default();
        let disk = Disk::new(Arc::new(recorder.clone()));
        let path = folder.path().join("nodes.conf");
        let (mut file, none) = NodesFile::open(&disk, path.clone()).unwrap();
        assert!(none.is_none());
        let mut config = config();
        // Positions of the log after each save, with the epochs in it.
        let mut saves = Vec::new();
        for number in 1..=60 {
            config.current_epoch = number;
            config.nodes.insert(node(0, number as u8));
            let votes = number % 5 == 0;
            if votes {
                config.last_vote_epoch = number;
            }
            file.save(&config, votes).unwrap();
            saves.push((recorder.log().len(), number, config.last_vote_epoch));
            if number % 7 == 0 {
                file.publish().unwrap();
            }
            if number % 23 == 0 {
                drop(file);
                file = NodesFile::open(&disk, path.clone()).unwrap().0;
            }
        }
        let log = recorder.log();
        let mut rng = StdRng::seed_from_u64(1);
        let mut undone = 0;
        for number in 0..600 {
            let device = [Device::InOrder, Device::AnyOrder][number % 2];
            let position = rng.random_range(saves[0].0..=log.len());
            let remains = log.after_cut(position, device, &mut rng);
            let left = tempfile::tempdir().unwrap();
            for (path, bytes) in &remains.files {
                fs::write(left.path().join(path.file_name().unwrap()), bytes).unwrap();
            }
            let found = open(left.path()).expect("the first save was synced");
            let done = saves.iter().rev().find(|(end, ..)| *end <= position);
            let (_, epoch, vote) = *done.expect("the first save");
            assert!(found.last_vote_epoch >= vote, "{found:?} after {position}");
            assert!(found.current_epoch <= epoch + 1);
            undone += usize::from(found.current_epoch < epoch);
        }
        assert!(undone > 0, "only votes are synced");
    }

    #[test]
    fn a_copy_replaces_only_an_incomplete_or_older_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes.conf");
        let (mut file, _) = NodesFile::open(&Disk::default(), path.clone()).unwrap();
        let mut config = config();
        let mut save = |epoch, sync, publish| {
            config.current_epoch = epoch;
            file.save(&config, sync).unwrap();
            if publish {
                file.publish().unwrap();
            }
            fs::read_to_string(&path).unwrap()
        };
        let first = save(6, true, true);
        save(7, true, true);
        assert!(save(8, false, false).contains("currentEpoch 7 "));
        let third = save(9, false, true);
        drop(file);
        let epoch = || open(folder.path()).unwrap().current_epoch;
        assert_eq!(epoch(), 9);
        let whole = [
            "",
            &third[..30],
            &third[..third.len() - 1],
            "\0\0\0",
            &first,
        ];
        // A kill or a power cut has left a part of the newest copy, and then of the next one.
        for (newest, number) in [(9, "saves 4"), (8, "saves 3"), (7, "")] {
            for torn in whole {
                fs::write(&path, torn).unwrap();
                assert_eq!(epoch(), newest, "{torn:?}");
            }
            let copies = COPIES.map(|ending| with_ending(&path, ending));
            let holds = |copy: &&PathBuf| fs::read_to_string(copy).unwrap().contains(number);
            let copy = copies.iter().find(holds).unwrap();
            let mut torn = fs::read(copy).unwrap();
            torn[100] ^= 1;
            fs::write(copy, torn).unwrap();
        }
        // A file without a number is Redis's.
        fs::write(&path, first.replace(" saves 1", "")).unwrap();
        assert_eq!(epoch(), 6);
        fs::write(&path, third.replace("master", "chief")).unwrap();
        let wrong = NodesFile::open(&Disk::default(), path.clone()).map(drop);
        assert!(matches!(wrong, Err(NodesFileError::Format { .. })));
        fs::remove_file(&path).unwrap();
        assert!(
            open(folder.path()).is_none(),
            "the operator wants a new node"
        );
    }

    #[test]
    fn copies_grow_with_the_table_and_numbers_go_on_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes.conf");
        let mut config = config();
        for number in 0..4 {
            let (mut file, _) = NodesFile::open(&Disk::default(), path.clone()).unwrap();
            for second in 0..40 {
                config.nodes.insert(node(number, second));
                file.save(&config, second % 3 == 0).unwrap();
            }
            file.publish().unwrap();
            let found = number_of(&fs::read_to_string(&path).unwrap());
            assert_eq!(found, Some(40 * (u64::from(number) + 1)));
            drop(file);
            fs::write(&path, "").unwrap();
            let left = open(folder.path()).unwrap();
            assert_eq!(left.nodes.len(), config.nodes.len());
        }
    }
}
