//! Users in `aclfile` and in the `user` lines of redis.conf.

use punctual_resp::Value;
use punctual_server::config::Config;
use punctual_server::{Server, StartError};
use tempfile::TempDir;

use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured};

fn with_file(folder: &TempDir, text: &str) -> Result<Server, StartError> {
    std::fs::write(folder.path().join("users.acl"), text).unwrap();
    configured("aclfile users.acl")
        .option("dir", folder.path().to_str().unwrap())
        .spawn()
}

#[test]
fn users_are_loaded_and_saved() {
    let folder = tempfile::tempdir().unwrap();
    let server = with_file(
        &folder,
        "user ann on >pw  +@all ~a\n\n  user default on nopass ~* &* +@all\n",
    )
    .unwrap();
    let mut admin = Wire::open(&server);
    let mut ann = Wire::open(&server);
    ann.expect(&["AUTH ann pw", "SET a 1"], "+OK|+OK|");
    admin.expect(
        &[
            "ACL SETUSER bob on nopass +get ( +set ~x %RW~* ~y )",
            "ACL SAVE",
        ],
        "+OK|+OK|",
    );
    let saved = std::fs::read_to_string(folder.path().join("users.acl")).unwrap();
    assert_eq!(
        saved,
        "user ann on #30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4 ~a resetchannels +@all\n\
         user bob on nopass resetchannels -@all +get (~x %RW~* ~y resetchannels -@all +set)\n\
         user default on nopass ~* &* +@all\n"
    );
    // ACL LOAD disconnects all clients, except clients of the default user.
    admin.expect(
        &["ACL DELUSER bob", "ACL LOAD", "ACL USERS"],
        ":1|+OK|*3|$3|ann|$3|bob|$7|default|",
    );
    assert_eq!(ann.ends(), 0);
    // A file without a default user restores the initial default user.
    std::fs::write(folder.path().join("users.acl"), "user ann on nopass\n").unwrap();
    admin.expect(
        &["ACL SETUSER default -get", "ACL LOAD", "GET a"],
        "+OK|+OK|$1|1|",
    );
    let entries: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
}

#[test]
fn errors_of_a_file_are_those_of_redis() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users.acl");
    std::fs::write(&path, "").unwrap();
    let name = path.to_str().unwrap();
    let redis = Redis::start(&["--aclfile", name]);
    let server = Server::builder()
        .port(0)
        .option("aclfile", name)
        .spawn()
        .unwrap();
    let (mut theirs, mut ours) = (Wire::to(redis.port), Wire::open(&server));
    for text in [
        "user a on bogus\n",
        "usr a\n\nuser\n",
        "user a on\nuser a off\n",
        "user a +foo ~x\nuser b ~* ~y <p\n",
        "user a #12 on\n# comment\n",
        "user a\tb on\n",
        "user a ( +get\n",
        "user a (+get bogus)\n",
        "user a on >p +@all\r\nuser default off\r\n",
        "",
    ] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(ours.text("ACL LOAD"), theirs.text("ACL LOAD"), "{text:?}");
        let list = |wire: &mut Wire| format!("{:?}", wire.ask(&["ACL", "USERS"]));
        assert_eq!(list(&mut ours), list(&mut theirs), "{text:?}");
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(ours.text("ACL LOAD"), theirs.text("ACL LOAD"));
}

#[test]
fn invalid_users_keep_the_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let error = with_file(&folder, "user a on\nuser b bogus\n")
        .err()
        .unwrap()
        .to_string();
    assert_eq!(
        error,
        "Aborting Redis startup because of ACL errors: users.acl:2: Syntax error. WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
    );
    for (line, reason) in [
        (
            "user a +foo",
            "Error in user declaration '+foo': Unknown command or category name in ACL",
        ),
        (
            "user a (+get",
            "Error in user declaration '(+get': Unmatched parenthesis in acl selector",
        ),
        (
            "user a on\nuser a off",
            "Duplicate user found. A user can only be defined once in config files",
        ),
    ] {
        let mut config = Config::new().unwrap();
        config.load(line.as_bytes(), "test.conf").unwrap();
        let error = Server::builder()
            .config(config)
            .port(0)
            .spawn()
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("of test.conf") && error.contains(reason),
            "{error}"
        );
    }
    let mut config = Config::new().unwrap();
    config
        .load(b"user a on\naclfile users.acl", "test.conf")
        .unwrap();
    let error = Server::builder()
        .config(config)
        .port(0)
        .spawn()
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .contains("define either an ACL file or declare users directly")
    );
}

#[test]
fn a_rewritten_configuration_has_the_users() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.conf");
    std::fs::write(
        &path,
        "# first\nuser old on\nuser ann on >pw +@all ~a*\nsave \"\"\nport 0\n",
    )
    .unwrap();
    let start = || {
        let config = Config::from_args([
            path.to_str().unwrap(),
            "--dir",
            folder.path().to_str().unwrap(),
        ])
        .unwrap();
        Server::builder().config(config).port(0).spawn().unwrap()
    };
    let server = start();
    let mut admin = Wire::open(&server);
    admin.expect(
        &[
            "ACL DELUSER old",
            "ACL SETUSER bob on nopass +get",
            "CONFIG REWRITE",
        ],
        ":1|+OK|+OK|",
    );
    let list = |wire: &mut Wire| {
        let Value::Array(lines) = wire.ask(&["ACL", "LIST"]) else {
            panic!("no array");
        };
        let text = |line: &Value| String::from_utf8_lossy(line.as_bytes().unwrap()).into_owned();
        // A `user` line first resets its user, and the reset adds `sanitize-payload`, as in Redis.
        let lines = lines
            .iter()
            .map(text)
            .map(|line| line.replace(" sanitize-payload", ""));
        lines.collect::<Vec<_>>()
    };
    let before = list(&mut admin);
    let text = std::fs::read_to_string(&path).unwrap();
    let users: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("user "))
        .collect();
    assert_eq!(users.len(), 3, "{text}");
    drop(server);
    let server = start();
    assert_eq!(list(&mut Wire::open(&server)), before);
}

/// Redis 7.2 and 8.2.3 print command rules in these orders. The first rules come from redis-py's
/// test suite.
#[test]
fn rules_about_commands_are_printed_in_their_order() {
    let server = Server::builder().port(0).spawn().unwrap();
    let mut c = Wire::open(&server);
    for (rules, printed) in [
        (
            "+get +mget -hset +@set +@hash -@geo",
            "-@all +get +mget -hset +@set +@hash -@geo",
        ),
        ("+@all -get +get", "+@all +get"),
        ("+config|get -config", "-@all -config"),
        ("-@all +config|get +config", "-@all +config"),
        ("+config -config|get", "-@all +config -config|get"),
        ("+select|0 +select|1", "-@all +select|0 +select|1"),
        ("+select|0 -select", "-@all -select"),
        ("+GET -get +@READ -@Read", "-@all -get -@read"),
        ("+get nocommands +set", "-@all +set"),
        ("+get +mget +get", "-@all +mget +get"),
        ("+get -@all", "-@all"),
        ("-@dangerous allcommands -keys", "+@all -keys"),
    ] {
        c.ask(&["ACL", "DELUSER", "u"]);
        c.expect(&[&format!("ACL SETUSER u {rules}")], "+OK|");
        let user = c.ask(&["ACL", "GETUSER", "u"]);
        let fields = user.as_slice().unwrap();
        assert_eq!(fields[5], Value::bulk(printed), "{rules}");
        let list = c.ask(&["ACL", "LIST"]);
        let line = list.as_slice().unwrap()[1].as_bytes().unwrap().to_vec();
        let line = String::from_utf8(line).unwrap();
        assert!(line.ends_with(&format!(" {printed}")), "{line}");
    }
}
