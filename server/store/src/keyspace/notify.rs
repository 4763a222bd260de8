//! The rules of NOTIFY, a command that Redis lacks. A rule selects keyspace events of one database
//! and names a stream, to which the turn appends an entry for each event.
//!
//! Ground rules: rules belong to the [`Store`] and not to a database. FLUSHALL keeps them;
//! snapshots and the log of changes contain them. Only a turn that holds every shard changes them.
//! A turn that holds any shard holds the shards of all target streams too (`turn/locks.rs`), so an
//! event and its entry are one atomic step. In cluster mode a rule has one stream for each slot
//! (`slot_streams.rs`), in the shard of the keys whose events it gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::RwLock;
use punctual_resp::{Args, OwnedArgs, decode, encode_command};

use crate::arguments::{int, is};
use crate::classes::Classes;
use crate::error::Error;
use crate::glob;
use crate::keyspace::shard::Store;

mod slot_streams;

/// Name of the snapshot field that holds a rule. Redis ignores it.
pub const FIELD: &str = "punctual-notify";

/// Option of NOTIFY SET that logs and snapshots have.
const SINCE: &str = "SINCE";

/// The form in which an entry contains the key's value after the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    None,
    /// The bytes of a string.
    String,
    /// The value as DUMP returns it.
    Dump,
}

/// A rule: events of some keys of one database go to a stream of the same database.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: Box<[u8]>,
    pub(crate) db: usize,
    pub(crate) stream: Box<[u8]>,
    pub(crate) classes: Classes,
    /// `None` matches every key.
    pub(crate) pattern: Option<Box<[u8]>>,
    pub(crate) payload: Payload,
    /// Longer values are left out.
    pub(crate) max_bytes: Option<u64>,
    /// Age in ms at which entries leave the stream.
    pub(crate) max_age: Option<u64>,
    /// Unix ms at which the rule was set. The rule gets no event that was due before, because a
    /// restart may repeat such an event.
    pub(crate) since_ms: u64,
    /// Number of appended entries since the rule was set or loaded.
    pub(crate) appended: AtomicU64,
    /// Number of events whose entry could not be appended: the stream's key holds another type, or
    /// the stream has no further IDs.
    pub(crate) failed: AtomicU64,
}

impl Rule {
    /// Parses the words of NOTIFY SET. Only a log or a snapshot may have the option SINCE.
    pub(crate) fn parse(db: usize, args: Args, logged: bool) -> Result<Self, Error> {
        let mut rule = Self {
            name: args[2].into(),
            db,
            stream: Box::default(),
            classes: Classes::ALL,
            pattern: None,
            payload: Payload::None,
            max_bytes: None,
            max_age: None,
            since_ms: 0,
            appended: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        };
        let mut stream = None;
        let mut options = args.skip(3);
        while let Some(option) = options.get(0) {
            let value = options.get(1).ok_or(Error::Syntax)?;
            if is(option, "STREAM") {
                stream = Some(value);
            } else if is(option, "EVENTS") {
                rule.classes = classes(value)?;
            } else if is(option, "MATCH") {
                rule.pattern = (value != b"*").then(|| value.into());
            } else if is(option, "VALUE") {
                rule.payload = payload(value)?;
            } else if is(option, "MAXBYTES") {
                rule.max_bytes = Some(positive(value, "MAXBYTES")?);
            } else if is(option, "MAXAGE") {
                rule.max_age = Some(positive(value, "MAXAGE")?);
            } else if is(option, SINCE) && logged {
                rule.since_ms = positive(value, SINCE)?;
            } else {
                return Err(Error::Syntax);
            }
            options = options.skip(2);
        }
        rule.stream = stream
            .ok_or(Error::fixed("ERR NOTIFY SET requires the option STREAM"))?
            .into();
        Ok(rule)
    }

    /// Returns the settings as names and values, in the order of NOTIFY SET.
    pub(crate) fn settings(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut all = vec![
            ("stream", self.stream.to_vec()),
            ("events", self.classes.letters().into_bytes()),
        ];
        if let Some(pattern) = &self.pattern {
            all.push(("match", pattern.to_vec()));
        }
        let value = match self.payload {
            Payload::None => "none",
            Payload::String => "string",
            Payload::Dump => "dump",
        };
        all.push(("value", value.into()));
        for (name, number) in [("maxbytes", self.max_bytes), ("maxage", self.max_age)] {
            all.extend(number.map(|number| (name, number.to_string().into_bytes())));
        }
        all
    }

    /// Returns the option SINCE, unless the rule comes from a server that does not know it.
    pub(crate) fn since<'b>(&self, buffer: &'b mut itoa::Buffer) -> Option<[&'b [u8]; 2]> {
        let since = buffer.format(self.since_ms).as_bytes();
        (self.since_ms > 0).then_some([SINCE.as_bytes(), since])
    }

    /// Returns the command that creates the rule, in RESP.
    fn command(&self) -> Vec<u8> {
        let settings = self.settings();
        let mut words: Vec<&[u8]> = vec![b"NOTIFY", b"SET", &self.name];
        for (name, value) in &settings {
            words.extend([name.as_bytes(), value]);
        }
        let mut buffer = itoa::Buffer::new();
        words.extend(self.since(&mut buffer).into_iter().flatten());
        let mut out = Vec::new();
        encode_command(&mut out, &words);
        out
    }

    fn selects(&self, db: usize, class: Classes, key: &[u8]) -> bool {
        self.db == db
            && self.classes.contains(class)
            && self
                .pattern
                .as_deref()
                .is_none_or(|p| glob::matches(p, key))
    }
}

fn classes(letters: &[u8]) -> Result<Classes, Error> {
    const REFUSED: Classes = Classes::from_bits(
        Classes::KEY_CHANNELS.bits() | Classes::SUBKEY_CHANNELS.bits() | Classes::MISSED.bits(),
    );
    Classes::parse(letters)
        .filter(|classes| classes.bits() != 0 && !classes.intersects(REFUSED))
        .ok_or(Error::fixed(
            "ERR EVENTS takes letters of g$lshzxetdnA: a read writes no entry, and a stream has no channels",
        ))
}

fn payload(word: &[u8]) -> Result<Payload, Error> {
    [
        ("none", Payload::None),
        ("string", Payload::String),
        ("dump", Payload::Dump),
    ]
    .into_iter()
    .find(|(name, _)| is(word, name))
    .map(|(_, payload)| payload)
    .ok_or(Error::Syntax)
}

fn positive(value: &[u8], option: &str) -> Result<u64, Error> {
    u64::try_from(int(value)?)
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| Error::Text(format!("ERR {option} must be positive").into()))
}

/// The rules of a store.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Ascending by name.
    list: Vec<Arc<Rule>>,
    /// Shards of the target streams, ascending. Empty in cluster mode, where a turn that holds a
    /// key's shard holds the shard of the key's target streams.
    shards: Vec<usize>,
    /// Whether each rule has one stream for each slot.
    per_slot: bool,
}

impl Rules {
    fn new(list: Vec<Arc<Rule>>, store: &Store) -> Self {
        let per_slot = store.is_cluster();
        let mut shards: Vec<usize> = list
            .iter()
            .filter(|_| !per_slot)
            .map(|rule| store.shard_of(&rule.stream))
            .collect();
        shards.sort_unstable();
        shards.dedup();
        Self {
            list,
            shards,
            per_slot,
        }
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Rule>> {
        self.list.iter()
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<&Arc<Rule>> {
        self.list.iter().find(|rule| *rule.name == *name)
    }

    /// Returns the rules that select an event. No rule selects an event of a target stream, because
    /// its entry would change the stream and cause another event.
    pub(crate) fn selecting<'r>(
        &'r self,
        db: usize,
        class: Classes,
        key: &'r [u8],
    ) -> impl Iterator<Item = &'r Arc<Rule>> {
        let rules = match self.is_target(db, key) {
            true => &[],
            false => &self.list[..],
        };
        rules
            .iter()
            .filter(move |rule| rule.selects(db, class, key))
    }

    /// Returns whether a key has the name of a rule's stream.
    pub(crate) fn is_target(&self, db: usize, key: &[u8]) -> bool {
        let is_stream = |rule: &Rule| match self.per_slot {
            true => rule.is_slot_stream(key),
            false => *rule.stream == *key,
        };
        let mut rules = self.list.iter();
        rules.any(|rule| rule.db == db && is_stream(rule))
    }

    /// Returns the shards of the target streams, ascending; none in cluster mode.
    pub(crate) fn shards(&self) -> &[usize] {
        &self.shards
    }
}

/// The current rules of a store.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    /// Union of the rules' classes; empty without rules. Turns read it whenever they lock a shard.
    classes: AtomicU32,
    rules: RwLock<Arc<Rules>>,
}

impl Notify {
    /// Returns the classes of events that at least one rule selects.
    #[inline]
    pub(crate) fn classes(&self) -> Classes {
        Classes::from_bits(self.classes.load(Ordering::SeqCst))
    }

    /// Returns whether there are rules.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.classes() != Classes::none()
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read())
    }
}

impl Store {
    /// Returns whether a key of database 0 has the name of a rule's stream.
    pub(crate) fn is_rule_stream(&self, key: &[u8]) -> bool {
        self.notify.any() && self.notify.rules().is_target(0, key)
    }

    /// Returns the rules of NOTIFY, each as the text of a snapshot's [`FIELD`]: the number of its
    /// database, a space, and the command in RESP that creates the rule. O(rules).
    pub fn notify_rules(&self) -> Vec<Vec<u8>> {
        let text = |rule: &Arc<Rule>| {
            let mut text = format!("{} ", rule.db).into_bytes();
            text.extend(rule.command());
            text
        };
        self.notify.rules().iter().map(text).collect()
    }

    /// See [`Turn::restore_notify_rule`](crate::Turn::restore_notify_rule). The caller holds every
    /// shard.
    pub(crate) fn restore_notify_rule(&self, text: &[u8]) -> Result<(), Error> {
        let damaged = || Error::fixed("ERR the rule of NOTIFY is damaged");
        let (db, command) = notify_rule_parts(text).ok_or_else(damaged)?;
        if db >= self.databases() {
            return Err(Error::DbRange);
        }
        let (value, _) = decode(command).ok().flatten().ok_or_else(damaged)?;
        let words = value.as_slice().ok_or_else(damaged)?.iter();
        let words: Option<OwnedArgs> = words.map(|word| word.as_bytes()).collect();
        let words = words
            .filter(|words| words.as_args().len() > 3)
            .ok_or_else(damaged)?;
        let rule = Rule::parse(db, words.as_args(), true)?;
        self.change_notify_rules(|rules| set(rules, rule));
        Ok(())
    }

    /// Changes the list of rules. The caller holds every shard.
    pub(crate) fn change_notify_rules<T>(
        &self,
        change: impl FnOnce(&mut Vec<Arc<Rule>>) -> T,
    ) -> T {
        let mut rules = self.notify.rules.write();
        let mut list = rules.list.clone();
        let done = change(&mut list);
        self.publish(&mut rules, list);
        done
    }

    /// Takes over the rules of `loaded`, a store that is about to replace this store's content. The
    /// caller holds every shard.
    pub(crate) fn adopt_notify_rules(&self, loaded: &Self) {
        let list = loaded.notify.rules().list.clone();
        self.publish(&mut self.notify.rules.write(), list);
    }

    fn publish(&self, rules: &mut Arc<Rules>, list: Vec<Arc<Rule>>) {
        let classes = list.iter().fold(0, |all, rule| all | rule.classes.bits());
        *rules = Arc::new(Rules::new(list, self));
        self.notify.classes.store(classes, Ordering::SeqCst);
    }
}

/// Divides the text of a snapshot's [`FIELD`] into the rule's database and the command that creates
/// it.
fn notify_rule_parts(text: &[u8]) -> Option<(usize, &[u8])> {
    let space = text.iter().position(|&b| b == b' ')?;
    let db = std::str::from_utf8(&text[..space]).ok()?.parse().ok()?;
    Some((db, &text[space + 1..]))
}

/// Adds a rule, or replaces the rule with the same name.
pub(crate) fn set(rules: &mut Vec<Arc<Rule>>, rule: Rule) {
    match rules.binary_search_by(|other| other.name.cmp(&rule.name)) {
        Ok(at) => rules[at] = Arc::new(rule),
        Err(at) => rules.insert(at, Arc::new(rule)),
    }
}
