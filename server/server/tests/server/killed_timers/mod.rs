//! Servers with timers and jobs that are killed and restarted, or replaced by their replica. No
//! timer is lost or fires twice. No job is lost, and no acknowledged job is given to a worker
//! again.
//!
//! A client sets timers and adds jobs, and workers take the jobs and treat each kind differently.
//! The server is killed with SIGKILL after a random number of jobs have been added or have ended. A
//! [`Ledger`] records the timers and jobs that replies have confirmed. The keyspace is compared
//! with it after each kill. With `appendfsync always`, a reply proves that its command survives;
//! with a replica, the reply of a following WAIT 1 proves it.
//!
//! `PUNCTUAL_KILLS` is the number of kills, and of failovers. If it is 100 or more, 100,000 timers
//! and as many jobs are pending meanwhile. `PUNCTUAL_KILLED` names another build of the server to
//! kill.

mod ledger;
mod load;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual_harness::{Process, free_port};
use punctual_resp::Value;
use tempfile::TempDir;

use self::ledger::{Ledger, check_jobs, check_timers};
use self::load::Load;
use crate::killed::start_program;
use crate::killed_log::kills;
use crate::replication::info;
use crate::wire::{Wire, eventually};

/// Delay in milliseconds of the timers and jobs that stay pending: about a day.
const FAR_MS: usize = 90_000_000;

/// One server, or a primary and its replica.
struct Servers {
    options: Vec<&'static str>,
    /// Folder, port and process of each server. The first server is the primary.
    all: Vec<(TempDir, u16, Process)>,
}

impl Servers {
    fn start(count: usize, options: &[&'static str]) -> Self {
        let options = options.to_vec();
        let mut servers = Self {
            options,
            all: Vec::new(),
        };
        for _ in 0..count {
            let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
            let running = servers.program(&folder, port);
            servers.all.push((folder, port, running));
        }
        servers
    }

    fn port(&self) -> u16 {
        self.all[0].1
    }

    fn wire(&self) -> Wire {
        Wire::to(self.port())
    }

    /// Starts a server. It follows the primary if there is one.
    fn program(&self, folder: &TempDir, port: u16) -> Process {
        let mut options = self.options.clone();
        let primary = self
            .all
            .first()
            .map(|first| format!("127.0.0.1 {}", first.1));
        if let Some(primary) = &primary {
            options.extend(["--replicaof", primary]);
        }
        let program = std::env::var("PUNCTUAL_KILLED");
        let program = program.as_deref().unwrap_or(env!("CARGO_BIN_EXE_punctual"));
        start_program(program, folder.path(), port, &options)
    }

    fn kill(&mut self) {
        self.all[0].2.kill();
    }

    /// Restarts the killed server. If there is a replica, promotes it first; the restarted server
    /// follows it.
    fn go_on(&mut self) {
        let (folder, port, _) = self.all.remove(0);
        if !self.all.is_empty() {
            assert_eq!(self.wire().text("REPLICAOF NO ONE"), "OK");
        }
        let running = self.program(&folder, port);
        self.all.push((folder, port, running));
    }
}

/// Sends commands in pipelines and returns the replies. Panics if a reply is an error.
fn replies(c: &mut Wire, lines: impl Iterator<Item = String>) -> Vec<Value> {
    let lines: Vec<String> = lines.collect();
    let mut replies = Vec::new();
    for lines in lines.chunks(500) {
        c.send(lines);
        for line in lines {
            let reply = c.value();
            assert!(!reply.is_error(), "{line}: {reply:?}");
            replies.push(reply);
        }
    }
    replies
}

/// Runs two commands in one transaction for each number, and returns their replies.
fn pairs(c: &mut Wire, numbers: &[u64], lines: impl Fn(u64) -> [String; 2]) -> Vec<[Value; 2]> {
    let lines = numbers.iter().flat_map(|n| {
        let [one, two] = lines(*n);
        ["MULTI".into(), one, two, "EXEC".into()]
    });
    let all = replies(c, lines);
    let pair = |replies: &[Value]| replies[3].as_slice().unwrap().to_vec().try_into().unwrap();
    all.chunks(4).map(pair).collect()
}

/// Returns a value of a reply that is a map.
fn entry<'a>(map: &'a Value, name: &str) -> &'a Value {
    let pairs = map.as_slice().unwrap().chunks(2);
    let mut found = pairs.filter(|pair| pair[0].as_bytes() == Some(name.as_bytes()));
    &found
        .next()
        .unwrap_or_else(|| panic!("no {name} in {map:?}"))[1]
}

fn integer(value: &Value) -> i64 {
    let text = value.as_bytes().map(String::from_utf8_lossy);
    text.map_or(0, |text| text.parse().unwrap())
}

/// Sets timers and adds jobs that are due in a day.
fn set_far(c: &mut Wire, pending: usize) {
    let lines = (0..pending).flat_map(|n| {
        let ms = FAR_MS + n;
        [
            format!("TIMER SET far:{n} IN {ms} DO INCR n"),
            format!("JOB ADD far payload:{n} ID {n} DELAY {ms}"),
        ]
    });
    replies(c, lines);
}

/// Returns the deadlines of the timers and jobs that are due in a day.
fn far(c: &mut Wire, pending: usize) -> Vec<i64> {
    let lines =
        (0..pending).flat_map(|n| [format!("PEXPIRETIME far:{n}"), format!("JOB GET far {n}")]);
    let replies = replies(c, lines);
    let time = |reply: &Value| match reply.as_int() {
        Some(time) => time,
        None => entry(reply, "at").as_int().unwrap(),
    };
    replies.iter().map(time).collect()
}

/// Lets workers end all jobs, and waits until all timers have fired.
fn drain(load: &Load<'_>) {
    let mut c = Wire::to(load.port);
    let nothing_waits = |c: &mut Wire| {
        let left = ["q", "grave"].map(|queue| c.ask(&["JOB", "INFO", queue]));
        let infos = left.iter().filter(|info| info.as_slice().is_some());
        let count = |info, name| entry(info, name).as_int().unwrap();
        let names = ["ready", "delayed", "leased"];
        let open = |info| names.map(|name| count(info, name)).iter().sum::<i64>();
        infos.map(open).sum::<i64>() == 0
    };
    eventually(|| {
        load.run(|| eventually(|| nothing_waits(&mut c)));
        // A job may have been moving to the other queue.
        let ledger = &mut load.ledger.lock().unwrap();
        check_timers(&mut c, ledger);
        check_jobs(&mut c, ledger);
        ledger.timers.is_empty() && ledger.open.is_empty()
    });
}

fn kill(count: usize, options: &[&'static str]) {
    let kills = kills(6).div_ceil(2);
    let pending = if kills >= 50 { 100_000 } else { 500 };
    let mut servers = Servers::start(count, options);
    let mut c = servers.wire();
    set_far(&mut c, pending);
    let deadlines = far(&mut c, pending);
    let again = "TIMER SET again EVERY 10 CATCHUP all DO INCR runs";
    assert_eq!(c.text(again), "OK");
    let ledger = Mutex::new(Ledger::default());
    let load = |servers: &Servers, last| Load {
        port: servers.port(),
        waits: count > 1,
        ledger: &ledger,
        progress: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        last,
    };
    for kill in 0..kills {
        let round = load(&servers, false);
        let enough = rand::random_range(1..=150);
        round.run(|| {
            if kill % 8 == 3 && options.contains(&"--appendonly") {
                servers.wire().text("BGREWRITEAOF");
            }
            eventually(|| round.progress.load(Ordering::Relaxed) >= enough);
            servers.kill();
        });
        servers.go_on();
        let ledger = &mut ledger.lock().unwrap();
        let mut c = servers.wire();
        check_timers(&mut c, ledger);
        check_jobs(&mut c, ledger);
        let info = c.ask(&["JOB", "INFO", "far"]);
        assert_eq!(entry(&info, "delayed").as_int(), Some(pending as i64));
        if kill % 50 == 49 {
            println!("{} of {kills}: {} timers and jobs", kill + 1, ledger.next);
        }
    }
    drain(&load(&servers, true));
    let mut c = servers.wire();
    assert_eq!(far(&mut c, pending), deadlines);
    let role = info(&mut c, "role");
    println!(
        "{kills} kills of a {role}, {count} server(s), {options:?}: of {} timers and as many jobs none lost, none twice",
        ledger.lock().unwrap().next
    );
}

#[test]
fn a_kill_loses_no_timer_and_no_job() {
    for threads in ["1", "3"] {
        kill(
            1,
            &[
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
                "--threads",
                threads,
            ],
        );
    }
}

#[test]
fn a_failover_loses_no_timer_and_no_job() {
    let at_once = ["--repl-diskless-sync-delay", "0", "--threads"];
    kill(2, &[&at_once[..], &["1"]].concat());
    kill(2, &[&at_once[..], &["3", "--appendonly", "yes"]].concat());
}
