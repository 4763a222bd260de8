//! Our server and a redis-server that get the same commands.

use crate::wire::configured;
use std::path::Path;

use punctual_resp::Value;
use punctual_server::Server;

use super::redis::Redis;
use super::{Open as _, Wire};

/// Clients of both servers.
pub struct Pair {
    pub ours: Wire,
    pub theirs: Wire,
}

impl Pair {
    /// Connects to both servers.
    pub fn open(server: &Server, redis: &Redis, protocol: &str) -> Self {
        let mut pair = Self {
            ours: Wire::open(server),
            theirs: Wire::to(redis.port),
        };
        pair.ours.ask(&["HELLO", protocol]);
        pair.theirs.ask(&["HELLO", protocol]);
        pair
    }

    /// Runs a command on both servers, asserts that the replies are equal, and returns the reply.
    #[track_caller]
    pub fn ask(&mut self, args: &[impl AsRef<[u8]>]) -> Value {
        let (ours, theirs) = (self.ours.ask(args), self.theirs.ask(args));
        let shown: Vec<_> = args
            .iter()
            .map(|arg| arg.as_ref().escape_ascii().to_string())
            .collect();
        assert_eq!(ours, theirs, "{shown:?}");
        ours
    }

    /// Like [`Pair::ask`], for a command that must succeed.
    #[track_caller]
    pub fn succeed(&mut self, args: &[impl AsRef<[u8]>]) -> Value {
        let reply = self.ask(args);
        assert!(!reply.is_error(), "{reply:?}");
        reply
    }

    /// Loads a library of functions with this body into both servers.
    #[track_caller]
    pub fn load(&mut self, name: &str, body: &str) -> Value {
        let code = format!("#!lua name={name}\n{body}");
        self.ask(&["FUNCTION", "LOAD", "REPLACE", &code])
    }
}

/// Starts a server without save points in a folder.
pub fn server(folder: &Path, threads: usize) -> Server {
    configured("save|enable-debug-command yes")
        .threads(threads)
        .option("dir", folder.to_str().unwrap())
        .spawn()
        .unwrap()
}
