//! Command metadata: each command has one [`Row`], in the file of its family. COMMAND, COMMAND
//! DOCS, the arity check, the positions of the keys and the ACL categories derive from it.
//!
//! `H` is the type of the handler: commands of the keyspace (this crate) and commands of the
//! server, such as CONFIG, have rows with different handlers. Code that checks commands tests their
//! [`Flags`], never their names.

mod keys;
pub mod syntax;

use punctual_resp::Args;

pub(crate) use keys::until;
pub use keys::{KeyOrOption, Keys, OptionKeys};

/// Command flags of Redis, under the names of COMMAND INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u64);

/// Declares the flag constants and the table of their names, in Redis's order.
macro_rules! flags {
    ($($name:ident = $bit:expr, $text:expr, $doc:expr;)*) => {
        impl Flags {
            $(#[doc = $doc] pub const $name: Self = Self(1u64 << $bit);)*
            const NAMES: &'static [(Self, &'static str)] = &[$((Self::$name, $text)),*];
        }
    };
}

flags! {
    WRITE = 0, "write", "May change the keyspace.";
    READONLY = 1, "readonly", "Reads keys and changes nothing.";
    DENYOOM = 2, "denyoom", "May use more memory.";
    ADMIN = 4, "admin", "Administration.";
    PUBSUB = 5, "pubsub", "Publish and subscribe.";
    NOSCRIPT = 6, "noscript", "Not allowed in scripts.";
    BLOCKING = 8, "blocking", "May block its client.";
    LOADING = 9, "loading", "Allowed while a snapshot loads.";
    STALE = 10, "stale", "Allowed on a stale replica.";
    SKIP_MONITOR = 11, "skip_monitor", "Sent to monitors before the commands that it runs, not after them.";
    SKIP_SLOWLOG = 12, "skip_slowlog", "Not recorded in the slow log.";
    FAST = 14, "fast", "O(1) or O(log N).";
    ASKING = 13, "asking", "Runs in a slot that arrives, as after ASKING.";
    NO_AUTH = 15, "no_auth", "Allowed before AUTH.";
    MAY_REPLICATE = 16, "", "May produce replication traffic; COMMAND INFO does not show it.";
    NO_MANDATORY_KEYS = 22, "no_mandatory_keys", "May be called without keys.";
    NO_ASYNC_LOADING = 23, "no_async_loading", "Not allowed while a replica loads its master's data beside its own.";
    NO_MULTI = 24, "no_multi", "Not allowed inside MULTI.";
    MOVABLE_KEYS = 18, "movablekeys", "The key positions depend on the arguments.";
    ALLOW_BUSY = 26, "allow_busy", "Allowed while a script runs.";
    WHOLE = 30, "", "Not a Redis flag: reaches the whole keyspace, so every shard is locked.";
    KEYLESS = 32, "", "Not a Redis flag: never reads the keyspace, so a transaction locks no shard for it.";
    UNQUEUED = 33, "", "Not a Redis flag: runs at once inside MULTI instead of being queued.";
    EXECUTES = 34, "", "Not a Redis flag: runs the queued commands of a transaction.";
    SUBSCRIBER = 35, "", "Not a Redis flag: allowed for a RESP2 client that has subscriptions.";
    UNPAUSED = 36, "", "Not a Redis flag: CLIENT PAUSE does not hold it back.";
    FLUSHES_ALL = 37, "", "Not a Redis flag: empties every database, and with save points also the snapshot on disk.";
    RUNS_SCRIPTS = 39, "", "Not a Redis flag: runs a script.";
    WATCHES = 40, "", "Not a Redis flag: watches keys.";
    NEEDS_SAVES = 38, "", "Not a Redis flag: refused, like a write, while the server cannot persist changes.";
    KEEPS_CACHING = 45, "", "Not a Redis flag: does not end the effect of CLIENT CACHING, which is for the next command.";
    NOT_IN_TIMER = 43, "", "Not a Redis flag: a timer may not run it.";
    RESHAPES_REPLIES = 48, "", "Not a Redis flag: changes how many replies follow or which form they have, so that a client in the process cannot call it.";
    EMBEDDER = 49, "", "Not a Redis flag: a command of the program in which the server is embedded.";
    MIGRATES = 50, "", "Not a Redis flag: moves keys to another server, also of a slot that moves.";
    NO_CLUSTER = 51, "", "Not a Redis flag: not allowed in cluster mode.";
    SELECTS = 46, "", "Not a Redis flag: selects the database of the commands that follow.";
    CHANGES_ROLE = 47, "", "Not a Redis flag: allowed while a replica loads its master's data, because it may end the load.";
    RESTORES = 44, "", "Not a Redis flag: its payload may be a timer, whose command runs as the client's user.";
    CALLS_FUNCTION = 42, "", "Not a Redis flag: counts as a write unless the function named by its first argument is declared no-writes.";
}

impl Flags {
    /// No flags.
    pub const NONE: Self = Self(0);

    /// Returns the union of both sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if all flags of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the flag that COMMAND INFO shows under this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut flags = Self::NAMES.iter();
        flags
            .find(|(_, of_flag)| *of_flag == name && !name.is_empty())
            .map(|(flag, _)| *flag)
    }

    /// Returns the names that COMMAND INFO shows.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .iter()
            .filter(move |(flag, name)| self.has(*flag) && !name.is_empty())
            .map(|(_, name)| *name)
    }
}

impl std::ops::BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

/// Declares [`Group`]. A group has the name that COMMAND DOCS shows and, if there is one, its ACL
/// category.
macro_rules! groups {
    ($($(#[$doc:meta])* $group:ident => $name:literal, $category:expr;)*) => {
        /// Family of a command: its group in COMMAND DOCS, and an ACL category.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Group {
            $($(#[$doc])* $group,)*
        }

        impl Group {
            /// Returns the name that COMMAND DOCS shows.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$group => $name,)*
                }
            }

            /// Returns the group's ACL category, if it has one.
            const fn category(self) -> Option<&'static str> {
                match self {
                    $(Self::$group => $category,)*
                }
            }
        }
    };
}

groups! {
    /// Keys of any type.
    Generic => "generic", Some("keyspace");
    /// Strings.
    String => "string", Some("string");
    /// Connections.
    Connection => "connection", Some("connection");
    /// The server.
    Server => "server", None;
    /// Publish and subscribe.
    // PUBSUB HELP lacks the category; the other commands get it from their flag.
    Pubsub => "pubsub", None;
    /// Lists.
    List => "list", Some("list");
    /// Hashes.
    Hash => "hash", Some("hash");
    /// Sets.
    Set => "set", Some("set");
    /// Sorted sets.
    SortedSet => "sorted-set", Some("sortedset");
    /// Bitmaps and bit fields in strings.
    Bitmap => "bitmap", Some("bitmap");
    /// HyperLogLogs in strings.
    HyperLogLog => "hyperloglog", Some("hyperloglog");
    /// Geospatial members of sorted sets.
    Geo => "geo", Some("geo");
    /// Streams.
    Stream => "stream", Some("stream");
    /// MULTI, EXEC and WATCH.
    Transactions => "transactions", Some("transaction");
    /// Scripts and functions.
    Scripting => "scripting", Some("scripting");
    /// Redis Cluster.
    Cluster => "cluster", None;
    /// Timers.
    // Redis has no such category.
    Timer => "timer", Some("keyspace");
    /// Queues of jobs.
    Job => "job", Some("keyspace");
}

/// Metadata of a command or subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Name in lower case; for a subcommand, without the container's name (`"id"` for `client|id`).
    pub name: &'static str,
    /// Number of arguments, including the name (and a subcommand's container). A negative number is
    /// the negated minimum.
    pub arity: i32,
    /// Flags.
    pub flags: Flags,
    /// Positions of the keys.
    pub keys: Keys,
    /// Access to the keys in Redis's words (`"RW access update"`): one entry for all keys, or one
    /// entry for each key. COMMAND GETKEYSANDFLAGS and ACL rules use it; locks do not depend on it.
    pub access: &'static [&'static str],
    /// Hints for clients and proxies that COMMAND INFO shows (`"nondeterministic_output"`).
    pub tips: &'static [&'static str],
    /// Family of commands: the group in COMMAND DOCS.
    pub group: Group,
    /// ACL categories that do not follow from flags and group.
    pub categories: &'static [&'static str],
    /// First Redis version with the command.
    pub since: &'static str,
    /// One-line description.
    pub summary: &'static str,
    /// Time complexity; O(1) unless the row sets it.
    pub complexity: &'static str,
    /// Changes: Redis version and description, oldest first.
    pub history: &'static [(&'static str, &'static str)],
    /// Redis version that deprecated the command, and its replacement.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Whether COMMAND DOCS shows it as a system command (`syscmd`), which applications should not
    /// use.
    pub internal: bool,
    /// Whether it is a container, which has only subcommands.
    pub container: bool,
    /// Arguments, in the notation of [`syntax`]; for a subcommand, without its name.
    pub syntax: &'static str,
    /// Finds the positions of secret arguments, which the slow log and MONITOR do not show.
    pub secrets: Option<fn(Args<'_>) -> Vec<usize>>,
    /// Finds the positions of arguments that are numbers of databases, for the rules of users.
    pub databases: Option<fn(Args<'_>) -> Vec<usize>>,
}

impl Facts {
    const fn new(name: &'static str, arity: i32, flags: Flags, group: Group) -> Self {
        Self {
            name,
            arity,
            flags,
            keys: Keys::None,
            access: &[],
            tips: &[],
            group,
            categories: &[],
            since: "1.0.0",
            summary: "",
            complexity: "O(1)",
            history: &[],
            deprecated: None,
            internal: false,
            container: false,
            syntax: "",
            secrets: None,
            databases: None,
        }
    }

    /// Returns true if the command may reach keys that these arguments do not name.
    pub fn reaches_unnamed(&self, args: Args) -> bool {
        self.flags.has(Flags::WHOLE) || self.keys.reaches_unnamed(args)
    }

    /// Returns true if the arity allows `count` arguments, including the name.
    pub const fn takes(&self, count: usize) -> bool {
        if self.arity >= 0 {
            count == self.arity as usize
        } else {
            count >= self.arity.unsigned_abs() as usize
        }
    }

    /// Returns all ACL categories, without the `@`, in the order in which Redis derives them.
    pub fn all_categories(&self) -> Vec<&'static str> {
        let mut all: Vec<&'static str> = Vec::new();
        let mut add = |category| {
            if !all.contains(&category) {
                all.push(category);
            }
        };
        if self.flags.has(Flags::WRITE) {
            add("write");
        }
        // Commands that run scripts are not in the category `read`.
        if self.flags.has(Flags::READONLY) && self.group != Group::Scripting {
            add("read");
        }
        self.categories.iter().copied().for_each(&mut add);
        // A generic command for a few types only (SORT) is not in the category `keyspace`.
        let typed = self.group == Group::Generic && self.categories.contains(&"list");
        // A container has no family category; its subcommands have it.
        if !self.container && !typed {
            self.group.category().into_iter().for_each(&mut add);
        }
        if self.flags.has(Flags::ADMIN) {
            add("admin");
            add("dangerous");
        }
        if self.flags.has(Flags::PUBSUB) {
            add("pubsub");
        }
        add(if self.flags.has(Flags::FAST) {
            "fast"
        } else {
            "slow"
        });
        if self.flags.has(Flags::BLOCKING) {
            add("blocking");
        }
        all
    }
}

/// Metadata and handler of a command or subcommand. Dereferences to its [`Facts`].
#[derive(Clone, Copy, Debug)]
pub struct Row<H: 'static> {
    /// Metadata.
    pub facts: Facts,
    /// Handler; `None` for a container without a handler of its own.
    pub handler: Option<H>,
    /// Subcommands of a container.
    pub subcommands: &'static [Row<H>],
}

/// Declares a function `row(name, arity, flags, handler)` for the commands of a family. The
/// function creates a row with the given handler type, group, additional flags and, optionally,
/// positions of keys.
#[macro_export]
macro_rules! family {
    ($handler:ty, $group:expr, $flags:expr $(, keys($first:expr, $last:expr, $step:expr))?) => {
        const fn row(
            name: &'static str,
            arity: i32,
            flags: $crate::spec::Flags,
            handler: $handler,
        ) -> $crate::spec::Row<$handler> {
            $crate::spec::Row::new(name, arity, flags.or($flags), $group, handler)
                $(.keys($first, $last, $step))?
        }
    };
}

impl<H> std::ops::Deref for Row<H> {
    type Target = Facts;

    #[inline]
    fn deref(&self) -> &Facts {
        &self.facts
    }
}

impl<H> Row<H> {
    /// Creates a row without keys, further categories and documentation.
    pub const fn new(name: &'static str, arity: i32, flags: Flags, group: Group, handler: H) -> Self
    where
        H: Copy,
    {
        Self {
            facts: Facts::new(name, arity, flags, group),
            handler: Some(handler),
            subcommands: &[],
        }
    }

    /// Creates a container that has only subcommands.
    pub const fn container(name: &'static str, group: Group, subcommands: &'static [Row<H>]) -> Self
    where
        H: Copy,
    {
        let mut facts = Facts::new(name, -2, Flags::NONE, group);
        facts.complexity = "Depends on subcommand.";
        facts.container = true;
        Self {
            facts,
            handler: None,
            subcommands,
        }
    }

    /// Creates the row of a container's subcommand HELP.
    pub const fn help(group: Group, since: &'static str, handler: H) -> Self
    where
        H: Copy,
    {
        let flags = Flags::LOADING.or(Flags::STALE).or(Flags::KEYLESS);
        let summary = "Returns helpful text about the different subcommands.";
        Self::new("help", 2, flags, group, handler).doc(since, "O(1)", summary)
    }

    /// Sets the keys to positions `first` to `last` in steps of `step`.
    #[must_use]
    pub const fn keys(mut self, first: usize, last: i32, step: usize) -> Self {
        self.facts.keys = Keys::Range { first, last, step };
        self
    }

    /// Sets the keys to the arguments after position `count`, whose argument is the number of keys.
    #[must_use]
    pub const fn counted_keys(mut self, count: usize) -> Self {
        self.facts.keys = Keys::Counted {
            count,
            step: 1,
            destination: false,
        };
        self
    }

    /// Sets the keys to every other argument after position `count`, whose argument is the number
    /// of keys.
    #[must_use]
    pub const fn counted_pairs(mut self, count: usize) -> Self {
        self.facts.keys = Keys::Counted {
            count,
            step: 2,
            destination: false,
        };
        self
    }

    /// Sets the keys to the first argument, which is the destination, and the arguments after
    /// position `count`, whose argument is the number of keys.
    #[must_use]
    pub const fn destination_and_counted_keys(mut self, count: usize) -> Self {
        self.facts.keys = Keys::Counted {
            count,
            step: 1,
            destination: true,
        };
        self
    }

    /// Sets the access to the keys: one entry for all of them, or one for each.
    #[must_use]
    pub const fn access(mut self, access: &'static [&'static str]) -> Self {
        self.facts.access = access;
        self
    }

    /// Sets the hints for clients and proxies.
    #[must_use]
    pub const fn tips(mut self, tips: &'static [&'static str]) -> Self {
        self.facts.tips = tips;
        self
    }

    /// Sets the keys to one argument or, if that is empty, to the arguments after an option.
    #[must_use]
    pub const fn key_or_option(mut self, keys: &'static KeyOrOption) -> Self {
        self.facts.keys = Keys::KeyOrOption(keys);
        self
    }

    /// Sets the keys to the first argument and the arguments of options.
    #[must_use]
    pub const fn option_keys(mut self, options: &'static OptionKeys) -> Self {
        self.facts.keys = Keys::Options(options);
        self
    }

    /// Sets the keys to the first half of the arguments after the word STREAMS, which is at
    /// position `from` or later.
    #[must_use]
    pub const fn stream_keys(mut self, from: usize) -> Self {
        self.facts.keys = Keys::Streams { from };
        self
    }

    /// Sets the keys to the arguments from position `first` up to the first of these words.
    #[must_use]
    pub const fn keys_until(mut self, first: usize, words: &'static [&'static str]) -> Self {
        self.facts.keys = Keys::Until { first, words };
        self
    }

    /// Sets further ACL categories.
    #[must_use]
    pub const fn categories(mut self, categories: &'static [&'static str]) -> Self {
        self.facts.categories = categories;
        self
    }

    /// Sets the first version, the complexity and the summary, for rows where they fit in a line.
    #[must_use]
    pub const fn doc(
        self,
        since: &'static str,
        complexity: &'static str,
        summary: &'static str,
    ) -> Self {
        self.since(since).complexity(complexity).summary(summary)
    }

    /// Sets the first Redis version with the command.
    #[must_use]
    pub const fn since(mut self, version: &'static str) -> Self {
        self.facts.since = version;
        self
    }

    /// Sets the time complexity, if it is not O(1).
    #[must_use]
    pub const fn complexity(mut self, complexity: &'static str) -> Self {
        self.facts.complexity = complexity;
        self
    }

    /// Sets the description, one sentence or two.
    #[must_use]
    pub const fn summary(mut self, summary: &'static str) -> Self {
        self.facts.summary = summary;
        self
    }

    /// Sets the arguments, in the notation of [`syntax`].
    #[must_use]
    pub const fn syntax(mut self, syntax: &'static str) -> Self {
        self.facts.syntax = syntax;
        self
    }

    /// Sets the changes by Redis version, oldest first.
    #[must_use]
    pub const fn history(mut self, history: &'static [(&'static str, &'static str)]) -> Self {
        self.facts.history = history;
        self
    }

    /// Marks the command as deprecated since a Redis version, and names its replacement.
    #[must_use]
    pub const fn deprecated(mut self, since: &'static str, replaced_by: &'static str) -> Self {
        self.facts.deprecated = Some((since, replaced_by));
        self
    }

    /// Marks the command as a system command; see [`Facts::internal`].
    #[must_use]
    pub const fn internal(mut self) -> Self {
        self.facts.internal = true;
        self
    }

    /// Sets the function that finds the positions of secret arguments.
    #[must_use]
    pub const fn secrets(mut self, find: fn(Args) -> Vec<usize>) -> Self {
        self.facts.secrets = Some(find);
        self
    }

    /// Sets the function that finds the positions of numbers of databases.
    #[must_use]
    pub const fn databases(mut self, find: fn(Args) -> Vec<usize>) -> Self {
        self.facts.databases = Some(find);
        self
    }
}
