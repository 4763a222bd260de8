//! The seam between persistence and the file system.
//!
//! Snapshots, the append-only file and the file of users are read and written through [`Disk`].
//! Tests can record the operations and replay what a power cut leaves of them. After a power cut
//! there are:
//!
//! - bytes of a file, and its length, as of the last `sync` of that file that succeeded;
//! - names (`create`, `rename`, `remove`, `create_folder`) as of the last `sync_folder` of their
//!   folder.
//!
//! Of later operations any subset survives, and a write may survive in part. So a file is synced
//! before it gets a name that a start reads, and the folder of a new file before anything that
//! names the file. After a failed `sync` the kernel may have dropped the bytes: a later `sync` that
//! succeeds proves nothing about them, so they must be written again.

#[cfg(test)]
pub(crate) mod recorder;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// A file that is open for writing. Writes go to its end.
pub(crate) trait Output: io::Write + Send {
    /// Blocks until the contents and the length are on the device.
    fn sync(&self) -> io::Result<()>;

    /// Cuts the file to its first `bytes` bytes.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;
}

/// A file that is open for reading.
pub(crate) trait Input: io::Read + io::Seek + Send {
    /// Returns the length in bytes.
    fn length(&self) -> io::Result<u64>;
}

/// Operations on files and folders.
pub(crate) trait Files: Send + Sync {
    /// Opens a file to read it.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Input>> {
        Ok(Box::new(File::open(path)?))
    }

    /// Reads a whole file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns the length of a file in bytes.
    fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    /// Returns whether there is a file, a folder or a pipe of this name.
    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    /// Returns whether there is a file of this name.
    fn has_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    /// Creates a file, or empties an existing one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>>;

    /// Opens a file to append to it. Creates it if it does not exist.
    fn append(&self, path: &Path) -> io::Result<Box<dyn Output>>;

    /// Renames a file, and replaces an existing `to`, atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a folder, unless it exists.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Blocks until the names in a folder are on the device.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// The files of a server. Clones share them.
#[derive(Clone)]
pub(crate) struct Disk(Arc<dyn Files>);

impl Disk {
    /// Returns a disk with these files.
    #[cfg(test)]
    pub(crate) fn new(files: Arc<dyn Files>) -> Self {
        Self(files)
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self(Arc::new(System))
    }
}

impl Deref for Disk {
    type Target = dyn Files;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Disk")
    }
}

/// The operating system's files.
struct System;

impl Input for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl Output for File {
    fn sync(&self) -> io::Result<()> {
        // Enough for the length too, and one less write of the inode than `sync_all`.
        self.sync_data()
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

impl Files for System {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        // Append mode, so that a write after `truncate` goes to the new end.
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        file.set_len(0)?;
        Ok(Box::new(file))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            done => done,
        }
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        // The folder of a bare file name is "".
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        File::open(path)?.sync_all()
    }
}
