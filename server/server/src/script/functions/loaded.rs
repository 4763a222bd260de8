//! The libraries that one event loop has loaded into its interpreter.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use punctual_lua::{Call, Failure, Function, Functions, Host, LogLevel, Random};
use punctual_resp::{Args, Protocol, Reply};
use punctual_store::Error;

use crate::log::Logger;
use crate::script::functions::header;
use crate::script::functions::registry::{Found, Libraries, Library, LibraryId, Registry, Taken};
use crate::script::options;
use crate::world::{Moment, World};

/// Maximum time for a client's FUNCTION LOAD to run the library's code.
const TIME_MAX: Duration = Duration::from_millis(500);

/// State of the libraries in one event loop.
pub(crate) struct Loaded {
    world: World,
    /// The interpreter. It exists while there are libraries, and is taken out while a function
    /// runs.
    pub(crate) engine: Option<Box<Engine>>,
    /// The registry's libraries at the last check.
    libraries: Arc<Libraries>,
    /// The registry's version at the last check.
    version: u64,
    /// Generator behind `math.random`, which survives the interpreter. As in Redis, functions and
    /// scripts share it.
    pub(crate) random: Random,
    /// Redis version that functions and scripts see.
    pub(crate) redis_version: &'static str,
}

/// An interpreter, and the libraries that it has loaded.
pub(crate) struct Engine {
    interpreter: Functions,
    libraries: HashMap<LibraryId, Vec<Function>, ahash::RandomState>,
}

impl Engine {
    fn new(random: &Random, version: &'static str) -> Self {
        let mut interpreter = Functions::new(options(version));
        interpreter.set_random(random);
        Self {
            interpreter,
            libraries: HashMap::default(),
        }
    }

    /// Calls a function that [`Loaded::find`] has returned.
    ///
    /// # Errors
    /// Returns the error that ended the function.
    pub(crate) fn call(
        &mut self,
        found: &Found,
        call: &Call<'_>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), Failure> {
        let function = &self.libraries[&found.library.id][found.index];
        self.interpreter.call(function, call, host, reply)
    }

    /// Returns the bytes that the interpreter has allocated.
    pub(crate) fn memory(&self) -> usize {
        self.interpreter.memory()
    }

    /// Runs a library's code and returns the functions that it registers.
    fn run(&mut self, code: &[u8], host: &mut Loading<'_>) -> Result<Vec<Function>, Error> {
        self.interpreter
            .load(code, host)
            .map_err(|text| Error::Bytes([b"ERR ", &text[..]].concat().into()))
    }
}

impl Loaded {
    /// Creates the state of a loop that has not checked the registry.
    pub(crate) fn new(world: World, random: Random, redis_version: &'static str) -> Self {
        Self {
            world,
            engine: None,
            libraries: Arc::default(),
            version: 0,
            random,
            redis_version,
        }
    }

    /// Checks whether the registry has changed, and frees the libraries that were removed from it.
    pub(crate) fn refresh(&mut self, registry: &Registry) {
        let version = registry.version();
        if version == self.version {
            return;
        }
        self.version = version;
        self.libraries = registry.libraries();
        self.free_removed();
    }

    /// Frees the libraries that were not in the registry at the last check.
    pub(crate) fn free_removed(&mut self) {
        if self.libraries.is_empty() {
            self.engine = None;
        }
        let Some(engine) = &mut self.engine else {
            return;
        };
        let known: HashSet<LibraryId> = self.libraries.iter().map(|library| library.id).collect();
        let gone = engine
            .libraries
            .extract_if(|id, _| !known.contains(id))
            .flat_map(|(_, functions)| functions)
            .collect();
        engine.interpreter.forget(gone);
    }

    /// Returns the interpreter, and creates it if necessary.
    fn engine(&mut self) -> &mut Engine {
        self.engine
            .get_or_insert_with(|| Box::new(Engine::new(&self.random, self.redis_version)))
    }

    /// Finds a function, and loads its library if necessary.
    ///
    /// # Errors
    /// Returns the error to reply.
    pub(crate) fn find(&mut self, registry: &Registry, name: &[u8]) -> Result<Found, Error> {
        self.refresh(registry);
        let found = self.libraries.find(name).cloned();
        let found = found.ok_or(Error::fixed("ERR Function not found"))?;
        let world = self.world;
        let engine = self.engine();
        if !engine.libraries.contains_key(&found.library.id) {
            // FUNCTION LOAD or the load of a snapshot has already logged the library's messages.
            let mut host = Loading {
                logger: None,
                world,
                end: None,
            };
            let code = header::parse(&found.library.code)?.code;
            let functions = engine.run(code, &mut host)?;
            let declared = functions.iter().map(|function| &function.declaration);
            if !declared.eq(&found.library.functions) {
                engine.interpreter.forget(functions);
                return Err(Error::fixed(
                    "ERR The library now registers other functions",
                ));
            }
            engine.libraries.insert(found.library.id, functions);
        }
        Ok(found)
    }

    /// Returns the bytes that the interpreter has allocated.
    pub(crate) fn memory(&self) -> usize {
        self.engine.as_ref().map_or(0, |engine| engine.memory())
    }
}

/// Loads new libraries into an interpreter: of the calling loop, or of the load of a snapshot.
pub(crate) struct Loader<'l> {
    pub(crate) loaded: &'l mut Loaded,
    pub(crate) registry: &'l Registry,
    pub(crate) logger: &'l Logger,
}

impl Loader<'_> {
    /// Runs a library's code. With `limited`, the code must end within [`TIME_MAX`].
    ///
    /// # Errors
    /// Returns the error to reply if the source is not a valid library, or if `exists` returns true
    /// for its name.
    pub(crate) fn load(
        &mut self,
        source: &[u8],
        exists: impl FnOnce(&str) -> bool,
        limited: bool,
    ) -> Result<Arc<Library>, Error> {
        let header = header::parse(source)?;
        if exists(&header.name) {
            let text = format!("ERR Library '{}' already exists", header.name);
            return Err(Error::Text(text.into()));
        }
        let mut host = Loading {
            logger: Some(self.logger),
            world: self.loaded.world,
            end: limited.then(|| self.loaded.world.stopwatch() + TIME_MAX),
        };
        let engine = self.loaded.engine();
        let functions = engine.run(header.code, &mut host)?;
        let library = Library {
            id: self.registry.new_id(),
            name: header.name,
            code: source.into(),
            functions: functions
                .iter()
                .map(|function| function.declaration.clone())
                .collect(),
        };
        engine.libraries.insert(library.id, functions);
        Ok(Arc::new(library))
    }
}

/// Returns the error for a name that is taken.
pub(crate) fn taken(taken: Taken) -> Error {
    let text = match taken {
        Taken::Library(name) => format!("ERR Library {name} already exists"),
        Taken::Function(name) => format!("ERR Function {name} already exists"),
    };
    Error::Text(text.into())
}

/// The server as the code of a library sees it during loading.
struct Loading<'l> {
    /// The log; `None` if the library's messages were logged before.
    logger: Option<&'l Logger>,
    world: World,
    /// Time at which the load fails; `None` without a limit.
    end: Option<Moment>,
}

impl Host for Loading<'_> {
    fn call(&mut self, _: Args, _: Protocol, reply: &mut Vec<u8>) {
        // `redis.call` does not exist during the loading of a library.
        reply.extend_from_slice(b"-ERR no command runs here\r\n");
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        if let Some(logger) = self.logger {
            crate::script::log(logger, level, text);
        }
    }

    fn interrupt(&mut self) -> Option<&'static str> {
        let late = self.end.is_some_and(|end| self.world.stopwatch() >= end);
        late.then_some("FUNCTION LOAD timeout")
    }
}
