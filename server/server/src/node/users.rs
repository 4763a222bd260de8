//! Effects of a changed user on connected clients.
//!
//! A session takes the new snapshot of its user before its next command
//! ([`Session::refresh_user`]). Waits and subscriptions that began before the change need more: the
//! functions here end waits that the user no longer permits, and close the connections of clients
//! with forbidden subscriptions and of deleted users.

use std::sync::Arc;

use punctual_resp::Args;
use punctual_store::Error;

use crate::acl::check::{Denied, check, may_listen};
use crate::acl::log::{Context, Denial, Reason};
use crate::acl::registry::Users;
use crate::acl::user::User;
use crate::client::line::line;
use crate::client::registry::ClientInfo;
use crate::node::Shared;
use crate::node::order::Order;
use crate::node::waiting;
use crate::session::Session;
use crate::table::Entry;

impl Session {
    /// Takes the present snapshot of the client's user. Closes the connection if the user was
    /// deleted.
    #[cold]
    pub(crate) fn refresh_user(&mut self, users: &Users) {
        // The version is read first, so that a later change is noticed at the next refresh.
        self.users_version = users.version();
        let mine = &self.user.identity;
        // The server's internal user has the id 0 and does not change.
        if mine.id == 0 {
            return;
        }
        match users.get(&mine.name) {
            Some(user) if user.identity.id == mine.id => self.set_user(user),
            _ => {
                self.become_default(users);
                self.authenticated = false;
                self.closing = true;
            }
        }
        if !self.authenticated && !self.closing {
            self.authenticated = users.default_user().is_open();
        }
    }

    /// Returns the client to the default user, as for a new connection.
    pub(crate) fn become_default(&mut self, users: &Users) {
        let user = users.default_user();
        self.authenticated = user.is_open();
        self.set_user(user);
    }

    /// Returns true if the user permits all subscriptions of this client.
    pub(crate) fn may_listen_on(&self, user: &User) -> bool {
        let plain = self.channels.iter().chain(&self.shard_channels);
        user.is_unrestricted()
            || plain
                .map(|c| (c, false))
                .chain(self.patterns.iter().map(|p| (p, true)))
                .all(|(topic, literal)| may_listen(user, topic, literal))
    }
}

impl Shared {
    /// Ends the waits of the user's clients that the changed user no longer permits, and closes
    /// clients with forbidden subscriptions. Later commands are checked against the new rules.
    pub(crate) fn user_changed(&self, session: &mut Session, loop_number: usize, new: &Arc<User>) {
        session.refresh_user(&self.clients.users);
        if new.is_unrestricted() {
            return;
        }
        if session.user.identity.id == new.identity.id && !session.may_listen_on(new) {
            // The caller still receives its reply.
            session.closing = true;
        }
        for client in self.clients.registry.list() {
            if client.user.lock().id == new.identity.id {
                self.end_denied_wait(&client, loop_number, new);
            }
        }
        self.order_all(|| Order::CheckUser(Arc::clone(new)));
    }

    /// Closes the connections of a deleted user.
    pub(crate) fn user_gone(&self, session: &mut Session, id: u64) {
        for client in self.clients.registry.list() {
            if client.user.lock().id != id {
                continue;
            }
            if client.id == session.id {
                // The caller still receives its reply.
                session.refresh_user(&self.clients.users);
            } else {
                self.clients.registry.kill(&client);
                self.mailboxes[client.loop_number].order(Order::Kill {
                    client: client.id,
                    slot: client.slot,
                });
            }
        }
    }

    /// Ends a client's wait for keys if its user no longer permits the waiting command.
    pub(crate) fn end_denied_wait(&self, client: &ClientInfo, loop_number: usize, user: &User) {
        let waiter = client.waiter.lock().clone();
        let Some(waiter) = waiter.filter(|waiter| waiter.has_keys()) else {
            return;
        };
        let Some(entry) = self.commands.table().entry(waiter.id().entry) else {
            return;
        };
        let args = waiter.args().as_args();
        if let Err(denied) = check(user, entry, args, waiter.db())
            && waiter.claim()
        {
            self.log_denial(client, user, denied, Context::TopLevel, entry, args);
            let error = denied.error(entry);
            waiting::answer_unserved(self, loop_number, &waiter, Some(&error));
        }
    }

    /// Adds a denied command to ACL LOG.
    #[cold]
    pub(crate) fn log_denial(
        &self,
        client: &ClientInfo,
        user: &User,
        denied: Denied,
        context: Context,
        entry: &Entry,
        args: Args,
    ) {
        self.add_denial(
            client,
            Denial {
                reason: Reason::from(denied),
                context,
                object: denied.object(entry, args).to_vec(),
                user: Arc::clone(&user.identity.name),
                client: Vec::new(),
            },
        );
    }

    /// Authenticates a client as a user.
    ///
    /// # Errors
    /// Returns an error if the name or the password is wrong, or the user is off. The failure is
    /// added to ACL LOG.
    pub(crate) fn authenticate(
        &self,
        session: &mut Session,
        nested: bool,
        command: &[u8],
        name: &[u8],
        password: &[u8],
    ) -> Result<(), Error> {
        let user = self.clients.users.get(name);
        let Some(user) = user.filter(|user| user.admits(password)) else {
            let multi = nested || session.multi.is_some();
            self.add_denial(
                &session.info,
                Denial {
                    reason: Reason::Auth,
                    context: if multi {
                        Context::Multi
                    } else {
                        Context::TopLevel
                    },
                    object: command.to_vec(),
                    user: name.into(),
                    client: Vec::new(),
                },
            );
            return Err(Error::fixed(
                "WRONGPASS invalid username-password pair or user is disabled.",
            ));
        };
        session.set_user(user);
        session.authenticated = true;
        Ok(())
    }

    fn add_denial(&self, client: &ClientInfo, mut denial: Denial) {
        let now_ms = self.clock.now().read_ms();
        denial.client = line(self.commands.table(), client, now_ms);
        let max = self.settings().acl_log_max;
        self.clients.users.log.add(denial, now_ms, max);
    }
}
