//! The file `nodes.conf`: read at the start, locked while the server runs, replaced as a whole.

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
        let text = match disk.read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(NodesFileError::File { path, source }),
        };
        let config = if text.is_empty() {
            None
        } else {
            match text.parse() {
                Ok(config) => Some(config),
                Err(source) => return Err(NodesFileError::Format { path, source }),
            }
        };
        let file = Self {
            disk: disk.clone(),
            path,
            _lock: lock,
        };
        Ok((file, config))
    }

    /// Replaces the file. With `sync` the new contents survive a power cut.
    pub(super) fn save(&self, config: &Config, sync: bool) -> io::Result<()> {
        let temporary = with_ending(&self.path, ".tmp");
        let mut output = self.disk.create(&temporary)?;
        output.write_all(config.text(Style::Named).as_bytes())?;
        // Also without `sync`, so that a power cut leaves no empty file under the name.
        output.sync()?;
        self.disk.rename(&temporary, &self.path)?;
        if sync {
            let folder = self.path.parent().unwrap_or(Path::new("."));
            self.disk.sync_folder(folder)?;
        }
        Ok(())
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
