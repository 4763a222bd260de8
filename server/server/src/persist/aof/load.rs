//! Loading of an append-only file into the keyspace.
//!
//! The commands run through the dispatcher at an instant at which no key is due
//! ([`Now::replaying`](punctual_store::Now)), because the file contains the expiries as commands,
//! such as DEL and HDEL. A script that fails has run the commands before its error, so its failure
//! does not stop the load; every other error does. The load changes nothing on disk, except that it
//! cuts off the torn end of the last file (an incomplete command or transaction) after everything
//! before the torn end has run.

use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use punctual_rdb::Blocks;
use punctual_resp::Args;
use punctual_store::Turn;

use crate::durability::files::{AofError, AofFiles};
use crate::durability::manifest::{Entry, FileType};
use crate::log;
use crate::node::Shared;
use crate::persist::aof::commands::{Commands, Failure, Next};
use crate::persist::load::{self, LoadError, Progress};

/// First bytes of a snapshot; the second is Valkey 9's.
const SNAPSHOT_MAGIC: [&[u8]; 2] = [b"REDIS", b"VALKEY"];
/// Number of commands after which a load releases its locks.
const COMMANDS_PER_PAUSE: u64 = 512;

/// Executes the commands of a file.
pub(crate) trait Runner {
    /// Runs a command, or queues it if it belongs to a transaction.
    ///
    /// # Errors
    /// The command is unknown, is not allowed in a file, or fails. A failure of a script is not an
    /// error: the commands that it ran before the failure remain in effect.
    fn run(&mut self, turn: &mut Turn, args: Args) -> Result<(), Refusal>;

    /// Returns whether the last command belongs to a transaction that has not ended.
    fn in_transaction(&self) -> bool;
}

/// Error of a command that cannot be replayed.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// There is no such command.
    Unknown(String),
    /// The command has failed with this error.
    Failed(String),
}

/// Sizes of the files that were loaded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loaded {
    /// Bytes of all files, in total.
    pub(crate) total_bytes: u64,
    /// Bytes of the base file.
    pub(crate) base_bytes: u64,
}

impl AofFiles {
    /// Loads the files into the keyspace. Calls `pause` at intervals, which may release the turn's
    /// locks.
    ///
    /// # Errors
    /// The first file that cannot be loaded. The keyspace keeps the data that was loaded before.
    pub(crate) fn load<'s>(
        &self,
        shared: &Arc<Shared>,
        turn: &mut Turn<'s>,
        runner: &mut dyn Runner,
        mut pause: impl FnMut(&mut Turn<'s>),
    ) -> Result<Loaded, LoadError> {
        let began = shared.world.stopwatch();
        let entries: Vec<&Entry> = self.manifest.to_load().collect();
        let mut loaded = Loaded::default();
        for entry in &entries {
            let path = self.place(entry);
            let len = shared
                .durability
                .disk
                .length(&path)
                .map_err(|source| AofError::File {
                    what: "Unable to obtain the AOF file length of",
                    path,
                    source,
                })?;
            loaded.total_bytes += len;
            if entry.file_type == FileType::Base {
                loaded.base_bytes = len;
            }
        }
        let now = turn.now;
        let mut progress = Progress::begin(shared, now, loaded.total_bytes);
        turn.now = now.replaying();
        let done = entries.iter().enumerate().try_for_each(|(i, entry)| {
            let file = OneFile {
                shared,
                path: self.place(entry),
                last: i + 1 == entries.len(),
            };
            let began = shared.world.stopwatch();
            let cut = file.load(turn, runner, &mut progress, &mut pause)?;
            loaded.total_bytes -= cut;
            let kind = match entry.file_type {
                FileType::Base => "base",
                _ => "incr",
            };
            log::notice!(
                shared.logger,
                "DB loaded from {kind} file {}: {:.3} seconds",
                entry.name,
                shared.world.since(began).as_secs_f64()
            );
            Ok(())
        });
        turn.now = now;
        done.map(|()| {
            log::notice!(
                shared.logger,
                "DB loaded from append only file: {:.3} seconds",
                shared.world.since(began).as_secs_f64()
            );
            loaded
        })
    }
}

struct OneFile<'s> {
    shared: &'s Arc<Shared>,
    path: PathBuf,
    /// Whether this is the last file in the manifest.
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
        runner: &mut dyn Runner,
        progress: &mut Progress<'_>,
        pause: &mut impl FnMut(&mut Turn<'s>),
    ) -> Result<u64, LoadError> {
        let opening = "Fatal error: can't open the append log file for reading";
        let file = self.shared.durability.disk.open(&self.path);
        let mut file = file.map_err(self.failed(opening))?;
        let len = file.length().map_err(self.failed(opening))?;
        let mut begin = Vec::new();
        let longest = SNAPSHOT_MAGIC.map(<[u8]>::len).into_iter().max();
        let mut magic = (&mut file).take(longest.unwrap_or(0) as u64);
        magic
            .read_to_end(&mut begin)
            .map_err(self.failed("Unrecoverable error reading the append only file"))?;
        let mut offset = 0;
        if SNAPSHOT_MAGIC.iter().any(|magic| begin.starts_with(magic)) {
            log::notice!(
                self.shared.logger,
                "Reading RDB base file on AOF loading..."
            );
            (offset, _) = load::read_file(self.shared, &self.path, turn, false, progress, pause)?;
        }
        file.seek(SeekFrom::Start(offset))
            .map_err(self.failed("Can't seek in the append only file"))?;
        let source = Blocks::new(
            load::BLOCK_BYTES,
            Some(len - offset),
            |buffer: &mut [u8]| load::read_block(&mut *file, buffer),
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
                Next::End if !runner.in_transaction() => {
                    valid = commands.offset();
                    break;
                }
                Next::End | Next::Torn => break,
            }
            runner
                .run(turn, commands.args())
                .map_err(|refusal| self.refused(start, refusal, commands.args().at(0)))?;
            if !runner.in_transaction() {
                valid = commands.offset();
            }
        }
        drop(commands);
        progress.file_done(len);
        if valid < len {
            if runner.in_transaction() {
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

    /// Cuts off the bytes from `valid` on if `aof-load-truncated` is on and this is the last file.
    /// Otherwise returns an error.
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
        let disk = &self.shared.durability.disk;
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
