//! What a command is, as data: one row beside its handler, from which COMMAND, COMMAND DOCS, the arity
//! check, the key lookup and the ACL categories all derive.
//!
//! A row names its handler of type `H`: the keyspace's handlers and the server's own (connections,
//! configuration) are different functions in the same kind of row.

use std::ops::Range;

use punctual_resp::Args;
use punctual_resp::decimal::parse_i64;

/// Redis's command flags, as COMMAND INFO names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u32);

/// Declares the flag constants and the table of their names, in Redis's order.
macro_rules! flags {
    ($($name:ident = $bit:expr, $text:expr, $doc:expr;)*) => {
        impl Flags {
            $(#[doc = $doc] pub const $name: Self = Self(1 << $bit);)*
            const NAMES: &'static [(Self, &'static str)] = &[$((Self::$name, $text)),*];
        }
    };
}

flags! {
    WRITE = 0, "write", "May change the keyspace.";
    READONLY = 1, "readonly", "Reads keys and changes nothing.";
    DENYOOM = 2, "denyoom", "May make the keyspace larger.";
    ADMIN = 4, "admin", "Administration.";
    PUBSUB = 5, "pubsub", "Publish and subscribe.";
    NOSCRIPT = 6, "noscript", "Not from scripts.";
    BLOCKING = 8, "blocking", "May block its client.";
    LOADING = 9, "loading", "Allowed while a snapshot is loaded.";
    STALE = 10, "stale", "Allowed on a stale replica.";
    SKIP_MONITOR = 11, "skip_monitor", "Not shown to MONITOR.";
    SKIP_SLOWLOG = 12, "skip_slowlog", "Not kept in the slow log.";
    FAST = 14, "fast", "O(1) or O(log N).";
    NO_AUTH = 15, "no_auth", "Allowed before AUTH.";
    MAY_REPLICATE = 16, "", "May produce replication traffic; Redis does not show it.";
    NO_ASYNC_LOADING = 23, "no_async_loading", "Not while a replica loads its master's data beside its own.";
    NO_MULTI = 24, "no_multi", "Not inside MULTI.";
    MOVABLE_KEYS = 18, "movablekeys", "The key positions depend on the arguments.";
    ALLOW_BUSY = 26, "allow_busy", "Allowed while a script runs.";
    WHOLE = 30, "", "Ours: works on the whole keyspace, so every shard is locked.";
}

impl Flags {
    /// No flags.
    pub const NONE: Self = Self(0);

    /// Both sets of flags.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in here.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names that COMMAND INFO shows.
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

/// Where a command's keys stand among its arguments.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// It has none.
    None,
    /// From `first` to `last` (negative: counted from the end) in steps of `step`, as COMMAND INFO says it.
    Range {
        /// First key's position; the command's name is at 0.
        first: usize,
        /// Last key's position, -1 for the last argument.
        last: i32,
        /// Distance from key to key.
        step: usize,
    },
    /// Behind the argument at `count`, which tells how many they are.
    Counted {
        /// The position of that argument.
        count: usize,
        /// Whether the first argument is a key too: where the result goes.
        destination: bool,
    },
    /// The first argument; more are arguments of options.
    Options(&'static OptionKeys),
    /// Positions depend on the arguments: the function pushes each key's position.
    /// It is called after the arity check, and pushes nothing for arguments that make no sense.
    Found(fn(Args<'_>, &mut dyn FnMut(usize))),
}

impl Keys {
    /// Calls `visit` with the position of each key in `args`.
    pub fn each(&self, args: Args<'_>, visit: &mut dyn FnMut(usize)) {
        match *self {
            Self::None => {}
            Self::Range { first, last, step } => {
                let end = if last >= 0 {
                    last as usize
                } else {
                    args.len().saturating_sub(last.unsigned_abs() as usize)
                };
                let mut at = first;
                while at <= end && at < args.len() {
                    visit(at);
                    at += step.max(1);
                }
            }
            Self::Counted { count, destination } => {
                let keys = counted(args, count);
                if destination && !keys.is_empty() {
                    visit(1);
                }
                keys.for_each(visit);
            }
            Self::Options(options) => {
                if args.len() > 1 {
                    visit(1);
                }
                options.each_key(args, visit);
            }
            Self::Found(find) => find(args, visit),
        }
    }

    /// Whether a command with these arguments reaches keys that they do not name.
    pub fn anywhere(&self, args: Args<'_>) -> bool {
        matches!(self, Self::Options(options) if options.anywhere(args))
    }
}

/// Keys that come with options.
#[derive(Clone, Copy, Debug)]
pub struct OptionKeys {
    /// The position of the first option.
    pub from: usize,
    /// Options with a key behind them; of one that is given twice, the last counts.
    pub keyed: &'static [&'static str],
    /// Options with a pattern behind them, whose asterisk stands for an element: keys are made of it.
    pub patterned: &'static [&'static str],
    /// Other options with arguments, and how many.
    pub skipped: &'static [(&'static str, usize)],
}

impl OptionKeys {
    /// Visits the keys that come with options.
    fn each_key(&self, args: Args<'_>, visit: &mut dyn FnMut(usize)) {
        for word in self.keyed {
            let mut last = None;
            self.each(args, &[word], &mut |at| last = Some(at));
            last.into_iter().for_each(&mut *visit);
        }
    }

    /// Whether a pattern makes keys.
    fn anywhere(&self, args: Args<'_>) -> bool {
        let mut found = false;
        self.each(args, self.patterned, &mut |at| {
            found |= args[at].contains(&b'*');
        });
        found
    }

    /// Visits what is behind each option of `words`.
    fn each(&self, args: Args<'_>, words: &[&str], visit: &mut dyn FnMut(usize)) {
        let mut at = self.from;
        while let Some(arg) = args.get(at) {
            let is = |word: &&&str| arg.eq_ignore_ascii_case(word.as_bytes());
            if words.iter().any(|word| is(&word)) && at + 1 < args.len() {
                visit(at + 1);
            }
            let one = self
                .keyed
                .iter()
                .chain(self.patterned)
                .any(|word| is(&word));
            let several = self.skipped.iter().find(|(word, _)| is(&word));
            at += 1 + several.map_or(usize::from(one), |(_, count)| *count);
        }
    }
}

/// The positions of the keys behind the argument at `count`; none if it tells more than there are.
fn counted(args: Args<'_>, count: usize) -> Range<usize> {
    let told = args.get(count).and_then(parse_i64);
    let there = args.len().saturating_sub(count + 1);
    let keys = told.and_then(|keys| usize::try_from(keys).ok());
    let keys = keys.filter(|keys| *keys <= there).unwrap_or_default();
    count + 1..count + 1 + keys
}

/// The family a command belongs to: COMMAND DOCS' group, and an ACL category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Keys of any type.
    Generic,
    /// Strings.
    String,
    /// Connections.
    Connection,
    /// The server itself.
    Server,
    /// Publish and subscribe.
    Pubsub,
    /// Lists.
    List,
    /// Hashes.
    Hash,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Bitmaps and bit fields in strings.
    Bitmap,
    /// HyperLogLogs in strings.
    HyperLogLog,
    /// Places on Earth in sorted sets.
    Geo,
    /// MULTI and its kin.
    Transactions,
    /// Scripts and functions.
    Scripting,
    /// Redis Cluster.
    Cluster,
}

impl Group {
    /// The name that COMMAND DOCS shows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::String => "string",
            Self::Connection => "connection",
            Self::Server => "server",
            Self::Pubsub => "pubsub",
            Self::List => "list",
            Self::Hash => "hash",
            Self::Set => "set",
            Self::SortedSet => "sorted-set",
            Self::Bitmap => "bitmap",
            Self::HyperLogLog => "hyperloglog",
            Self::Geo => "geo",
            Self::Transactions => "transactions",
            Self::Scripting => "scripting",
            Self::Cluster => "cluster",
        }
    }

    /// The ACL category that comes with the group, if any.
    const fn category(self) -> Option<&'static str> {
        match self {
            Self::Generic => Some("keyspace"),
            Self::String => Some("string"),
            Self::Connection => Some("connection"),
            Self::List => Some("list"),
            Self::Hash => Some("hash"),
            Self::Set => Some("set"),
            Self::SortedSet => Some("sortedset"),
            Self::Bitmap => Some("bitmap"),
            Self::HyperLogLog => Some("hyperloglog"),
            Self::Geo => Some("geo"),
            Self::Transactions => Some("transaction"),
            Self::Scripting => Some("scripting"),
            // PUBSUB HELP does not have the category; the others have it from their flag.
            Self::Pubsub | Self::Server | Self::Cluster => None,
        }
    }
}

/// One command or subcommand: its facts and its handler.
#[derive(Clone, Copy, Debug)]
pub struct Row<H: 'static> {
    /// Lower-case name; a subcommand's own name only (`"id"` of `client|id`).
    pub name: &'static str,
    /// Number of arguments, the name counted (a subcommand's container too); negative: at least so many.
    pub arity: i32,
    /// Flags.
    pub flags: Flags,
    /// Positions of the keys.
    pub keys: Keys,
    /// What the command does to its keys, in Redis's words (`"RW access update"`): one entry that stands for all of
    /// them, or one for each. Tells COMMAND GETKEYSANDFLAGS; locks do not depend on it.
    pub access: &'static [&'static str],
    /// Hints for clients and proxies that COMMAND INFO shows (`"nondeterministic_output"`).
    pub tips: &'static [&'static str],
    /// Family.
    pub group: Group,
    /// ACL categories besides those that follow from flags and group.
    pub categories: &'static [&'static str],
    /// Redis version that brought it.
    pub since: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Its cost.
    pub complexity: &'static str,
    /// What its options came with: Redis version and change, oldest first.
    pub history: &'static [(&'static str, &'static str)],
    /// Since which Redis version another command is to be used, and which.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Redis calls it a system command: not for applications.
    pub internal: bool,
    /// What runs it; a container without a handler of its own has `None`.
    pub handler: Option<H>,
    /// Subcommands, for a container.
    pub subcommands: &'static [Row<H>],
}

impl<H> Row<H> {
    /// A row with the facts that every command has; no keys, no further categories.
    pub const fn new(name: &'static str, arity: i32, flags: Flags, group: Group, handler: H) -> Self
    where
        H: Copy,
    {
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
            complexity: "",
            history: &[],
            deprecated: None,
            internal: false,
            handler: Some(handler),
            subcommands: &[],
        }
    }

    /// A container, which only has subcommands.
    pub const fn container(name: &'static str, group: Group, subcommands: &'static [Row<H>]) -> Self
    where
        H: Copy,
    {
        Self {
            name,
            arity: -2,
            flags: Flags::NONE,
            keys: Keys::None,
            access: &[],
            tips: &[],
            group,
            categories: &[],
            since: "1.0.0",
            summary: "",
            complexity: "Depends on subcommand.",
            history: &[],
            deprecated: None,
            internal: false,
            handler: None,
            subcommands,
        }
    }

    /// With keys from `first` to `last` in steps of `step`.
    #[must_use]
    pub const fn keys(mut self, first: usize, last: i32, step: usize) -> Self {
        self.keys = Keys::Range { first, last, step };
        self
    }

    /// With keys behind the argument at `count`, which tells how many they are.
    #[must_use]
    pub const fn counted_keys(mut self, count: usize) -> Self {
        self.keys = Keys::Counted {
            count,
            destination: false,
        };
        self
    }

    /// With a key as first argument, where the result goes, and others behind the argument at `count`, which tells how
    /// many these are.
    #[must_use]
    pub const fn destination_and_counted_keys(mut self, count: usize) -> Self {
        self.keys = Keys::Counted {
            count,
            destination: true,
        };
        self
    }

    /// With what it does to its keys: one entry for all of them, or one for each.
    #[must_use]
    pub const fn access(mut self, access: &'static [&'static str]) -> Self {
        self.access = access;
        self
    }

    /// With hints for clients and proxies.
    #[must_use]
    pub const fn tips(mut self, tips: &'static [&'static str]) -> Self {
        self.tips = tips;
        self
    }

    /// With a function that finds the keys.
    #[must_use]
    pub const fn found_keys(mut self, find: fn(Args<'_>, &mut dyn FnMut(usize))) -> Self {
        self.keys = Keys::Found(find);
        self
    }

    /// With a first argument that is a key, and options that bring more.
    #[must_use]
    pub const fn option_keys(mut self, options: &'static OptionKeys) -> Self {
        self.keys = Keys::Options(options);
        self
    }

    /// With further ACL categories.
    #[must_use]
    pub const fn categories(mut self, categories: &'static [&'static str]) -> Self {
        self.categories = categories;
        self
    }

    /// With its documentation: since when, complexity, summary.
    #[must_use]
    pub const fn doc(
        mut self,
        since: &'static str,
        complexity: &'static str,
        summary: &'static str,
    ) -> Self {
        self.since = since;
        self.complexity = complexity;
        self.summary = summary;
        self
    }

    /// With the Redis versions that changed it, oldest first.
    #[must_use]
    pub const fn history(mut self, history: &'static [(&'static str, &'static str)]) -> Self {
        self.history = history;
        self
    }

    /// Deprecated since a Redis version, in favour of another command.
    #[must_use]
    pub const fn deprecated(mut self, since: &'static str, replaced_by: &'static str) -> Self {
        self.deprecated = Some((since, replaced_by));
        self
    }

    /// Not for applications.
    #[must_use]
    pub const fn internal(mut self) -> Self {
        self.internal = true;
        self
    }

    /// Whether the command, with these arguments, may reach keys that they do not name.
    pub fn anywhere(&self, args: Args<'_>) -> bool {
        self.flags.has(Flags::WHOLE) || self.keys.anywhere(args)
    }

    /// Whether `count` arguments (the name counted) are allowed.
    pub const fn takes(&self, count: usize) -> bool {
        if self.arity >= 0 {
            count == self.arity as usize
        } else {
            count >= self.arity.unsigned_abs() as usize
        }
    }

    /// All ACL categories, without the `@`, in Redis's order of deriving them.
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
        if self.flags.has(Flags::READONLY) {
            add("read");
        }
        self.categories.iter().copied().for_each(&mut add);
        // What works on some types only (SORT) is of these, not of the keyspace.
        let typed = self.group == Group::Generic && self.categories.contains(&"list");
        // A container does nothing itself: its subcommands carry the family.
        if self.handler.is_some() && !typed {
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
