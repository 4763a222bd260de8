//! A record of the timers and jobs that clients have set, and comparisons of the keyspace with it.

use std::collections::{BTreeMap, BTreeSet};

use punctual_resp::Value;

use super::{entry, integer, pairs, replies};
use crate::wire::{Wire, unix_time};

/// Kinds of jobs, by their number modulo [`KINDS`].
pub(super) mod kind {
    /// A worker rejects the first attempt with JOB NACK.
    pub const NACKED: u64 = 1;
    /// The lease of the first attempt ends.
    pub const LAPSED: u64 = 2;
    /// A worker has the job during the next kill, and acknowledges it after the kill.
    pub const HELD: u64 = 3;
    /// The job is delayed.
    pub const DELAYED: u64 = 4;
    /// A worker rejects the job, and it moves to another queue.
    pub const MOVED: u64 = 5;
    /// The lease of the job ends, and the job moves to another queue.
    pub const MOVED_LATE: u64 = 6;
    /// The job's record is kept after the job is done.
    pub const KEPT: u64 = 7;
    /// A worker rejects the job, and it stays in its queue as dead.
    pub const DEAD: u64 = 8;
}
pub(super) const KINDS: u64 = 9;
/// Length of a lease that is longer than any run of the test.
pub(super) const LONG_MS: u64 = 86_400_000;

/// Returns the lines that set the timer and the job of number `n`. Leases are long, except leases
/// that are meant to end, so a slow worker loses no lease.
pub(super) fn lines(n: u64) -> [String; 2] {
    // One timer in sixteen is still pending after some kills.
    let ms = match n % 16 {
        0 => 1_000,
        _ => n * 7 % 90 + 1,
    };
    let options = match n % KINDS {
        kind::NACKED => "BACKOFF 5 20 JITTER 50".into(),
        kind::LAPSED => "BACKOFF 1 5".into(),
        kind::DELAYED => format!("DELAY {} PRIORITY {}", n * 5 % 200, n % 3),
        kind::MOVED | kind::MOVED_LATE => "RETRY 0 DEAD grave".into(),
        kind::KEPT => "KEEP 60000".into(),
        kind::DEAD => "RETRY 0".into(),
        _ => "PRIORITY 1".into(),
    };
    [
        format!("TIMER SET t:{n} IN {ms} DO INCR n:{n}"),
        format!("JOB ADD q {n} ID {n} LEASE {LONG_MS} {options}"),
    ]
}

/// State of a job, as confirmed by the server's replies.
#[derive(Default)]
pub(super) struct Job {
    pub(super) added: bool,
    /// Latest tokens of the job's leases, in `q` and in `grave`.
    pub(super) tokens: [u64; 2],
    /// Whether an ACK or the last NACK of the job was sent.
    pub(super) ending: bool,
    /// Token of the lease in which the job has ended.
    pub(super) ended: Option<u64>,
}

/// A job that a worker has taken.
pub(super) struct Taken {
    pub(super) n: u64,
    pub(super) queue: String,
    pub(super) token: u64,
    pub(super) attempt: i64,
    /// Token of an earlier lease.
    pub(super) old: Option<u64>,
}

impl Taken {
    pub(super) fn line(&self, command: &str, token: u64) -> String {
        format!("JOB {command} {} {} {token}", self.queue, self.n)
    }
}

/// The clients' record of timers and jobs.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) next: u64,
    /// Pending timers by number. The value says whether a reply has confirmed the timer.
    pub(super) timers: BTreeMap<u64, bool>,
    pub(super) jobs: BTreeMap<u64, Job>,
    /// Numbers of jobs that have not ended, as far as replies show.
    pub(super) open: BTreeSet<u64>,
    /// Jobs that a worker still has after a kill.
    pub(super) held: Vec<Taken>,
    /// Numbers of jobs that have ended since the last kill.
    ended: Vec<u64>,
}

impl Ledger {
    /// Records a job that a worker has taken.
    pub(super) fn taken(&mut self, reply: &Value) -> Taken {
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
        assert_ne!(token, *last, "job {n}: two leases have the same token");
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

    pub(super) fn job(&mut self, n: u64) -> &mut Job {
        self.jobs.get_mut(&n).unwrap()
    }

    /// Records that a job has ended with an ACK or its last NACK.
    pub(super) fn end(&mut self, taken: &Taken) {
        let n = taken.n;
        let job = self.job(n);
        let last = job.tokens[usize::from(taken.queue == "grave")];
        assert_eq!(last, taken.token, "job {n}: ended with an old token");
        job.ended = Some(taken.token);
        self.open.remove(&n);
        self.ended.push(n);
    }
}

/// Compares timers that may have fired with the ledger, and removes the timers that have fired.
pub(super) fn check_timers(c: &mut Wire, ledger: &mut Ledger) {
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
    // A repeating timer's number of runs equals the value that its command has counted.
    let runs = &pairs(c, &[0], |_| ["TIMER GET again".into(), "GET runs".into()])[0];
    assert_eq!(entry(&runs[0], "runs").as_int(), Some(integer(&runs[1])));
}

/// Compares jobs with the ledger: open jobs, and jobs that have ended since the last call. No
/// worker runs meanwhile. So a job with a long lease belongs to a worker that was stopped; another
/// worker takes it over with its token.
pub(super) fn check_jobs(c: &mut Wire, ledger: &mut Ledger) {
    let ended = std::mem::take(&mut ledger.ended);
    let numbers: Vec<u64> = ledger.open.iter().copied().chain(ended).collect();
    let get = |n| [format!("JOB GET q {n}"), format!("JOB GET grave {n}")];
    let found = pairs(c, &numbers, get);
    let soon = unix_time().as_millis() as i64 + 60_000;
    let mut held: BTreeSet<u64> = ledger.held.iter().map(|job| job.n).collect();
    for (n, found) in numbers.into_iter().zip(found) {
        let existing = found.iter().zip(["q", "grave"]);
        let mut existing = existing.filter(|(job, _)| job.as_slice().is_some());
        let (first, second) = (existing.next(), existing.next());
        assert!(second.is_none(), "job {n} exists twice: {found:?}");
        let text = |job: &Value| {
            String::from_utf8_lossy(entry(job, "state").as_bytes().unwrap()).into_owned()
        };
        let state = first.map_or("gone".into(), |(job, _)| text(job));
        let (kind, job) = (n % KINDS, ledger.jobs.get_mut(&n).unwrap());
        let moves = matches!(kind, kind::MOVED | kind::MOVED_LATE);
        // Whether the job is in the last state of its kind. The reply that confirms this may be
        // lost.
        let has_ended = match kind {
            kind::DEAD => state == "dead",
            kind::KEPT => state == "done",
            _ => state == "gone",
        };
        let right = match job.ended {
            Some(_) => has_ended,
            None if has_ended => job.ending || !job.added && state == "gone",
            None if state == "gone" => !job.added,
            None if state == "dead" => moves,
            None => state != "done",
        };
        assert!(
            right,
            "job {n} of kind {kind} is {state}; added {}, ending {}, ended {:?}",
            job.added, job.ending, job.ended
        );
        if job.ended.is_none() && (has_ended || state == "gone") {
            job.ended = Some(0);
            ledger.open.remove(&n);
        }
        let Some((found, queue)) = first.filter(|_| state == "leased") else {
            continue;
        };
        job.ending = false;
        let number = |name| entry(found, name).as_int().unwrap();
        if number("at") > soon && held.insert(n) {
            let token = number("token").cast_unsigned();
            job.tokens[usize::from(queue == "grave")] = token;
            ledger.held.push(Taken {
                n,
                queue: queue.into(),
                token,
                attempt: number("attempts"),
                old: None,
            });
        }
    }
}
