//! State of the online backup (BACKUP), which loops, INFO and the threads of persistence share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::durability::files::AofFiles;

/// State of a backup, as in Redis 8.10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Idle,
    /// The backup waits until a rewrite can begin.
    Pending,
    /// A rewrite of the append-only file writes the base.
    Snapshotting,
    /// The base is complete, and changes go on into the incremental file.
    Incrementing,
    /// The files are complete and synced, and do not change any more.
    Sealed,
    Failed,
}

impl State {
    /// Returns the name that BACKUP STATUS shows.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Pending => "pending",
            Self::Snapshotting => "snapshotting",
            Self::Incrementing => "incrementing",
            Self::Sealed => "sealed",
            Self::Failed => "failed",
        }
    }

    /// Returns true between START and SEAL, ABORT or a failure.
    pub(crate) const fn is_running(self) -> bool {
        matches!(
            self,
            Self::Pending | Self::Snapshotting | Self::Incrementing
        )
    }
}

/// The backup that was started last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) state: State,
    /// Reason of the failure, or an empty text.
    pub(crate) error: String,
    /// Unix times in seconds of START and SEAL; 0 before them.
    pub(crate) began_s: u64,
    pub(crate) sealed_s: u64,
    /// The backup's folder and manifest.
    pub(crate) files: AofFiles,
    /// Files that BACKUP LIST shows: they do not change any more.
    pub(crate) listed: Vec<PathBuf>,
    /// All files that the backup has created in its folder.
    pub(crate) created: Vec<PathBuf>,
    /// The append-only file is off, so its writer and the rewrite write into the backup's folder.
    pub(crate) owns_writer: bool,
}

/// State of the backup. The lock is the last of all locks that its holder takes.
#[derive(Debug, Default)]
pub(crate) struct Backup {
    pub(crate) progress: Mutex<Progress>,
    /// True if a later turn of loop 0 has work to do for the backup.
    waits: AtomicBool,
}

impl Backup {
    pub(crate) fn state(&self) -> State {
        self.progress.lock().state
    }

    /// Returns true if the append-only file is off and its writer writes the backup's file.
    pub(crate) fn owns_writer(&self) -> bool {
        self.progress.lock().owns_writer
    }

    /// Returns false while a rewrite would replace the files that the backup needs.
    pub(crate) fn allows_rewrite(&self) -> bool {
        let progress = self.progress.lock();
        match progress.state {
            State::Incrementing => false,
            State::Snapshotting => true,
            _ => !progress.owns_writer,
        }
    }

    pub(crate) fn waits(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }

    pub(crate) fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Ordering::Release);
    }
}
