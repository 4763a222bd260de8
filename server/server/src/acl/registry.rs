//! All users and roles by name.
//!
//! Users are immutable snapshots. A change replaces the snapshot under the mutex and raises the
//! version, before the reply of the command that made the change. A session compares the version
//! before it runs the commands that it has read. So the new rules apply to every command that any
//! client sends after that reply.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::acl::log::Log;
use crate::acl::rules::{self, RuleError, Rules, Surroundings};
use crate::acl::user::{Identity, User, UserMap};
use crate::config::Settings;
use crate::table::CommandTable;

/// Name of the user that clients have before they authenticate.
pub(crate) const DEFAULT: &[u8] = b"default";

/// All users, and all roles. A user has the latest snapshots of its roles.
#[derive(Default)]
pub(crate) struct Accounts {
    pub(crate) users: UserMap,
    pub(crate) roles: UserMap,
}

/// The users and roles of a server, and the log of denials.
pub(crate) struct Users {
    pub(crate) rules: Rules,
    all: Mutex<Accounts>,
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

/// Result of a change of a user or a role.
pub(crate) struct Changed {
    /// The former users whose permissions the change concerns, in their new state.
    pub(crate) users: Vec<Arc<User>>,
    /// Whether the user is on; true for a role.
    pub(crate) on: bool,
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
        users
            .all
            .lock()
            .users
            .insert(DEFAULT.into(), Arc::new(default));
        users.set_default_password(settings.requirepass.as_deref());
        users
    }

    /// Returns the version, which counts the changes. Costs one atomic load.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<Arc<User>> {
        self.all.lock().users.get(name).cloned()
    }

    pub(crate) fn role(&self, name: &[u8]) -> Option<Arc<User>> {
        self.all.lock().roles.get(name).cloned()
    }

    /// Returns the user that clients have before they authenticate.
    pub(crate) fn default_user(&self) -> Arc<User> {
        self.get(DEFAULT)
            .unwrap_or_else(|| Arc::new(self.new_default()))
    }

    /// Returns all users in the order of their names.
    pub(crate) fn list(&self) -> Vec<Arc<User>> {
        self.all.lock().users.values().cloned().collect()
    }

    /// Returns all roles in the order of their names.
    pub(crate) fn roles(&self) -> Vec<Arc<User>> {
        self.all.lock().roles.values().cloned().collect()
    }

    /// Returns all roles and users as lines of ACL LIST. A role is before the users that have it.
    pub(crate) fn lines(&self) -> Vec<Vec<u8>> {
        let all = self.all.lock();
        let line = |word: &[u8], account: &User, rules: Vec<u8>| {
            [word, &account.identity.name[..], b" ", &rules].concat()
        };
        let roles = all.roles.values();
        let roles = roles.map(|role| line(b"role ", role, rules::print_permissions(role)));
        let users = all.users.values();
        let users = users.map(|user| line(b"user ", user, rules::print(user)));
        roles.chain(users).collect()
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
        let old = all.users.get(name);
        let around = Surroundings {
            all_channels,
            roles: Some(&all.roles),
        };
        let (new, deprecated) = self.changed_by(old, name, rules, around)?;
        let mut changed = Changed {
            users: Vec::new(),
            on: new.on,
            deprecated,
        };
        let old = all
            .users
            .insert(Arc::clone(&new.identity.name), Arc::clone(&new));
        changed.users.extend(old.map(|_| new));
        self.changed();
        Ok(changed)
    }

    /// Applies rules to a role and to the users that have it, and creates the role if it does not
    /// exist. O(users).
    ///
    /// # Errors
    /// Returns the first rule that cannot be applied. In this case the role is unchanged.
    pub(crate) fn set_role(
        &self,
        name: &[u8],
        rules: &[Vec<u8>],
        all_channels: bool,
    ) -> Result<Changed, RefusedRule> {
        let mut all = self.all.lock();
        let around = Surroundings {
            all_channels,
            roles: None,
        };
        let (role, deprecated) = self.changed_by(all.roles.get(name), name, rules, around)?;
        all.roles
            .insert(Arc::clone(&role.identity.name), Arc::clone(&role));
        let mut users = Vec::new();
        for user in all.users.values_mut().filter(|user| user.has_role(name)) {
            Arc::make_mut(user).role_changed(&role);
            users.push(Arc::clone(user));
        }
        self.changed();
        Ok(Changed {
            users,
            on: true,
            deprecated,
        })
    }

    /// Removes roles and returns their number.
    ///
    /// # Errors
    /// If a user has one of the roles, removes none, and returns its name.
    pub(crate) fn delete_roles<'a>(
        &self,
        names: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<usize, &'a [u8]> {
        let mut all = self.all.lock();
        let held = |name: &&[u8]| all.users.values().any(|user| user.has_role(name));
        if let Some(held) = names.clone().find(held) {
            return Err(held);
        }
        Ok(names
            .filter(|name| all.roles.remove(*name).is_some())
            .count())
    }

    /// Returns a copy of a user or role, or a new one, after these rules, and the deprecated rules.
    fn changed_by(
        &self,
        old: Option<&Arc<User>>,
        name: &[u8],
        rules: &[Vec<u8>],
        around: Surroundings<'_>,
    ) -> Result<(Arc<User>, Vec<Vec<u8>>), RefusedRule> {
        let mut user = match old {
            Some(old) => User::clone(old),
            None => self.new_user(name, around.all_channels),
        };
        let mut deprecated = Vec::new();
        for rule in rules {
            match self.rules.apply(&mut user, rule, around) {
                Ok(false) => {}
                Ok(true) => deprecated.push(rule.clone()),
                Err(error) => {
                    let rule = rule.clone();
                    return Err(RefusedRule { rule, error });
                }
            }
        }
        Ok((Arc::new(user), deprecated))
    }

    /// Removes a user and returns it.
    pub(crate) fn delete(&self, name: &[u8]) -> Option<Arc<User>> {
        let removed = self.all.lock().users.remove(name)?;
        self.changed();
        Some(removed)
    }

    /// Replaces all users and roles, and returns the former users. The default user keeps its name
    /// and number, so the clients of the default user stay connected.
    pub(crate) fn replace(&self, mut new: Accounts) -> UserMap {
        let mut all = self.all.lock();
        let mut default = match new.users.remove(DEFAULT) {
            Some(default) => User::clone(&default),
            None => self.new_default(),
        };
        if let Some(old) = all.users.get(DEFAULT) {
            default.identity = old.identity.clone();
        }
        new.users.insert(DEFAULT.into(), Arc::new(default));
        let old = std::mem::replace(&mut *all, new);
        self.changed();
        old.users
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
