//! Rejection of commands that a client's user may not run.

use punctual_resp::Args;

use crate::acl::check::Denied;
use crate::acl::log::Context;
use crate::dispatch::{Dispatcher, Flow};
use crate::session::Session;
use crate::table::Entry;

impl Dispatcher<'_, '_> {
    /// Rejects a command that the client's user may not run.
    #[cold]
    pub(super) fn deny(
        &mut self,
        session: &mut Session,
        entry: &Entry,
        args: Args,
        denied: Denied,
        out: &mut Vec<u8>,
    ) -> Flow {
        let context = match session.multi {
            Some(_) => Context::Multi,
            None => Context::TopLevel,
        };
        self.log_denial(session, entry, args, denied, context);
        self.reject(session, entry, args, &denied.error(entry), out)
    }

    /// Adds the denial to ACL LOG.
    pub(super) fn log_denial(
        &self,
        session: &Session,
        entry: &Entry,
        args: Args,
        denied: Denied,
        context: Context,
    ) {
        let (info, user) = (&session.info, &session.user);
        self.shared
            .log_denial(info, user, denied, context, entry, args);
    }
}
