//! Checks whether a user may run a command.
//!
//! A session has a flag for unrestricted users, and skips the check of each command if it is set.
//! For other users, a check tests one bit for the command and compares each key and channel with
//! the user's patterns. The user's selectors are tried in order until one of them allows the
//! command with all of its keys and channels.

use punctual_resp::Args;
use punctual_resp::decimal::parse_i64;
use punctual_store::Error;
use punctual_store::spec::{Flags, Keys};

use crate::acl::user::{Head, Selector, User};
use crate::table::Entry;
use crate::table::access::{Need, Needs};

/// Reason why a command is denied. If several selectors deny the command for different reasons, the
/// reason that comes last in this type is reported, as in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denied {
    /// The user may not access a database: the one at this position of the arguments or, at
    /// position 0, the selected one.
    Database(usize),
    /// The user may not run the command.
    Command,
    /// The user may not access the key, or the glob of keys, at this position of the arguments. A
    /// position after the last argument stands for all keys.
    Key(usize),
    /// The user may not access the channel at this position of the arguments.
    Channel(usize),
}

impl Denied {
    /// Returns the error for a command of a client.
    pub(crate) fn error(self, entry: &Entry) -> Error {
        match self {
            Self::Command => Error::Text(
                format!(
                    "NOPERM this user has no permissions to run the '{}' command",
                    entry.name
                )
                .into(),
            ),
            Self::Key(_) => Error::fixed(
                "NOPERM this user has no permissions to access one of the keys used as arguments",
            ),
            Self::Channel(_) => Error::fixed(
                "NOPERM this user has no permissions to access one of the channels used as arguments",
            ),
            Self::Database(_) => Error::fixed("NOPERM No permissions to access database"),
        }
    }

    /// Returns the error for a queued command that its client may no longer run.
    pub(crate) fn error_in_exec(self) -> Error {
        Error::fixed(match self {
            Self::Command => {
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                 command is no longer allowed for the following reason: no permission to execute the command or subcommand"
            }
            Self::Key(_) => {
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                 command is no longer allowed for the following reason: no permission to touch the specified keys"
            }
            Self::Channel(_) => {
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                 command is no longer allowed for the following reason: no permission to access one of the channels used as \
                 arguments to the command"
            }
            Self::Database(_) => {
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                 command is no longer allowed for the following reason: no permission to access the database"
            }
        })
    }

    /// Returns the error for a script's command.
    pub(crate) fn error_in_script(self) -> Error {
        Error::fixed(match self {
            Self::Command => {
                "ERR The user executing the script can't run this command or subcommand"
            }
            Self::Key(_) => {
                "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
            }
            Self::Channel(_) => {
                "ERR The user executing the script can't publish to the channel mentioned in the command"
            }
            Self::Database(_) => "ERR ACL failure in script: No permissions to access database",
        })
    }

    /// Returns the name of the denied object: the command, the key, the channel or the number of
    /// the database. For the selected database it is the command, as in Valkey.
    pub(crate) fn object<'a>(self, entry: &'a Entry, args: Args<'a>) -> &'a [u8] {
        match self {
            Self::Command | Self::Database(0) => entry.name.as_bytes(),
            Self::Key(at) | Self::Channel(at) | Self::Database(at) => args.get(at).unwrap_or(b"*"),
        }
    }
}

/// Checks whether a user may run a command while the database `db` is selected.
///
/// # Errors
/// Returns the denial to report.
#[inline(never)]
pub(crate) fn check(user: &User, entry: &Entry, args: Args, db: usize) -> Result<(), Denied> {
    match &user.selectors[..] {
        [first, ..] if allows_plainly(first, entry, args) => Ok(()),
        _ => check_each(user, entry, args, db),
    }
}

/// Returns true only if a selector allows a command; may return false for an allowed command. This
/// is the fast path for commands with at most one key, and for selectors with `~*`, if the selector
/// allows all databases. O(patterns of the selector).
#[inline(always)]
fn allows_plainly(selector: &Selector, entry: &Entry, args: Args) -> bool {
    if !selector.commands.has(entry.id)
        || selector.databases.is_some()
        || entry.row.flags.has(Flags::PUBSUB)
    {
        return false;
    }
    if selector.all_keys || matches!(entry.needs, Needs::None) {
        return true;
    }
    let Some(at) = entry.row.keys.only() else {
        return false;
    };
    allows_key(
        selector,
        args.at(at),
        entry.needs.of_key(entry.row, args, 0),
    )
}

#[inline(never)]
fn check_each(user: &User, entry: &Entry, args: Args, db: usize) -> Result<(), Denied> {
    let mut denied = None;
    for selector in &user.selectors {
        match allows(selector, entry, args, db) {
            Ok(()) => return Ok(()),
            Err(new) => denied = denied.max(Some(new)),
        }
    }
    denied.map_or(Ok(()), Err)
}

fn allows(selector: &Selector, entry: &Entry, args: Args, db: usize) -> Result<(), Denied> {
    let flags = entry.row.flags;
    if let Some(allowed) = &selector.databases {
        check_databases(allowed, entry, args, db)?;
    }
    let command = selector.commands.has(entry.id)
        || selector.all_commands
        || flags.has(Flags::NO_AUTH)
        || allows_first_arg(selector, entry, args);
    if !command {
        return Err(Denied::Command);
    }
    if !selector.all_keys {
        check_keys(selector, entry, args)?;
    }
    if !selector.all_channels && flags.has(Flags::PUBSUB) {
        check_channels(selector, entry, args)?;
    }
    Ok(())
}

/// Checks the selected database, if the command accesses data there, and the databases that are
/// arguments of the command. FLUSHALL needs a selector that allows all databases.
#[cold]
fn check_databases(allowed: &[usize], entry: &Entry, args: Args, db: usize) -> Result<(), Denied> {
    let (row, flags) = (&entry.row, entry.row.flags);
    let accesses_data = !flags.has(Flags::PUBSUB)
        && (entry.writes() || flags.has(Flags::READONLY) || !matches!(row.keys, Keys::None));
    if flags.has(Flags::FLUSHES_ALL) || accesses_data && !allowed.contains(&db) {
        return Err(Denied::Database(0));
    }
    let named = row.databases.map(|find| find(args)).unwrap_or_default();
    let denied = named.into_iter().find(|at| {
        // The command itself refuses an argument that is no number of a database.
        let number = args.get(*at).and_then(parse_i64).map(usize::try_from);
        matches!(number, Some(Ok(number)) if !allowed.contains(&number))
    });
    denied.map_or(Ok(()), |at| Err(Denied::Database(at)))
}

#[cold]
fn allows_first_arg(selector: &Selector, entry: &Entry, args: Args) -> bool {
    let (Some(allowed), Some(arg)) = (selector.first_args.get(&entry.id), args.get(1)) else {
        return false;
    };
    allowed.iter().any(|known| known.eq_ignore_ascii_case(arg))
}

fn check_keys(selector: &Selector, entry: &Entry, args: Args) -> Result<(), Denied> {
    if matches!(entry.needs, Needs::None) {
        return Ok(());
    }
    let (mut denied, mut number) = (None, 0);
    entry.row.keys.each(args, &mut |at| {
        let need = entry.needs.of_key(entry.row, args, number);
        number += 1;
        if denied.is_none() && !allows_key(selector, args.at(at), need) {
            denied = Some(Denied::Key(at));
        }
    });
    if let Some(at) = entry.row.keys.glob(args) {
        let glob = args.get(at).unwrap_or(b"*");
        if !reads_all_of(selector, glob) {
            denied = denied.or(Some(Denied::Key(at)));
        }
    }
    denied.map_or(Ok(()), Err)
}

/// Returns true if a selector allows reading all keys, or if one of its patterns is `*`, is equal
/// to the glob, or matches a glob without special characters (which is a name). Returns false for
/// any other glob, even if a pattern matches all of its keys, as `a*` does for `ab*`.
fn reads_all_of(selector: &Selector, glob: &[u8]) -> bool {
    let is_name = !glob.iter().any(|byte| b"*?[\\".contains(byte));
    selector.all_keys
        || selector.keys.iter().any(|key| {
            let text = &*key.pattern.text;
            key.read && (text == b"*" || text == glob || is_name && key.pattern.matches(glob))
        })
}

#[inline(always)]
fn allows_key(selector: &Selector, key: &[u8], need: Need) -> bool {
    let head = Head::new(key);
    // A loop is used because the compiler turns `any` into a call. The call costs as much as the
    // three comparisons for a typical user.
    for allowed in &selector.keys {
        if allowed.pattern.matches_from(head, key)
            && (allowed.read || !need.read)
            && (allowed.write || !need.write)
        {
            return true;
        }
    }
    false
}

/// Returns true if a user may run a command and read a key that the command finds while it runs.
pub(crate) fn may_read(user: &User, entry: &Entry, args: Args, db: usize, key: &[u8]) -> bool {
    let need = Need {
        read: true,
        write: false,
    };
    user.is_unrestricted()
        || user.selectors.iter().any(|selector| {
            let reads = selector.all_keys || allows_key(selector, key, need);
            reads && allows(selector, entry, args, db).is_ok()
        })
}

/// Returns true if a user may run a command that also reads keys whose names it computes: SORT with
/// BY or GET.
pub(crate) fn reads_any_key(user: &User, entry: &Entry, args: Args, db: usize) -> bool {
    let mut selectors = user.selectors.iter();
    selectors
        .any(|selector| reads_all_of(selector, b"*") && allows(selector, entry, args, db).is_ok())
}

/// Returns the error of SORT for its first BY or GET that would read keys that the user may not
/// read. Returns `None` if there is no such option, or if SORT reports another error first.
pub(crate) fn sort_denial(user: &User, entry: &Entry, args: Args, db: usize) -> Option<Error> {
    let Keys::Options(options) = entry.row.keys else {
        return None;
    };
    if options.patterned.is_empty() || reads_any_key(user, entry, args, db) {
        return None;
    }
    let mut at = options.from;
    while let Some(option) = args.get(at) {
        let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
        let value = args.get(at + 1);
        at += match value {
            Some(pattern) if is("by") && pattern.contains(&b'*') => {
                return Some(Error::fixed(
                    "ERR BY option of SORT denied due to insufficient ACL permissions.",
                ));
            }
            Some(_) if is("get") => {
                return Some(Error::fixed(
                    "ERR GET option of SORT denied due to insufficient ACL permissions.",
                ));
            }
            Some(_) if is("by") || is("store") && !options.keyed.is_empty() => 2,
            Some(offset) if is("limit") && args.len() > at + 2 => {
                if parse_i64(offset).is_none() || parse_i64(args.at(at + 2)).is_none() {
                    return None;
                }
                3
            }
            _ if is("asc") || is("desc") || is("alpha") => 1,
            // SORT reports this error itself.
            _ => return None,
        };
    }
    None
}

/// Checks the channels that a command publishes to, or subscribes to.
fn check_channels(selector: &Selector, entry: &Entry, args: Args) -> Result<(), Denied> {
    let (last, literal) = match entry.row.name {
        "publish" | "spublish" => (1, false),
        "subscribe" | "ssubscribe" => (args.len() - 1, false),
        // PSUBSCRIBE's pattern must be equal to one of the user's patterns.
        "psubscribe" => (args.len() - 1, true),
        _ => return Ok(()),
    };
    let denied = (1..=last).find(|at| !allows_channel(selector, args.at(*at), literal));
    denied.map_or(Ok(()), |at| Err(Denied::Channel(at)))
}

fn allows_channel(selector: &Selector, channel: &[u8], literal: bool) -> bool {
    selector.channels.iter().any(|allowed| match literal {
        true => *allowed.text == *channel,
        false => allowed.matches(channel),
    })
}

/// Returns true if a user may keep a subscription. As in Redis, it is enough that one selector
/// allows the channel.
pub(crate) fn may_listen(user: &User, channel: &[u8], literal: bool) -> bool {
    let mut selectors = user.selectors.iter();
    selectors.any(|selector| selector.all_channels || allows_channel(selector, channel, literal))
}
