//! All users by name.
//!
//! Users are immutable snapshots. A change replaces the snapshot under the mutex and raises the
//! version, before the reply of the command that made the change. A session compares the version
//! before it runs the commands that it has read. So the new rules apply to every command that any
//! client sends after that reply.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::acl::log::Log;
use crate::acl::rules::{self, RuleError, Rules};
use crate::acl::user::{Identity, User};
use crate::config::Settings;
use crate::table::CommandTable;

/// Name of the user that clients have before they authenticate.
pub(crate) const DEFAULT: &[u8] = b"default";

/// All users by name. ACL LIST has the same order.
pub(crate) type UserMap = BTreeMap<Arc<[u8]>, Arc<User>>;

/// The users of a server, and the log of denials.
pub(crate) struct Users {
    pub(crate) rules: Rules,
    all: Mutex<UserMap>,
    next_id: AtomicU64,
    version: AtomicU64,
    pub(crate) log: Log,
}

/// A rule that cannot be applied, with the reason.
#[derive(Debug)]
pub(crate) struct RefusedRule {
    pub(crate) rule: Vec<u8>,
    pub(crate) error: RuleError,
}

/// Result of a change of one user.
pub(crate) struct Changed {
    /// The former snapshot; `None` if the user is new.
    pub(crate) old: Option<Arc<User>>,
    pub(crate) new: Arc<User>,
    /// The applied rules that allow first arguments, which is deprecated.
    pub(crate) deprecated: Vec<Vec<u8>>,
}

impl Users {
    /// Creates the default user, with the password from `requirepass`.
    pub(crate) fn new(table: &'static CommandTable, settings: &Settings) -> Self {
        let users = Self {
            rules: Rules::new(table),
            all: Mutex::default(),
            next_id: AtomicU64::new(1),
            version: AtomicU64::new(1),
            log: Log::default(),
        };
        let default = users.new_default();
        users.all.lock().insert(DEFAULT.into(), Arc::new(default));
        users.set_default_password(settings.requirepass.as_deref());
        users
    }

    /// Returns the version, which counts the changes. Costs one atomic load.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<Arc<User>> {
        self.all.lock().get(name).cloned()
    }

    /// Returns the user that clients have before they authenticate.
    pub(crate) fn default_user(&self) -> Arc<User> {
        self.get(DEFAULT)
            .unwrap_or_else(|| Arc::new(self.new_default()))
    }

    /// Returns all users in the order of their names.
    pub(crate) fn list(&self) -> Vec<Arc<User>> {
        self.all.lock().values().cloned().collect()
    }

    /// Returns all users as lines of ACL LIST.
    pub(crate) fn lines(&self) -> Vec<Vec<u8>> {
        let line = |user: Arc<User>| {
            let rules = rules::print(&user);
            [b"user ", &user.identity.name[..], b" ", &rules].concat()
        };
        self.list().into_iter().map(line).collect()
    }

    /// Returns a new user without permissions. It is not added to the registry.
    pub(crate) fn new_user(&self, name: &[u8], all_channels: bool) -> User {
        let identity = Identity {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
        };
        User::new(identity, self.rules.table.entries(), all_channels)
    }

    /// Returns a new default user, which is unrestricted.
    pub(crate) fn new_default(&self) -> User {
        let mut user = self.new_user(DEFAULT, true);
        user.root().allow_all_commands();
        user.root().set_all_keys(true);
        user.on = true;
        user.no_password = true;
        user.updated();
        user
    }

    /// Applies rules to a user, and creates the user if it does not exist.
    ///
    /// # Errors
    /// Returns the first rule that cannot be applied. In this case the user is unchanged.
    pub(crate) fn set(
        &self,
        name: &[u8],
        rules: &[Vec<u8>],
        all_channels: bool,
    ) -> Result<Changed, RefusedRule> {
        let mut all = self.all.lock();
        let old = all.get(name).cloned();
        let mut user = match &old {
            Some(old) => User::clone(old),
            None => self.new_user(name, all_channels),
        };
        let deprecated = self.apply(&mut user, rules, all_channels)?;
        let new = Arc::new(user);
        all.insert(Arc::clone(&new.identity.name), Arc::clone(&new));
        self.changed();
        Ok(Changed {
            old,
            new,
            deprecated,
        })
    }

    /// Applies rules to a user that is not in the registry. Returns the deprecated rules.
    ///
    /// # Errors
    /// Returns the first rule that cannot be applied.
    pub(crate) fn apply(
        &self,
        user: &mut User,
        rules: &[Vec<u8>],
        all_channels: bool,
    ) -> Result<Vec<Vec<u8>>, RefusedRule> {
        let mut deprecated = Vec::new();
        for rule in rules {
            match self.rules.apply(user, rule, all_channels) {
                Ok(false) => {}
                Ok(true) => deprecated.push(rule.clone()),
                Err(error) => {
                    let rule = rule.clone();
                    return Err(RefusedRule { rule, error });
                }
            }
        }
        Ok(deprecated)
    }

    /// Removes a user and returns it.
    pub(crate) fn delete(&self, name: &[u8]) -> Option<Arc<User>> {
        let removed = self.all.lock().remove(name)?;
        self.changed();
        Some(removed)
    }

    /// Replaces all users and returns the former users. The default user keeps its name and number,
    /// so the clients of the default user stay connected.
    pub(crate) fn replace(&self, mut new: UserMap) -> UserMap {
        let mut all = self.all.lock();
        let mut default = match new.remove(DEFAULT) {
            Some(default) => User::clone(&default),
            None => self.new_default(),
        };
        if let Some(old) = all.get(DEFAULT) {
            default.identity = old.identity.clone();
        }
        new.insert(DEFAULT.into(), Arc::new(default));
        let old = std::mem::replace(&mut *all, new);
        self.changed();
        old
    }

    /// Sets the only password of the default user, from `requirepass`. With `None` any password is
    /// accepted.
    pub(crate) fn set_default_password(&self, password: Option<&[u8]>) {
        let rules = match password {
            None => vec![b"resetpass".to_vec(), b"nopass".to_vec()],
            Some(password) => vec![b"resetpass".to_vec(), [b">", password].concat()],
        };
        // These rules never fail.
        let _ = self.set(DEFAULT, &rules, false);
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }
}
