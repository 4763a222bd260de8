//! The file `nodes.conf`: read at the start, locked while the server runs, replaced as a whole.
//!
//! Each save writes a new file and renames it, before the reply or the packet that reveals it, so a
//! killed server has lost nothing. As in Redis, only saves of the own epochs and votes are synced:
//! a vote that a power cut undoes could be given twice. Any other save may be undone, and does not
//! wait for the disk.
//!
//! A power cut may leave a file that was not synced empty or incomplete. So a synced
//! save also links the file to a second name, `nodes.conf.synced`, before the names are synced. A
//! start uses this copy if `nodes.conf` is incomplete. Without a copy every save is synced: after a
//! start, and where the file system has no links.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use punctual_cluster::config::{Config, ConfigError, Style};

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
pub(super) struct NodesFile {
    disk: Disk,
    path: PathBuf,
    /// The copy is complete and synced, and has the latest epochs and votes.
    has_copy: bool,
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
        // An operator who removes the file wants a new node, so the copy then counts for nothing.
        if text.as_deref().is_some_and(is_incomplete) {
            text = read(&with_ending(&path, COPY))?.or(text);
        }
        let config = match text.as_deref() {
            None | Some("") => None,
            Some(text) => match text.parse() {
                Ok(config) => Some(config),
                Err(source) => return Err(NodesFileError::Format { path, source }),
            },
        };
        // Of a server that was killed. It may be the copy by another name.
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
            has_copy: false,
            _lock: lock,
        };
        Ok((file, config))
    }

    /// Replaces the file. With `sync` the new contents survive a power cut.
    pub(super) fn save(&mut self, config: &Config, sync: bool) -> io::Result<()> {
        let sync = sync || !self.has_copy;
        let temporary = with_ending(&self.path, TEMPORARY);
        let mut output = self.disk.create(&temporary)?;
        output.write_all(config.text(Style::Named).as_bytes())?;
        if sync {
            output.sync()?;
            self.has_copy = self.copy(&temporary).is_ok();
            self.disk.rename(&temporary, &self.path)?;
            let folder = self.path.parent().unwrap_or(Path::new("."));
            return self.disk.sync_folder(folder);
        }
        drop(output);
        match self.disk.exchange(&temporary, &self.path) {
            Ok(()) => self.disk.remove(&temporary),
            Err(_) => self.disk.rename(&temporary, &self.path),
        }
    }

    /// Replaces the copy by a second name of a synced file.
    fn copy(&self, synced: &Path) -> io::Result<()> {
        let second = with_ending(&self.path, ".link");
        if self.disk.exists(&second) {
            // The server was killed between the two steps below.
            self.disk.remove(&second)?;
        }
        self.disk.link(synced, &second)?;
        self.disk.rename(&second, &with_ending(&self.path, COPY))
    }
}

/// Ending of the copy's name.
const COPY: &str = ".synced";
/// Ending of the name of a file that is being written.
const TEMPORARY: &str = ".tmp";

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
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};
    use std::fs;
    use std::sync::Arc;

    use super::*;
    use crate::world::disk::recorder::{Device, Recorder};

    fn config() -> Config {
        Config::of_new_node(NodeId::new([1; 20]), NodeId::new([2; 20]))
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
        let (mut file, none) = NodesFile::open(&disk, folder.path().join("nodes.conf")).unwrap();
        assert!(none.is_none());
        let mut config = config();
        // Positions of the log after each save, with the epochs in it.
        let mut saves = Vec::new();
        for number in 1..=40 {
            config.current_epoch = number;
            let votes = number % 5 == 0;
            if votes {
                config.last_vote_epoch = number;
            }
            file.save(&config, votes).unwrap();
            saves.push((recorder.log().len(), number, config.last_vote_epoch));
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
    fn only_an_incomplete_file_is_replaced_by_its_copy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes.conf");
        let (mut file, _) = NodesFile::open(&Disk::default(), path.clone()).unwrap();
        let mut config = config();
        config.current_epoch = 7;
        file.save(&config, true).unwrap();
        config.current_epoch = 8;
        file.save(&config, false).unwrap();
        drop(file);
        assert_eq!(open(folder.path()).unwrap().current_epoch, 8);
        let whole = fs::read_to_string(&path).unwrap();
        for torn in ["", &whole[..30], &whole[..whole.len() - 1], "\0\0\0"] {
            fs::write(&path, torn).unwrap();
            assert_eq!(open(folder.path()).unwrap().current_epoch, 7, "{torn:?}");
        }
        fs::write(&path, whole.replace("master", "chief")).unwrap();
        let wrong = NodesFile::open(&Disk::default(), path.clone()).map(drop);
        assert!(matches!(wrong, Err(NodesFileError::Format { .. })));
        fs::remove_file(&path).unwrap();
        assert!(
            open(folder.path()).is_none(),
            "the operator wants a new node"
        );
    }
}
