//! Loading of an append-only file: which files there are, and what they do to the keyspace.
//!
//! Nothing on disk changes before everything is loaded. Only then the torn end of the last file is cut off, and an old file
//! moves into the folder.

use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use punctual_rdb::Blocks;
use punctual_store::Turn;

use super::commands::{Commands, Failure, Next};
use super::manifest::{Entry, FileType, Manifest, ManifestError};
use super::replay::{Refusal, Replay};
use crate::config::Settings;
use crate::log;
use crate::persist::load::{self, LoadError, Progress};
use crate::shared::Shared;

/// First bytes of a snapshot.
const SNAPSHOT_MAGIC: &[u8] = b"REDIS";
/// Number of commands after which a load releases its locks.
const COMMANDS_PER_PAUSE: u64 = 512;

/// Error of loading an append-only file. All files are unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AofError {
    /// The manifest cannot be read.
    #[error("{}: {error}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The defect.
        error: ManifestError,
    },
    /// An operation on a file has failed.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is damaged.
    #[error(
        "Bad file format reading the append only file {} at offset {offset}: {reason}. The file is unchanged: make a backup of \
         your AOF file, then use ./redis-check-aof --fix <filename>",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset of the defect.
        offset: u64,
        /// The defect.
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
        /// The file.
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
        /// The file.
        path: PathBuf,
        /// End of the last whole command or transaction.
        offset: u64,
    },
    /// The files cannot be opened for writing.
    #[error("{0}")]
    Begin(String),
    /// A file has a command that this server does not know.
    #[error(
        "Unknown command '{name}' reading the append only file {} at offset {offset}",
        path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Offset of the command.
        offset: u64,
        /// Its name.
        name: String,
    },
}

/// The files of an append-only file.
#[derive(Clone, Debug, Default)]
pub(crate) struct AofFiles {
    /// The folder `appenddirname`.
    pub(crate) folder: PathBuf,
    /// Path of the manifest.
    pub(crate) path: PathBuf,
    pub(crate) manifest: Manifest,
    /// A file of an older version outside the folder, to be moved to the path of the base.
    pub(crate) old: Option<PathBuf>,
}

/// A file that was loaded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loaded {
    /// Bytes of all files.
    pub(crate) total_bytes: u64,
    /// Bytes of the base.
    pub(crate) base_bytes: u64,
}

impl AofFiles {
    /// Finds the configured files, or the single file of older versions. Changes nothing.
    ///
    /// # Errors
    /// The manifest cannot be read.
    pub(crate) fn find(settings: &Settings) -> Result<Self, AofError> {
        let mut found = Self::read_manifest(settings)?;
        found.find_old(settings);
        Ok(found)
    }

    /// As [`AofFiles::find`], without a single file of older versions.
    ///
    /// # Errors
    /// The manifest cannot be read.
    pub(crate) fn read_manifest(settings: &Settings) -> Result<Self, AofError> {
        let folder = settings.dir.join(&settings.append_dir);
        let path = folder.join(format!("{}.manifest", settings.append_file));
        let manifest = match fs::read(&path) {
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

    /// Looks for the single file of older versions, as Redis 7 does.
    fn find_old(&mut self, settings: &Settings) {
        let name = &settings.append_file;
        let old = settings.dir.join(name);
        let Manifest {
            base, incremental, ..
        } = &self.manifest;
        let moving = base.as_ref().is_some_and(|base| {
            base.name == *name && incremental.is_empty() && !self.folder.join(name).exists()
        });
        if old.is_file() && (self.manifest.is_empty() || moving) {
            self.manifest.base = Some(Entry {
                name: name.clone(),
                number: 1,
                file_type: FileType::Base,
            });
            self.old = Some(old);
        }
    }

    /// Returns whether there is something to load.
    pub(crate) fn exist(&self) -> bool {
        !self.manifest.is_empty()
    }

    /// Returns where a file of the manifest is now.
    fn place(&self, entry: &Entry) -> PathBuf {
        match &self.old {
            Some(old) if entry.file_type == FileType::Base => old.clone(),
            _ => self.folder.join(&entry.name),
        }
    }

    /// Loads the files into the keyspace. `pause` is called now and then, and may release the turn's locks.
    ///
    /// # Errors
    /// The first file that cannot be loaded. The keyspace has what was loaded before.
    pub(crate) fn load<'s>(
        &self,
        shared: &Arc<Shared>,
        turn: &mut Turn<'s>,
        mut pause: impl FnMut(&mut Turn<'s>),
    ) -> Result<Loaded, LoadError> {
        let began = Instant::now();
        let entries: Vec<&Entry> = self.manifest.to_load().collect();
        let mut loaded = Loaded::default();
        for entry in &entries {
            let path = self.place(entry);
            let len = fs::metadata(&path).map_err(|source| AofError::File {
                what: "Unable to obtain the AOF file length of",
                path,
                source,
            })?;
            loaded.total_bytes += len.len();
            if entry.file_type == FileType::Base {
                loaded.base_bytes = len.len();
            }
        }
        let now = turn.now;
        let mut progress = Progress::begin(shared, now, loaded.total_bytes);
        turn.now = now.replaying();
        let mut replay = Replay::new(shared);
        let done = entries.iter().enumerate().try_for_each(|(i, entry)| {
            let file = OneFile {
                shared,
                path: self.place(entry),
                last: i + 1 == entries.len(),
            };
            let began = Instant::now();
            let cut = file.load(turn, &mut replay, &mut progress, &mut pause)?;
            loaded.total_bytes -= cut;
            let kind = match entry.file_type {
                FileType::Base => "base",
                _ => "incr",
            };
            log::notice!(
                shared.logger,
                "DB loaded from {kind} file {}: {:.3} seconds",
                entry.name,
                began.elapsed().as_secs_f64()
            );
            Ok(())
        });
        turn.now = now;
        done.map(|()| {
            log::notice!(
                shared.logger,
                "DB loaded from append only file: {:.3} seconds",
                began.elapsed().as_secs_f64()
            );
            loaded
        })
    }
}

struct OneFile<'s> {
    shared: &'s Arc<Shared>,
    path: PathBuf,
    last: bool,
}

impl OneFile<'_> {
    fn failed(&self, what: &'static str) -> impl FnOnce(io::Error) -> LoadError + use<> {
        let path = self.path.clone();
        move |source| AofError::File { what, path, source }.into()
    }

    /// Loads the file. Returns the number of bytes that were cut off its torn end.
    fn load<'s>(
        &self,
        turn: &mut Turn<'s>,
        replay: &mut Replay<'_>,
        progress: &mut Progress<'_>,
        pause: &mut impl FnMut(&mut Turn<'s>),
    ) -> Result<u64, LoadError> {
        let opening = "Fatal error: can't open the append log file for reading";
        let mut file = File::open(&self.path).map_err(self.failed(opening))?;
        let len = file.metadata().map_err(self.failed(opening))?.len();
        let mut begin = Vec::new();
        let magic = (&file).take(SNAPSHOT_MAGIC.len() as u64);
        { magic }
            .read_to_end(&mut begin)
            .map_err(self.failed("Unrecoverable error reading the append only file"))?;
        let mut offset = 0;
        if begin == SNAPSHOT_MAGIC {
            log::notice!(
                self.shared.logger,
                "Reading RDB base file on AOF loading..."
            );
            offset = load::read_file(self.shared, &self.path, turn, false, progress, pause)?;
        }
        file.seek(SeekFrom::Start(offset))
            .map_err(self.failed("Can't seek in the append only file"))?;
        let source = Blocks::new(
            load::BLOCK_BYTES,
            Some(len - offset),
            |buffer: &mut [u8]| load::read_block(&mut file, buffer),
        );
        let mut commands = Commands::new(source, offset);
        let mut valid = offset;
        for number in 1u64.. {
            if number % COMMANDS_PER_PAUSE == 0 {
                pause(turn);
                turn.discarded = Default::default();
                progress.reached(commands.offset())?;
            }
            let start = commands.offset();
            let next = commands.next().map_err(|failure| match failure {
                Failure::Damaged { offset, reason } => self.damaged(offset, reason.to_owned()),
                Failure::Source(source) => {
                    self.failed("Unrecoverable error reading the append only file")(source)
                }
            })?;
            match next {
                Next::Command => {}
                Next::End if !replay.in_transaction() => {
                    valid = commands.offset();
                    break;
                }
                Next::End | Next::Torn => break,
            }
            replay
                .run(turn, commands.args())
                .map_err(|refusal| self.refused(start, refusal, commands.args().at(0)))?;
            if !replay.in_transaction() {
                valid = commands.offset();
            }
        }
        drop(commands);
        progress.file_done(len);
        if valid < len {
            if replay.in_transaction() {
                log::warning!(
                    self.shared.logger,
                    "Revert incomplete MULTI/EXEC transaction from AOF file {}",
                    self.path.display()
                );
            }
            self.cut(valid, len)?;
        }
        Ok(len - valid)
    }

    fn damaged(&self, offset: u64, reason: String) -> LoadError {
        let path = self.path.clone();
        AofError::Damaged {
            path,
            offset,
            reason,
        }
        .into()
    }

    fn refused(&self, offset: u64, refusal: Refusal, name: &[u8]) -> LoadError {
        match refusal {
            Refusal::Unknown(name) => {
                let path = self.path.clone();
                AofError::Unknown { path, offset, name }.into()
            }
            Refusal::Failed(error) => {
                let name = name.escape_ascii();
                self.damaged(offset, format!("the command '{name}' fails: {error}"))
            }
        }
    }

    /// Cuts off the bytes from `valid` on, if that is configured and this is the last file.
    fn cut(&self, valid: u64, len: u64) -> Result<(), LoadError> {
        let (logger, shown) = (&self.shared.logger, self.path.display());
        let path = self.path.clone();
        if !self.last {
            let offset = valid;
            return Err(AofError::NotLast { path, offset }.into());
        }
        if !self.shared.settings().aof_load_truncated {
            let offset = valid;
            return Err(AofError::Truncated { path, offset }.into());
        }
        log::warning!(
            logger,
            "!!! Warning: short read while loading the AOF file {shown}!!!"
        );
        log::warning!(
            logger,
            "!!! Truncating the AOF {shown} at offset {valid} !!! ({} of {len} bytes belong to an incomplete command or \
             transaction)",
            len - valid
        );
        let disk = &self.shared.persistence.disk;
        let truncated = disk.append(&path).and_then(|mut file| {
            file.truncate(valid)?;
            file.sync()
        });
        truncated.map_err(self.failed("Error truncating the AOF file"))?;
        log::warning!(
            logger,
            "AOF {shown} loaded anyway because aof-load-truncated is enabled"
        );
        Ok(())
    }
}
