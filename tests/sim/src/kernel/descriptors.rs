//! File descriptors and their objects. Several descriptors may refer to one object.

use super::disk::OpenFile;
use super::network::ListenerId;
use super::poll::Epoll;
use super::streams::EndId;
use super::timers::Timer;
use super::{Kernel, NodeId};

/// Number of an object.
pub type ObjectId = usize;

/// The lowest simulated descriptor. Lower ones belong to the real system.
pub const FIRST: i32 = 1 << 20;

/// Something that a descriptor refers to.
#[derive(Debug)]
pub enum Object {
    Epoll(Epoll),
    /// An `eventfd`, with its count.
    Counter(u64),
    Timer(Timer),
    /// A TCP socket that is neither bound nor connected.
    Unbound,
    /// A TCP socket with an address that does not listen yet.
    Bound(ListenerId),
    Listener(ListenerId),
    Stream(EndId),
    File(OpenFile),
}

/// A registration at an `epoll` object.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    pub epoll: ObjectId,
    pub interest: u32,
    pub data: u64,
    /// Whether the object is in the list of the `epoll` object.
    pub queued: bool,
}

#[derive(Debug)]
struct Entry {
    node: NodeId,
    object: Object,
    descriptors: usize,
    watch: Option<Watch>,
}

/// All descriptors of all nodes.
#[derive(Debug, Default)]
pub struct Descriptors {
    /// Objects by their numbers; `None` for a removed one.
    objects: Vec<Option<Entry>>,
    table: Vec<Option<ObjectId>>,
    free: Vec<usize>,
}

impl Descriptors {
    /// Adds an object with one descriptor.
    pub fn add(&mut self, node: NodeId, object: Object) -> (i32, ObjectId) {
        let id = self.objects.len();
        self.objects.push(Some(Entry {
            node,
            object,
            descriptors: 0,
            watch: None,
        }));
        (self.duplicate(id), id)
    }

    /// Adds a descriptor of an object.
    pub fn duplicate(&mut self, id: ObjectId) -> i32 {
        self.entry_mut(id).expect("the object exists").descriptors += 1;
        let at = self.free.pop().unwrap_or_else(|| {
            self.table.push(None);
            self.table.len() - 1
        });
        self.table[at] = Some(id);
        FIRST + at as i32
    }

    /// Returns the object of a descriptor.
    pub fn find(&self, fd: i32) -> Option<ObjectId> {
        *self.table.get(usize::try_from(fd - FIRST).ok()?)?
    }

    fn entry(&self, id: ObjectId) -> Option<&Entry> {
        self.objects.get(id)?.as_ref()
    }

    fn entry_mut(&mut self, id: ObjectId) -> Option<&mut Entry> {
        self.objects.get_mut(id)?.as_mut()
    }

    pub fn get(&self, id: ObjectId) -> Option<&Object> {
        self.entry(id).map(|entry| &entry.object)
    }

    pub fn get_mut(&mut self, id: ObjectId) -> Option<&mut Object> {
        self.entry_mut(id).map(|entry| &mut entry.object)
    }

    pub fn node(&self, id: ObjectId) -> NodeId {
        self.entry(id).map_or(0, |entry| entry.node)
    }

    pub fn watch_mut(&mut self, id: ObjectId) -> &mut Option<Watch> {
        &mut self.entry_mut(id).expect("the object exists").watch
    }

    /// Returns the objects of a node.
    pub fn of_node(&self, node: NodeId) -> Vec<ObjectId> {
        let is_own = |id: &ObjectId| self.entry(*id).is_some_and(|entry| entry.node == node);
        (0..self.objects.len()).filter(is_own).collect()
    }

    /// Returns a text about a node's objects.
    pub fn shown_of(&self, node: NodeId) -> String {
        let own = self
            .objects
            .iter()
            .flatten()
            .filter(|entry| entry.node == node);
        let shown: Vec<_> = own.map(|entry| format!("{:?}", entry.object)).collect();
        shown.join(", ")
    }

    /// Removes an object and its descriptors.
    pub fn remove(&mut self, id: ObjectId) -> Option<Object> {
        let entry = self.objects.get_mut(id)?.take()?;
        for (at, slot) in self.table.iter_mut().enumerate() {
            if *slot == Some(id) {
                *slot = None;
                self.free.push(at);
            }
        }
        Some(entry.object)
    }

    /// Closes a descriptor. Returns the object if this was its last descriptor.
    pub fn close(&mut self, fd: i32) -> Option<Object> {
        let id = self.find(fd)?;
        let at = (fd - FIRST) as usize;
        self.table[at] = None;
        self.free.push(at);
        let entry = self.entry_mut(id)?;
        entry.descriptors -= 1;
        if entry.descriptors > 0 {
            return None;
        }
        self.objects[id].take().map(|entry| entry.object)
    }
}

impl Kernel {
    /// Returns the object of a descriptor.
    pub fn object(&mut self, fd: i32) -> Option<&mut Object> {
        let id = self.descriptors.find(fd)?;
        self.descriptors.get_mut(id)
    }

    /// Closes a descriptor.
    pub fn close(&mut self, fd: i32) -> bool {
        if self.descriptors.find(fd).is_none() {
            return false;
        }
        match self.descriptors.close(fd) {
            Some(Object::Stream(end)) => self.close_end(end),
            Some(Object::Bound(listener) | Object::Listener(listener)) => {
                self.close_listener(listener);
            }
            _ => {}
        }
        true
    }
}
