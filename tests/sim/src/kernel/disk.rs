//! Files below `/sim/<node>/`: contents and names as the running system sees them, and what a
//! power cut leaves.
//!
//! A sync of a file makes the changes durable that were made before it began; so does a sync of a
//! folder with the names in the folder. A power cut keeps a random number of the later changes, in
//! their order, and the first part of the next write.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::draws::Draws;
use super::{Kernel, NodeId};

/// Number of an inode.
pub type Inode = usize;

#[derive(Clone, Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Debug, Default)]
struct Contents {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Changes since `durable`.
    changes: Vec<Change>,
    /// Number of changes that are durable or lost.
    synced: u64,
    /// Whether a sync has failed, so that the changes never become durable.
    is_lost: bool,
    /// Length before the file was cut back after a failed sync, until it is as long again.
    cut: usize,
}

#[derive(Clone, Debug)]
enum Naming {
    Add(String, Inode),
    Remove(String),
    Rename(String, String),
    Folder(String),
}

impl Naming {
    fn folder(&self) -> &str {
        match self {
            Self::Add(path, _) | Self::Remove(path) | Self::Rename(_, path) => parent(path),
            Self::Folder(path) => parent(path),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Names {
    files: BTreeMap<String, Inode>,
    folders: BTreeSet<String>,
}

impl Names {
    fn apply(&mut self, naming: &Naming) {
        match naming {
            Naming::Add(path, inode) => drop(self.files.insert(path.clone(), *inode)),
            Naming::Remove(path) => drop(self.files.remove(path)),
            Naming::Folder(path) => drop(self.folders.insert(path.clone())),
            Naming::Rename(from, to) => {
                if let Some(inode) = self.files.remove(from) {
                    self.files.insert(to.clone(), inode);
                }
            }
        }
    }
}

/// The disk of a node.
#[derive(Debug, Default)]
struct Disk {
    names: Names,
    durable: Names,
    changes: Vec<Naming>,
}

/// The disks of all nodes.
#[derive(Debug, Default)]
pub struct Disks {
    inodes: Vec<Contents>,
    disks: BTreeMap<NodeId, Disk>,
}

/// An open file or folder.
#[derive(Clone, Debug)]
pub struct OpenFile {
    pub path: Rc<str>,
    /// `None` for a folder.
    pub inode: Option<Inode>,
    pub position: usize,
    pub appends: bool,
}

/// What a path refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    File { bytes: usize },
    Folder,
}

/// What a sync that begins now makes durable.
#[derive(Clone, Debug)]
pub enum Covered {
    File { inode: Inode, until: u64 },
    Folder { path: Rc<str>, changes: usize },
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |parts| parts.0)
}

/// Returns the node whose disk has this path.
pub fn node_of(path: &str) -> Option<NodeId> {
    path.strip_prefix("/sim/")?.split('/').next()?.parse().ok()
}

/// Returns the path without a slash at its end.
fn plain(path: &str) -> &str {
    path.trim_end_matches('/')
}

impl Disks {
    fn disk(&mut self, path: &str) -> &mut Disk {
        let node = node_of(path).unwrap_or_default();
        self.disks.entry(node).or_default()
    }

    fn change(&mut self, naming: Naming) {
        let disk = self.disk(naming.folder());
        disk.names.apply(&naming);
        disk.changes.push(naming);
    }

    pub fn find(&mut self, path: &str) -> Option<Found> {
        let path = plain(path);
        let is_root = path.matches('/').count() == 2;
        let disk = self.disk(path);
        match disk.names.files.get(path) {
            Some(inode) => {
                let inode = *inode;
                let bytes = self.inodes[inode].now.len();
                Some(Found::File { bytes })
            }
            None => (is_root || disk.names.folders.contains(path)).then_some(Found::Folder),
        }
    }

    /// Opens a file or a folder. Returns an error number if it cannot be opened.
    pub fn open(&mut self, path: &str, flags: i32) -> Result<OpenFile, i32> {
        let path = plain(path);
        let mut file = OpenFile {
            path: path.into(),
            inode: None,
            position: 0,
            appends: flags & libc::O_APPEND != 0,
        };
        match self.find(path) {
            Some(Found::Folder) => return Ok(file),
            Some(Found::File { .. }) if flags & libc::O_EXCL != 0 => return Err(libc::EEXIST),
            Some(Found::File { .. }) => {}
            None if flags & libc::O_CREAT == 0 => return Err(libc::ENOENT),
            None if self.find(parent(path)) != Some(Found::Folder) => return Err(libc::ENOENT),
            None => {
                let inode = self.inodes.len();
                self.inodes.push(Contents::default());
                self.change(Naming::Add(path.to_owned(), inode));
            }
        }
        file.inode = self.inode(path);
        if flags & libc::O_TRUNC != 0 {
            self.truncate(&file, 0);
        }
        Ok(file)
    }

    fn inode(&mut self, path: &str) -> Option<Inode> {
        self.disk(path).names.files.get(path).copied()
    }

    /// Returns the contents of a file.
    pub fn contents(&mut self, path: &str) -> Option<Vec<u8>> {
        let inode = self.inode(path)?;
        Some(self.inodes[inode].now.clone())
    }

    /// Returns the paths of a node's files.
    pub fn paths(&self, node: NodeId) -> impl Iterator<Item = &String> {
        let disk = self.disks.get(&node);
        disk.into_iter().flat_map(|disk| disk.names.files.keys())
    }

    /// Returns whether a file of a node is cut back after a failed sync and not yet written again.
    pub fn is_cut(&self, node: NodeId) -> bool {
        let names = self.disks.get(&node).map(|disk| &disk.names.files);
        let mut files = names.into_iter().flat_map(|names| names.values());
        files.any(|file| self.inodes[*file].cut > 0)
    }

    /// Same as [`Disks::is_cut`], for the last time: the node ends.
    pub fn take_cut(&mut self, node: NodeId) -> bool {
        let is_cut = self.is_cut(node);
        let names = self.disks.get(&node).map(|disk| &disk.names.files);
        for file in names.into_iter().flat_map(|names| names.values()) {
            self.inodes[*file].cut = 0;
        }
        is_cut
    }

    pub fn length(&self, file: &OpenFile) -> usize {
        file.inode.map_or(0, |inode| self.inodes[inode].now.len())
    }

    pub fn read(&self, file: &mut OpenFile, buf: &mut [u8]) -> Result<usize, i32> {
        let inode = file.inode.ok_or(libc::EISDIR)?;
        let contents = &self.inodes[inode].now;
        let rest = contents.get(file.position..).unwrap_or_default();
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        file.position += count;
        Ok(count)
    }

    pub fn write(&mut self, file: &mut OpenFile, bytes: &[u8]) -> Result<usize, i32> {
        let contents = &mut self.inodes[file.inode.ok_or(libc::EISDIR)?];
        if file.appends {
            file.position = contents.now.len();
        }
        let change = Change::Write {
            at: file.position,
            bytes: bytes.to_vec(),
        };
        apply(&mut contents.now, &change);
        contents.changes.push(change);
        file.position += bytes.len();
        if contents.now.len() >= contents.cut {
            contents.cut = 0;
        }
        Ok(bytes.len())
    }

    pub fn truncate(&mut self, file: &OpenFile, length: usize) {
        if let Some(inode) = file.inode {
            let contents = &mut self.inodes[inode];
            if std::mem::take(&mut contents.is_lost) {
                contents.synced += contents.changes.len() as u64;
                contents.changes.clear();
                contents.cut = contents.now.len();
            }
            let change = Change::Truncate(length);
            apply(&mut contents.now, &change);
            contents.changes.push(change);
        }
    }

    /// Returns the changes that a sync from now on makes durable.
    pub fn begin_sync(&mut self, file: &OpenFile) -> Covered {
        match file.inode {
            Some(inode) => {
                let contents = &self.inodes[inode];
                let until = contents.synced + contents.changes.len() as u64;
                Covered::File { inode, until }
            }
            None => Covered::Folder {
                path: file.path.clone(),
                changes: self.disk(&file.path).changes.len(),
            },
        }
    }

    /// Makes durable what a sync covers.
    pub fn end_sync(&mut self, covered: Covered) {
        match covered {
            Covered::File { inode, until } => {
                let contents = &mut self.inodes[inode];
                let count = match contents.is_lost {
                    true => 0,
                    false => until.saturating_sub(contents.synced) as usize,
                };
                for change in contents.changes.drain(..count) {
                    apply(&mut contents.durable, &change);
                }
                contents.synced += count as u64;
            }
            Covered::Folder { path, changes } => {
                let disk = self.disk(&path);
                let count = changes.min(disk.changes.len());
                let (mut kept, mut at) = (Vec::new(), 0);
                for naming in std::mem::take(&mut disk.changes) {
                    // A folder's name is in the folder above it.
                    if at < count && naming.folder() == &*path {
                        disk.durable.apply(&naming);
                    } else {
                        kept.push(naming);
                    }
                    at += 1;
                }
                disk.changes = kept;
            }
        }
    }

    /// A sync has failed. As on Linux, later syncs may succeed without making the covered writes
    /// durable; here, they make nothing durable until the file is cut back and written again.
    /// Changes of the length alone are in the journal, and stay to be synced.
    pub fn fail_sync(&mut self, covered: &Covered) {
        if let Covered::File { inode, until } = covered {
            let contents = &mut self.inodes[*inode];
            let count = until.saturating_sub(contents.synced) as usize;
            let mut failed = contents.changes.iter().take(count);
            contents.is_lost |= failed.any(|change| matches!(change, Change::Write { .. }));
        }
    }

    pub fn rename(&mut self, from: &str, to: &str) -> bool {
        let found = matches!(self.find(from), Some(Found::File { .. }));
        if found {
            self.change(Naming::Rename(from.to_owned(), to.to_owned()));
        }
        found
    }

    /// Gives a file a second name. Returns false if there is no file, or the name is taken.
    pub fn link(&mut self, from: &str, to: &str) -> bool {
        let Some(inode) = self.inode(from) else {
            return false;
        };
        let free = self.find(to).is_none();
        if free {
            self.change(Naming::Add(to.to_owned(), inode));
        }
        free
    }

    /// Exchanges the names of two files. A power cut may undo one of the names only.
    pub fn exchange(&mut self, one: &str, other: &str) -> bool {
        let (Some(first), Some(second)) = (self.inode(one), self.inode(other)) else {
            return false;
        };
        self.change(Naming::Add(other.to_owned(), first));
        self.change(Naming::Add(one.to_owned(), second));
        true
    }

    pub fn remove(&mut self, path: &str) -> bool {
        let found = matches!(self.find(path), Some(Found::File { .. }));
        if found {
            self.change(Naming::Remove(path.to_owned()));
        }
        found
    }

    /// Creates a folder. Returns false if the name is taken.
    pub fn create_folder(&mut self, path: &str) -> bool {
        let free = self.find(path).is_none();
        if free {
            self.change(Naming::Folder(plain(path).to_owned()));
        }
        free
    }

    /// Lets later syncs succeed in what failed syncs have missed. A server cannot know that an
    /// earlier server's sync has failed, so no server could keep its promises otherwise.
    pub fn forgive(&mut self, node: NodeId) {
        let names = self.disks.get(&node).map(|disk| &disk.names.files);
        for inode in names.into_iter().flat_map(|names| names.values()) {
            self.inodes[*inode].is_lost = false;
        }
    }

    /// Loses what is not durable, in part.
    fn cut_power(&mut self, node: NodeId, draws: &mut Draws) {
        let Some(disk) = self.disks.get_mut(&node) else {
            return;
        };
        let mut names = std::mem::take(&mut disk.durable);
        let kept = draws.between(0, disk.changes.len() as u64) as usize;
        for naming in disk.changes.drain(..).take(kept) {
            names.apply(&naming);
        }
        disk.names = names.clone();
        disk.durable = names.clone();
        for inode in names.files.into_values() {
            let contents = &mut self.inodes[inode];
            let count = contents.changes.len();
            let kept = draws.between(0, count as u64) as usize;
            for (at, change) in contents.changes.drain(..).enumerate().take(kept + 1) {
                match change {
                    _ if at < kept => apply(&mut contents.durable, &change),
                    Change::Write { at, mut bytes } => {
                        bytes.truncate(draws.index(bytes.len() + 1));
                        apply(&mut contents.durable, &Change::Write { at, bytes });
                    }
                    Change::Truncate(_) => {}
                }
            }
            contents.synced += count as u64;
            contents.is_lost = false;
            contents.now = contents.durable.clone();
        }
    }
}

fn apply(contents: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { at, bytes } => {
            let end = at + bytes.len();
            if contents.len() < end {
                contents.resize(end, 0);
            }
            contents[*at..end].copy_from_slice(bytes);
        }
        Change::Truncate(length) => contents.resize(*length, 0),
    }
}

impl Kernel {
    /// Returns whether a write is refused because it needs more room on a full disk.
    pub fn is_full(&self, file: &OpenFile, bytes: usize) -> bool {
        let until = node_of(&file.path).map_or(0, |node| self.nodes[node].full_until);
        let length = self.disks.length(file);
        self.now < until && (file.appends || file.position + bytes > length)
    }

    /// Loses the unsynced changes of a node's disk, in part.
    pub fn cut_power(&mut self, node: NodeId) {
        self.disks.cut_power(node, &mut self.draws);
    }
}
