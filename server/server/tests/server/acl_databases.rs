//! Rules of users about databases, which Valkey has since 9.1.

use punctual_harness::Peer;

use crate::waiters::{block, with_threads};
use crate::wire::{Open as _, Wire};

const DENIED: &str = "-NOPERM No permissions to access database|";

/// Commands to which Valkey 9.1 sends the same replies. No command is denied because of the
/// selected database: in that text, Valkey names the command instead of the database.
const COMPARED: &[&str] = &[
    "ACL SETUSER u on nopass ~* +@all db=0,1",
    "ACL LIST",
    "ACL GETUSER u",
    "ACL DRYRUN u SELECT 1",
    "ACL DRYRUN u SELECT 2",
    "ACL DRYRUN u SELECT x",
    "ACL DRYRUN u MOVE a 3",
    "ACL DRYRUN u MOVE a 1",
    "ACL DRYRUN u COPY a b DB 3",
    "ACL DRYRUN u COPY a b REPLACE DB 1",
    "ACL DRYRUN u COPY a b DB 1 DB 3",
    "ACL DRYRUN u SWAPDB 0 3",
    "ACL DRYRUN u SWAPDB 1 0",
    "ACL DRYRUN u SET a 1",
    "ACL DRYRUN u FLUSHDB",
    "ACL DRYRUN u DBSIZE",
    "ACL SETUSER v on db=16",
    "ACL SETUSER v db=5,3,05",
    "ACL SETUSER v db=",
    "ACL SETUSER v db=x",
    "ACL SETUSER v db=1,",
    "ACL SETUSER v db=-1",
    "ACL SETUSER v db=99999999999",
    "ACL LIST",
    "ACL SETUSER v resetdbs &a",
    "ACL LIST",
    "ACL SETUSER v DB=1 ALLDBS",
    "ACL LIST",
    "ACL SETUSER v resetdbs (db=1 +@all ~x)",
    "ACL GETUSER v",
];

#[test]
fn rules_are_those_of_valkey() {
    let Some(valkey) = Peer::Valkey9.start(&[]) else {
        return;
    };
    let (mut theirs, server) = (valkey.wire(), with_threads(1));
    let mut ours = Wire::open(&server);
    for line in COMPARED {
        ours.send(&[line]);
        theirs.send(&[line]);
        assert_eq!(ours.value(), theirs.value(), "{line}");
    }
}

#[test]
fn each_source_of_commands_is_checked() {
    let server = with_threads(1);
    let mut admin = Wire::open(&server);
    admin.expect(
        &[
            "ACL SETUSER ann on nopass ~* &* +@all db=0,1",
            "ACL SETUSER bob on nopass ~* &* +@all resetdbs",
        ],
        "+OK|+OK|",
    );
    let mut ann = Wire::open(&server);
    ann.expect(
        &["AUTH ann x", "SET a 1", "SELECT 1", "GET a", "SELECT 2"],
        &format!("+OK|+OK|+OK|$-1|{DENIED}"),
    );
    ann.expect(
        &["SELECT 0", "MOVE a 3", "SWAPDB 0 2"],
        &format!("+OK|{DENIED}{DENIED}"),
    );
    ann.expect(&["FLUSHALL", "SELECT 99"], &format!("{DENIED}{DENIED}"));
    // Within a transaction, the database is the one that is selected while commands are queued.
    ann.expect(
        &["MULTI", "SELECT 2", "SET a 2", "EXEC"],
        &format!(
            "+OK|{DENIED}+QUEUED|-EXECABORT Transaction discarded because of previous errors.|"
        ),
    );
    ann.expect(
        &["MULTI", "GET a", "SELECT 1", "GET a", "SELECT 0", "EXEC"],
        "+OK|+QUEUED|+QUEUED|+QUEUED|+QUEUED|*4|$1|1|+OK|$-1|+OK|",
    );
    // Scripts and timers have their own selected database.
    let script = "EVAL \"return redis.pcall('select', ARGV[1])\" 0";
    ann.expect(&[&format!("{script} 1")], "+OK|");
    let denied = ann.text(&format!("{script} 2"));
    assert!(
        denied.contains("No permissions to access database"),
        "{denied}"
    );
    ann.send(&["EVAL \"return redis.acl_check_cmd('select', '2')\" 0"]);
    assert!(ann.value().is_null());
    ann.expect_error(
        "TIMER SET t IN 1 DO SELECT 1",
        "'select' is not allowed in a timer",
    );
    // Commands without data need no database.
    let mut bob = Wire::open(&server);
    bob.expect(
        &["AUTH bob x", "PING", "PUBLISH c m", "MULTI", "DISCARD"],
        "+OK|+PONG|:0|+OK|+OK|",
    );
    for line in [
        "GET a",
        "KEYS *",
        "DBSIZE",
        "WATCH a",
        "EVAL \"return 1\" 0",
        "SELECT 0",
    ] {
        bob.expect(&[line], DENIED);
    }
    let log = admin.text("INFO stats");
    assert!(log.contains("acl_access_denied_db:13"), "{log}");
}

#[test]
fn a_wait_ends_when_its_database_is_forbidden() {
    let server = with_threads(1);
    let mut admin = Wire::open(&server);
    admin.expect(&["ACL SETUSER ann on nopass ~* +@all"], "+OK|");
    let mut ann = Wire::open(&server);
    ann.expect(&["AUTH ann x", "SELECT 3"], "+OK|+OK|");
    block(&server, &mut ann, "BLPOP list 0");
    admin.expect(&["ACL SETUSER ann db=0"], "+OK|");
    ann.receive(DENIED);
}
