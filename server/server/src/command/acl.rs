//! ACL: users, their rules, and the log of denials.

use std::sync::Arc;

use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::command::help;
use punctual_store::error::{brief, c_string};
use punctual_store::spec::{Flags, Group};

use crate::acl::categories::{self, is_member};
use crate::acl::check::{Denied, check};
use crate::acl::file::warn_of_first_args;
use crate::acl::registry::{Changed, DEFAULT, RefusedRule, Users};
use crate::acl::rules::{self, has_spaces, merged};
use crate::acl::user::{Selector, User};
use crate::log;
use crate::node::call::{Call, ServerCommand, ServerHandler};

const ANY_TIME: Flags = Flags::LOADING.or(Flags::STALE);
/// Flags of subcommands that do not administer users.
const OPEN: Flags = ANY_TIME.or(Flags::NOSCRIPT);
const ADMIN: Flags = OPEN.or(Flags::ADMIN);

punctual_store::family!(ServerHandler, Group::Server, Flags::KEYLESS);

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] =
    &[ServerCommand::container("acl", Group::Server, SUBCOMMANDS)
        .since("6.0.0")
        .summary("A container for access control commands.")];

static SUBCOMMANDS: &[ServerCommand] = &[
    row("cat", -2, OPEN, cat)
        .since("6.0.0")
        .complexity("O(1) since the categories and commands are a fixed set.")
        .summary("Lists the ACL categories or the commands of a category.")
        .syntax("[category]"),
    row("delrole", -3, ADMIN, del_role)
        .since("9.2.0")
        .complexity("O(N). Where N is the number of roles to delete, times the number of users.")
        .summary("Deletes roles that no user has.")
        .syntax("rolename ..."),
    row("deluser", -3, ADMIN, del_user)
        .since("6.0.0")
        .complexity("O(1) amortized time considering the typical user.")
        .summary("Deletes users and closes their connections.")
        .syntax("username ..."),
    row("dryrun", -4, ADMIN, dry_run)
        .since("7.0.0")
        .complexity("O(1).")
        .summary("Returns whether a user may run a command, without running it.")
        .syntax("username command [arg ...]"),
    row("genpass", -2, OPEN, gen_pass)
        .since("6.0.0")
        .summary("Returns a random password.")
        .syntax("[bits:integer]"),
    row("getrole", 3, ADMIN, get_role)
        .since("9.2.0")
        .complexity("O(N). Where N is the number of rules of the role, plus the number of users.")
        .summary("Returns the rules of a role, and the users that have it.")
        .syntax("rolename"),
    row("getuser", 3, ADMIN, get_user)
        .since("6.0.0")
        .complexity(
            "O(N). Where N is the number of password, command and pattern rules that the user has.",
        )
        .summary("Returns the rules of a user.")
        .history(&[
            ("6.2.0", "Added Pub/Sub channel patterns."),
            (
                "7.0.0",
                "Added selectors and changed the format of key and channel patterns from a list to their rule representation.",
            ),
        ])
        .syntax("username"),
    ServerCommand::help(Group::Server, "6.0.0", |_, _, reply| help(reply, "ACL", HELP)),
    row("list", 2, ADMIN, list)
        .since("6.0.0")
        .complexity("O(N). Where N is the number of configured users.")
        .summary("Returns all users as lines of an ACL file."),
    row("load", 2, ADMIN, load)
        .since("6.0.0")
        .complexity("O(N). Where N is the number of configured users.")
        .summary("Replaces all users by those of the ACL file."),
    row("log", -2, ADMIN, log)
        .since("6.0.0")
        .complexity("O(N) with N being the number of entries shown.")
        .summary("Returns the latest denials.")
        .history(&[(
            "7.2.0",
            "Added entry ID, timestamp created, and timestamp last updated.",
        )])
        .syntax("[operation: count | RESET]"),
    row("roles", 2, ADMIN, roles)
        .since("9.2.0")
        .complexity("O(N). Where N is the number of roles.")
        .summary("Returns the names of all roles."),
    row("save", 2, ADMIN, save)
        .since("6.0.0")
        .complexity("O(N). Where N is the number of configured users.")
        .summary("Writes all users to the ACL file."),
    row("setrole", -3, ADMIN, set_role)
        .since("9.2.0")
        .complexity("O(N). Where N is the number of rules provided, plus the number of users.")
        .summary("Creates or changes a role: a set of rules for several users.")
        .syntax("rolename [rule ...]"),
    row("setuser", -3, ADMIN, set_user)
        .secrets(|args| (2..args.len()).collect())
        .since("6.0.0")
        .complexity("O(N). Where N is the number of rules provided.")
        .summary("Creates or changes a user.")
        .history(&[
            ("6.2.0", "Added Pub/Sub channel patterns."),
            ("7.0.0", "Added selectors and key based permissions."),
        ])
        .syntax("username [rule ...]"),
    row("users", 2, ADMIN, users)
        .since("6.0.0")
        .complexity("O(N). Where N is the number of configured users.")
        .summary("Returns the names of all users."),
    row("whoami", 2, OPEN, who_am_i).doc("6.0.0", "O(1)", "Returns the user of the connection."),
];

fn cat(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let Some(category) = args.get(2) else {
        reply.array(categories::NAMES.len());
        for category in categories::NAMES {
            reply.bulk(category.as_bytes());
        }
        return Ok(());
    };
    if args.len() > 3 {
        return Err(crate::command::replies::wrong_form("ACL", args));
    }
    let rules = &call.shared.clients.users.rules;
    let category = rules
        .category(category)
        .ok_or_else(|| Error::repeating("ERR Unknown category '", brief(category), "'"))?;
    let members = rules.table.all().filter(|e| is_member(e, category.name));
    let names: Vec<&str> = members.map(|e| e.name.as_str()).collect();
    reply.array(names.len());
    for name in names {
        reply.bulk(name.as_bytes());
    }
    Ok(())
}

fn who_am_i(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    match call.session.user.identity.id {
        0 => reply.null(),
        _ => reply.bulk(&call.session.user.identity.name),
    }
    Ok(())
}

fn list(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let lines = call.shared.clients.users.lines();
    reply.array(lines.len());
    for line in lines {
        reply.bulk(&line);
    }
    Ok(())
}

fn users(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    write_names(&call.shared.clients.users.list(), reply);
    Ok(())
}

fn roles(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    write_names(&call.shared.clients.users.roles(), reply);
    Ok(())
}

fn get_user(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let users = &call.shared.clients.users;
    let Some(user) = users.get(&args[2]) else {
        reply.null();
        return Ok(());
    };
    // Clients of Redis get no new fields, unless the user has what Redis does not know.
    let with_databases = user.own_selectors().iter().any(|s| s.databases.is_some());
    let fields = 6 + usize::from(with_databases) + usize::from(!user.roles().is_empty());
    reply.map(fields);
    reply.bulk(b"flags");
    let flags: Vec<&str> = rules::flags(&user).collect();
    reply.set(flags.len());
    for flag in flags {
        reply.bulk(flag.as_bytes());
    }
    reply.bulk(b"passwords");
    reply.array(user.passwords.len());
    for hash in &user.passwords {
        reply.bulk(rules::hex(hash).as_bytes());
    }
    write_selectors(user.own_selectors(), with_databases, reply);
    if !user.roles().is_empty() {
        reply.bulk(b"roles");
        write_names(user.roles(), reply);
    }
    Ok(())
}

fn get_role(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let users = &call.shared.clients.users;
    let Some(role) = users.role(&args[2]) else {
        reply.null();
        return Ok(());
    };
    let mut holders = users.list();
    holders.retain(|user| user.has_role(&args[2]));
    reply.map(6);
    write_selectors(role.own_selectors(), true, reply);
    reply.bulk(b"users");
    write_names(&holders, reply);
    Ok(())
}

/// Writes the fields of the first selector, and the field with the others.
fn write_selectors(selectors: &[Selector], with_databases: bool, reply: &mut Reply) {
    let describe = |selector: &Selector, reply: &mut Reply<'_>| {
        let databases = with_databases.then(|| rules::print_databases(selector));
        for (name, text) in [
            ("commands", Some(rules::print_commands(selector))),
            ("keys", Some(rules::print_keys(selector))),
            ("channels", Some(rules::print_channels(selector))),
            ("databases", databases),
        ] {
            if let Some(text) = text {
                reply.bulk(name.as_bytes());
                reply.bulk(&text);
            }
        }
    };
    let (root, others) = (&selectors[0], &selectors[1..]);
    describe(root, reply);
    reply.bulk(b"selectors");
    reply.array(others.len());
    for selector in others {
        reply.map(3 + usize::from(with_databases));
        describe(selector, reply);
    }
}

fn write_names(accounts: &[Arc<User>], reply: &mut Reply) {
    reply.array(accounts.len());
    for account in accounts {
        reply.bulk(&account.identity.name);
    }
}

fn set_user(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let name = args.at(2);
    if has_spaces(name) {
        return Err(Error::fixed(
            "ERR Usernames can't contain spaces or null characters",
        ));
    }
    change(call, args, "SETUSER", Users::set, reply)
}

fn set_role(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    if let Some(reason) = rules::refuse_role_name(args.at(2)) {
        return Err(Error::Text(format!("ERR {reason}").into()));
    }
    change(call, args, "SETROLE", Users::set_role, reply)
}

/// A method of [`Users`] that applies rules to the user or role with a name. The last argument is
/// whether new selectors start with all channels.
type Set = fn(&Users, &[u8], &[Vec<u8>], bool) -> Result<Changed, RefusedRule>;

/// Applies the rules of SETUSER or SETROLE.
fn change(
    call: &mut Call,
    args: Args,
    command: &str,
    set: Set,
    reply: &mut Reply,
) -> Result<(), Error> {
    let rules = merged(args.skip(3).iter()).map_err(|at| {
        let before = "ERR Unmatched parenthesis in acl selector starting at '";
        Error::repeating(before, c_string(args.at(3 + at)), "'.")
    })?;
    // Unlocks the turn's shards: the command ends blocked commands that the new rules forbid, and
    // must lock the shards of their keys.
    call.turn.release();
    let shared = call.shared;
    let all_channels = shared.settings().acl_all_channels;
    let changed = set(&shared.clients.users, args.at(2), &rules, all_channels);
    let changed = changed.map_err(|refused| {
        let before = format!("ERR Error in ACL {command} modifier '");
        let after = format!("': {}", refused.error);
        Error::repeating(&before, c_string(&refused.rule), &after)
    })?;
    warn_of_first_args(&shared.logger, &changed.deprecated);
    for user in &changed.users {
        shared.user_changed(call.session, call.loop_number, user);
    }
    reply.ok();
    Ok(())
}

fn del_role(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let users = &call.shared.clients.users;
    let deleted = users.delete_roles(args.skip(2).iter()).map_err(|held| {
        Error::repeating(
            "ERR The role '",
            c_string(held),
            "' is assigned to one or more users",
        )
    })?;
    reply.int(deleted as i64);
    Ok(())
}

fn del_user(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let names = args.skip(2);
    if names.iter().any(|name| name == DEFAULT) {
        return Err(Error::fixed("ERR The 'default' user cannot be removed"));
    }
    let mut deleted = 0;
    for name in names {
        if let Some(user) = call.shared.clients.users.delete(name) {
            call.shared.user_gone(call.session, user.identity.id);
            deleted += 1;
        }
    }
    reply.int(deleted);
    Ok(())
}

/// Returns the error for a server without `aclfile`.
fn no_file() -> Error {
    Error::fixed(
        "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
         command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store \
         users in the Redis configuration.",
    )
}

fn load(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let shared = call.shared;
    let settings = shared.settings();
    let file = settings.acl_file.as_deref().ok_or_else(no_file)?;
    call.turn.release();
    let new = shared
        .clients
        .users
        .read(&shared.durability.disk, file, &settings, &shared.logger)
        .map_err(|errors| Error::Text(format!("ERR {errors}").into()))?;
    let old = shared.clients.users.replace(new);
    // As in Redis 7.2, all clients are disconnected, except clients of the default user.
    for (_, user) in old.iter().filter(|(name, _)| ***name != *DEFAULT) {
        shared.user_gone(call.session, user.identity.id);
    }
    let default = shared.clients.users.default_user();
    shared.user_changed(call.session, call.loop_number, &default);
    reply.ok();
    Ok(())
}

fn save(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let settings = call.shared.settings();
    let file = settings.acl_file.as_deref().ok_or_else(no_file)?;
    call.turn.release();
    if let Err(error) = call.shared.clients.users.write(&settings.dir.join(file)) {
        log::warning!(
            call.shared.logger,
            "Writing ACL file for ACL SAVE: {}",
            crate::config::io_reason(&error)
        );
        return Err(Error::fixed(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        ));
    }
    reply.ok();
    Ok(())
}

fn gen_pass(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    const BITS_MAX: i64 = 4096;
    let bits = match args.get(2) {
        _ if args.len() > 3 => return Err(crate::command::replies::wrong_form("ACL", args)),
        None => 256,
        Some(bits) => parse_i64(bits).ok_or(Error::NotInteger)?,
    };
    if !(1..=BITS_MAX).contains(&bits) {
        return Err(Error::fixed(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let digits = (bits as usize).div_ceil(4);
    let password: Vec<u8> = (0..digits)
        .map(|_| call.shared.world.hex_digits::<1>()[0])
        .collect();
    reply.bulk(&password);
    Ok(())
}

fn log(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let log = &call.shared.clients.users.log;
    let count = match args.get(2) {
        _ if args.len() > 3 => return Err(crate::command::replies::wrong_form("ACL", args)),
        None => 10,
        Some(word) if word.eq_ignore_ascii_case(b"reset") => {
            log.clear();
            reply.ok();
            return Ok(());
        }
        Some(count) => parse_i64(count).ok_or(Error::NotInteger)?,
    };
    let now_ms = call.shared.clock.now().read_ms();
    let entries = log.latest(usize::try_from(count).unwrap_or(0));
    reply.array(entries.len());
    for entry in entries {
        reply.map(10);
        reply.bulk(b"count");
        reply.int(entry.count as i64);
        for (name, text) in [
            ("reason", entry.denial.reason.name().as_bytes()),
            ("context", entry.denial.context.name().as_bytes()),
            ("object", &entry.denial.object),
            ("username", &entry.denial.user),
        ] {
            reply.bulk(name.as_bytes());
            reply.bulk(text);
        }
        reply.bulk(b"age-seconds");
        reply.double(now_ms.saturating_sub(entry.updated_ms) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(&entry.denial.client);
        for (name, number) in [
            ("entry-id", entry.id),
            ("timestamp-created", entry.created_ms),
            ("timestamp-last-updated", entry.updated_ms),
        ] {
            reply.bulk(name.as_bytes());
            reply.int(number as i64);
        }
    }
    Ok(())
}

fn dry_run(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let shared = call.shared;
    let user = shared
        .clients
        .users
        .get(&args[2])
        .ok_or_else(|| Error::repeating("ERR User '", c_string(&args[2]), "' not found"))?;
    let tried = args.skip(3);
    let entry = shared.commands.find(tried).map_err(|(entry, error)| {
        if entry.is_some() {
            return error;
        }
        Error::repeating("ERR Command '", c_string(tried.at(0)), "' not found")
    })?;
    let db = call.session.db;
    let Err(denied) = check(&user, entry, tried, db) else {
        reply.ok();
        return Ok(());
    };
    let object = c_string(denied.object(entry, tried));
    let text = match denied {
        Denied::Command => [
            &b"This user has no permissions to run the '"[..],
            object,
            b"' command",
        ]
        .concat(),
        Denied::Key(_) => [
            &b"This user has no permissions to access the '"[..],
            object,
            b"' key",
        ]
        .concat(),
        Denied::Channel(_) => [
            &b"This user has no permissions to access the '"[..],
            object,
            b"' channel",
        ]
        .concat(),
        Denied::Database(at) => {
            let selected = db.to_string();
            let number = if at == 0 { selected.as_bytes() } else { object };
            let user = c_string(&args[2]);
            [
                &b"User "[..],
                user,
                b" has no permissions to access database ",
                number,
            ]
            .concat()
        }
    };
    reply.bulk(&text);
    Ok(())
}

const HELP: &[&str] = &[
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELROLE <rolename> [<rolename> ...]",
    "    Delete a list of roles that no user has.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETROLE <rolename>",
    "    Get the role's details, and the users that have it.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "ROLES",
    "    List all the role names.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETROLE <rolename> <attribute> [<attribute> ...]",
    "    Create or modify a role with the specified attributes.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
];
