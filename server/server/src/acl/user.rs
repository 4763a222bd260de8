//! A user: its passwords and its permissions.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use punctual_store::glob;
use sha2::{Digest as _, Sha256};

/// Users, or roles, by name. ACL LIST has the same order.
pub(crate) type UserMap = BTreeMap<Arc<[u8]>, Arc<User>>;

/// SHA-256 of a password.
pub(crate) type Hash = [u8; 32];

/// Returns the hash of a password.
pub(crate) fn hash(password: &[u8]) -> Hash {
    Sha256::digest(password).into()
}

/// Name and number of a client's user, in a form that other threads can read.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// Number of the user, never reused; 0 for the server's own clients, which are unrestricted.
    pub id: u64,
    /// Name of the user.
    pub name: Arc<[u8]>,
}

/// The flag `sanitize-payload`. It is only shown: RESTORE checks every payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sanitize {
    Unset,
    Skip,
    Check,
}

/// An immutable snapshot of a user.
#[derive(Clone, Debug)]
pub struct User {
    /// Name and number. A change of the user keeps both.
    pub(crate) identity: Identity,
    /// True if the user may authenticate.
    pub(crate) on: bool,
    /// True if any password is accepted.
    pub(crate) no_password: bool,
    pub(crate) sanitize: Sanitize,
    pub(crate) passwords: Vec<Hash>,
    /// Permissions: first the user's own selectors, of which the first has the rules outside of
    /// parentheses, then copies of the selectors of `roles`. It is enough that one selector allows
    /// a command.
    pub(crate) selectors: Vec<Selector>,
    /// Number of the user's own selectors.
    own: usize,
    /// The user's roles, in the order of the rule that gave them. A role is a `User` of which only
    /// the name and the selectors are used.
    roles: Vec<Arc<User>>,
    /// True if a single selector allows all commands, keys, channels and databases.
    unrestricted: bool,
}

impl User {
    /// Creates a user without permissions.
    pub(crate) fn new(identity: Identity, commands: usize, all_channels: bool) -> Self {
        Self {
            identity,
            on: false,
            no_password: false,
            sanitize: Sanitize::Unset,
            passwords: Vec::new(),
            selectors: vec![Selector::new(commands, all_channels)],
            own: 1,
            roles: Vec::new(),
            unrestricted: false,
        }
    }

    /// Returns the user of the server's own clients: the primary's stream, the append-only file,
    /// connections of the HTTP port, and clients in the server's process ([`crate::Client`]). The
    /// sessions of scripts and timers have this user while no script or timer runs.
    pub(crate) fn internal() -> Arc<Self> {
        static INTERNAL: LazyLock<Arc<User>> = LazyLock::new(|| {
            let mut user = User::new(Identity::default(), 0, true);
            user.on = true;
            user.no_password = true;
            user.selectors[0].allow_all_commands();
            user.selectors[0].all_keys = true;
            user.updated();
            Arc::new(user)
        });
        Arc::clone(&INTERNAL)
    }

    /// Returns true if this is the user of the server's own clients, and not a user of that name.
    pub(crate) fn is_internal(&self) -> bool {
        std::ptr::eq(self, &raw const *Self::internal())
    }

    /// Returns the selector with the rules outside of parentheses.
    pub(crate) fn root(&mut self) -> &mut Selector {
        &mut self.selectors[0]
    }

    /// Returns the user's own selectors, without those of its roles.
    pub(crate) fn own_selectors(&self) -> &[Selector] {
        &self.selectors[..self.own]
    }

    /// Adds a selector of the user's own.
    pub(crate) fn add_selector(&mut self, selector: Selector) {
        self.selectors.insert(self.own, selector);
        self.own += 1;
    }

    /// Removes the user's own selectors except the first.
    pub(crate) fn clear_selectors(&mut self) {
        self.selectors.drain(1..self.own);
        self.own = 1;
    }

    pub(crate) fn roles(&self) -> &[Arc<User>] {
        &self.roles
    }

    pub(crate) fn has_role(&self, name: &[u8]) -> bool {
        self.roles.iter().any(|role| *role.identity.name == *name)
    }

    /// Replaces the roles.
    pub(crate) fn set_roles(&mut self, roles: Vec<Arc<User>>) {
        self.selectors.truncate(self.own);
        for role in &roles {
            self.selectors.extend_from_slice(role.own_selectors());
        }
        self.roles = roles;
        self.updated();
    }

    /// Takes the new snapshot of a role, if the user has that role.
    pub(crate) fn role_changed(&mut self, new: &Arc<User>) {
        let mut roles = self.roles.clone();
        for role in &mut roles {
            if role.identity.name == new.identity.name {
                *role = Arc::clone(new);
            }
        }
        self.set_roles(roles);
    }

    /// Returns true if the user may run all commands on all keys, channels and databases, so that
    /// no check is needed.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.unrestricted
    }

    /// Returns true if this user is on and needs no password. Clients need not authenticate if the
    /// default user is open.
    pub(crate) fn is_open(&self) -> bool {
        self.on && self.no_password
    }

    /// Updates the derived fields after a change of the selectors.
    pub(crate) fn updated(&mut self) {
        self.unrestricted = self
            .selectors
            .iter()
            .any(|s| s.all_commands && s.all_keys && s.all_channels && s.databases.is_none());
    }

    /// Returns true if a client with this password may become the user. The time depends only on
    /// the length of the password and the number of passwords.
    pub(crate) fn admits(&self, password: &[u8]) -> bool {
        let given = hash(password);
        let right = self.passwords.iter().fold(false, |right, wanted| {
            let differences = wanted
                .iter()
                .zip(&given)
                .fold(0, |all, (a, b)| all | (a ^ b));
            right | (std::hint::black_box(differences) == 0)
        });
        self.on && (self.no_password || right)
    }
}

/// A set of commands, with one bit for each row of the command table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandSet(Box<[u64]>);

impl CommandSet {
    /// Creates an empty set over `commands` rows.
    pub(crate) fn new(commands: usize) -> Self {
        Self(vec![0; commands.div_ceil(64)].into())
    }

    #[inline]
    pub(crate) fn has(&self, id: usize) -> bool {
        self.0
            .get(id / 64)
            .is_some_and(|word| word >> (id % 64) & 1 == 1)
    }

    pub(crate) fn set(&mut self, id: usize, on: bool) {
        if let Some(word) = self.0.get_mut(id / 64) {
            let bit = 1 << (id % 64);
            if on {
                *word |= bit;
            } else {
                *word &= !bit;
            }
        }
    }

    /// Adds or removes all commands.
    pub(crate) fn set_all(&mut self, on: bool) {
        self.0.fill(if on { u64::MAX } else { 0 });
    }

    /// Adds or removes the commands of another set.
    pub(crate) fn set_all_of(&mut self, other: &Self, on: bool) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            if on {
                *word |= other;
            } else {
                *word &= !other;
            }
        }
    }
}

/// A pattern of keys or channels. A name is first compared with the literal bytes before the first
/// special character, at most eight of them, as one number. Most names match at most one of a
/// user's patterns, so this comparison rejects the other patterns quickly. A short prefix with a
/// star, such as `user:*`, needs no further comparison.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) text: Box<[u8]>,
    /// The bytes before the first special character, at most eight, in the low bytes of the number.
    head: Head,
    /// Mask of the bytes in `head`.
    mask: u64,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Name,
    /// A prefix of this length, followed by a star.
    Prefix(usize),
    Glob,
}

/// The first eight bytes of a name as a number; a shorter name is filled up with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head(u64);

impl Head {
    #[inline]
    pub(crate) fn new(name: &[u8]) -> Self {
        Self(match name.first_chunk() {
            Some(first) => u64::from_le_bytes(*first),
            None => name
                .iter()
                .rev()
                .fold(0, |head, &byte| head << 8 | u64::from(byte)),
        })
    }
}

impl Pattern {
    pub(crate) fn new(text: &[u8]) -> Self {
        let special = text.iter().position(|byte| b"*?[\\".contains(byte));
        let form = match special {
            None => Form::Name,
            Some(at) if text[at..] == *b"*" => Form::Prefix(at),
            Some(_) => Form::Glob,
        };
        let literal = &text[..special.unwrap_or(text.len()).min(size_of::<Head>())];
        Self {
            text: text.into(),
            head: Head::new(literal),
            mask: Head::new(&[0xff; 8][..literal.len()]).0,
            form,
        }
    }

    /// Returns true if a name matches, by the rules of [`glob::matches`].
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        self.matches_from(Head::new(name), name)
    }

    /// Returns the same as [`Pattern::matches`]. A caller with several patterns computes the name's
    /// `head` once.
    #[inline(always)]
    pub(crate) fn matches_from(&self, head: Head, name: &[u8]) -> bool {
        head.0 & self.mask == self.head.0
            && match self.form {
                // A star alone does not match the empty name.
                Form::Prefix(length) if length <= size_of::<Head>() => name.len() >= length.max(1),
                _ => self.matches_beyond(name),
            }
    }

    /// Completes [`Pattern::matches`] for a name whose first bytes match.
    #[inline(never)]
    fn matches_beyond(&self, name: &[u8]) -> bool {
        match self.form {
            Form::Name => *self.text == *name,
            Form::Prefix(length) => name.starts_with(&self.text[..length]),
            Form::Glob => glob::matches(&self.text, name),
        }
    }
}

/// A pattern of keys that a user may read, write or both.
#[derive(Clone, Debug)]
pub(crate) struct KeyPattern {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) pattern: Pattern,
}

/// Permissions that apply together: commands, keys, channels and databases.
#[derive(Clone, Debug)]
pub(crate) struct Selector {
    /// All commands are allowed, and no later rule has forbidden one.
    pub(crate) all_commands: bool,
    /// Whether the set of commands was full (`+@all`) before `rules`, rather than empty (`-@all`).
    pub(crate) from_all: bool,
    /// Rules that have changed the set of commands since then, as they are printed: `+get`,
    /// `-@write`, `+select|0`.
    pub(crate) rules: Vec<Box<[u8]>>,
    pub(crate) commands: CommandSet,
    /// First arguments with which a command outside of the set is allowed, by the command's id.
    pub(crate) first_args: BTreeMap<usize, Vec<Box<[u8]>>>,
    pub(crate) all_keys: bool,
    pub(crate) keys: Vec<KeyPattern>,
    pub(crate) all_channels: bool,
    pub(crate) channels: Vec<Pattern>,
    /// Numbers of the allowed databases, ascending; `None` allows all.
    pub(crate) databases: Option<Vec<usize>>,
}

impl Selector {
    pub(crate) fn new(commands: usize, all_channels: bool) -> Self {
        Self {
            all_commands: false,
            from_all: false,
            rules: Vec::new(),
            commands: CommandSet::new(commands),
            first_args: BTreeMap::new(),
            all_keys: false,
            keys: Vec::new(),
            all_channels,
            channels: Vec::new(),
            databases: None,
        }
    }

    pub(crate) fn allow_all_commands(&mut self) {
        self.set_all_commands(true);
    }

    /// Allows all commands or no command.
    pub(crate) fn set_all_commands(&mut self, on: bool) {
        self.commands.set_all(on);
        self.all_commands = on;
        self.from_all = on;
        self.rules.clear();
        self.first_args.clear();
    }

    /// Appends a rule about a command or a category, and removes earlier rules about it and its
    /// subcommands. O(rules).
    pub(crate) fn note_rule(&mut self, on: bool, name: &[u8]) {
        self.rules.retain(|known| {
            let rest = known[1..].strip_prefix(name);
            !rest.is_some_and(|rest| matches!(rest, [] | [b'|', ..]))
        });
        let sign: &[u8] = if on { b"+" } else { b"-" };
        self.rules.push([sign, name].concat().into());
    }

    /// Allows all keys or no key, and removes the patterns of keys.
    pub(crate) fn set_all_keys(&mut self, on: bool) {
        self.all_keys = on;
        self.keys.clear();
    }

    /// Allows all channels or no channel, and removes the patterns of channels.
    pub(crate) fn set_all_channels(&mut self, on: bool) {
        self.all_channels = on;
        self.channels.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn patterns_match_the_same_names_as_globs(
            common in proptest::collection::vec(proptest::sample::select(&b"ab\0"[..]), 0..10),
            pattern in proptest::collection::vec(proptest::sample::select(&b"ab\0*?[]\\"[..]), 0..5),
            name in proptest::collection::vec(proptest::sample::select(&b"ab\0*"[..]), 0..5),
            cut in 0..10_usize,
        ) {
            let pattern = [&common[..], &pattern].concat();
            let name = [&common[..common.len().min(cut)], &name].concat();
            prop_assert_eq!(Pattern::new(&pattern).matches(&name), glob::matches(&pattern, &name));
        }
    }

    #[test]
    fn a_password_is_right_only_as_a_whole() {
        let mut user = User::new(Identity::default(), 1, false);
        user.passwords = vec![hash(b"one"), hash(b"two")];
        assert!(!user.admits(b"one"), "the user is off");
        user.on = true;
        for (password, right) in [
            ("one", true),
            ("two", true),
            ("on", false),
            ("onee", false),
            ("", false),
        ] {
            assert_eq!(user.admits(password.as_bytes()), right, "{password}");
        }
        user.no_password = true;
        assert!(user.admits(b"x"));
    }
}
