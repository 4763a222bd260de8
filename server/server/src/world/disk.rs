//! Access of persistence to the file system.
//!
//! Snapshots and the append-only file are read and written through [`Disk`]; the file of users is
//! read through it. A test can replace the file system by one that records the operations, and then
//! build the files that a power cut would leave. A power cut preserves:
//!
//! - the bytes and the length of a file as of the last successful `sync` of that file;
//! - names (`create`, `exchange`, `link`, `rename`, `remove`, `create_folder`) as of the last
//!   `sync_folder` of their folder.
//!
//! Any subset of the later operations survives, and a write may survive in part. So a file is
//! synced before it gets the name under which a starting server looks for it. The folder of a new
//! file is synced before anything that refers to the file is written. After a failed `sync` the
//! kernel may have dropped the bytes: a later successful `sync` proves nothing about them, so they
//! must be written again.

#[cfg(test)]
pub(crate) mod recorder;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// A file that is open for writing. Each write appends to the file.
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

    /// Returns true if a file, a folder or a pipe has this path.
    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    /// Returns true if a regular file has this path.
    fn has_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    /// Creates a file, or empties an existing one.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>>;

    /// Opens a file to append to it. Creates it if it does not exist.
    fn append(&self, path: &Path) -> io::Result<Box<dyn Output>>;

    /// Writes over the beginning of an existing file. With `sync`, blocks until these bytes are on
    /// the device. A power cut may leave a part of them. While the length stays the same, the file
    /// system has nothing else to write.
    fn overwrite(&self, path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.write_all(bytes)?;
        if sync { file.sync_data() } else { Ok(()) }
    }

    /// Renames a file atomically. An existing file `to` is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name, which must not exist.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Returns true if the folder is empty or does not exist.
    fn is_empty_folder(&self, path: &Path) -> io::Result<bool> {
        match fs::read_dir(path) {
            Ok(mut entries) => Ok(entries.next().is_none()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Exchanges the names of two files atomically. Unlike a `rename` that replaces a file, this
    /// never waits for the disk: ext4 first writes the contents of a file that replaces another.
    ///
    /// # Errors
    /// A file is missing, or the system or the file system cannot exchange names.
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        exchange(one, other)
    }

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
    /// Returns a disk that uses `files`, for tests.
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
        // `sync_data` also makes the length durable, and writes the inode less often than
        // `sync_all`.
        self.sync_data()
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Files for System {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        // In append mode a write after `truncate` goes to the new end.
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        // ext4 writes a file that was cut to nothing as soon as it is closed.
        if file.metadata()?.len() > 0 {
            file.set_len(0)?;
        }
        Ok(Box::new(file))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
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
        // The parent of a bare file name is the empty path.
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        File::open(path)?.sync_all()
    }
}
