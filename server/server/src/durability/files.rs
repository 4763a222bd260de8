//! The files of an append-only file on disk, and changes of them.
//!
//! After every step of a change, the manifest on disk names a complete set of files. They are in
//! one folder, but the single file of an older Redis version may still be at its old place. So a
//! power cut at any time leaves a state that can be loaded.

use std::io;
use std::path::{Path, PathBuf};

use punctual_store::planted::Bug;

use crate::config::Settings;
use crate::durability::manifest::{Entry, FileType, Manifest, ManifestError};
use crate::log::{self, Logger};
use crate::world::disk::{Disk, Output};

/// Error of loading an append-only file, or of changing its set of files. A failed load changes no
/// file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AofError {
    /// The manifest is empty or has an invalid line.
    #[error("{}: {error}", path.display())]
    Manifest {
        /// Path of the manifest.
        path: PathBuf,
        /// Description of the defect.
        error: ManifestError,
    },
    /// An operation on a file has failed.
    #[error("{what} {} ({source})", path.display())]
    File {
        /// Description of the operation, in Redis's words.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file is damaged.
    #[error(
        "Bad file format reading the append only file {} at offset {offset}: {reason}. The file is unchanged: make a backup of \
         your AOF file, then use ./redis-check-aof --fix <filename>",
        path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the defect in bytes.
        offset: u64,
        /// Description of the defect.
        reason: String,
    },
    /// The last file ends within a command, and `aof-load-truncated` is off.
    #[error(
        "Unexpected end of file reading the append only file {} after offset {offset}. You can: 1) Make a backup of your AOF \
         file, then use ./redis-check-aof --fix <filename>. 2) Alternatively you can set the 'aof-load-truncated' configuration \
         option to yes and restart the server.",
        path.display()
    )]
    Truncated {
        /// Path of the file.
        path: PathBuf,
        /// End of the last whole command or transaction.
        offset: u64,
    },
    /// A file before the last one ends within a command.
    #[error(
        "Fatal error: the truncated file is not the last file: {} ends within a command that begins at offset {offset}",
        path.display()
    )]
    NotLast {
        /// Path of the file.
        path: PathBuf,
        /// End of the last whole command or transaction.
        offset: u64,
    },
    /// Appending cannot begin, for example because the first base file cannot be written.
    #[error("{0}")]
    Begin(String),
    /// A file has a command that this server does not know.
    #[error(
        "Unknown command '{name}' reading the append only file {} at offset {offset}",
        path.display()
    )]
    Unknown {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the command.
        offset: u64,
        /// Name of the command.
        name: String,
    },
}

/// The manifest of an append-only file, and the paths of its files.
#[derive(Clone, Debug, Default)]
pub(crate) struct AofFiles {
    /// Path of the folder `appenddirname`.
    pub(crate) folder: PathBuf,
    /// Path of the manifest.
    pub(crate) path: PathBuf,
    pub(crate) manifest: Manifest,
    /// The single file of an older Redis version, outside of the folder. It is the base file, and
    /// will be moved into the folder.
    pub(crate) old: Option<PathBuf>,
}

/// The open incremental file.
pub(crate) struct OpenFile {
    pub(crate) output: Box<dyn Output>,
    pub(crate) path: PathBuf,
    /// Length of the file in bytes, not counting a write that failed in part.
    pub(crate) bytes: u64,
}

type Done<T> = Result<T, AofError>;

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AofError + use<> {
    let path = path.to_owned();
    move |source| AofError::File { what, path, source }
}

impl AofFiles {
    /// Finds the configured files, or the single file of an older Redis version. Changes nothing.
    ///
    /// # Errors
    /// Returns an error if the manifest cannot be read.
    pub(crate) fn find(disk: &Disk, settings: &Settings) -> Result<Self, AofError> {
        let mut found = Self::read_manifest(disk, settings)?;
        found.find_old(disk, settings);
        Ok(found)
    }

    /// Finds the configured files, and ignores a single file of an older Redis version.
    ///
    /// # Errors
    /// Returns an error if the manifest cannot be read.
    pub(crate) fn read_manifest(disk: &Disk, settings: &Settings) -> Result<Self, AofError> {
        let folder = settings.dir.join(&settings.append_dir);
        let path = folder.join(format!("{}.manifest", settings.append_file));
        let manifest = match disk.read(&path) {
            Ok(bytes) => Manifest::parse(&bytes).map_err(|error| AofError::Manifest {
                path: path.clone(),
                error,
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Manifest::default(),
            Err(source) => {
                return Err(AofError::File {
                    what: "Fatal error: can't open the AOF manifest file",
                    path,
                    source,
                });
            }
        };
        Ok(Self {
            folder,
            path,
            manifest,
            old: None,
        })
    }

    /// Looks for the single file of an older Redis version, by Redis 7's rules.
    fn find_old(&mut self, disk: &Disk, settings: &Settings) {
        let name = &settings.append_file;
        let old = settings.dir.join(name);
        let Manifest {
            base, incremental, ..
        } = &self.manifest;
        let moving = base.as_ref().is_some_and(|base| {
            base.name == *name && incremental.is_empty() && !disk.exists(&self.folder.join(name))
        });
        if disk.has_file(&old) && (self.manifest.is_empty() || moving) {
            self.manifest.base = Some(Entry {
                name: name.clone(),
                number: 1,
                file_type: FileType::Base,
            });
            self.old = Some(old);
        }
    }

    /// Returns true if there are files to load.
    pub(crate) fn exist(&self) -> bool {
        !self.manifest.is_empty()
    }

    /// Returns the path at which a file of the manifest is now.
    pub(crate) fn place(&self, entry: &Entry) -> PathBuf {
        match &self.old {
            Some(old) if entry.file_type == FileType::Base => old.clone(),
            _ => self.folder.join(&entry.name),
        }
    }

    /// Creates the folder, unless it exists.
    pub(crate) fn create_folder(&self, disk: &Disk) -> Done<()> {
        let what = "Can't open or create append-only dir";
        disk.create_folder(&self.folder)
            .map_err(failed(what, &self.folder))?;
        let parent = self.folder.parent().unwrap_or(Path::new("."));
        disk.sync_folder(parent)
            .map_err(failed("Fail to fsync AOF directory", parent))
    }

    /// Replaces the manifest on disk, and then the manifest in this value.
    ///
    /// # Errors
    /// Returns an error if a file operation fails. Then this value keeps the old manifest, and the
    /// disk has the old or the new manifest.
    pub(crate) fn replace(&mut self, disk: &Disk, manifest: Manifest) -> Done<()> {
        let mut name = std::ffi::OsString::from("temp-");
        name.push(self.path.file_name().unwrap_or_default());
        let temporary = self.path.with_file_name(name);
        let mut output = disk
            .create(&temporary)
            .map_err(failed("Can't open the AOF manifest file", &temporary))?;
        io::Write::write_all(&mut output, manifest.to_string().as_bytes()).map_err(failed(
            "Error trying to write the temporary AOF manifest file",
            &temporary,
        ))?;
        output
            .sync()
            .map_err(failed("Fail to fsync the temp AOF file", &temporary))?;
        disk.rename(&temporary, &self.path).map_err(failed(
            "Error trying to rename the temporary AOF manifest file",
            &temporary,
        ))?;
        self.sync_folder(disk)?;
        self.manifest = manifest;
        Ok(())
    }

    fn sync_folder(&self, disk: &Disk) -> Done<()> {
        let what = "Fail to fsync AOF directory";
        disk.sync_folder(&self.folder)
            .map_err(failed(what, &self.folder))
    }

    /// Moves the single file of an older Redis version into the folder. [`AofFiles::find`]
    /// recognizes each intermediate state.
    pub(crate) fn migrate(&mut self, disk: &Disk, logger: &Logger) -> Done<()> {
        let (Some(old), Some(base)) = (self.old.clone(), self.manifest.base.clone()) else {
            return Ok(());
        };
        self.create_folder(disk)?;
        self.replace(disk, self.manifest.clone())?;
        let what = "Error trying to move the old AOF file into the dir:";
        disk.rename(&old, &self.folder.join(&base.name))
            .map_err(failed(what, &old))?;
        self.sync_folder(disk)?;
        let parent = old.parent().unwrap_or(Path::new("."));
        disk.sync_folder(parent)
            .map_err(failed("Fail to fsync AOF directory", parent))?;
        self.old = None;
        log::notice!(
            logger,
            "Successfully migrated an old-style AOF configuration ({}) into AOF directory ({}).",
            base.name,
            self.folder.display()
        );
        Ok(())
    }

    /// Creates an empty incremental file with this name.
    pub(crate) fn create_file(&self, disk: &Disk, name: &str) -> Done<OpenFile> {
        let path = self.folder.join(name);
        let output = disk
            .create(&path)
            .map_err(failed("Can't open the append-only file", &path))?;
        self.sync_folder(disk)?;
        let bytes = 0;
        Ok(OpenFile {
            output,
            path,
            bytes,
        })
    }

    /// Creates the next incremental file and adds it to the manifest.
    pub(crate) fn add_incremental(&mut self, disk: &Disk, settings: &Settings) -> Done<OpenFile> {
        let mut manifest = self.manifest.clone();
        let name = manifest.add_incremental(&settings.append_file);
        let file = self.create_file(disk, &name)?;
        self.replace(disk, manifest)?;
        Ok(file)
    }

    /// Opens the last incremental file, or creates an incremental file if the manifest has no such
    /// file. Makes the file durable: an earlier server may have ended between a change and its
    /// sync, and this server has loaded the change, and may reveal it.
    pub(crate) fn open_last(&mut self, disk: &Disk, settings: &Settings) -> Done<OpenFile> {
        let Some(last) = self.manifest.incremental.last() else {
            return self.add_incremental(disk, settings);
        };
        let path = self.folder.join(&last.name);
        let what = "Can't open the append-only file";
        let bytes = disk.length(&path).map_err(failed(what, &path))?;
        let output = disk.append(&path).map_err(failed(what, &path))?;
        let what = "Fail to fsync the AOF file";
        if !Bug::StartWithoutSync.is_active() {
            output.sync().map_err(failed(what, &path))?;
            self.sync_folder(disk)?;
        }
        Ok(OpenFile {
            output,
            path,
            bytes,
        })
    }

    /// Returns the entry and the path of the next base file.
    pub(crate) fn next_base(&self, settings: &Settings) -> (Entry, PathBuf) {
        let base = self.manifest.next_base(&settings.append_file);
        let path = self.folder.join(&base.name);
        (base, path)
    }

    /// Makes `base`, whose file is complete, the base of the manifest. `incremental` is the name of
    /// the incremental file that follows, if the manifest does not have it yet. The incremental
    /// files become history, except the last one if `keeps_last` is true.
    pub(crate) fn commit_base(
        &mut self,
        disk: &Disk,
        settings: &Settings,
        base: Entry,
        incremental: Option<&str>,
        keeps_last: bool,
    ) -> Done<()> {
        let mut manifest = self.manifest.clone();
        if let Some(name) = incremental {
            let added = manifest.add_incremental(&settings.append_file);
            debug_assert_eq!(added, name, "nothing else adds files");
        }
        manifest.replace_base(base, keeps_last);
        self.replace(disk, manifest)
    }

    /// Removes the history files and their lines in the manifest.
    pub(crate) fn remove_history(&mut self, disk: &Disk, logger: &Logger) {
        if self.manifest.history.is_empty() {
            return;
        }
        for entry in &self.manifest.history {
            log::notice!(
                logger,
                "Removing the history file {} in the background",
                entry.name
            );
            // A file that stays behind, or is already gone, does no harm.
            let _ = disk.remove(&self.folder.join(&entry.name));
        }
        let manifest = Manifest {
            history: Vec::new(),
            ..self.manifest.clone()
        };
        if let Err(error) = self.replace(disk, manifest) {
            log::warning!(logger, "{error}");
        }
    }

    /// Returns the total length of all files that a start loads, in bytes.
    pub(crate) fn bytes(&self, disk: &Disk) -> u64 {
        let sizes = self
            .manifest
            .to_load()
            .map(|entry| disk.length(&self.folder.join(&entry.name)).unwrap_or(0));
        sizes.sum()
    }
}
