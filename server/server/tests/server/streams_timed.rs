//! Punctual's own settings of streams, XRETAIN and XGROUP SETLEASE, over sockets: blocked readers,
//! kills, replicas, and files that redis-server loads.

use punctual_harness::free_port;
use punctual_server::Server;

use crate::killed::start;
use crate::replication::{builder, caught_up, follow, follow_with_redis};
use crate::waiters::{block, with_threads};
use crate::wire::redis::Redis;
use crate::wire::{Open as _, Wire, eventually, run, server_with, show, shown};

#[test]
fn the_loop_serves_readers_whose_entries_lapse() {
    for threads in [1, 3] {
        let server = with_threads(threads);
        let (mut c, mut reader, mut dead) = (
            Wire::open(&server),
            Wire::open(&server),
            Wire::open(&server),
        );
        run(
            &mut c,
            &[
                "XADD s 1-0 f v",
                "XGROUP CREATE s g 0",
                "XGROUP SETLEASE s g 1000 MAXDELIVERIES 2 DEADLETTER dead",
                "XREADGROUP GROUP g a STREAMS s >",
            ],
        );
        block(
            &server,
            &mut reader,
            "XREADGROUP GROUP g b BLOCK 0 STREAMS s >",
        );
        block(&server, &mut dead, "XREAD BLOCK 0 STREAMS dead $");
        c.int("CLOCK ADVANCE 999");
        assert_eq!(server.shared().clients.registry.waiting(), 2);
        c.int("CLOCK ADVANCE 1");
        reader.receive("*1|*2|$1|s|*1|*2|$3|1-0|*2|$1|f|$1|v|");
        c.int("CLOCK ADVANCE 1000");
        let moved = shown(&dead.value());
        assert!(moved.contains("origin-consumer b"), "{moved}");
        assert_eq!(c.int("XACK s g 1-0"), 0);
        let stats = c.text("INFO stats");
        assert!(
            stats.contains("\r\nstream_entries_redelivered:1\r\n"),
            "{stats}"
        );
        assert!(stats.contains("\r\nstream_dead_letters:1\r\n"), "{stats}");
        // If the key of a waiting reader expires, its wait ends.
        block(
            &server,
            &mut reader,
            "XREADGROUP GROUP g b BLOCK 0 STREAMS s >",
        );
        run(&mut c, &["PEXPIRE s 5"]);
        c.int("CLOCK ADVANCE 5");
        reader.receive(
            "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option|",
        );
    }
}

/// With the real clock, the loop sleeps until the lease ends, while no client sends anything.
#[test]
fn a_reader_wakes_by_itself() {
    let server = server_with("threads 2");
    let (mut c, mut reader) = (Wire::open(&server), Wire::open(&server));
    run(
        &mut c,
        &[
            "XADD s 1-0 f v",
            "XGROUP CREATE s g 0",
            "XGROUP CREATE s h 0",
            "XGROUP SETLEASE s g 30",
            "XREADGROUP GROUP g a STREAMS s >",
        ],
    );
    reader.expect(
        &["XREADGROUP GROUP g b BLOCK 0 STREAMS s >"],
        "*1|*2|$1|s|*1|*2|$3|1-0|*2|$1|f|$1|v|",
    );
    run(&mut c, &["XREADGROUP GROUP h a STREAMS s >"]);
    let claimed = reader.ask(&[
        "XREADGROUP",
        "GROUP",
        "h",
        "b",
        "BLOCK",
        "0",
        "CLAIM",
        "30",
        "STREAMS",
        "s",
        ">",
    ]);
    assert!(format!("{claimed:?}").contains("Int(1)"), "{claimed:?}");
    run(&mut c, &["XRETAIN s MAXAGE 1"]);
    assert_eq!(c.int("XLEN s"), 0);
}

#[test]
fn settings_and_pending_entries_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let start = || start(folder.path(), port, &options);
    let mut child = start();
    let mut c = Wire::to(port);
    run(
        &mut c,
        &[
            "XADD s 1-0 f 1",
            "XADD s 2-0 f 2",
            "XADD s 3-0 f 3",
            "XGROUP CREATE s g 0",
            "XGROUP SETLEASE s g 60000 MAXDELIVERIES 2 DEADLETTER dead",
            "XGROUP CREATE s h 0",
            "XGROUP SETLEASE s h 1",
            "XADD old 1-0 f v",
            "XADD old 9999999999999-0 f v",
            "XRETAIN old MAXAGE 60000 MAXLEN 50",
            "XREADGROUP GROUP g a STREAMS s >",
            "XREADGROUP GROUP h a STREAMS s >",
            "XACK s g 1-0",
            "XACK s h 1-0",
        ],
    );
    for round in 0..3 {
        child.kill();
        child = start();
        c = Wire::to(port);
        assert_eq!(c.int("XLEN old"), 1);
        assert!(show(&mut c, "XRETAIN old GET").contains("60000"));
        let groups = show(&mut c, "XINFO GROUPS s");
        assert!(groups.contains("dead-letter"), "{groups}");
        // The lease of `h` has ended, and the lease of `g` has not. Acknowledged entries stay
        // acknowledged.
        let reply = show(&mut c, "XREADGROUP GROUP g b STREAMS s >");
        assert!(!reply.contains("2-0"), "{reply}");
        let again = show(&mut c, "XREADGROUP GROUP h b BLOCK 0 STREAMS s >");
        assert!(
            again.contains("2-0") && again.contains("3-0") && !again.contains("1-0"),
            "{again}"
        );
        if round == 1 {
            run(&mut c, &["BGREWRITEAOF"]);
            eventually(|| {
                c.text("INFO persistence")
                    .contains("aof_rewrite_in_progress:0")
            });
        }
    }
    child.kill();
}

#[test]
fn a_replica_hides_due_entries_until_it_is_promoted() {
    let primary = Server::builder().port(0).spawn().unwrap();
    let mut theirs = Wire::open(&primary);
    run(
        &mut theirs,
        &[
            "XADD s * f v",
            "XGROUP CREATE s g 0",
            "XGROUP SETLEASE s g 3600000 MAXDELIVERIES 1 DEADLETTER dead",
            "XREADGROUP GROUP g a STREAMS s >",
            "XADD aging * f v",
            "XRETAIN aging MAXAGE 3600000",
        ],
    );
    let replica = follow(primary.addr().unwrap().port(), builder().virtual_clock());
    let mut ours = Wire::open(&replica);
    run(&mut theirs, &["XADD aging * f v"]);
    caught_up(&mut theirs, &mut ours);
    assert_eq!(ours.int("XLEN aging"), 2);
    ours.int("CLOCK ADVANCE 7200000");
    // The entries are hidden, but still exist.
    assert_eq!(ours.int("XLEN aging"), 0);
    assert_eq!(show(&mut ours, "XRANGE aging - +"), "[]");
    assert_eq!(ours.int("EXISTS dead"), 0);
    assert!(show(&mut ours, "XPENDING s g - + 9").contains("a"));
    assert_eq!(theirs.int("XLEN aging"), 2);
    assert!(
        ours.text("INFO stats")
            .contains("\r\nstream_entries_retained_out:0\r\n")
    );
    run(&mut ours, &["REPLICAOF NO ONE"]);
    eventually(|| ours.int("XLEN dead") == 1);
    eventually(|| {
        ours.text("INFO stats")
            .contains("\r\nstream_entries_retained_out:2\r\n")
    });
    assert_eq!(ours.int("XACK s g 0-1"), 0);
}

#[test]
fn redis_server_loads_and_follows_streams_with_settings() {
    let folder = tempfile::tempdir().unwrap();
    let server = builder()
        .option("dir", folder.path().to_str().unwrap())
        .spawn()
        .unwrap();
    let mut ours = Wire::open(&server);
    run(
        &mut ours,
        &[
            "XADD s * f v",
            "XADD s * f w",
            "XGROUP CREATE s g 0",
            "XRETAIN s MAXAGE 3600000 MAXLEN 2",
            "XGROUP SETLEASE s g 3600000 MAXDELIVERIES 2 DEADLETTER dead",
            "XREADGROUP GROUP g a COUNT 1 STREAMS s >",
            "SET k v PX 3600000",
        ],
    );
    let shown = |c: &mut Wire| {
        [
            "XRANGE s - +",
            "XPENDING s g",
            "XPENDING s g - + 9 a",
            "GET k",
        ]
        .map(|line| {
            let reply = show(c, line);
            // The idle times differ.
            match line.contains('9') {
                true => reply.split(' ').take(2).collect(),
                false => reply,
            }
        })
    };
    let redis = follow_with_redis(server.addr().unwrap().port());
    let mut theirs = Wire::to(redis.port);
    caught_up(&mut ours, &mut theirs);
    assert_eq!(shown(&mut theirs), shown(&mut ours));
    // The replication stream contains only commands that redis-server knows.
    run(
        &mut ours,
        &["XADD s * f x", "XREADGROUP GROUP g a COUNT 1 STREAMS s >"],
    );
    caught_up(&mut ours, &mut theirs);
    assert_eq!(theirs.int("XLEN s"), 2);
    assert_eq!(shown(&mut theirs), shown(&mut ours));
    run(&mut ours, &["SAVE"]);
    let loaded = Redis::start(&["--dir", folder.path().to_str().unwrap()]);
    let mut loaded = Wire::to(loaded.port);
    eventually(|| loaded.text("PING") == "PONG");
    assert_eq!(shown(&mut loaded), shown(&mut ours));
}
