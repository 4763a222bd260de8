//! The scripts that one event loop has compiled.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_lua::{Interpreter, Script, ScriptFlags};
use punctual_store::Error;
use sha1::{Digest, Sha1};

use crate::acl::user::User;
use crate::client::registry::ClientInfo;
use crate::node::Shared;
use crate::script::cache::{BySha, Cache, Sha, parse_sha};
use crate::script::functions::loaded::Loaded;
use crate::script::{options, shebang};
use crate::session::Session;

/// A script that a loop has compiled.
pub(crate) struct Compiled {
    pub(crate) script: Script,
    /// SHA1 in hexadecimal digits.
    pub(crate) name: String,
    /// Flags of the script's shebang line, if it has one.
    pub(crate) flags: Option<ScriptFlags>,
}

/// The error of a script that is not in the cache.
pub(crate) const MISSING: Error = Error::fixed("NOSCRIPT No matching script. Please use EVAL.");

/// Compiled scripts, functions and script sessions of one loop.
pub(crate) struct Scripts {
    /// The interpreter, which the first script creates.
    pub(crate) interpreter: Option<Interpreter>,
    pub(crate) compiled: Vec<Compiled>,
    by_sha: BySha<usize>,
    /// Value of [`Cache::flushes`] at the last check.
    flushes: u64,
    /// Libraries of functions that the loop has loaded.
    pub(crate) functions: Loaded,
    /// Session in which commands of scripts run.
    pub(crate) session: Option<Box<Session>>,
    /// Session in which commands of timers run.
    pub(crate) timers: Option<Box<Session>>,
    /// Buffer for replies to commands of timers.
    pub(crate) timer_reply: Vec<u8>,
}

impl Scripts {
    /// Creates the state of a loop. `math.random` in its scripts uses the generator that all loops
    /// share.
    pub(crate) fn new(shared: &Shared) -> Self {
        Self {
            interpreter: None,
            compiled: Vec::new(),
            by_sha: BySha::default(),
            flushes: 0,
            functions: Loaded::new(
                shared.world,
                shared.scripting.cache.random.clone(),
                shared.settings().redis_version,
            ),
            session: None,
            timers: None,
            timer_reply: Vec::new(),
        }
    }

    /// Compiles a script if the loop has not done so, adds it to the cache, and returns its index
    /// in `compiled`. O(length).
    ///
    /// # Errors
    /// Returns the error to reply if the source does not compile.
    pub(crate) fn by_source(&mut self, cache: &Cache, code: &[u8]) -> Result<usize, Error> {
        let sha = Sha1::digest(code).into();
        self.drop_if_flushed(cache);
        if let Some(&known) = self.by_sha.get(&sha) {
            return Ok(known);
        }
        let compiled = self.compile(sha, code)?;
        cache.add(sha, code);
        Ok(compiled)
    }

    /// Compiles a script of the cache if the loop has not done so, and returns its index in
    /// `compiled`. O(1) if the loop has compiled it.
    ///
    /// # Errors
    /// Returns NOSCRIPT if the script is not in the cache.
    pub(crate) fn by_sha(&mut self, cache: &Cache, name: &[u8]) -> Result<usize, Error> {
        let sha = parse_sha(name).ok_or(MISSING)?;
        self.drop_if_flushed(cache);
        if let Some(&known) = self.by_sha.get(&sha) {
            return Ok(known);
        }
        let code = cache.get(&sha).ok_or(MISSING)?;
        self.compile(sha, &code)
    }

    /// Returns the SHA1 of a compiled script in hexadecimal digits.
    pub(crate) fn name(&self, at: usize) -> &str {
        &self.compiled[at].name
    }

    /// Returns the flags of a compiled script's shebang line, if it has one.
    pub(crate) fn flags(&self, at: usize) -> Option<ScriptFlags> {
        self.compiled[at].flags
    }

    /// Drops all compiled scripts if the cache was flushed.
    fn drop_if_flushed(&mut self, cache: &Cache) {
        let flushes = cache.flushes.load(Ordering::Acquire);
        if flushes != self.flushes {
            self.flushes = flushes;
            self.by_sha.clear();
            self.compiled.clear();
            self.interpreter = None;
        }
    }

    fn compile(&mut self, sha: Sha, code: &[u8]) -> Result<usize, Error> {
        let (flags, skipped) = shebang::parse(code)?;
        let interpreter = self.interpreter.get_or_insert_with(|| {
            let mut new = Interpreter::new(options(self.functions.redis_version));
            new.set_random(&self.functions.random);
            new
        });
        let script = interpreter.compile(&code[skipped..]).map_err(|text| {
            let text = [b"ERR Error compiling script (new function): ", &text[..]].concat();
            Error::Bytes(text.into())
        })?;
        let name = sha.iter().map(|byte| format!("{byte:02x}")).collect();
        self.compiled.push(Compiled {
            script,
            name,
            flags,
        });
        let at = self.compiled.len() - 1;
        self.by_sha.insert(sha, at);
        Ok(at)
    }

    /// Takes the session for scripts out, and gives it the database and the user of `client`.
    pub(crate) fn take_session(
        &mut self,
        loop_number: usize,
        client: &mut Session,
    ) -> Box<Session> {
        let mut session = self.session.take().unwrap_or_else(|| {
            let info = ClientInfo {
                addr: "lua".to_owned(),
                loop_number,
                ..ClientInfo::default()
            };
            let session = Session::new(Arc::new(info), User::internal());
            Box::new(session)
        });
        session.remove_fieldsets();
        session.db = client.db;
        session.no_touch = client.no_touch;
        session.asking = client.asking;
        session.reads_replica = client.reads_replica;
        session.reader = client.reader;
        session.swap_users(client);
        session
    }
}
