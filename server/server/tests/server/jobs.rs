//! Queues of jobs over sockets: waiting workers, kills, replicas, and users' permissions.

use punctual_harness::free_port;
use punctual_resp::Value;
use punctual_server::Server;

use crate::killed::start;
use crate::replication::{builder, caught_up, follow};
use crate::waiters::{assert_no_waiters, block, with_threads};
use crate::wire::{Open as _, Wire, eventually, run, server_with, show, shown};

/// Takes a job. Returns its ID and token in the form for JOB ACK, and the number of the attempt.
fn take(c: &mut Wire, line: &str) -> (String, i64) {
    c.send(&[line]);
    taken(c)
}

/// Receives a job.
fn taken(c: &mut Wire) -> (String, i64) {
    let reply = c.value();
    let job = reply.as_slice().map(|jobs| jobs[0].as_slice().unwrap());
    let job = job.unwrap_or_else(|| panic!("a job, not {reply:?}"));
    let pair = format!("{} {}", shown(&job[1]), shown(&job[2]));
    (pair, shown(&job[3]).parse().unwrap())
}

fn counts(c: &mut Wire, queue: &str) -> String {
    let info = c.ask(&["JOB", "INFO", queue]);
    let values = info.as_slice().unwrap().chunks(2).take(5);
    values
        .map(|pair| shown(&pair[1]))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn workers_that_wait_are_served_in_the_millisecond_and_in_order() {
    for threads in [1, 3] {
        let server = with_threads(threads);
        let mut c = Wire::open(&server);
        let mut workers = [0; 3].map(|_| Wire::open(&server));
        let now = c.int("CLOCK NOW");
        for worker in &mut workers {
            block(&server, worker, "JOB TAKE other q BLOCK 0");
        }
        run(
            &mut c,
            &[
                "JOB ADD q a ID a DELAY 1000 LEASE 500 RETRY 1",
                "JOB ADD q b ID b DELAY 1001",
            ],
        );
        c.int("CLOCK ADVANCE 999");
        assert_eq!(server.shared().clients.registry.waiting(), 3);
        c.int("CLOCK ADVANCE 1");
        let reply = shown(&workers[0].value());
        assert!(reply.starts_with("[[q a "), "{reply}");
        assert!(
            reply.ends_with(&format!(" 1 {} a]]", now + 1000)),
            "{reply}"
        );
        c.int("CLOCK ADVANCE 1");
        assert!(shown(&workers[1].value()).starts_with("[[q b "));
        // The lease of `a` ends.
        c.int("CLOCK ADVANCE 498");
        assert_eq!(server.shared().clients.registry.waiting(), 1);
        c.int("CLOCK ADVANCE 1");
        let (pair, attempt) = taken(&mut workers[2]);
        assert_eq!(attempt, 2);
        let old = reply.split(' ').nth(2).unwrap();
        assert_eq!(c.int(&format!("JOB ACK q a {old}")), 0);
        assert_eq!(c.int(&format!("JOB ACK q {pair}")), 1);
        // A waiting worker gets both jobs of a transaction. RENAME and JOB RESUME also give it
        // jobs.
        block(&server, &mut workers[0], "JOB TAKE q COUNT 9 BLOCK 0");
        run(&mut c, &["MULTI", "JOB ADD q x", "JOB ADD q y", "EXEC"]);
        let reply = shown(&workers[0].value());
        assert!(reply.contains(" x] ") && reply.contains(" y]]"), "{reply}");
        block(&server, &mut workers[0], "JOB TAKE q BLOCK 0");
        run(&mut c, &["JOB ADD r z ID z", "RENAME r q"]);
        assert!(shown(&workers[0].value()).starts_with("[[q z "));
        run(&mut c, &["JOB PAUSE q", "JOB ADD q p ID p"]);
        block(&server, &mut workers[0], "JOB TAKE q BLOCK 0");
        assert_eq!(c.int("JOB RESUME q"), 1);
        assert!(shown(&workers[0].value()).starts_with("[[q p "));
        assert_no_waiters(&server);
    }
}

#[test]
fn a_wait_in_job_take_ends_like_other_waits() {
    let server = with_threads(1);
    let (mut c, mut worker) = (Wire::open(&server), Wire::open(&server));
    let id = worker.int("CLIENT ID");
    block(&server, &mut worker, "JOB TAKE q BLOCK 100");
    c.int("CLOCK ADVANCE 100");
    worker.receive("*-1|");
    block(&server, &mut worker, "JOB TAKE q BLOCK 0");
    assert_eq!(c.int(&format!("CLIENT UNBLOCK {id}")), 1);
    worker.receive("*-1|");
    block(&server, &mut worker, "JOB TAKE q BLOCK 0");
    assert_eq!(c.int(&format!("CLIENT UNBLOCK {id} ERROR")), 1);
    worker.receive("-UNBLOCKED client unblocked via CLIENT UNBLOCK|");
    // In a transaction or a script, JOB TAKE does not wait.
    run(&mut c, &["MULTI", "JOB TAKE q BLOCK 0"]);
    c.expect(&["EXEC"], "*1|*-1|");
    let script = show(
        &mut c,
        "EVAL \"return(redis.call('JOB','TAKE','q','BLOCK','0'))\" 1 q",
    );
    assert_eq!(script, shown(&Value::NullBulk));
    run(
        &mut c,
        &["EVAL \"return(redis.call('JOB','ADD','q','p','ID','i'))\" 1 q"],
    );
    let script = show(&mut c, "EVAL \"return(redis.call('JOB','TAKE','q'))\" 1 q");
    assert!(script.starts_with("[[q i "), "{script}");
    // A key of another type does not end the wait. Disconnecting the client ends it.
    block(&server, &mut worker, "JOB TAKE text BLOCK 0");
    run(&mut c, &["SET text v"]);
    run(&mut c, &[&format!("CLIENT KILL ID {id}")]);
    assert_no_waiters(&server);
}

/// With the real clock, the loop sleeps until a job is due, while no client sends anything.
#[test]
fn a_worker_wakes_by_itself() {
    let server = server_with("threads 2");
    let mut c = Wire::open(&server);
    run(
        &mut c,
        &["JOB ADD q a ID a DELAY 30 LEASE 30 RETRY 2 DEAD grave"],
    );
    assert_eq!(take(&mut c, "JOB TAKE q BLOCK 0").1, 1);
    assert_eq!(take(&mut c, "JOB TAKE q BLOCK 0").1, 2);
    assert_eq!(take(&mut c, "JOB TAKE q BLOCK 0").1, 3);
    let (pair, attempt) = take(&mut c, "JOB TAKE grave q BLOCK 0 LEASE 600000");
    assert_eq!(attempt, 1);
    assert_eq!(c.int(&format!("JOB ACK grave {pair}")), 1);
}

#[test]
fn users_access_only_permitted_queues() {
    let server = with_threads(1);
    let (mut c, mut user) = (Wire::open(&server), Wire::open(&server));
    run(
        &mut c,
        &["ACL SETUSER worker on nopass ~mine* %R~seen +@all -@admin"],
    );
    run(
        &mut user,
        &["AUTH worker x", "JOB ADD mine p", "JOB TAKE mine mine2"],
    );
    for line in [
        "JOB ADD theirs p",
        "JOB ADD mine p ID DEAD DEAD theirs",
        "JOB ADD seen p",
        "JOB TAKE mine theirs COUNT 5",
        "JOB TAKE mine seen",
        "JOB ACK theirs a 1",
        "JOB INFO theirs",
    ] {
        let reply = show(&mut user, line);
        assert!(reply.starts_with("NOPERM"), "{line}: {reply}");
    }
    // Queues that the user may not read are neither counted nor shown.
    run(
        &mut c,
        &[
            "JOB ADD theirs p AT 9999999999999",
            "JOB ADD mine p AT 9999999999998",
        ],
    );
    assert_eq!(show(&mut user, "JOB COUNT - +"), "1");
    assert_eq!(show(&mut c, "JOB COUNT - +"), "2");
    let range = "JOB COUNT 9999999999998 10000000000000 BUCKETS 2";
    assert_eq!(show(&mut c, range), "[1 1]");
    assert_eq!(show(&mut user, range), "[1 0]");
    let names = |c: &mut Wire, line: &str| -> Vec<String> {
        let queues = c.ask(&line.split(' ').collect::<Vec<_>>());
        let maps = queues.as_slice().unwrap().iter();
        maps.map(|map| shown(&map.as_slice().unwrap()[1])).collect()
    };
    run(&mut c, &["JOB ADD seen p"]);
    assert_eq!(names(&mut user, "JOB QUEUES"), ["mine", "seen"]);
    assert_eq!(names(&mut c, "JOB QUEUES"), ["mine", "seen", "theirs"]);
    assert_eq!(names(&mut c, "JOB QUEUES MATCH *e* COUNT 1"), ["mine"]);
    assert_eq!(
        names(&mut c, "JOB QUEUES MATCH nobody"),
        Vec::<String>::new()
    );
    run(
        &mut c,
        &["MULTI", "JOB QUEUES", "TIMER COUNT - +", "JOB COUNT - +"],
    );
    let all = shown(&c.ask(&["EXEC"]));
    assert!(all.starts_with("[[[name mine ready"), "{all}");
    assert!(all.ends_with("] 0 2]"), "{all}");
    run(
        &mut user,
        &["JOB ADD mine p ID DEAD DEAD mine-dead", "JOB INFO seen"],
    );
    block(&server, &mut user, "JOB TAKE mine3 BLOCK 0");
    run(&mut c, &["ACL SETUSER worker resetkeys", "JOB ADD mine3 p"]);
    let reply = shown(&user.value());
    assert!(reply.starts_with("NOPERM"), "{reply}");
    assert_eq!(counts(&mut c, "mine3"), "1 0 0 0 0");
    let keys = show(&mut c, "COMMAND GETKEYS JOB TAKE a b count LEASE 5");
    assert_eq!(keys, "[a b]");
    let keys = show(&mut c, "COMMAND GETKEYS JOB ADD a DEAD DELAY 5 DEAD b");
    assert_eq!(keys, "[a b]");
}

#[test]
fn payloads_are_hidden_from_users_without_read_permission() {
    let server = with_threads(1);
    let (mut c, mut user) = (Wire::open(&server), Wire::open(&server));
    run(
        &mut c,
        &[
            "ACL SETUSER adder on nopass %W~q %RW~dead %RW~s +@all -@admin",
            "XGROUP CREATE q-stream g 0 MKSTREAM",
        ],
    );
    run(
        &mut user,
        &["AUTH adder x", "JOB ADD q secret ID a DEAD dead"],
    );
    for line in [
        "JOB TAKE q",
        "JOB TAKE q BLOCK 0",
        "JOB GET q a",
        "JOB RANGE q READY 0 -1",
        "EVAL \"return(redis.call('JOB','TAKE',KEYS[1]))\" 1 q",
    ] {
        let reply = show(&mut user, line);
        assert!(!reply.contains("secret"), "{line}: {reply}");
        assert!(
            reply.contains("NOPERM") || reply.contains("can't access"),
            "{line}: {reply}"
        );
    }
    assert_eq!(show(&mut user, "JOB DEL q a"), "1");
    // XGROUP SETLEASE moves entries to the dead-letter stream, so it needs permission to read.
    run(
        &mut c,
        &["ACL SETUSER adder %W~q-stream", "ACL SETUSER adder %R~q"],
    );
    let lease = "XGROUP SETLEASE q-stream g 100 MAXDELIVERIES 1 DEADLETTER s";
    let reply = show(&mut user, lease);
    assert!(reply.starts_with("NOPERM"), "{reply}");
    run(&mut c, &["ACL SETUSER adder %R~q-stream"]);
    run(&mut user, &[lease, "JOB ADD q open", "JOB TAKE q"]);
}

#[test]
fn jobs_survive_kills() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let start = || start(folder.path(), port, &options);
    let mut child = start();
    let mut c = Wire::to(port);
    run(
        &mut c,
        &[
            "JOB ADD q delayed ID delayed DELAY 3600000 PRIORITY -5",
            "JOB ADD q done ID done PRIORITY 9",
            "JOB ADD q kept ID kept KEEP 3600000 PRIORITY 8",
            "JOB ADD q failed ID failed PRIORITY 7 BACKOFF 3600000 3600000 JITTER 50",
            "JOB ADD q lapsed ID lapsed PRIORITY -1 LEASE 1",
            "JOB ADD q dead ID dead PRIORITY 5 RETRY 0",
            "JOB ADD q grave ID grave PRIORITY 4 RETRY 0 DEAD grave",
            "JOB ADD q held ID held PRIORITY 3 LEASE 3600000",
            "JOB ADD q gone ID gone",
            "JOB DEL q gone",
        ],
    );
    let mut pair = |command: &str, options: &str| {
        let (pair, _) = take(&mut c, "JOB TAKE q");
        c.int(&format!("JOB {command} q {pair}{options}"));
    };
    pair("ACK", "");
    pair("ACK", "");
    pair("NACK", " ERROR no");
    pair("NACK", "");
    pair("NACK", "");
    let (held, _) = take(&mut c, "JOB TAKE q");
    let (lapsed, attempt) = take(&mut c, "JOB TAKE q");
    assert!(held.starts_with("held ") && lapsed.starts_with("lapsed ") && attempt == 1);
    assert_eq!(c.int(&format!("JOB TOUCH q {held}")), 1);
    let (again, attempt) = take(&mut c, "JOB TAKE q BLOCK 0");
    assert!(again.starts_with("lapsed ") && attempt == 2);
    run(&mut c, &["JOB PAUSE q"]);
    eventually(|| counts(&mut c, "q") == "1 2 1 1 1");
    let due = show(&mut c, "JOB GET q failed");
    for round in 0..3 {
        child.kill();
        child = start();
        c = Wire::to(port);
        eventually(|| counts(&mut c, "q") == "1 2 1 1 1");
        assert_eq!(show(&mut c, "JOB GET q failed"), due, "jitter and all");
        assert_eq!(counts(&mut c, "grave"), "1 0 0 0 0");
        assert_eq!(show(&mut c, "JOB TAKE q"), "NullArray");
        if round == 1 {
            run(&mut c, &["BGREWRITEAOF"]);
            eventually(|| {
                c.text("INFO persistence")
                    .contains("aof_rewrite_in_progress:0")
            });
        }
    }
    assert_eq!(c.int(&format!("JOB ACK q {held}")), 1);
    assert_eq!(c.int(&format!("JOB ACK q {again}")), 0);
    child.kill();
}

#[test]
fn a_replica_gives_out_no_jobs_until_it_is_promoted() {
    let primary = Server::builder().port(0).spawn().unwrap();
    let mut theirs = Wire::open(&primary);
    run(
        &mut theirs,
        &[
            "JOB ADD q a ID a LEASE 3600000",
            "JOB ADD q b ID b DELAY 3600000",
        ],
    );
    let replica = follow(primary.addr().unwrap().port(), builder().virtual_clock());
    let mut ours = Wire::open(&replica);
    let (pair, _) = take(&mut theirs, "JOB TAKE q");
    run(&mut theirs, &["JOB ADD q c ID c DELAY 600000 TTL 1200000"]);
    caught_up(&mut theirs, &mut ours);
    assert_eq!(counts(&mut ours, "q"), "0 2 1 0 0");
    let reply = show(&mut ours, "JOB TAKE q BLOCK 0");
    assert!(reply.starts_with("READONLY"), "{reply}");
    ours.int("CLOCK ADVANCE 7200000");
    assert_eq!(
        counts(&mut ours, "q"),
        "2 0 1 0 0",
        "due jobs count as ready, but none is moved"
    );
    let stats = ours.text("INFO stats");
    assert!(stats.contains("\r\njobs_made_ready:0\r\n"), "{stats}");
    assert_eq!(counts(&mut theirs, "q"), "0 2 1 0 0");
    run(&mut ours, &["REPLICAOF NO ONE"]);
    // `c` has expired, and the lease of `a` has ended.
    eventually(|| counts(&mut ours, "q") == "2 0 0 0 0");
    assert_eq!(ours.int(&format!("JOB ACK q {pair}")), 0);
    let (_, attempt) = take(&mut ours, "JOB TAKE q COUNT 2");
    assert!((1..=2).contains(&attempt));
    assert_eq!(theirs.int(&format!("JOB ACK q {pair}")), 1);
}
