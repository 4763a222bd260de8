//! FUNCTION and FCALL, compared with redis-server.

use crate::wire::pair::{Pair, server};
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, configured, eventually};

fn beside_redis(test: impl Fn(&mut Pair)) {
    let redis = Redis::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    for (threads, protocol) in [(1, "2"), (4, "3")] {
        let server = server(folder.path(), threads);
        let mut pair = Pair::open(&server, &redis, protocol);
        pair.succeed(&["FUNCTION", "FLUSH"]);
        pair.succeed(&["FLUSHALL"]);
        test(&mut pair);
    }
}

pub const CALLBACK: &str = "redis.register_function('f', function(k, a) return {k, a} end)";

#[test]
fn libraries_load_or_fail_as_in_redis() {
    beside_redis(|pair| {
        for header in [
            "#!lua name=lib",
            "#!LUA NAME=lib",
            "#!lua name=\"l\\x69b\"",
            "#!lua 'name=lib'  ",
            "#!l'ua' name=lib\r",
            "",
            "lua name=lib",
            " #!lua name=lib",
            "#!",
            "#!lua",
            "#! name=lib",
            "#!perl name=lib",
            "#!lua name=",
            "#!lua name=a name=b",
            "#!lua name=a b",
            "#!lua name=a x=\0y",
            "#!lua name=\"a b\"",
            "#!lua name=\"a",
            "#!lua name=a \"\"",
            "#!lua name=\u{e9}",
        ] {
            pair.ask(&["FUNCTION", "FLUSH", "SYNC"]);
            pair.ask(&["FUNCTION", "LOAD", &format!("{header}\n{CALLBACK}")]);
        }
        for body in [
            "",
            "x = 1",
            "redis.call('set', 'a', 'b')",
            "return string.format('%d', 1)",
            "error('x')",
            "redis.log(redis.LOG_DEBUG, 'hello') redis.log()",
            "redis.log(9, 'x')",
            "nonsense here",
            "\0",
            "\n\nlocal x = nil + 1",
            "local function f() f() end f()",
            "while true do end",
            "redis.register_function()",
            "redis.register_function('f')",
            "redis.register_function('f', function() end, 1)",
            "redis.register_function(1, 2)",
            "redis.register_function(1, redis.log)",
            "redis.register_function({}, redis.log)",
            "redis.register_function('a-b', redis.log)",
            "redis.register_function{function_name='f'}",
            "redis.register_function{callback=redis.log}",
            "redis.register_function{function_name='f', callback=1}",
            "redis.register_function{function_name={}, callback=redis.log}",
            "redis.register_function{function_name='f', callback=redis.log, description={}}",
            "redis.register_function{function_name='f', callback=redis.log, flags='no-writes'}",
            "redis.register_function{function_name='f', callback=redis.log, flags={'fast'}}",
            "redis.register_function{function_name='f', callback=redis.log, more=1}",
            "redis.register_function{Function_Name='f', CALLBACK=redis.log, description=7, flags={'no-cluster', 'ALLOW-oom'}}",
            "redis.register_function('f', redis.log) redis.register_function('f', redis.log)",
            "redis.register_function('f', redis.log)\nx = 1",
        ] {
            pair.ask(&["FUNCTION", "FLUSH"]);
            pair.load("lib", body);
            pair.ask(&["FUNCTION", "LIST"]);
            pair.ask(&["FUNCTION", "STATS"]);
        }
    });
}

#[test]
fn options_and_collisions() {
    beside_redis(|pair| {
        let code = |name: &str, function: &str| {
            format!("#!lua name={name}\nredis.register_function('{function}', redis.log)")
        };
        let a = &code("a", "f")[..];
        for args in [
            &["LOAD", a][..],
            &["LOAD", a],
            &["LOAD", "REPLACE", a],
            &["LOAD", "replace", "Replace", a],
            &["LOAD", "NX", a],
            &["LOAD", "REPLACE"],
            &["LOAD"],
            &["LOAD", "REPLACE", &code("b", "f")],
            &["LOAD", "REPLACE", &code("b", "F")],
            // The old library and its function remain.
            &["LOAD", "REPLACE", "#!lua name=a\nx x"],
            &["LOAD", &code("b", "g")],
            &["LOAD", "REPLACE", &code("b", "f")],
            &["STATS"],
            &["LIST", "LIBRARYNAME", "A"],
            &["LIST", "WITHCODE", "LIBRARYNAME", "[b]*"],
            &["LIST", "LIBRARYNAME"],
            &["LIST", "LIBRARYNAME", "x", "LIBRARYNAME", "y"],
            &["LIST", "WITHCODE", "WITHCODE"],
            &["LIST", "MORE"],
            &["DELETE", "A"],
            &["DELETE", "a"],
            &["DELETE", "a"],
            &["DELETE"],
            &["LIST"],
            &["FLUSH", "LATER"],
            &["FLUSH", "SYNC", "ASYNC"],
            &["FLUSH", "ASYNC"],
            &["STATS"],
            &["KILL"],
            &["DUMP"],
            &["DUMP", "x"],
            &["NOSUCH"],
            &["HELP"],
            &["RESTORE"],
            &["RESTORE", "x"],
            &["RESTORE", "x", "OVER"],
            &["RESTORE", "x", "FLUSH", "x"],
        ] {
            pair.ask(&[&["FUNCTION"], args].concat());
        }
    });
}

#[test]
fn calls_reply_as_in_redis() {
    beside_redis(|pair| {
        let body = "
            redis.register_function('f', function(keys, args) return {keys, args} end)
            redis.register_function('set', function(keys, args) return redis.call('set', keys[1], args[1]) end)
            redis.register_function('env', function() return {tostring(KEYS == nil), _VERSION} end)
            redis.register_function('native', redis.log)
            redis.register_function('map', function() redis.setresp(3) return redis.call('hgetall', 'h') end)
            redis.register_function{function_name='get', flags={'no-writes'},
                callback=function(keys) return redis.call('get', keys[1]) end}
            redis.register_function{function_name='sly', flags={'no-writes'},
                callback=function(keys) return redis.pcall('set', keys[1], 'x') end}
            redis.register_function{function_name='bad', flags={'no-writes'},
                callback=function(keys) return redis.call('set', keys[1], 'x') end}
            local n = 0
            redis.register_function('count', function() n = n + 1 return n end)";
        pair.succeed(&["FUNCTION", "FLUSH"]);
        pair.load("lib", body);
        pair.ask(&["HSET", "h", "f", "v"]);
        for args in [
            &["FCALL", "f", "2", "a", "b", "c", "d"][..],
            &["FCALL", "F", "0"],
            &["FCALL", "f", "1", "a"],
            &["FCALL", "f", "2", "a"],
            &["FCALL", "f", "-1", "a"],
            &["FCALL", "f", "x", "a"],
            &["FCALL", "f"],
            &["FCALL", "g", "x"],
            &["FCALL_RO", "f", "0"],
            &["FCALL_RO", "get", "x"],
            &["FCALL", "set", "1", "k", "v"],
            &["FCALL", "get", "1", "k"],
            &["FCALL_RO", "get", "1", "k"],
            &["FCALL_RO", "set", "1", "k", "v"],
            &["FCALL", "sly", "1", "k"],
            &["FCALL_RO", "sly", "1", "k"],
            &["FCALL", "bad", "1", "k"],
            &["FCALL", "native", "0"],
            &["FCALL", "env", "0"],
            &["FCALL", "map", "0"],
            &["FCALL", "count", "0"],
            &["FCALL", "count", "0"],
            &["EVAL", "return redis.call('fcall', 'f', 0)", "0"],
            &["COMMAND", "GETKEYS", "FCALL", "f", "2", "a", "b", "c"],
            &["MULTI"],
            &["FCALL", "count", "0"],
            &["FCALL_RO", "count", "0"],
            &["FUNCTION", "FLUSH"],
            &["FCALL", "count", "0"],
            &["FCALL", "nosuch"],
            &["EXEC"],
            &["FCALL", "count", "0"],
            &["MULTI"],
            &["FUNCTION", "DELETE", "lib"],
            &["FCALL", "count", "0"],
            &["FUNCTION", "LOAD", &format!("#!lua name=lib\n{body}")],
            &["FCALL", "count", "0"],
            &["EXEC"],
        ] {
            pair.ask(args);
        }
        for body in [
            "x = 1",
            "return x",
            "redis.call = 1",
            "redis.register_function('x', redis.log)",
            "error('boom')",
            "error({err='MY x'})",
            "error()",
            "error(true)",
            "return redis.error_reply('MY x')",
            "return redis.sha1hex()",
            "return redis.call('nosuch')",
            "return redis.acl_check_cmd('nosuch')",
            "return redis.acl_check_cmd('config', 'nosuch')",
            "return redis.acl_check_cmd('config', 'get')",
            "return redis.acl_check_cmd('get')",
            "return redis.set_repl(redis.REPL_ALL)",
            "return redis.call('function', 'list')",
            "return loadstring('return 1 + nil')()",
            "local function f() return f() + 1 end return f()",
        ] {
            pair.load(
                "lib",
                &format!("redis.register_function('f', function()\n{body}\nend)"),
            );
            pair.ask(&["FCALL", "f", "0"]);
        }
    });
}

#[test]
fn scripts_declare_flags_as_in_redis() {
    beside_redis(|pair| {
        for line in [
            "#!lua",
            "#!LUA",
            "#!",
            "#! ",
            "#!'lua' \r",
            "#!lua\0",
            "#!lua \"x",
            "#!lua ''",
            "#!lua name=x",
            "#!lua FLAGS=no-writes",
            "#!lua flags=",
            "#!lua flags=no-writes",
            "#!lua flags=NO-writes",
            "#!lua flags=no-writes,",
            "#!lua 'flags=allow-oom,allow-stale' flags=no-cluster,allow-cross-slot-keys,no\u{e9}",
        ] {
            for body in ["return 1", "return redis.call('set', 'k', 'v')", "x x"] {
                for command in ["EVAL", "EVAL_RO"] {
                    pair.ask(&[command, &format!("{line}\n{body}"), "0"]);
                }
            }
        }
    });
}

#[test]
fn scripts_and_functions_draw_from_one_sequence() {
    let redis = Redis::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), 2);
    // The connections are on different loops.
    let mut pair = Pair::open(&server, &redis, "2");
    let mut other = Pair::open(&server, &redis, "2");
    let draw = ["EVAL", "return {math.random(100), math.random(100)}", "0"];
    for _ in 0..2 {
        pair.load(
            "lib",
            "redis.register_function('f', function() return math.random(100) end)
            redis.register_function('s', function(_, args) math.randomseed(args[1]) end)",
        );
        pair.ask(&["FCALL", "f", "0"]);
        pair.ask(&draw);
        other.ask(&draw);
        other.ask(&["FCALL", "f", "0"]);
        pair.ask(&["SCRIPT", "FLUSH"]);
        pair.ask(&draw);
        pair.ask(&["FUNCTION", "FLUSH"]);
    }
    pair.load(
        "lib",
        "redis.register_function('s', function(_, args) math.randomseed(args[1]) end)",
    );
    pair.ask(&["FCALL", "s", "0", "17"]);
    pair.ask(&draw);
}

#[test]
fn a_library_that_fails_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), 2);
    // The connections are on different loops.
    let (mut a, mut b) = (Wire::open(&server), Wire::open(&server));
    let library =
        |n: i32| format!("#!lua name=lib\nredis.register_function('f', function() return {n} end)");
    a.ask(&["FUNCTION", "LOAD", &library(1)]);
    for c in [&mut a, &mut b] {
        c.expect(&["FCALL f 0"], ":1|");
    }
    a.ask(&[
        "FUNCTION",
        "LOAD",
        "REPLACE",
        &format!("{}\nx = 1", library(2)),
    ]);
    for c in [&mut a, &mut b] {
        c.expect(&["FCALL f 0"], ":1|");
    }
    b.ask(&["FUNCTION", "LOAD", "REPLACE", &library(3)]);
    for c in [&mut a, &mut b] {
        c.expect(&["FCALL f 0"], ":3|");
    }
    b.expect(&["FUNCTION FLUSH"], "+OK|");
    a.expect_error("FCALL f 0", "Function not found");
}

#[test]
fn pauses_and_failed_saves_hold_back_functions_that_may_write() {
    let (folder, lost) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = configured("clock virtual|enable-protected-configs yes")
        .option("dir", folder.path().to_str().unwrap())
        .spawn()
        .unwrap();
    let (mut c, mut writer) = (Wire::open(&server), Wire::open(&server));
    let body = "redis.register_function('w', function() return 1 end)
        redis.register_function{function_name='r', callback=function() return 2 end, flags={'no-writes'}}";
    c.ask(&["FUNCTION", "LOAD", &format!("#!lua name=lib\n{body}")]);
    c.expect(&["CLIENT PAUSE 1000 WRITE"], "+OK|");
    writer.send(&["FCALL w 0"]);
    c.expect(&["FCALL r 0", "FCALL_RO r 0"], ":2|:2|");
    c.expect_error("FCALL x 0", "Function not found");
    writer.expect_silence();
    c.expect(&["CLIENT UNPAUSE"], "+OK|");
    writer.receive(":1|");

    let gone = lost.path().to_str().unwrap().to_owned();
    c.ask(&["CONFIG", "SET", "dir", &gone, "save", "10000 1"]);
    drop(lost);
    c.expect(&["BGSAVE"], "+Background saving started|");
    eventually(|| {
        c.text("INFO persistence")
            .contains("rdb_last_bgsave_status:err")
    });
    let refused =
        |c: &mut Wire, line: &str| c.text(line).starts_with("MISCONF Redis is configured");
    for line in ["FCALL w 0", "FCALL_RO w 0", "FCALL w x", "FUNCTION FLUSH"] {
        assert!(refused(&mut c, line), "{line}");
    }
    c.expect(&["FCALL r 0", "FCALL_RO r 0"], ":2|:2|");
    c.expect(&["MULTI"], "+OK|");
    assert!(refused(&mut c, "FCALL w 0"));
    assert!(c.text("EXEC").starts_with("EXECABORT"));
}

#[test]
fn a_function_that_does_not_end_is_shown_and_killed() {
    const BUSY: &str =
        "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
    for threads in [1, 4] {
        let server = configured("busy-reply-threshold 1")
            .threads(threads)
            .spawn()
            .unwrap();
        let (mut runner, mut c) = (Wire::open(&server), Wire::open(&server));
        let body = "redis.register_function('f', function() while true do end end)
            redis.register_function('w', function() redis.call('set', 'k', 'v') while true do end end)";
        c.ask(&["FUNCTION", "LOAD", &format!("#!lua name=lib\n{body}")]);
        runner.send(&["FCALL f 1 k x"]);
        eventually(|| c.text("PING") == BUSY);
        for line in [
            "FUNCTION LIST",
            "FCALL f 0",
            "EVAL 'return 1' 0",
            "SCRIPT KILL",
        ] {
            assert_eq!(c.text(line), BUSY, "{line}");
        }
        c.expect(
            &["FUNCTION STATS"],
            "*4|$14|running_script|*6|$4|name|$1|f|$7|command|*5|$5|FCALL|$1|f|$1|1|$1|k|$1|x|$11|duration_ms|",
        );
        assert!(c.value().as_int().is_some());
        c.receive("$7|engines|*2|$3|LUA|*4|$15|libraries_count|:1|$15|functions_count|:2|");
        c.expect(&["FUNCTION KILL"], "+OK|");
        runner.receive(
            "-ERR Script killed by user with SCRIPT KILL... script: f, on @user_function:2.|",
        );
        c.expect_error("FCALL g 0", "Function not found");
        runner.send(&["FCALL w 1 k"]);
        eventually(|| c.text("PING") == BUSY);
        assert!(c.text("FUNCTION KILL").starts_with("UNKILLABLE "));
        c.send(&["SHUTDOWN NOSAVE"]);
        c.ends();
        server.join();
    }
}
