//! MIGRATE. See [`crate::migrate`].

use std::sync::Arc;
use std::time::Duration;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::spec::{Flags, Group, KeyOrOption};
use punctual_store::{Error, Turn};

use crate::migrate::moving::Migration;
use crate::migrate::target::Target;
use crate::node::call::{Call, ServerCommand};
use crate::node::order::Order;
use crate::session::Executing;

/// Timeout in milliseconds if the argument is 0 or negative.
const TIMEOUT_MS: u64 = 1000;

static KEYS: KeyOrOption = KeyOrOption {
    first: 3,
    from: 6,
    option: "KEYS",
    skipped: &[("AUTH", 1), ("AUTH2", 2)],
};

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[ServerCommand::new(
    "migrate",
    -6,
    Flags::WRITE.or(Flags::MIGRATES),
    Group::Generic,
    migrate,
)
.key_or_option(&KEYS)
.access(&["RW access delete", "RW access delete incomplete"])
.categories(&["dangerous"])
.tips(&["nondeterministic_output"])
.secrets(secrets)
.since("2.6.0")
.complexity("O(N) for the N bytes of the keys, here and at the target; see DUMP, DEL and RESTORE.")
.summary("Atomically transfers keys from one instance to another.")
.history(&[
    ("3.0.0", "Added the `COPY` and `REPLACE` options."),
    ("3.0.6", "Added the `KEYS` option."),
    ("4.0.7", "Added the `AUTH` option."),
    ("6.0.0", "Added the `AUTH2` option."),
])
.syntax(
    "host port (key-selector: key | (empty-string: \"\")) destination-db:integer \
         timeout:integer [COPY@3.0.0] [REPLACE@3.0.0] [authentication: (auth: AUTH \
         password@4.0.7) | AUTH2 (username password)@6.0.0] [keys: KEYS key:key1@3.0.6 ...]",
)];

/// Options of MIGRATE.
#[derive(Default)]
struct Options {
    copy: bool,
    replace: bool,
    /// Position of AUTH's first argument, and the number of its arguments.
    auth: Option<(usize, usize)>,
    /// Position of the first key after KEYS.
    keys: Option<usize>,
}

impl Options {
    fn parse(args: Args) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut at = KEYS.from;
        while let Some(word) = args.get(at) {
            let more = args.len() - 1 - at;
            match word.to_ascii_lowercase().as_slice() {
                b"copy" => options.copy = true,
                b"replace" => options.replace = true,
                b"auth" if more >= 1 => {
                    options.auth = Some((at + 1, 1));
                    at += 1;
                }
                b"auth2" if more >= 2 => {
                    options.auth = Some((at + 1, 2));
                    at += 2;
                }
                b"keys" => {
                    if !args[3].is_empty() {
                        return Err(Error::fixed(
                            "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                        ));
                    }
                    options.keys = Some(at + 1);
                    break;
                }
                _ => return Err(Error::Syntax),
            }
            at += 1;
        }
        Ok(options)
    }
}

fn secrets(args: Args) -> Vec<usize> {
    let auth = Options::parse(args).unwrap_or_default().auth;
    auth.map_or(Vec::new(), |(at, count)| (at..at + count).collect())
}

fn migrate(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let options = Options::parse(args)?;
    let timeout_ms = parse_i64(&args[5]).ok_or(Error::NotInteger)?;
    let db = parse_i64(&args[4]).ok_or(Error::NotInteger)?;
    let timeout_ms = u64::try_from(timeout_ms).unwrap_or(0);
    let encrypts = call.shared.settings().tls.cluster;
    let target = Target {
        host: String::from_utf8_lossy(&args[1]).into_owned(),
        // As in Redis, a port that is not a number counts as 0, where no server listens.
        port: std::str::from_utf8(&args[2]).map_or(0, |port| port.parse().unwrap_or(0)),
        db,
        auth: options.auth.map_or(Vec::new(), |(at, count)| {
            args.skip(at)
                .take(count)
                .iter()
                .map(<[u8]>::to_vec)
                .collect()
        }),
        timeout: Duration::from_millis(if timeout_ms == 0 {
            TIMEOUT_MS
        } else {
            timeout_ms
        }),
        replace: options.replace,
        in_cluster: call.shared.cluster.is_some(),
        // As in Redis, where `tls-cluster` also applies to MIGRATE.
        tls: encrypts.then(|| Arc::clone(&call.shared.tls)),
    };
    let keys = match options.keys {
        Some(at) => args.skip(at),
        None => args.skip(3).take(1),
    };
    // In a transaction or a script, the shards are already pinned and stay pinned.
    let db = call.session.db;
    let may_wait = call.turn.may_wait();
    let waits = may_wait && (options.copy || !pin_timers_and_jobs(call.turn, db, keys));
    let packed = Migration::pack(call.turn, target, db, options.copy, keys.iter(), waits);
    let mut moved = Ok(());
    match packed {
        None => reply.simple("NOKEY"),
        Some(migration) if waits => {
            let (shared, loop_number) = (Arc::clone(call.shared), call.loop_number);
            let mut migration = Box::new(migration);
            call.session.executing = Some(Executing::Wait(Box::new(move |waiter| {
                migration.set_waiter(waiter);
                shared.mailboxes[loop_number].order(Order::Migrate(migration));
            })));
        }
        Some(migration) => {
            moved = migration.run(call.turn, &call.shared.clock);
            if moved.is_ok() {
                reply.ok();
            }
        }
    }
    if may_wait {
        call.turn.unpin();
    }
    moved
}

/// Pins the shards of the keys, if one of them is a timer or a queue of jobs. Otherwise, during the
/// transfer, the timer could fire on both servers, or a worker of each server could get the same
/// job. Returns whether the shards are pinned.
fn pin_timers_and_jobs(turn: &mut Turn, db: usize, keys: Args) -> bool {
    turn.pin(Some(
        keys.iter().map(|key| turn.store.shard_of(key)).collect(),
    ));
    let acts = keys.iter().any(|key| turn.acts_by_itself(db, key));
    if !acts {
        turn.unpin();
    }
    acts
}
