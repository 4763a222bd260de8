//! Users, their rules, and the effect of rules on connected clients.

use punctual_resp::Value;
use punctual_server::Server;

use crate::waiters::{block, waiting, with_threads};
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, eventually, field, server_with};

const NO_KEY: &str =
    "-NOPERM this user has no permissions to access one of the keys used as arguments|";
const NO_CHANNEL: &str =
    "-NOPERM this user has no permissions to access one of the channels used as arguments|";

fn no_command(name: &str) -> String {
    format!("-NOPERM this user has no permissions to run the '{name}' command|")
}

/// Returns a client that has logged in as `user`, whose password is `pw`.
fn login(server: &Server, user: &str) -> Wire {
    let mut client = Wire::open(server);
    client.expect(&[&format!("AUTH {user} pw")], "+OK|");
    client
}

/// Returns a client of the default user, and a client of the new user `ann` with these rules.
fn with_user(server: &Server, rules: &str) -> (Wire, Wire) {
    let mut admin = Wire::open(server);
    admin.expect(&[&format!("ACL SETUSER ann on >pw {rules}")], "+OK|");
    let ann = login(server, "ann");
    (admin, ann)
}

/// Commands whose replies are compared with Redis's. Redis 7.0 and 7.2 print the rules in these
/// commands alike.
const COMPARED: &[&str] = &[
    "ACL SETUSER a on >p +set +@hash -hset %R~a* ~b &c +select|0 \"(+get ~x)\"",
    "ACL GETUSER a",
    "ACL SETUSER b on >p +@all %R~r:* %W~w:* ~k:* &c:* -set -config|get",
    "ACL GETUSER b",
    "ACL LIST",
    "ACL SETUSER e -@all +@list +@set +@sortedset +@geo -lpush",
    "ACL GETUSER e",
    "ACL SETUSER f +@all -client",
    "ACL SETUSER f sanitize-payload #ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "ACL GETUSER f",
    "ACL SETUSER g ( +get ~a ) ( +set ~b &d ) +@transaction",
    "ACL LIST",
    "ACL USERS",
    "ACL SETUSER g clearselectors",
    "ACL SETUSER f reset",
    "ACL LIST",
    "ACL GETUSER nobody",
    "ACL SETUSER x (",
    "ACL SETUSER x ( +get",
    "ACL SETUSER x \"(+get bogus)\"",
    "ACL SETUSER x -select|0",
    "ACL SETUSER x +config|get|x",
    "ACL SETUSER x +config|zz",
    "ACL SETUSER x +select|",
    "ACL SETUSER x +@foo",
    "ACL SETUSER x %RZ~a",
    "ACL SETUSER x ~* ~b",
    "ACL SETUSER x &* &b",
    "ACL SETUSER x <b",
    "ACL SETUSER x #abc",
    "ACL SETUSER \"x y\"",
    "ACL SETUSER x \"~a b\"",
    "ACL GETUSER x",
    "ACL DRYRUN b SET r:1 1",
    "ACL DRYRUN b GET r:1",
    "ACL DRYRUN b GET w:1",
    "ACL DRYRUN b FOO",
    "ACL DRYRUN nobody GET x",
    "ACL DRYRUN b GET",
    "ACL DRYRUN b PUBLISH x y",
    "ACL DRYRUN b CLIENT FOO",
    "ACL DRYRUN b CONFIG GET x",
    "ACL GENPASS 0",
    "ACL GENPASS 4097",
    "ACL GENPASS abc",
    "ACL GENPASS 1 2",
    "ACL LOG abc",
    "ACL LOG -1",
    "ACL LOG RESET",
    "ACL DELUSER default",
    "ACL DELUSER nobody f",
    "ACL LOAD",
    "ACL SAVE",
    "ACL FOO",
    "ACL CAT",
    "ACL CAT foo",
    "ACL CAT a b",
    "ACL USERS x",
    "AUTH x y z w",
    "AUTH nobody y",
    "CLIENT KILL USER nobody",
    "AUTH a p",
    "ACL WHOAMI",
    "ACL LIST",
    "GET a",
    "GET x",
    "SET x 1",
    "SET b 1",
    "HGET b c",
    "HSET b c d",
    "SELECT 1",
    "SELECT 0",
    "PUBLISH c d",
    "MULTI",
    "GET nothing",
    "EXEC",
    "MULTI",
    "AUTH b p",
    "HELLO 2 AUTH nobody y",
    "EXEC",
    "AUTH b p",
    "EVAL \"return redis.call('set','r:1','1')\" 0",
    "EVAL \"return redis.call('get','w:1')\" 0",
    "EVAL \"return redis.call('publish','x','1')\" 0",
    "EVAL \"return redis.call('config','get','x')\" 0",
    "EVAL \"return redis.pcall('set','k:1','1')\" 0",
    "EVAL \"return {redis.acl_check_cmd('get','r:1'),redis.acl_check_cmd('get','w:1')}\" 0",
    "EVAL \"return 1\" 1 other",
    "SORT k:1 BY nosort",
    "SORT k:1 BY x*",
    "SORT k:1 GET #",
    "SORT k:1 LIMIT a b BY x*",
    "SORT k:1 BY x* STORE r:1",
    "COPY r:1 w:1",
    "COPY w:1 r:1",
    "GETEX r:1",
    "BITFIELD r:1 GET u8 0",
    "BITFIELD r:1 SET u8 0 1",
    "APPEND r:1 x",
    "APPEND w:1 x",
    "WATCH w:1",
    "WATCH z",
    "OBJECT ENCODING z",
    "MEMORY USAGE z",
    "DEBUG SLEEP 0",
    "PSUBSCRIBE c:*",
    "PSUBSCRIBE c:1*",
    "SSUBSCRIBE x",
    "SPUBLISH c:1 x",
];

#[test]
fn replies_are_those_of_redis() {
    let redis = Redis::start(&[]);
    let server = Server::builder().port(0).spawn().unwrap();
    let (mut theirs, mut ours) = (Wire::to(redis.port), Wire::open(&server));
    for line in COMPARED {
        theirs.send(&[line]);
        ours.send(&[line]);
        // redis-server prints a user's commands in the order of a hash table.
        assert_eq!(sorted(ours.value()), sorted(theirs.value()), "{line}");
    }
}

/// Sorts the words of texts that contain rules about commands.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(values) => Value::Array(values.into_iter().map(sorted).collect()),
        Value::Bulk(text) if text.windows(4).any(|w| w == b"@all") => {
            let mut words: Vec<&[u8]> = text.split(|b| b" ()".contains(b)).collect();
            words.sort();
            Value::Bulk(words.join(&b' '))
        }
        other => other,
    }
}

#[test]
fn a_change_holds_for_connected_clients_before_its_reply() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let (mut admin, mut ann) = with_user(&server, "+@all ~a");
        // One client on each loop.
        let mut others: Vec<Wire> = (0..threads).map(|_| login(&server, "ann")).collect();
        for _ in 0..50 {
            admin.expect(&["ACL SETUSER ann resetkeys ~b"], "+OK|");
            for client in others.iter_mut().chain([&mut ann]) {
                client.expect(&["SET a 1", "SET b 1"], &format!("{NO_KEY}+OK|"));
            }
            admin.expect(&["ACL SETUSER ann allkeys -set"], "+OK|");
            for client in others.iter_mut().chain([&mut ann]) {
                client.expect(&["SET a 1"], &no_command("set"));
            }
            admin.expect(&["ACL SETUSER ann +set"], "+OK|");
            ann.expect(&["SET a 1"], "+OK|");
        }
        // A user may change its own rules.
        ann.expect(
            &["ACL SETUSER ann -get", "GET a", "ACL WHOAMI"],
            &format!("+OK|{}$3|ann|", no_command("get")),
        );
        admin.expect(&["ACL SETUSER ann off"], "+OK|");
        ann.expect(&["SET a 1"], "+OK|");
        Wire::open(&server).expect(
            &["AUTH ann pw"],
            "-WRONGPASS invalid username-password pair or user is disabled.|",
        );
    }
}

#[test]
fn queued_commands_are_checked_again() {
    let server = with_threads(1);
    let (mut admin, mut ann) = with_user(&server, "+@all ~* &a");
    ann.expect(
        &["MULTI", "SET a 1", "INCR a", "PUBLISH a x", "GET a"],
        "+OK|+QUEUED|+QUEUED|+QUEUED|+QUEUED|",
    );
    admin.expect(
        &["ACL SETUSER ann -incr resetkeys %W~a resetchannels"],
        "+OK|",
    );
    let changed = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: ";
    ann.expect(
        &["EXEC"],
        &format!(
            "*4|+OK|{changed}no permission to execute the command or subcommand|{changed}no permission to access one of the channels used as arguments to the command|{changed}no permission to touch the specified keys|"
        ),
    );
    ann.expect(
        &["MULTI", "GET a", "EXEC"],
        &format!("+OK|{NO_KEY}-EXECABORT Transaction discarded because of previous errors.|"),
    );
    admin.expect(&["ACL SETUSER ann -exec"], "+OK|");
    ann.expect(
        &["MULTI", "EXEC"],
        "+OK|-EXECABORT Transaction discarded because of: NOPERM this user has no permissions to run the 'exec' command|",
    );
    // A transaction that removes a permission of its own user.
    admin.expect(&["ACL SETUSER ann +@all ~*"], "+OK|");
    ann.expect(
        &["MULTI", "ACL SETUSER ann -get", "GET a", "EXEC"],
        &format!("+OK|+QUEUED|+QUEUED|*2|+OK|{changed}no permission to execute the command or subcommand|"),
    );
}

#[test]
fn scripts_and_functions_run_as_their_caller() {
    let server = with_threads(2);
    let (mut admin, mut ann) = with_user(&server, "+@all ~a");
    let code = "#!lua name=lib\nredis.register_function('take', function(k) return redis.call('set','b','1') end)";
    admin.ask(&["FUNCTION", "LOAD", code]);
    let denied = "The user executing the script can't access at least one of the keys mentioned in the command arguments";
    assert!(ann.text("FCALL take 0").contains(denied));
    assert!(
        ann.text("EVAL \"return redis.call('set','b','1')\" 0")
            .contains(denied)
    );
    assert_eq!(admin.int("EXISTS b"), 0);
    admin.expect(&["FCALL take 0"], "+OK|");
    let entry = text_of_log(&mut admin);
    assert_eq!(
        (entry.0.as_str(), entry.1.as_str(), entry.2.as_str()),
        ("lua", "key", "b")
    );
}

/// Returns context, reason and object of the latest denial.
fn text_of_log(c: &mut Wire) -> (String, String, String) {
    let Value::Array(entries) = c.ask(&["ACL", "LOG", "1"]) else {
        panic!("no array");
    };
    let Some(Value::Array(fields)) = entries.first() else {
        panic!("no entry");
    };
    let text = |i: usize| String::from_utf8_lossy(fields[i].as_bytes().unwrap()).into_owned();
    (text(5), text(3), text(7))
}

#[test]
fn a_wait_ends_when_the_rules_forbid_it() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let (mut admin, mut ann) = with_user(&server, "+@all ~*");
        block(&server, &mut ann, "BLPOP a b 0");
        admin.expect(&["ACL SETUSER ann resetkeys ~a ~b -@write +blpop"], "+OK|");
        assert_eq!(waiting(&server), 1);
        admin.expect(&["ACL SETUSER ann resetkeys ~a"], "+OK|");
        ann.receive(NO_KEY);
        assert_eq!(admin.int("RPUSH b x"), 1);
        assert_eq!(admin.int("LLEN b"), 1);
        ann.expect(&["BLPOP b 0", "PING"], &format!("{NO_KEY}+PONG|"));
    }
}

#[test]
fn subscribers_without_permission_are_disconnected() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let (mut admin, mut plain) = with_user(&server, "+@all &a &b*");
        let (mut pattern, mut shard, mut stays) = (
            login(&server, "ann"),
            login(&server, "ann"),
            login(&server, "ann"),
        );
        plain.expect(&["SUBSCRIBE b1"], "*3|$9|subscribe|$2|b1|:1|");
        pattern.expect(&["PSUBSCRIBE b*"], "*3|$10|psubscribe|$2|b*|:1|");
        shard.expect(&["SSUBSCRIBE b2"], "*3|$10|ssubscribe|$2|b2|:1|");
        stays.expect(
            &["SUBSCRIBE c", "PSUBSCRIBE b?", "SUBSCRIBE a"],
            &format!("{NO_CHANNEL}{NO_CHANNEL}*3|$9|subscribe|$1|a|:1|"),
        );
        admin.expect(&["ACL SETUSER ann resetchannels &a &b1 &b*"], "+OK|");
        assert_eq!(admin.int("PUBLISH b1 x"), 2);
        plain.receive("*3|$7|message|$2|b1|$1|x|");
        pattern.receive("*4|$8|pmessage|$2|b*|$2|b1|$1|x|");
        admin.expect(&["ACL SETUSER ann resetchannels &a"], "+OK|");
        // Messages that are published after the change do not arrive.
        admin.int("PUBLISH b1 secret");
        for client in [&mut plain, &mut pattern, &mut shard] {
            assert_eq!(client.ends(), 0);
        }
        assert_eq!(admin.int("PUBLISH a x"), 1);
        stays.receive("*3|$7|message|$1|a|$1|x|");
    }
}

#[test]
fn clients_of_a_deleted_user_are_disconnected() {
    for threads in [1, 4] {
        let server = with_threads(threads);
        let (mut admin, mut ann) = with_user(&server, "+@all ~*");
        let mut blocked = login(&server, "ann");
        block(&server, &mut blocked, "BLPOP a 0");
        admin.expect(
            &["ACL DELUSER ann nobody", "ACL SETUSER ann on >pw +@all ~*"],
            ":1|+OK|",
        );
        assert_eq!((ann.ends(), blocked.ends()), (0, 0));
        // CLIENT LIST has only the client of the new user `ann`.
        let mut ann = login(&server, "ann");
        let line = admin.text("CLIENT LIST");
        let users: Vec<&str> = line.lines().map(|line| field(line, "user")).collect();
        assert_eq!(users.iter().filter(|user| **user == "ann").count(), 1);
        ann.expect(&["CLIENT INFO", "ACL DELUSER ann"], "");
        let info = ann.value();
        assert_eq!(
            field(&String::from_utf8_lossy(info.as_bytes().unwrap()), "user"),
            "ann"
        );
        // The caller gets its reply first.
        ann.receive(":1|");
        assert_eq!(ann.ends(), 0);
        admin.expect(
            &["ACL SETUSER bob on nopass +@all", "ACL USERS"],
            "+OK|*2|$3|bob|$7|default|",
        );
        let mut bob = login(&server, "bob");
        assert_eq!(admin.int("CLIENT KILL USER bob"), 1);
        assert_eq!(bob.ends(), 0);
    }
}

#[test]
fn denials_are_logged_and_counted() {
    let server = server_with("clock virtual");
    let (mut admin, mut ann) = with_user(&server, "+get +auth +multi ~a");
    let fields = |admin: &mut Wire| -> Vec<Vec<(String, String)>> {
        let Value::Array(entries) = admin.ask(&["ACL", "LOG"]) else {
            panic!("no array");
        };
        let show = |value: &Value| match value.as_bytes() {
            Some(text) => String::from_utf8_lossy(text).into_owned(),
            None => value.as_int().unwrap().to_string(),
        };
        let entry = |entry: &Value| match entry {
            Value::Array(fields) => fields
                .chunks(2)
                .map(|pair| (show(&pair[0]), show(&pair[1])))
                .collect(),
            other => panic!("{other:?}"),
        };
        entries.iter().map(entry).collect()
    };
    let began = admin.int("CLOCK NOW");
    ann.expect(&["GET b"], NO_KEY);
    admin.ask(&["CLOCK", "ADVANCE", "1500"]);
    ann.expect(
        &["GET b", "SET a 1"],
        &format!("{NO_KEY}{}", no_command("set")),
    );
    assert!(ann.text("AUTH zoe x").starts_with("WRONGPASS"));
    ann.expect(&["MULTI", "GET b"], &format!("+OK|{NO_KEY}"));
    admin.ask(&["CLOCK", "ADVANCE", "500"]);
    let entries = fields(&mut admin);
    let value = |i: usize, name: &str| {
        let found = entries[i].iter().find(|(known, _)| known == name);
        found
            .unwrap_or_else(|| panic!("{name} in {entries:?}"))
            .1
            .clone()
    };
    let shown: Vec<[String; 5]> = (0..entries.len())
        .map(|i| ["count", "reason", "context", "object", "username"].map(|name| value(i, name)))
        .collect();
    assert_eq!(
        shown,
        [
            ["1", "key", "multi", "b", "ann"],
            ["1", "auth", "toplevel", "AUTH", "zoe"],
            ["1", "command", "toplevel", "set", "ann"],
            ["2", "key", "toplevel", "b", "ann"],
        ]
    );
    let last = entries.len() - 1;
    assert_eq!(
        (value(last, "age-seconds"), value(last, "entry-id")),
        ("0.5".into(), "0".into())
    );
    let stamps = ["timestamp-created", "timestamp-last-updated"].map(|name| value(last, name));
    assert_eq!(stamps, [began.to_string(), (began + 1500).to_string()]);
    assert_eq!(field(&value(last, "client-info"), "user"), "ann");
    let info = admin.text("INFO stats");
    for line in [
        "acl_access_denied_auth:1",
        "acl_access_denied_cmd:1",
        "acl_access_denied_key:3",
        "acl_access_denied_channel:0",
    ] {
        assert!(info.contains(line), "{info}");
    }
    admin.expect(
        &["CONFIG SET acllog-max-len 1", "ACL LOG RESET"],
        "+OK|+OK|",
    );
    ann.expect(&["DISCARD"], &no_command("discard"));
    ann.expect(&["GET c"], NO_KEY);
    assert_eq!(fields(&mut admin).len(), 1);
}

#[test]
fn passwords_do_not_reach_the_slow_log_and_monitors() {
    let server = with_threads(1);
    let mut admin = Wire::open(&server);
    let mut monitor = Wire::open(&server);
    monitor.expect(&["MONITOR"], "+OK|");
    admin.expect(
        &[
            "CONFIG SET slowlog-log-slower-than 0",
            "ACL SETUSER ann on >hidden",
            "AUTH ann hidden",
        ],
        "+OK|+OK|+OK|",
    );
    for line in [
        "TIMER SET t IN 5 DO AUTH ann hidden",
        "TIMER SET t IN 5 DO HELLO 3 AUTH ann hidden",
        "TIMER SET t IN 5 DO TIMER SET u IN 5 DO ACL SETUSER bob >hidden",
        "TIMER SET t IN 5 DO CONFIG SET masterauth hidden",
        "TIMER SET t IN 5 DO MIGRATE localhost 1 k 0 9 AUTH2 ann hidden",
        "ACL DRYRUN ann AUTH hidden",
        "COMMAND GETKEYS MIGRATE localhost 1 k 0 9 AUTH hidden",
    ] {
        Wire::open(&server).ask(&line.split(' ').collect::<Vec<_>>());
    }
    let mut other = Wire::open(&server);
    let slow = format!("{:?}", other.ask(&["SLOWLOG", "GET"]));
    let hidden = format!("{:?}", b"hidden".to_vec());
    assert!(
        !slow.contains("hidden") && !slow.contains(&hidden[1..hidden.len() - 1]),
        "{slow}"
    );
    other.expect(&["ECHO end"], "$3|end|");
    loop {
        let line = monitor.value();
        let line = String::from_utf8_lossy(line.as_bytes().unwrap()).into_owned();
        assert!(!line.contains("hidden"), "{line}");
        if line.contains("end") {
            break;
        }
    }
}

#[test]
fn requirepass_is_the_password_of_the_default_user() {
    let server = server_with("requirepass one");
    let mut c = Wire::open(&server);
    c.expect(
        &["PING", "AUTH one"],
        "-NOAUTH Authentication required.|+OK|",
    );
    let hash = |text: &str| text.split('#').nth(1).map(|rest| rest[..64].to_owned());
    let Value::Array(lines) = c.ask(&["ACL", "LIST"]) else {
        panic!("no array");
    };
    let line = String::from_utf8_lossy(lines[0].as_bytes().unwrap()).into_owned();
    assert_eq!(
        hash(&line).as_deref(),
        Some("7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed")
    );
    c.expect(&["CONFIG SET requirepass two"], "+OK|");
    let mut new = Wire::open(&server);
    new.expect(
        &["AUTH one", "AUTH default two"],
        "-WRONGPASS invalid username-password pair or user is disabled.|+OK|",
    );
    // Rules may add more passwords. The directive replaces all of them.
    c.expect(&["ACL SETUSER default >three"], "+OK|");
    Wire::open(&server).expect(&["AUTH three"], "+OK|");
    c.expect(&["CONFIG SET requirepass \"\""], "+OK|");
    Wire::open(&server).expect(&["PING"], "+PONG|");
    c.expect(&["ACL SETUSER default off"], "+OK|");
    Wire::open(&server).expect(&["PING"], "-NOAUTH Authentication required.|");
    c.expect(&["PING"], "+PONG|");
}

#[test]
fn a_replica_authenticates_as_a_user() {
    let redis = Redis::start(&["--repl-diskless-sync-delay", "0"]);
    // With a delay of 0 s, a full synchronization begins at once.
    let start = || {
        let server = Server::builder().port(0);
        server
            .option("repl-diskless-sync-delay", "0")
            .spawn()
            .unwrap()
    };
    let mut theirs = Wire::to(redis.port);
    let rules = "ACL SETUSER rep on >pw +psync +replconf +ping";
    theirs.expect(&[rules, "SET a 1"], "+OK|+OK|");
    let server = start();
    let mut ours = Wire::open(&server);
    ours.expect(
        &[
            "CONFIG SET masteruser rep masterauth pw",
            &format!("REPLICAOF 127.0.0.1 {}", redis.port),
        ],
        "+OK|+OK|",
    );
    eventually(|| {
        ours.text("INFO replication")
            .contains("master_link_status:up")
    });
    ours.expect(&["GET a"], "$1|1|");
    // Commands of the primary are not checked against the rules of the default user.
    ours.expect(&["ACL SETUSER default resetkeys ~a -set"], "+OK|");
    theirs.expect(&["SET b 1", "SET a 2"], "+OK|+OK|");
    eventually(|| ours.text("GET a") == "2");
    ours.expect(&["GET b"], NO_KEY);

    let (second, server) = (Redis::start(&[]), start());
    let mut ours = Wire::open(&server);
    ours.expect(
        &[rules, "SET a 1", "ACL SETUSER default >other"],
        "+OK|+OK|+OK|",
    );
    let mut theirs = Wire::to(second.port);
    theirs.expect(
        &[
            "CONFIG SET masteruser rep masterauth pw",
            &format!("REPLICAOF 127.0.0.1 {}", server.port()),
        ],
        "+OK|+OK|",
    );
    eventually(|| {
        theirs
            .text("INFO replication")
            .contains("master_link_status:up")
    });
    theirs.expect(&["GET a"], "$1|1|");
}
