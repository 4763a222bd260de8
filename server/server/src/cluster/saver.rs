//! Saves `nodes.conf` on a thread of its own: a sync takes milliseconds, and also a save without
//! one may wait for the file system's journal.
//!
//! A call of the machine that changes the table leaves a copy of the table here. The thread saves
//! the last copy, so one save covers all changes since the save before. Everything that reveals a
//! change waits until its copy is saved ([`super::Cluster::take_tasks`]). Before the thread begins
//! and after it has ended, the caller saves. `nodes.conf` follows the saves when the machine ticks,
//! once a second or more often.

use std::io;

use parking_lot::{Condvar, Mutex, MutexGuard};
use punctual_cluster::config::Config;

use super::file::NodesFile;

/// The file, and the copies of the table that have been left.
pub(crate) struct Saver {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// `None` while the thread has it.
    file: Option<NodesFile>,
    /// The copy to save, and whether to sync it.
    next: Option<(Config, bool)>,
    /// Whether `nodes.conf` shall have the last save, and whether it may have an older one.
    publish: bool,
    is_behind: bool,
    /// Numbers of the last copies that were left, and saved.
    left: u64,
    saved: u64,
    closed: bool,
}

impl Saver {
    pub(super) fn new(file: NodesFile) -> Self {
        Self {
            state: Mutex::new(State {
                file: Some(file),
                next: None,
                publish: false,
                is_behind: false,
                left: 0,
                saved: 0,
                closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Leaves a copy of the table to the thread.
    ///
    /// # Errors
    /// There is no thread, and the file cannot be saved.
    pub(super) fn leave(&self, table: Config, sync: bool) -> io::Result<()> {
        let mut state = self.state.lock();
        state.left += 1;
        if let Some(file) = &mut state.file {
            file.save(&table, sync)?;
            file.publish()?;
            state.saved = state.left;
        } else {
            let sync = sync || matches!(state.next, Some((_, true)));
            state.next = Some((table, sync));
            state.is_behind = true;
            drop(state);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Lets the thread give `nodes.conf` the contents of the last save. Counts as a copy that is
    /// left.
    pub(crate) fn publish(&self) {
        let mut state = self.state.lock();
        if state.is_behind && !state.publish {
            state.publish = true;
            state.left += 1;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Returns the numbers of the last copies that were left, and saved.
    pub(super) fn numbers(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.left, state.saved)
    }

    /// Returns whether the table is saved.
    pub(crate) fn is_saved(&self) -> bool {
        let (left, saved) = self.numbers();
        left == saved
    }

    /// Blocks until all copies that were left are saved, or the server stops.
    pub(crate) fn wait(&self) {
        let mut state = self.state.lock();
        let left = state.left;
        while state.saved < left && !state.closed {
            self.changed.wait(&mut state);
        }
    }

    /// Takes the file for the thread. From now on, callers save nothing.
    pub(crate) fn take_file(&self) -> Option<NodesFile> {
        self.state.lock().file.take()
    }

    /// Saves the copies that are left, until [`Saver::close`]. Calls `saved` after each save.
    ///
    /// # Errors
    /// The file cannot be saved.
    pub(crate) fn run(&self, mut file: NodesFile, saved: impl Fn()) -> io::Result<()> {
        let mut state = self.state.lock();
        loop {
            let (next, number, closed) = (state.next.take(), state.left, state.closed);
            let publish = std::mem::take(&mut state.publish) || closed;
            if next.is_none() && !publish {
                self.changed.wait(&mut state);
                continue;
            }
            state.is_behind &= !publish;
            MutexGuard::unlocked(&mut state, || {
                if let Some((table, sync)) = next {
                    file.save(&table, sync)?;
                }
                if publish { file.publish() } else { Ok(()) }
            })?;
            state.saved = number;
            self.changed.notify_all();
            if closed && state.next.is_none() {
                state.file = Some(file);
                return Ok(());
            }
            MutexGuard::unlocked(&mut state, &saved);
        }
    }

    /// Ends the thread after its last save.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use punctual_cluster::NodeId;

    use super::*;
    use crate::world::disk::Disk;

    #[test]
    fn one_save_covers_all_changes_during_the_save_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes.conf");
        let (file, _) = NodesFile::open(&Disk::default(), path.clone()).unwrap();
        let saver = Arc::new(Saver::new(file));
        let mut table = Config::of_new_node(NodeId::new([1; 20]), NodeId::new([2; 20]));
        saver.leave(table.clone(), false).unwrap();
        assert_eq!(saver.numbers(), (1, 1), "without a thread the caller saves");
        let ((saved, saves), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel::<()>());
        let of_thread = Arc::clone(&saver);
        let file = saver.take_file().unwrap();
        let thread = std::thread::spawn(move || {
            of_thread.run(file, || {
                saved.send(()).unwrap();
                // Fails at once when the test has dropped its end.
                let _ = goes_on.recv();
            })
        });
        saver.leave(table.clone(), true).unwrap();
        saves.recv().unwrap();
        for epoch in 1..=50 {
            table.current_epoch = epoch;
            saver.leave(table.clone(), epoch == 7).unwrap();
        }
        assert_eq!(saver.numbers(), (52, 2), "the thread does not save yet");
        drop(go_on);
        saver.wait();
        assert_eq!(saver.numbers(), (52, 52));
        let published = || std::fs::read_to_string(&path).unwrap();
        assert!(published().contains("currentEpoch 0 "), "{}", published());
        saver.publish();
        saver.wait();
        assert!(published().contains("currentEpoch 50 "), "{}", published());
        saver.publish();
        assert_eq!(saver.numbers(), (53, 53), "there is nothing to publish");
        table.current_epoch = 51;
        saver.leave(table, false).unwrap();
        saver.close();
        thread.join().unwrap().unwrap();
        assert_eq!(saves.iter().count(), 2, "one save for all of them");
        assert!(published().contains("currentEpoch 51 "), "{}", published());
    }
}
