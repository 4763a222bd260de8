//! Servers with timers and jobs that are killed, and started again or replaced by their replica: no timer is lost or runs twice, no job is
//! lost, and none that was acknowledged is handed out again.
//!
//! A client sets timers and adds jobs, workers take the jobs and do something else with each kind of them, and the server is killed
//! with SIGKILL after a random number of replies. What a client knows is in a [`Ledger`], with which the keyspace is
//! compared after each kill. With `appendfsync always` a reply is the proof that something is kept, with a replica it is
//! that of a WAIT 1 behind it.
//!
//! `PUNCTUAL_KILLS` is the number of kills, and of failovers; from 100 on, 100,000 timers and as many jobs are pending meanwhile.
//! `PUNCTUAL_KILLED` kills another build of the server.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use punctual_resp::Value;
use tempfile::TempDir;

use crate::killed::{free_port, start_program};
use crate::killed_log::{Client, Running, kills};
use crate::replication::info;
use crate::wire::{Wire, eventually};

const WORKERS: usize = 2;
/// Jobs that wait for their end; with more of them no others are added.
const OPEN: usize = 200;
/// Deadlines of what is pending: in a day.
const FAR_MS: usize = 90_000_000;
/// A lease that no run outlasts.
const LONG_MS: usize = 7_200_000;

/// What happens to a job: its number modulo [`KINDS`].
mod kind {
    /// The first attempt is given up.
    pub const NACKED: u64 = 1;
    /// The lease of the first attempt ends.
    pub const LAPSED: u64 = 2;
    /// A worker has it during the next kill, and acknowledges it after it.
    pub const HELD: u64 = 3;
    /// It is due later.
    pub const DELAYED: u64 = 4;
    /// It is given up, and goes to another queue.
    pub const MOVED: u64 = 5;
    /// Its lease ends, and it goes to another queue.
    pub const MOVED_LATE: u64 = 6;
    /// Its record is kept when it is done.
    pub const KEPT: u64 = 7;
    /// It is given up, and stays, dead.
    pub const DEAD: u64 = 8;
}
const KINDS: u64 = 9;

/// Returns the lines that set the timer and the job of number `n`.
fn lines(n: u64) -> [String; 2] {
    // One in sixteen outlasts some kills.
    let ms = if n.is_multiple_of(16) {
        1_000
    } else {
        n * 7 % 90 + 1
    };
    let options = match n % KINDS {
        kind::NACKED => "BACKOFF 5 20 JITTER 50".into(),
        kind::LAPSED => "LEASE 15 BACKOFF 1 5".into(),
        kind::DELAYED => format!("DELAY {} PRIORITY {}", n * 5 % 200, n % 3),
        kind::MOVED => "RETRY 0 DEAD grave".into(),
        kind::MOVED_LATE => "LEASE 15 RETRY 0 DEAD grave".into(),
        kind::KEPT => "KEEP 60000".into(),
        kind::DEAD => "RETRY 0".into(),
        _ => "PRIORITY 1".into(),
    };
    let lease = if options.contains("LEASE") {
        ""
    } else {
        " LEASE 300"
    };
    [
        format!("TIMER SET t:{n} IN {ms} DO INCR n:{n}"),
        format!("JOB ADD q {n} ID {n} {options}{lease}"),
    ]
}

/// What clients know of a job.
#[derive(Default)]
struct Job {
    added: bool,
    /// The last tokens of its leases, in `q` and in `grave`.
    tokens: [u64; 2],
    /// An ACK of it, or its last NACK, was sent.
    ending: bool,
    /// The token of the lease in which it has ended.
    ended: Option<u64>,
}

/// A job in the hands of a worker.
struct Taken {
    n: u64,
    queue: String,
    token: u64,
    attempt: i64,
    /// A former token.
    old: Option<u64>,
}

impl Taken {
    fn line(&self, command: &str, token: u64) -> String {
        format!("JOB {command} {} {} {token}", self.queue, self.n)
    }
}

/// What clients know.
#[derive(Default)]
struct Ledger {
    next: u64,
    /// Whether a timer was set for certain, by its number, until it has fired.
    timers: BTreeMap<u64, bool>,
    jobs: BTreeMap<u64, Job>,
    /// Jobs that a worker still has after a kill.
    held: Vec<Taken>,
    /// Jobs that have ended since the last kill.
    ended: Vec<u64>,
}

impl Ledger {
    fn open(&self) -> usize {
        let open = |job: &&Job| job.ended.is_none() && !job.ending;
        self.jobs.values().filter(open).count()
    }

    /// Notes a job that a worker was given.
    fn taken(&mut self, reply: &Value) -> Taken {
        let words = reply.as_slice().unwrap();
        let text = |at: usize| String::from_utf8_lossy(words[at].as_bytes().unwrap()).into_owned();
        let (queue, n) = (text(0), text(1).parse::<u64>().unwrap());
        let (token, attempt) = (
            words[2].as_int().unwrap().cast_unsigned(),
            words[3].as_int().unwrap(),
        );
        assert_eq!(text(5), n.to_string(), "the payload");
        let job = self.jobs.get_mut(&n).expect("it was sent");
        let last = &mut job.tokens[usize::from(queue == "grave")];
        assert_ne!(token, *last, "job {n}: a token is given once");
        let old = (*last > 0 && token > *last).then_some(*last);
        *last = token.max(*last);
        if let Some(ended) = job.ended {
            assert!(
                token < ended,
                "job {n}, attempt {attempt}: handed out again after its end"
            );
        }
        Taken {
            n,
            queue,
            token,
            attempt,
            old,
        }
    }

    fn job(&mut self, n: u64) -> &mut Job {
        self.jobs.get_mut(&n).unwrap()
    }

    /// Notes that a job has ended.
    fn end(&mut self, taken: &Taken) {
        let job = self.job(taken.n);
        let last = job.tokens[usize::from(taken.queue == "grave")];
        assert_eq!(
            last, taken.token,
            "job {}: acknowledged with an old token",
            taken.n
        );
        job.ended = Some(taken.token);
        self.ended.push(taken.n);
    }
}

/// A connection whose replies are a proof.
struct Sure {
    client: Client,
    /// A WAIT follows each batch.
    waits: bool,
}

impl Sure {
    /// Sends lines, and returns their replies when what they have done is kept.
    fn ask(&mut self, lines: &[String]) -> io::Result<Vec<Value>> {
        let mut all = lines.to_vec();
        all.extend(self.waits.then(|| "WAIT 1 0".into()));
        self.client.send(&all)?;
        let mut replies = Vec::new();
        for line in &all {
            let reply = self.client.reply()?;
            assert!(!reply.is_error(), "{line}: {reply:?}");
            replies.push(reply);
        }
        if self.waits {
            assert!(replies.pop().unwrap().as_int() >= Some(1));
        }
        Ok(replies)
    }
}

/// What the threads of a round share.
struct Load<'a> {
    port: u16,
    waits: bool,
    ledger: &'a Mutex<Ledger>,
    /// Number of adds and ends that are kept.
    progress: AtomicU64,
    stop: AtomicBool,
    /// Nothing is given up or held any more.
    last: bool,
}

impl Load<'_> {
    fn sure(&self) -> io::Result<Sure> {
        let client = Client::to(self.port)?;
        Ok(Sure {
            client,
            waits: self.waits,
        })
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sets timers and adds jobs until the server is killed.
    fn add(&self) -> io::Result<()> {
        let mut sure = self.sure()?;
        while !self.stopped() {
            let mut ledger = self.ledger.lock().unwrap();
            if ledger.open() >= OPEN {
                drop(ledger);
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let numbers = ledger.next..ledger.next + rand::random_range(1..=8_u64);
            ledger.next = numbers.end;
            for n in numbers.clone() {
                ledger.timers.insert(n, false);
                ledger.jobs.insert(n, Job::default());
            }
            drop(ledger);
            let lines: Vec<String> = numbers.clone().flat_map(lines).collect();
            sure.ask(&lines)?;
            let mut ledger = self.ledger.lock().unwrap();
            for n in numbers {
                ledger.timers.insert(n, true);
                ledger.job(n).added = true;
                self.progress.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Works until the server is killed.
    fn work(&self) -> io::Result<()> {
        let mut sure = self.sure()?;
        let held = std::mem::take(&mut self.ledger.lock().unwrap().held);
        self.finish(&mut sure, held, true)?;
        while !self.stopped() {
            let jobs = sure.ask(&["JOB TAKE q grave COUNT 4 BLOCK 20".into()])?;
            let jobs = jobs[0].as_slice().unwrap_or_default();
            let mut ledger = self.ledger.lock().unwrap();
            let jobs: Vec<Taken> = jobs.iter().map(|job| ledger.taken(job)).collect();
            drop(ledger);
            let stale = jobs
                .iter()
                .filter_map(|job| Some(job.line("ACK", job.old?)));
            let stale: Vec<String> = stale.collect();
            for reply in sure.ask(&stale)? {
                assert_eq!(reply.as_int(), Some(0), "a token whose lease has ended");
            }
            let mut ready = Vec::new();
            for job in jobs {
                let first = job.attempt == 1 && job.queue == "q" && !self.last;
                match job.n % KINDS {
                    kind::LAPSED | kind::MOVED_LATE if first => {}
                    kind::NACKED | kind::MOVED if first => {
                        sure.ask(&[job.line("NACK", job.token)])?;
                    }
                    kind::HELD if first => {
                        let line = job.line("TOUCH", job.token);
                        let replies = sure.ask(&[format!("{line} LEASE {LONG_MS}")])?;
                        if replies[0].as_int() == Some(1) {
                            self.ledger.lock().unwrap().held.push(job);
                        }
                    }
                    _ => ready.push(job),
                }
            }
            self.finish(&mut sure, ready, false)?;
        }
        Ok(())
    }

    /// Ends jobs. `certain` are those whose leases have not ended.
    fn finish(&self, sure: &mut Sure, jobs: Vec<Taken>, certain: bool) -> io::Result<()> {
        let mut lines = Vec::new();
        for job in &jobs {
            self.ledger.lock().unwrap().job(job.n).ending = true;
            let command = match job.n % KINDS {
                kind::DEAD => "NACK",
                _ => "ACK",
            };
            lines.push(job.line(command, job.token));
        }
        let replies = sure.ask(&lines)?;
        let mut ledger = self.ledger.lock().unwrap();
        for (job, reply) in jobs.iter().zip(replies) {
            if reply.as_int() == Some(1) {
                ledger.end(job);
                self.progress.fetch_add(1, Ordering::Relaxed);
            } else {
                assert!(!certain, "job {}: its lease is lost", job.n);
                ledger.job(job.n).ending = false;
            }
        }
        Ok(())
    }

    /// Runs clients until `end` returns, which may kill the server.
    fn run(&self, end: impl FnOnce()) {
        std::thread::scope(|scope| {
            let workers = (0..WORKERS).map(|_| scope.spawn(|| drop(self.work())));
            let mut threads: Vec<_> = workers.collect();
            if !self.last {
                // The error is the end of the connection.
                threads.push(scope.spawn(|| drop(self.add())));
            }
            end();
            self.stop.store(true, Ordering::Relaxed);
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }
}

/// One server, or a primary and its replica.
struct Servers {
    options: Vec<&'static str>,
    /// The first is the primary.
    all: Vec<(TempDir, u16, Running)>,
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

    /// Starts a server, which follows the primary if there is one.
    fn program(&self, folder: &TempDir, port: u16) -> Running {
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
        Running(start_program(program, folder.path(), port, &options))
    }

    fn kill(&mut self) {
        let child = &mut self.all[0].2.0;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts what was killed; with a replica, that one is the primary from then on.
    fn go_on(&mut self) {
        let (folder, port, _) = self.all.remove(0);
        if !self.all.is_empty() {
            assert_eq!(self.wire().text("REPLICAOF NO ONE"), "OK");
        }
        let running = self.program(&folder, port);
        self.all.push((folder, port, running));
    }
}

/// Sends lines in pipelines, and returns their replies, of which none is an error.
fn replies(c: &mut Wire, lines: impl Iterator<Item = String>) -> Vec<Value> {
    let lines: Vec<String> = lines.collect();
    let mut replies = Vec::new();
    for lines in lines.chunks(500) {
        c.send(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        for line in lines {
            let reply = c.value();
            assert!(!reply.is_error(), "{line}: {reply:?}");
            replies.push(reply);
        }
    }
    replies
}

/// Runs two commands at one instant for each number, and returns their replies.
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

/// Compares timers that may have fired with the ledger, and forgets those that have.
fn check_timers(c: &mut Wire, ledger: &mut Ledger) {
    let numbers: Vec<u64> = ledger.timers.keys().copied().collect();
    let found = pairs(c, &numbers, |n| {
        [format!("EXISTS t:{n}"), format!("GET n:{n}")]
    });
    let mut fired = Vec::new();
    for (n, [pending, runs]) in numbers.into_iter().zip(found) {
        let (pending, runs) = (pending.as_int().unwrap(), integer(&runs));
        let set = ledger.timers[&n];
        assert!(
            pending + runs == 1 || !set && pending + runs == 0,
            "timer {n}, set: {set}: {pending} pending, has run {runs} times"
        );
        if pending == 0 {
            fired.push(format!("DEL n:{n}"));
            ledger.timers.remove(&n);
        }
    }
    replies(c, fired.into_iter());
    // A repeating timer counts its runs together with what it does.
    let runs = &pairs(c, &[0], |_| ["TIMER GET again".into(), "GET runs".into()])[0];
    assert_eq!(entry(&runs[0], "runs").as_int(), Some(integer(&runs[1])));
}

/// Compares jobs with the ledger: those that are open, and those that have ended since the last call.
fn check_jobs(c: &mut Wire, ledger: &mut Ledger) {
    let open = ledger.jobs.iter().filter(|(_, job)| job.ended.is_none());
    let mut numbers: Vec<u64> = open.map(|(n, _)| *n).collect();
    numbers.append(&mut ledger.ended);
    let get = |n| [format!("JOB GET q {n}"), format!("JOB GET grave {n}")];
    let found = pairs(c, &numbers, get);
    for (n, found) in numbers.into_iter().zip(found) {
        let states = found.iter().filter(|job| job.as_slice().is_some());
        let states =
            states.map(|job| String::from_utf8_lossy(entry(job, "state").as_bytes().unwrap()));
        let states: Vec<_> = states.collect();
        let job = &ledger.jobs[&n];
        let kind = n % KINDS;
        let right = match &states[..] {
            [] if job.ended.is_some() => kind != kind::DEAD,
            [] => !job.added || job.ending,
            [state] if job.ended.is_some() => match kind {
                kind::DEAD => state == "dead",
                kind => kind == kind::KEPT && state == "done",
            },
            [state] => state != "done" || job.ending,
            _ => false,
        };
        assert!(
            right,
            "job {n} of kind {kind}: found {states:?}; added {}, ending {}, ended {:?}",
            job.added, job.ending, job.ended
        );
    }
}

/// Sets what is due in a day.
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

/// Returns the deadlines of what is due in a day.
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

/// Lets workers end every job, and expects that nothing is left but what must be.
fn drain(load: &Load<'_>) {
    let mut c = Wire::to(load.port);
    load.run(|| {
        eventually(|| {
            c.int("JOB REVIVE grave ALL");
            let left = ["q", "grave"].map(|queue| c.ask(&["JOB", "INFO", queue]));
            let count = |info: &Value, name| match info.as_slice() {
                Some(_) => entry(info, name).as_int().unwrap(),
                None => 0,
            };
            // A job whose lease was made long is held if the reply was lost.
            let leased = c.ask(&["JOB", "RANGE", "q", "LEASED", "0", "-1"]);
            let mut leased = leased.as_slice().unwrap().iter();
            let held =
                |job: &Value| integer(entry(job, "id")).cast_unsigned() % KINDS == kind::HELD;
            let waits = |info| count(info, "ready") + count(info, "delayed");
            left.iter().map(waits).sum::<i64>() == 0
                && count(&left[1], "leased") + count(&left[1], "dead") == 0
                && leased.all(held)
        });
    });
    let ledger = &mut load.ledger.lock().unwrap();
    eventually(|| {
        check_timers(&mut c, ledger);
        ledger.timers.is_empty()
    });
    check_jobs(&mut c, ledger);
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
