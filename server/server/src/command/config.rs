//! CONFIG: reads and changes the configuration at run time.

use std::sync::atomic::Ordering;

use punctual_resp::{Args, Reply};
use punctual_store::command::help;
use punctual_store::spec::{Flags, Group};
use punctual_store::{Error, Stats};

use crate::config::{Config, RewriteError, SetError};
use crate::log;
use crate::node::Shared;
use crate::node::call::{Call, ServerCommand, ServerHandler};
use crate::persist::aof::switch;
use crate::persist::backup;

const FLAGS: Flags = Flags::ADMIN
    .or(Flags::NOSCRIPT)
    .or(Flags::LOADING)
    .or(Flags::STALE);

const fn row(name: &'static str, arity: i32, handler: ServerHandler) -> ServerCommand {
    ServerCommand::new(name, arity, FLAGS, Group::Server, handler)
}

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::container(
    "config",
    Group::Server,
    &[
        row("get", -3, get)
            .history(&[(
                "7.0.0",
                "Added the ability to pass multiple pattern parameters in one call",
            )])
            .since("2.0.0")
            .complexity("O(N) when N is the number of configuration parameters provided")
            .summary("Returns the effective values of configuration parameters.")
            .syntax("parameter ..."),
        row("set", -4, set)
            .secrets(secrets_of_set)
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
            .history(&[(
                "7.0.0",
                "Added the ability to set multiple parameters in one call.",
            )])
            .since("2.0.0")
            .complexity("O(N) when N is the number of configuration parameters provided")
            .summary("Sets configuration parameters at run time.")
            .syntax("(data: parameter value) ..."),
        row("rewrite", 2, rewrite)
            .since("2.8.0")
            .summary("Writes the effective configuration to the configuration file."),
        row("resetstat", 2, reset_stat).doc("2.0.0", "O(1)", "Resets the server's statistics."),
        ServerCommand::help(Group::Server, "5.0.0", |_, _, reply| {
            help(reply, "CONFIG", HELP)
        }),
    ],
)
.since("2.0.0")
.summary("A container for server configuration commands.")];

fn get(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let found = call.shared.config.lock().get(args.skip(2).iter());
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(&name);
        reply.bulk(&value);
    }
    Ok(())
}

/// Returns the positions of values of sensitive directives in the arguments of CONFIG SET.
fn secrets_of_set(args: Args) -> Vec<usize> {
    (3..args.len())
        .step_by(2)
        .filter(|i| Config::is_sensitive(args.at(i - 1)))
        .collect()
}

fn set(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if !args.len().is_multiple_of(2) {
        return Err(Error::Arity("config|set".into()));
    }
    let rest = args.skip(2);
    let pairs: Vec<(&[u8], &[u8])> = (0..rest.len() / 2)
        .map(|i| (rest.at(2 * i), rest.at(2 * i + 1)))
        .collect();
    let changes_sync = pairs
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case(b"appendfsync"));
    let switches = pairs
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case(b"appendonly"));
    let starts = pairs.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case(b"appendonly") && value.eq_ignore_ascii_case(b"yes")
    });
    if switches && call.turn.source().is_nested() {
        let reason = "ERR CONFIG SET failed (possibly related to argument 'appendonly') - can't be set in a transaction";
        return Err(Error::fixed(reason));
    }
    let switching = switches.then(|| {
        call.turn.release();
        let switching = call.shared.durability.aof.switching.lock();
        if starts && call.shared.durability.backup.owns_writer() {
            backup::stop(call.shared, call.turn, "appendonly is started");
        }
        // The lock order requires shards before the configuration.
        call.turn.lock_all();
        switching
    });
    let mut config = call.shared.config.lock();
    let before = config.settings().append_only;
    let changes = config
        .set(
            &pairs,
            call.session.info.local,
            call.shared.durability.is_loading(),
        )
        .map_err(|e| match e {
            SetError::Unknown(name) => {
                let before = "ERR Unknown option or number of arguments for CONFIG SET - '";
                Error::repeating(before, &name, "'")
            }
            SetError::Loading => Error::Text(format!("LOADING {e}").into()),
            refused => Error::Text(format!("ERR {refused}").into()),
        })?;
    let settings = config.settings();
    if let Err(refusal) = call.shared.apply_changes(&changes, &settings) {
        config.undo(changes);
        return Err(Error::Text(format!("ERR {refusal}").into()));
    }
    if settings.append_only
        && !before
        && let Err(error) = switch::enable(call.shared, call.turn)
    {
        log::warning!(call.shared.logger, "{error}");
        config.undo(changes);
        let refused = SetError::refused("appendonly", switch::REFUSAL);
        return Err(Error::Text(format!("ERR {refused}").into()));
    }
    let ends = before && !settings.append_only;
    if changes.contains("requirepass") {
        let password = settings.requirepass.as_deref();
        call.shared.clients.users.set_default_password(password);
    }
    // The configuration stays locked meanwhile, so that each loop gets the settings of several
    // CONFIG SET commands in their order.
    call.shared.reconfigure(settings);
    drop(config);
    if ends {
        backup::fail(call.shared, "appendonly is stopped");
        switch::disable(call.shared, call.turn);
    }
    drop(switching);
    if changes_sync {
        call.shared.update_holds(call.turn);
    }
    // Later commands of the same turn use the new event classes.
    call.turn.classes = call.shared.classes();
    reply.ok();
    Ok(())
}

fn rewrite(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    rewrite_file(call.shared, false).map_err(|e| Error::Text(format!("ERR {e}").into()))?;
    reply.ok();
    Ok(())
}

/// Writes the effective configuration, including the users, to the configuration file. With `all`,
/// also writes the directives that have their default values, unless an absent line has the same
/// meaning.
pub(super) fn rewrite_file(shared: &Shared, all: bool) -> Result<(), RewriteError> {
    let mut config = shared.config.lock();
    // If there is an ACL file, ACL SAVE writes the users.
    let lines = match config.settings().acl_file {
        Some(_) => Vec::new(),
        None => shared.clients.users.lines(),
    };
    config.set_accounts(lines);
    config.rewrite_file(all)
}

fn reset_stat(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    for stats in &call.shared.observed.stats {
        stats.reset();
    }
    call.turn.stats = Stats {
        dirty: call.turn.stats.dirty,
        ..Stats::default()
    };
    call.shared.replication.replicas.counts.reset();
    call.shared.observed.errors.reset();
    call.shared.clients.users.log.reset_counts();
    call.shared.worker.freed_objects.store(0, Ordering::Relaxed);
    call.shared.memory.reset();
    if let Some(cluster) = &call.shared.cluster {
        cluster.usage.reset(|_| true);
    }
    reply.ok();
    Ok(())
}

const HELP: &[&str] = &[
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Set the configuration <directive> to <value>.",
    "RESETSTAT",
    "    Reset statistics reported by the INFO command.",
    "REWRITE",
    "    Rewrite the configuration file.",
];
