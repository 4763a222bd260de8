//! The set of libraries that all loops share.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use punctual_lua::{Declaration, ScriptFlags};

/// Number of a library, never reused.
pub(crate) type LibraryId = u64;

/// A library: its source, and the functions that it declares.
pub(crate) struct Library {
    pub(crate) id: LibraryId,
    pub(crate) name: String,
    /// The whole source, including the first line.
    pub(crate) code: Box<[u8]>,
    /// Declarations of its functions, in the order of registration.
    pub(crate) functions: Vec<Declaration>,
}

impl Library {
    fn memory(&self) -> usize {
        let function = |function: &Declaration| {
            let description = function.description.as_ref().map_or(0, Vec::len);
            size_of::<Declaration>() + function.name.len() + description
        };
        size_of::<Self>()
            + self.name.len()
            + self.code.len()
            + self.functions.iter().map(function).sum::<usize>()
    }
}

/// Error for a name that another library or function has.
#[derive(Debug)]
pub(crate) enum Taken {
    Library(String),
    Function(String),
}

/// A function, found by its name.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) library: Arc<Library>,
    /// Index among the library's functions.
    pub(crate) index: usize,
}

impl Found {
    pub(crate) fn declaration(&self) -> &Declaration {
        &self.library.functions[self.index]
    }
}

/// The set of all libraries at one time.
#[derive(Clone, Default)]
pub(crate) struct Libraries {
    by_name: BTreeMap<String, Arc<Library>>,
    /// Functions by lower-case name, because calls ignore case.
    functions: HashMap<Vec<u8>, Found, ahash::RandomState>,
}

impl Libraries {
    /// Returns the libraries in the order of their names.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// Returns true if a library has this name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns true if there are no libraries.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns the function with this name. O(length).
    pub(crate) fn find(&self, name: &[u8]) -> Option<&Found> {
        let mut lower = [0; 64];
        match lower.get_mut(..name.len()) {
            Some(lower) => {
                lower.copy_from_slice(name);
                lower.make_ascii_lowercase();
                self.functions.get(&*lower)
            }
            None => self.functions.get(&name.to_ascii_lowercase()),
        }
    }

    /// Returns the number of callable functions.
    pub(crate) fn functions(&self) -> usize {
        self.functions.len()
    }

    /// Returns the bytes of the libraries, including their sources and names.
    pub(crate) fn memory(&self) -> usize {
        self.iter().map(|library| library.memory()).sum()
    }

    /// Removes a library and its functions. Returns true if the library existed.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let Some(library) = self.by_name.remove(name) else {
            return false;
        };
        self.functions
            .retain(|_, found| found.library.id != library.id);
        true
    }

    /// Adds all libraries of `others`. With `replace`, they replace the libraries with the same
    /// names.
    ///
    /// # Errors
    /// Returns the first name that is taken. In this case some libraries may have been removed or
    /// added.
    pub(crate) fn join(&mut self, others: &Self, replace: bool) -> Result<(), Taken> {
        for library in others.iter() {
            if !replace && self.contains(&library.name) {
                return Err(Taken::Library(library.name.clone()));
            }
            self.remove(&library.name);
        }
        for library in others.iter() {
            self.add(library)?;
        }
        Ok(())
    }

    /// Adds a library and removes the library with the same name.
    ///
    /// # Errors
    /// Returns the first function whose name is taken. In this case the library with the same name
    /// has been removed.
    pub(crate) fn replace(&mut self, library: &Arc<Library>) -> Result<(), Taken> {
        self.remove(&library.name);
        self.add(library)
    }

    /// Adds a library whose name is free.
    ///
    /// # Errors
    /// Returns the first function whose name is taken. In this case nothing has changed.
    fn add(&mut self, library: &Arc<Library>) -> Result<(), Taken> {
        let key = |function: &Declaration| function.name.to_ascii_lowercase().into_bytes();
        let taken = |function: &&Declaration| self.functions.contains_key(&key(function));
        if let Some(function) = library.functions.iter().find(taken) {
            return Err(Taken::Function(function.name.clone()));
        }
        for (index, function) in library.functions.iter().enumerate() {
            // As in Redis, two names of a library that differ only in case refer to the first
            // function.
            self.functions
                .entry(key(function))
                .or_insert_with(|| Found {
                    library: Arc::clone(library),
                    index,
                });
        }
        self.by_name
            .insert(library.name.clone(), Arc::clone(library));
        Ok(())
    }
}

/// The current set of libraries of a server.
#[derive(Default)]
pub(crate) struct Registry {
    current: RwLock<Arc<Libraries>>,
    /// Number of changes, for the loops to notice a change.
    version: AtomicU64,
    last_id: AtomicU64,
}

impl Registry {
    /// Returns the current libraries. O(1).
    pub(crate) fn libraries(&self) -> Arc<Libraries> {
        Arc::clone(&self.current.read())
    }

    /// Returns the number of changes.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the id of a new library.
    pub(crate) fn new_id(&self) -> LibraryId {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Replaces the set of libraries by a copy that `change` has changed. O(n) for n libraries and
    /// functions.
    ///
    /// # Errors
    /// Returns the error of `change`. In this case the set is unchanged.
    pub(crate) fn change<T, E>(
        &self,
        change: impl FnOnce(&mut Libraries) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut current = self.current.write();
        let mut libraries = Libraries::clone(&current);
        let result = change(&mut libraries)?;
        *current = Arc::new(libraries);
        self.version.fetch_add(1, Ordering::Release);
        Ok(result)
    }

    /// Removes all libraries.
    pub(crate) fn clear(&self) {
        let Ok(()) = self.change(|libraries| {
            *libraries = Libraries::default();
            Ok::<_, Infallible>(())
        });
    }

    /// Returns the flags that a function declares, or `None` if the function does not exist.
    pub(crate) fn declared(&self, name: &[u8]) -> Option<ScriptFlags> {
        let libraries = self.current.read();
        Some(libraries.find(name)?.declaration().flags)
    }
}
