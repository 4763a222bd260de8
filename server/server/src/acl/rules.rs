//! The language of ACL rules, such as `+get`, `~key*` and `(...)`: applies rules to users, and
//! prints users as rules.
//!
//! As in Redis 7.2, the printed commands of a user begin with `+@all` or `-@all`. The rules about
//! single commands and categories follow in the order in which they were applied. If several rules
//! are about the same command or category, only the last of them is printed.
//!
//! Two kinds of rules are Valkey's: the databases of a selector (9.1), and roles (9.2), which are
//! named sets of selectors for several users.

use std::sync::Arc;

use punctual_store::error::c_string;
use thiserror::Error;

use crate::acl::categories::{self, Category, set_with_subcommands};
use crate::acl::user::{Hash, KeyPattern, Pattern, Sanitize, Selector, User, UserMap, hash};
use crate::config::quoting;
use crate::table::{CommandTable, Entry};

/// Reason why a rule cannot be applied. `Display` is Redis's text.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(crate) enum RuleError {
    #[error("Unknown command or category name in ACL")]
    Unknown,
    #[error("Syntax error")]
    Syntax,
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try \
         'resetkeys' to start with an empty list of patterns"
    )]
    AllKeys,
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try \
         'resetchannels' to start with an empty list of channels"
    )]
    AllChannels,
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    Hash,
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgOfSubcommand,
    #[error("The provided database ID is out of range")]
    Database,
    #[error("The role does not exist")]
    NoSuchRole,
}

/// What rules refer to besides the command table.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// Whether new selectors start with all channels.
    pub(crate) all_channels: bool,
    /// The roles that rules may name; `None` for the rules of a role, which has only selectors.
    pub(crate) roles: Option<&'a UserMap>,
}

/// The command table and its categories, to which rules refer.
pub(crate) struct Rules {
    pub(crate) table: &'static CommandTable,
    pub(crate) categories: Vec<Category>,
}

/// Returns true if a name or a pattern has white space or a zero byte, which printed rules cannot
/// contain.
pub(crate) fn has_spaces(text: &[u8]) -> bool {
    text.iter()
        .any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}

/// Joins the arguments of each selector `(...)` that spans several arguments.
///
/// # Errors
/// Returns the position of the argument whose parenthesis is not closed.
pub(crate) fn merged<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Vec<u8>>, usize> {
    let mut rules: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (i, word) in words.enumerate() {
        match &mut open {
            _ if word.first() == Some(&b'(') && word.last() != Some(&b')') => {
                open = Some((i, word.to_vec()));
            }
            Some((_, selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(word);
                if word.last() == Some(&b')') {
                    rules.extend(open.take().map(|(_, selector)| selector));
                }
            }
            None => rules.push(word.to_vec()),
        }
    }
    open.map_or(Ok(rules), |(at, _)| Err(at))
}

impl Rules {
    pub(crate) fn new(table: &'static CommandTable) -> Self {
        Self {
            table,
            categories: categories::from_table(table),
        }
    }

    /// Returns the category with this name, ignoring case.
    pub(crate) fn category(&self, name: &[u8]) -> Option<&Category> {
        self.categories
            .iter()
            .find(|category| name.eq_ignore_ascii_case(category.name.as_bytes()))
    }

    /// Applies a rule to a user or a role. Returns true if the rule allows a first argument, which
    /// is deprecated.
    ///
    /// # Errors
    /// If the rule cannot be applied, the user is unchanged.
    pub(crate) fn apply(
        &self,
        user: &mut User,
        rule: &[u8],
        around: Surroundings<'_>,
    ) -> Result<bool, RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            [] => {}
            [b'(', inside @ .., b')'] => {
                let mut selector = Selector::new(self.table.entries(), around.all_channels);
                let mut deprecated = false;
                for rule in quoting::split(inside).unwrap_or_default() {
                    deprecated |= self.apply_to_selector(&mut selector, &rule)?;
                }
                user.add_selector(selector);
                user.updated();
                return Ok(deprecated);
            }
            _ if is("clearselectors") => user.clear_selectors(),
            _ => match around.roles {
                Some(roles) if self.apply_to_user(user, rule, around, roles)? => {}
                _ => {
                    let deprecated = self.apply_to_selector(user.root(), rule)?;
                    user.updated();
                    return Ok(deprecated);
                }
            },
        }
        user.updated();
        Ok(false)
    }

    /// Applies a rule that a role cannot have. Returns false if it is another rule.
    fn apply_to_user(
        &self,
        user: &mut User,
        rule: &[u8],
        around: Surroundings<'_>,
        roles: &UserMap,
    ) -> Result<bool, RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            _ if is("on") => user.on = true,
            _ if is("off") => user.on = false,
            _ if is("skip-sanitize-payload") => user.sanitize = Sanitize::Skip,
            _ if is("sanitize-payload") => user.sanitize = Sanitize::Check,
            _ if is("nopass") => {
                user.no_password = true;
                user.passwords.clear();
            }
            _ if is("resetpass") => {
                user.no_password = false;
                user.passwords.clear();
            }
            [sign @ (b'>' | b'#'), secret @ ..] => {
                let hash = hash_of(*sign == b'>', secret)?;
                if !user.passwords.contains(&hash) {
                    user.passwords.push(hash);
                }
                user.no_password = false;
            }
            [sign @ (b'<' | b'!'), secret @ ..] => {
                let hash = hash_of(*sign == b'<', secret)?;
                let at = user.passwords.iter().position(|known| *known == hash);
                user.passwords.remove(at.ok_or(RuleError::NoSuchPassword)?);
            }
            _ if is("resetroles") => user.set_roles(Vec::new()),
            _ if is("reset") => {
                let identity = user.identity.clone();
                *user = User::new(identity, self.table.entries(), around.all_channels);
                user.sanitize = Sanitize::Check;
            }
            _ => match strip_word(rule, b"role=") {
                Some(names) => user.set_roles(find_roles(roles, names)?),
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    /// Applies a rule about commands, keys, channels or databases to a selector. Returns true if
    /// the rule allows a first argument.
    fn apply_to_selector(&self, selector: &mut Selector, rule: &[u8]) -> Result<bool, RuleError> {
        let is = |word: &str| rule.eq_ignore_ascii_case(word.as_bytes());
        match rule {
            _ if is("allkeys") || is("~*") => selector.set_all_keys(true),
            _ if is("resetkeys") => selector.set_all_keys(false),
            _ if is("allchannels") || is("&*") => selector.set_all_channels(true),
            _ if is("resetchannels") => selector.set_all_channels(false),
            _ if is("allcommands") || is("+@all") => selector.set_all_commands(true),
            _ if is("nocommands") || is("-@all") => selector.set_all_commands(false),
            _ if is("alldbs") => selector.databases = None,
            _ if is("resetdbs") => selector.databases = Some(Vec::new()),
            [b'~' | b'%', ..] => {
                if selector.all_keys {
                    return Err(RuleError::AllKeys);
                }
                add_key_pattern(selector, key_pattern(rule)?);
            }
            [b'&', pattern @ ..] => {
                if selector.all_channels {
                    return Err(RuleError::AllChannels);
                }
                if has_spaces(pattern) {
                    return Err(RuleError::Syntax);
                }
                if !selector
                    .channels
                    .iter()
                    .any(|known| *known.text == *pattern)
                {
                    selector.channels.push(Pattern::new(pattern));
                }
            }
            [sign @ (b'+' | b'-'), b'@', name @ ..] => {
                let category = self.category(name).ok_or(RuleError::Unknown)?;
                let on = *sign == b'+';
                selector.commands.set_all_of(&category.reach, on);
                selector.all_commands &= on;
                selector
                    .first_args
                    .retain(|id, _| !category.members.has(*id));
                selector.note_rule(on, format!("@{}", category.name).as_bytes());
            }
            [b'+', name @ ..] => return self.allow(selector, name),
            [b'-', name @ ..] => self.set(selector, self.find(name)?, false),
            _ => match strip_word(rule, b"db=") {
                Some(numbers) => selector.databases = Some(databases(numbers)?),
                None => return Err(RuleError::Syntax),
            },
        }
        Ok(false)
    }

    /// Allows a command, a subcommand, or a command with a first argument. Returns true for a first
    /// argument.
    fn allow(&self, selector: &mut Selector, name: &[u8]) -> Result<bool, RuleError> {
        let Some(bar) = name.iter().rposition(|byte| *byte == b'|') else {
            self.set(selector, self.find(name)?, true);
            return Ok(false);
        };
        let (command, argument) = (self.find(&name[..bar])?, &name[bar + 1..]);
        if command.name.contains('|') {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if argument.is_empty() {
            return Err(RuleError::Syntax);
        }
        if !command.subcommands.is_empty() {
            self.set(selector, self.find(name)?, true);
            return Ok(false);
        }
        let allowed = selector.first_args.entry(command.id).or_default();
        if !allowed
            .iter()
            .any(|known| known.eq_ignore_ascii_case(argument))
        {
            allowed.push(argument.into());
        }
        let rule = [command.name.as_bytes(), b"|", argument].concat();
        selector.note_rule(true, &rule.to_ascii_lowercase());
        Ok(true)
    }

    fn set(&self, selector: &mut Selector, entry: &Entry, on: bool) {
        set_with_subcommands(&mut selector.commands, entry, on);
        selector.all_commands &= on;
        selector.first_args.remove(&entry.id);
        selector.note_rule(on, entry.name.as_bytes());
    }

    /// Returns the command with this name in the command table; `rename-command` has no effect
    /// here.
    fn find(&self, name: &[u8]) -> Result<&Entry, RuleError> {
        let mut parts = c_string(name).split(|byte| *byte == b'|');
        let entry = parts.next().and_then(|name| self.table.get(name));
        let entry = match parts.next() {
            Some(sub) => entry.and_then(|entry| entry.subcommand(sub)),
            None => entry,
        };
        entry
            .filter(|_| parts.next().is_none())
            .ok_or(RuleError::Unknown)
    }
}

/// Returns the text of ACL LIST for a user, without `user` and the name.
pub(crate) fn print(user: &User) -> Vec<u8> {
    let mut words: Vec<Vec<u8>> = flags(user).map(|flag| flag.into()).collect();
    words.extend(
        user.passwords
            .iter()
            .map(|hash| format!("#{}", hex(hash)).into()),
    );
    if !user.roles().is_empty() {
        words.push([b"role=", &print_roles(user)[..]].concat());
    }
    words.push(print_permissions(user));
    words.join(&b' ')
}

/// Returns the rules of a user's own selectors. They are all rules of a role.
pub(crate) fn print_permissions(user: &User) -> Vec<u8> {
    let mut words = Vec::new();
    for (i, selector) in user.own_selectors().iter().enumerate() {
        let text = print_selector(selector);
        words.push(match i {
            0 => text,
            _ => [b"(", &text[..], b")"].concat(),
        });
    }
    words.join(&b' ')
}

fn print_selector(selector: &Selector) -> Vec<u8> {
    let mut words = Vec::new();
    words.extend(Some(print_keys(selector)).filter(|keys| !keys.is_empty()));
    if !selector.all_channels {
        words.push(b"resetchannels".to_vec());
    }
    words.extend(Some(print_channels(selector)).filter(|channels| !channels.is_empty()));
    match selector.databases.as_deref() {
        None => {}
        Some([]) => words.push(b"resetdbs".to_vec()),
        Some(_) => words.push(print_databases(selector)),
    }
    words.push(print_commands(selector));
    words.join(&b' ')
}

/// Returns the rules that create a selector's set of commands.
pub(crate) fn print_commands(selector: &Selector) -> Vec<u8> {
    let begin: &[u8] = if selector.from_all {
        b"+@all"
    } else {
        b"-@all"
    };
    let words: Vec<&[u8]> = std::iter::once(begin)
        .chain(selector.rules.iter().map(|rule| &rule[..]))
        .collect();
    words.join(&b' ')
}

/// Returns the flags of a user, in the order of ACL LIST.
pub(crate) fn flags(user: &User) -> impl Iterator<Item = &'static str> {
    let sanitize = match user.sanitize {
        Sanitize::Unset => None,
        Sanitize::Skip => Some("skip-sanitize-payload"),
        Sanitize::Check => Some("sanitize-payload"),
    };
    let on = if user.on { "on" } else { "off" };
    [Some(on), user.no_password.then_some("nopass"), sanitize]
        .into_iter()
        .flatten()
}

/// Returns the patterns of keys of a selector, separated by spaces.
pub(crate) fn print_keys(selector: &Selector) -> Vec<u8> {
    if selector.all_keys {
        return b"~*".to_vec();
    }
    let print = |key: &KeyPattern| {
        let prefix: &[u8] = match (key.read, key.write) {
            // `~*` would mean `allkeys`, which also matches the empty key and allows no further
            // patterns after it in a file. redis-server prints `~*` nevertheless.
            (true, true) if *key.pattern.text == *b"*" => b"%RW~",
            (true, true) => b"~",
            (true, false) => b"%R~",
            _ => b"%W~",
        };
        [prefix, &key.pattern.text[..]].concat()
    };
    let patterns: Vec<Vec<u8>> = selector.keys.iter().map(print).collect();
    patterns.join(&b' ')
}

/// Returns the patterns of channels of a selector, separated by spaces.
pub(crate) fn print_channels(selector: &Selector) -> Vec<u8> {
    if selector.all_channels {
        return b"&*".to_vec();
    }
    let print = |channel: &Pattern| [b"&", &channel.text[..]].concat();
    let patterns: Vec<Vec<u8>> = selector.channels.iter().map(print).collect();
    patterns.join(&b' ')
}

/// Returns the rule that creates a selector's set of databases. It is empty for the empty set.
pub(crate) fn print_databases(selector: &Selector) -> Vec<u8> {
    let numbers = match selector.databases.as_deref() {
        None => return b"alldbs".to_vec(),
        Some([]) => return Vec::new(),
        Some(numbers) => numbers,
    };
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    format!("db={}", numbers.join(",")).into()
}

/// Returns the names of a user's roles, separated by commas.
pub(crate) fn print_roles(user: &User) -> Vec<u8> {
    let names: Vec<&[u8]> = user.roles().iter().map(|r| &r.identity.name[..]).collect();
    names.join(&b',')
}

/// Returns the rest of a rule that begins with this word, ignoring case.
fn strip_word<'r>(rule: &'r [u8], word: &[u8]) -> Option<&'r [u8]> {
    let (begin, rest) = rule.split_at_checked(word.len())?;
    begin.eq_ignore_ascii_case(word).then_some(rest)
}

/// Parses numbers of databases, separated by commas. Sorts them and removes copies.
fn databases(numbers: &[u8]) -> Result<Vec<usize>, RuleError> {
    let mut all = Vec::new();
    for number in numbers.split(|byte| *byte == b',') {
        let number = std::str::from_utf8(number).map_err(|_| RuleError::Syntax)?;
        let number: i128 = number.parse().map_err(|_| RuleError::Syntax)?;
        let number = i32::try_from(number).ok();
        let number = number.and_then(|number| usize::try_from(number).ok());
        all.push(number.ok_or(RuleError::Database)?);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Returns the roles with these names, which commas separate, each once.
fn find_roles(roles: &UserMap, names: &[u8]) -> Result<Vec<Arc<User>>, RuleError> {
    let names: Vec<&[u8]> = names.split(|byte| *byte == b',').collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(RuleError::Syntax);
    }
    let mut found: Vec<Arc<User>> = Vec::new();
    for name in names {
        let role = roles.get(name).ok_or(RuleError::NoSuchRole)?;
        if !found.iter().any(|known| Arc::ptr_eq(known, role)) {
            found.push(Arc::clone(role));
        }
    }
    Ok(found)
}

/// Returns the reason why a role cannot have this name, with Valkey's texts. Such a name could not
/// be read back from a file or from `role=`.
pub(crate) fn refuse_role_name(name: &[u8]) -> Option<&'static str> {
    if name.is_empty() {
        Some("Role names can't be empty")
    } else if !name.iter().all(u8::is_ascii_graphic) {
        Some("Role names must be printable ASCII without spaces")
    } else if name.contains(&b',') {
        Some("Role names can't contain commas")
    } else if name.iter().any(|byte| matches!(byte, b'"' | b'\'' | b'\\')) {
        Some("Role names can't contain quotes or backslashes")
    } else {
        None
    }
}

pub(crate) fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the hash of a password, or parses the hexadecimal digits of a hash.
fn hash_of(password: bool, secret: &[u8]) -> Result<Hash, RuleError> {
    if password {
        return Ok(hash(secret));
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(RuleError::Hash),
    };
    let (pairs, []) = secret.as_chunks::<2>() else {
        return Err(RuleError::Hash);
    };
    let bytes: Result<Vec<u8>, RuleError> = pairs
        .iter()
        .map(|[high, low]| Ok(digit(*high)? << 4 | digit(*low)?))
        .collect();
    bytes?.try_into().map_err(|_| RuleError::Hash)
}

fn key_pattern(rule: &[u8]) -> Result<KeyPattern, RuleError> {
    let (mut read, mut write) = (rule[0] == b'~', rule[0] == b'~');
    let mut pattern = &rule[1..];
    if rule[0] == b'%' {
        // As in Redis, the tilde may be missing; then the pattern is empty.
        while let Some((flag, rest)) = pattern.split_first() {
            pattern = rest;
            match flag.to_ascii_uppercase() {
                b'R' if !read => read = true,
                b'W' if !write => write = true,
                b'~' if read || write => break,
                _ => return Err(RuleError::Syntax),
            }
        }
        if !read && !write {
            return Err(RuleError::Syntax);
        }
    }
    if has_spaces(pattern) {
        return Err(RuleError::Syntax);
    }
    Ok(KeyPattern {
        read,
        write,
        pattern: Pattern::new(pattern),
    })
}

/// Adds a pattern. If the pattern exists, its permissions are extended.
fn add_key_pattern(selector: &mut Selector, new: KeyPattern) {
    let known = selector.keys.iter_mut();
    match known
        .into_iter()
        .find(|known| known.pattern.text == new.pattern.text)
    {
        Some(known) => {
            known.read |= new.read;
            known.write |= new.write;
        }
        None => selector.keys.push(new),
    }
}
