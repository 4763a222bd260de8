//! Roles, which Valkey has since 9.2: named sets of rules for several users. The replies are those
//! that Valkey documents; no tested server has them.

use punctual_server::Server;
use punctual_server::config::Config;

use crate::waiters::with_threads;
use crate::wire::{Open as _, Wire};

#[test]
fn users_have_the_permissions_of_their_roles() {
    let server = with_threads(1);
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "ACL ROLES",
            "ACL SETROLE reader ~a:* +get db=0 (+set ~w:*)",
            "ACL SETROLE writer ~b:* +set",
            "ACL SETUSER ann on >pw role=reader,writer,reader",
            "ACL ROLES",
        ],
        "*0|+OK|+OK|+OK|*2|$6|reader|$6|writer|",
    );
    for (command, allowed) in [
        ("GET a:1", true),
        ("SET w:1 x", true),
        ("SET b:1 x", true),
        ("GET b:1", false),
        ("SET a:1 x", false),
    ] {
        let reply = c.text(&format!("ACL DRYRUN ann {command}"));
        assert_eq!(reply == "OK", allowed, "{command}: {reply}");
    }
    c.expect(
        &["ACL LIST"],
        "*4|$78|role reader ~a:* resetchannels db=0 -@all +get (~w:* resetchannels -@all +set)|\
         $41|role writer ~b:* resetchannels -@all +set|\
         $116|user ann on #30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4 role=reader,writer resetchannels -@all|\
         $34|user default on nopass ~* &* +@all|",
    );
    c.expect(
        &["ACL GETROLE reader", "ACL GETROLE nobody"],
        "*12|$8|commands|$10|-@all +get|$4|keys|$4|~a:*|$8|channels|$0||$9|databases|$4|db=0|\
         $9|selectors|*1|*8|$8|commands|$10|-@all +set|$4|keys|$4|~w:*|$8|channels|$0||$9|databases|$6|alldbs|\
         $5|users|*1|$3|ann|$-1|",
    );
    // A change of a role takes effect for its users at once.
    let mut ann = Wire::open(&server);
    ann.expect(&["AUTH ann pw", "SET b:1 x"], "+OK|+OK|");
    c.expect(&["ACL SETROLE writer resetkeys ~c:*"], "+OK|");
    ann.expect(&["SET c:1 x"], "+OK|");
    assert!(ann.text("SET b:1 x").starts_with("NOPERM"));
    // A role that a user has cannot be deleted, and then none of the names is.
    c.expect_error(
        "ACL DELROLE nobody reader",
        "The role 'reader' is assigned to one or more users",
    );
    c.expect(
        &["ACL SETUSER ann role=writer", "ACL DELROLE nobody reader"],
        "+OK|:1|",
    );
    assert!(ann.text("GET a:1").starts_with("NOPERM"));
    c.expect(
        &["ACL SETUSER ann resetroles", "ACL DRYRUN ann SET c:1 x"],
        "+OK|",
    );
    assert!(c.text("PING").contains("no permissions"));
    c.value();
    // A role is no user.
    c.expect(&["ACL GETUSER writer"], "$-1|");
    assert!(c.text("AUTH writer x").starts_with("WRONGPASS"));
}

#[test]
fn a_subscriber_whose_role_loses_the_channel_is_disconnected() {
    let server = with_threads(1);
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "ACL SETROLE news +subscribe &news:*",
            "ACL SETUSER ann on nopass role=news",
        ],
        "+OK|+OK|",
    );
    let mut ann = Wire::open(&server);
    ann.expect(
        &["AUTH ann x", "SUBSCRIBE news:1"],
        "+OK|*3|$9|subscribe|$6|news:1|:1|",
    );
    c.expect(&["ACL SETROLE news resetchannels &other"], "+OK|");
    assert_eq!(ann.ends(), 0);
}

#[test]
fn wrong_roles_are_refused() {
    let server = with_threads(1);
    let mut c = Wire::open(&server);
    c.expect(&["ACL SETROLE r +get ~*"], "+OK|");
    for rule in "on off reset >p <p nopass resetpass role=r resetroles bogus".split(' ') {
        let error = format!("Error in ACL SETROLE modifier '{rule}': Syntax error");
        c.expect_error(&format!("ACL SETROLE r +set {rule}"), &error);
    }
    c.expect(
        &["ACL LIST"],
        "*2|$34|role r ~* resetchannels -@all +get|$34|user default on nopass ~* &* +@all|",
    );
    for (name, reason) in [
        ("\"\"", "Role names can't be empty"),
        (
            "\"a b\"",
            "Role names must be printable ASCII without spaces",
        ),
        (
            "\"\\xc3\"",
            "Role names must be printable ASCII without spaces",
        ),
        ("a,b", "Role names can't contain commas"),
        ("\"a'b\"", "Role names can't contain quotes or backslashes"),
        (
            "\"a\\\\b\"",
            "Role names can't contain quotes or backslashes",
        ),
    ] {
        c.expect_error(&format!("ACL SETROLE {name} +get"), reason);
    }
    c.expect(&["ACL SETUSER ann role=r"], "+OK|");
    for list in ["", ",", ",r", "r,", "r,,r"] {
        let error = format!("Error in ACL SETUSER modifier 'role={list}': Syntax error");
        c.expect_error(&format!("ACL SETUSER ann role={list}"), &error);
    }
    c.expect_error(
        "ACL SETUSER ann role=r,nobody",
        "Error in ACL SETUSER modifier 'role=r,nobody': The role does not exist",
    );
    c.expect(&["ACL DRYRUN ann GET a"], "+OK|");
}

#[test]
fn files_keep_roles() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // A line may name a role that a later line defines.
    std::fs::write(
        at("test.conf"),
        "user ann on nopass role=r\nrole r ~* +get db=0\nport 0\nsave \"\"\n",
    )
    .unwrap();
    let start = |more: &[&str]| {
        let (file, dir) = (at("test.conf"), folder.path());
        let args = [file.to_str().unwrap(), "--dir", dir.to_str().unwrap()];
        let config = Config::from_args(args.iter().chain(more).copied()).unwrap();
        Server::builder().config(config).port(0).spawn()
    };
    let server = start(&[]).unwrap();
    let mut c = Wire::open(&server);
    c.expect(
        &[
            "ACL DRYRUN ann GET a",
            "ACL SETROLE s.2 +set",
            "CONFIG REWRITE",
        ],
        "+OK|+OK|+OK|",
    );
    let text = std::fs::read_to_string(at("test.conf")).unwrap();
    assert!(
        text.contains("role r ~* resetchannels db=0 -@all +get\n"),
        "{text}"
    );
    assert!(
        text.contains("role s.2 resetchannels -@all +set\n"),
        "{text}"
    );
    drop(server);
    let server = start(&[]).unwrap();
    let mut c = Wire::open(&server);
    c.expect(
        &["ACL ROLES", "ACL DRYRUN ann GET a"],
        "*2|$1|r|$3|s.2|+OK|",
    );
    drop(server);

    std::fs::write(at("test.conf"), "port 0\nsave \"\"\n").unwrap();
    std::fs::write(
        at("users.acl"),
        "user ann on nopass role=r\nrole r ~* +get\n",
    )
    .unwrap();
    let server = start(&["--aclfile", "users.acl"]).unwrap();
    let mut c = Wire::open(&server);
    c.expect(
        &["ACL SAVE", "ACL LOAD", "ACL DRYRUN ann GET a"],
        "+OK|+OK|+OK|",
    );
    for (line, error) in [
        ("role", "role definition requires a role name"),
        (
            "role a,b +get",
            "invalid role name 'a,b': Role names can't contain commas",
        ),
        ("role r ~*\nrole r ~*", "Duplicate role 'r' found on line 2"),
        ("role r on", "Syntax error"),
        ("user ann role=r", "The role does not exist"),
    ] {
        std::fs::write(at("users.acl"), line).unwrap();
        let reply = c.text("ACL LOAD");
        assert!(reply.contains(error), "{line}: {reply}");
    }
    c.expect(&["ACL ROLES"], "*1|$1|r|");
    drop(server);
    for (line, error) in [
        ("role r\nrole r", "Duplicate role found"),
        ("role a,b", "Role names can't contain commas"),
        ("role r on", "Error in role declaration 'on': Syntax error"),
    ] {
        std::fs::write(at("test.conf"), line).unwrap();
        let error_of_start = start(&[]).err().unwrap().to_string();
        assert!(error_of_start.contains(error), "{line}: {error_of_start}");
    }
}
