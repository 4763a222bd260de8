//! Firing of timers. Their commands run like the commands of EXEC, in a session without a
//! connection; their replies are discarded.
//!
//! Ground rules: expiry returns the due timers and leaves them in the wheel, so a timer that cannot
//! fire now is found again. To fire a timer, the turn pins the shards of the timer and of its
//! command, and checks that the timer is still due. A timer whose user may not run the command is
//! paused, and its command does not run. A timer whose slot moves to or from another node waits.
//! While another loop runs a script, no timer fires, unless this loop's turn already holds every
//! shard. A timer whose command runs a script counts as a running script, so other scripts wait for
//! the end of the command.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_resp::{Args, Chunks};
use punctual_store::command::dump::timer_of;
use punctual_store::spec::{Flags, Group};
use punctual_store::{DueTimer, Error, Source, Turn};

use crate::acl::check::{Denied, check, sort_denial};
use crate::acl::registry::DEFAULT;
use crate::acl::user::User;
use crate::client::registry::ClientInfo;
use crate::dispatch::Dispatcher;
use crate::dispatch::admission::Check;
use crate::dispatch::blocking::serve_ready;
use crate::dispatch::cluster::entry_has_slot_of;
use crate::log;
use crate::node::Shared;
use crate::node::scripts::Scripts;
use crate::session::Session;
use crate::session::transaction::pin_for_timer;
use crate::table::Entry;

/// Delay before the next attempt if the server cannot write to its files or has too few replicas.
const RETRY: Duration = Duration::from_secs(1);

/// Outcome of an attempt to fire a timer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fired {
    /// The attempt is complete: the timer has run, or was refused, postponed or paused. Contains
    /// the error, if there was one.
    Done(Option<Vec<u8>>),
    /// The timer was changed or removed before it could fire.
    Changed,
    /// The timer cannot fire now, and stays due.
    Later,
}

/// Reason why a timer fires.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// Its deadline has passed.
    Deadline,
    /// TIMER RUN names it.
    Command,
}

/// Returns the error for a command that no timer may have, whichever user sets it.
pub(crate) fn refusal(entry: &Entry) -> Option<Error> {
    let flags = entry.row.flags;
    let name = &entry.name;
    if flags.has(Flags::BLOCKING) {
        let text = format!("ERR '{name}' may wait, which a timer cannot");
        return Some(Error::Text(text.into()));
    }
    let runs_scripts = flags.has(Flags::RUNS_SCRIPTS);
    let refused = flags.has(Flags::NOT_IN_TIMER)
        || flags.has(Flags::NOSCRIPT) && !runs_scripts
        || flags.has(Flags::ADMIN)
        || entry.row.group == Group::Connection;
    refused.then(|| Error::Text(format!("ERR '{name}' is not allowed in a timer").into()))
}

/// Returns the error for RESTORE of another user's timer, whose command would run as that user.
pub(crate) fn denial_of_payload(user: &User, entry: &Entry, args: Args) -> Option<Error> {
    if !entry.row.flags.has(Flags::RESTORES) || user.is_internal() {
        return None;
    }
    let timer = timer_of(args.get(3)?)?;
    let other = *timer.user.as_deref().unwrap_or(DEFAULT) != *user.identity.name;
    other.then_some(Error::fixed(
        "NOPERM this user has no permissions to restore a timer of another user",
    ))
}

/// Fires the timers that are due at the instant of a virtual clock; the turn holds every shard.
/// Then serves the waiters of keys that their commands have filled.
pub(crate) fn fire_due(
    shared: &Arc<Shared>,
    loop_number: usize,
    turn: &mut Turn,
    scripts: &mut Scripts,
) {
    let clock = shared.world.counter();
    let in_exec = turn.is_pinned();
    let due = turn.take_due_timers();
    let max = usize::MAX;
    let mut dispatcher = Dispatcher::new(shared, loop_number, turn, scripts, &clock, max, None);
    for due in &due {
        dispatcher.fire_alone(due, Trigger::Deadline);
    }
    if !in_exec && turn.has_ready() {
        serve_ready(shared, turn, loop_number, &clock);
    }
}

impl Dispatcher<'_, '_> {
    /// Fires a timer that is due, or that TIMER RUN names, unless a script on another loop prevents
    /// that.
    pub(crate) fn fire(&mut self, due: &DueTimer, trigger: Trigger) -> Fired {
        let running = &self.shared.scripting.running;
        if self.shared.mailboxes.len() == 1 || self.turn.is_pinned() {
            // With one loop, no script runs on another loop. If shards are pinned, a transaction
            // with TIMER RUN has pinned every shard, so a script on another loop waits.
            return self.fire_alone(due, trigger);
        }
        let words = due.words();
        let found = self.shared.commands.find(words.as_args());
        let runs = found.is_ok_and(|entry| entry.row.flags.has(Flags::RUNS_SCRIPTS));
        if runs && !running.try_begin(None) || !runs && running.is_active() {
            return Fired::Later;
        }
        let fired = self.fire_alone(due, trigger);
        if runs {
            self.turn.release();
            running.end();
        }
        fired
    }

    /// Fires a timer. No script runs on another loop, or the turn holds every shard.
    fn fire_alone(&mut self, due: &DueTimer, trigger: Trigger) -> Fired {
        let words = due.words();
        let args = words.as_args();
        let entry = self.shared.commands.find(args).map_err(|(_, error)| error);
        let entry = entry.and_then(|entry| match refusal(entry) {
            None => Ok(entry),
            Some(error) => Err(error),
        });
        let pinned = self.turn.is_pinned();
        if !pinned {
            match &entry {
                Ok(entry) => pin_for_timer(self.turn, &due.key, entry, args),
                Err(_) => self
                    .turn
                    .pin(Some(vec![self.turn.store.shard_of(&due.key)])),
            }
        }
        let fired = self.fire_pinned(due, trigger, entry, args);
        if !pinned {
            self.turn.unpin();
        }
        fired
    }

    fn fire_pinned(
        &mut self,
        due: &DueTimer,
        trigger: Trigger,
        entry: Result<&'static Entry, Error>,
        args: Args,
    ) -> Fired {
        if !self.turn.is_still_due(due) {
            return Fired::Changed;
        }
        if trigger == Trigger::Deadline && self.turn.waits_for_slot(due) {
            // The slot has begun to move meanwhile. Expiry finds the timer again and holds it.
            return Fired::Done(None);
        }
        let mut session = self.timer_session();
        session.db = due.db;
        let fired = self.fire_as(&mut session, due, trigger, entry, args);
        self.scripts.timers = Some(session);
        fired
    }

    fn fire_as(
        &mut self,
        session: &mut Session,
        due: &DueTimer,
        trigger: Trigger,
        entry: Result<&'static Entry, Error>,
        args: Args,
    ) -> Fired {
        if self.shared.stopping.load(Ordering::Acquire) {
            return Fired::Later;
        }
        match self.refusal_to_fire(session, due, entry.as_ref().ok().copied(), args) {
            None => {}
            Some((Check::State | Check::Slot, error)) => {
                if trigger == Trigger::Deadline {
                    let at_ms = self.turn.now.read_ms() + RETRY.as_millis() as u64;
                    self.turn.put_off_timer(due, at_ms, &error.bytes());
                }
                return Fired::Done(Some(error.bytes().into_owned()));
            }
            Some((_, error)) => {
                let error = error.bytes().into_owned();
                self.turn.stop_timer(due, &error);
                log::warning!(
                    self.shared.logger,
                    "The timer '{}' in database {} is paused: {}",
                    due.key.escape_ascii(),
                    due.db,
                    error.escape_ascii()
                );
                return Fired::Done(Some(error));
            }
        }
        let firing = match trigger {
            Trigger::Deadline => self.turn.begin_firing(due),
            Trigger::Command => self.turn.begin_running(due),
        };
        let Some(firing) = firing else {
            return Fired::Changed;
        };
        let mut error = None;
        if firing.runs {
            error = match entry {
                Ok(entry) => self.run_for_timer(session, entry, args),
                Err(error) => {
                    self.count_error(&error);
                    Some(error.bytes().into_owned())
                }
            };
        }
        self.turn.end_firing(firing, error.as_deref());
        Fired::Done(error)
    }

    /// Runs a timer's command. Returns the error that it replies, if any.
    fn run_for_timer(
        &mut self,
        session: &mut Session,
        entry: &'static Entry,
        args: Args,
    ) -> Option<Vec<u8>> {
        let outer = self.turn.enter(Source::Timer);
        let mut out = std::mem::take(&mut self.scripts.timer_reply);
        out.clear();
        let start = self.command_start;
        self.command_start = self.clock.raw();
        // The reply is discarded, but an error is counted and kept for TIMER GET.
        self.chunks = Some(Chunks::default());
        self.execute(session, entry, args, &mut out);
        self.chunks = None;
        self.command_start = start;
        self.turn.leave(outer);
        let error = out.strip_prefix(b"-").map(|line| {
            let end = line.iter().position(|byte| *byte == b'\r');
            line[..end.unwrap_or(line.len())].to_vec()
        });
        /// Maximum capacity in bytes of a buffer that is kept for the next timer's reply.
        const KEPT: usize = 64 << 10;
        if out.capacity() <= KEPT {
            self.scripts.timer_reply = out;
        }
        error
    }

    fn timer_session(&mut self) -> Box<Session> {
        let number = self.loop_number;
        self.scripts.timers.take().unwrap_or_else(|| {
            let info = ClientInfo {
                addr: "timer".to_owned(),
                loop_number: number,
                ..ClientInfo::default()
            };
            let mut session = Session::new(Arc::new(info), User::internal());
            session.users_version = 0;
            Box::new(session)
        })
    }

    /// Returns the error if the timer cannot fire now, and the failed check.
    fn refusal_to_fire(
        &mut self,
        session: &mut Session,
        due: &DueTimer,
        entry: Option<&'static Entry>,
        args: Args,
    ) -> Option<(Check, Error)> {
        if let Some(error) = self.become_user(session, due) {
            return Some((Check::Rules, error));
        }
        let Some(entry) = entry else {
            // A failed firing also changes the timer.
            return Some((Check::State, self.refusal_of_changes()?));
        };
        if let Err(refusal) = self.admit(Source::Timer, session, entry, args) {
            self.log_refusal(&refusal, Source::Timer, &session.info, session, entry, args);
            return Some((refusal.check, refusal.error));
        }
        let denied = session
            .restricted
            .then(|| sort_denial(&session.user, entry, args, session.db));
        Some((Check::Rules, denied??))
    }

    /// Gives the session the timer's user. Returns the error if the user does not exist or is off.
    fn become_user(&self, session: &mut Session, due: &DueTimer) -> Option<Error> {
        let name = due.user();
        let name = name.as_deref().unwrap_or(DEFAULT);
        let users = &self.shared.clients.users;
        let version = users.version();
        if session.users_version != version || *session.user.identity.name != *name {
            match users.get(name).filter(|user| user.on) {
                Some(user) => session.set_user(user),
                None => {
                    session.users_version = 0;
                    return Some(Error::repeating(
                        "NOPERM the user '",
                        name,
                        "' of the timer does not exist or is off",
                    ));
                }
            }
            session.users_version = version;
        }
        None
    }

    /// Checks whether this client may put a command into the timer `key`. In cluster mode, the
    /// command's keys must have the timer's slot, so that they move together. The checks are
    /// repeated when the timer fires.
    ///
    /// # Errors
    /// Returns the error to reply.
    pub(crate) fn timer_refusal(
        shared: &Shared,
        turn: &Turn,
        session: &Session,
        key: &[u8],
        args: Args,
    ) -> Result<(), Error> {
        let entry = shared.commands.find(args).map_err(|(_, error)| error)?;
        if let Some(error) = refusal(entry) {
            return Err(error);
        }
        if shared.cluster.is_some() {
            entry_has_slot_of(turn, key, entry, args)?;
        }
        if session.restricted {
            let denied: Result<(), Denied> = check(&session.user, entry, args, session.db);
            denied.map_err(|denied| denied.error(entry))?;
            if let Some(error) = sort_denial(&session.user, entry, args, session.db) {
                return Err(error);
            }
        }
        Ok(())
    }
}
