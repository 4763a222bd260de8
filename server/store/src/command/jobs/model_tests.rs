//! Compares a queue to a model that computes the reply of each command. Random workers take and
//! acknowledge jobs and crash (forget their jobs), and only the test moves the clock. A replica
//! replays the log, and after a promotion must equal the queue.

use std::collections::BTreeMap;

use proptest::prelude::*;
use punctual_resp::{OwnedArgs, Protocol, Reply};

use crate::JobCensus;
use crate::command::testing::Fixture;

const LEASE_MS: u64 = 50;
const RETRIES: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waits(u64),
    Leased(u64, u64),
    Dead,
    Kept(u64),
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    state: State,
    priority: i16,
    attempts: u32,
    expires: u64,
    /// Waiting time in ms after the first attempt, which doubles up to four times this value.
    backoff: u64,
    keep: u64,
    /// The job has the dead-letter queue `grave`.
    to_grave: bool,
}

impl Job {
    fn backoff_ms(&self) -> u64 {
        self.backoff << (self.attempts - 1).min(2)
    }

    /// Processes the events of the job that are due at `now`.
    fn settle(&mut self, now: u64) {
        match self.state {
            State::Leased(until, _) if until <= now => {
                self.state = match () {
                    () if self.expires <= until => State::Gone,
                    () if self.attempts > RETRIES && self.to_grave => State::Gone,
                    () if self.attempts > RETRIES => State::Dead,
                    () => State::Waits(until + self.backoff_ms()),
                };
                self.settle(now);
            }
            State::Waits(_) if self.expires <= now => self.state = State::Gone,
            State::Kept(until) if until <= now => self.state = State::Gone,
            _ => {}
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(Job, u64),
    Take(usize, usize),
    Ack(usize, usize),
    Nack(usize, usize, Option<u64>),
    Touch(usize, usize),
    Crash(usize),
    Revive,
    Pause(bool),
    Delete(usize),
    Wait(u64),
    Expire,
    Reload,
    Compare,
}

fn job() -> impl Strategy<Value = Job> {
    let ttl = prop_oneof![2 => Just(u64::MAX), 1 => 1..200u64];
    let keep = prop_oneof![2 => Just(0), 1 => 1..100u64];
    (-2..3i16, ttl, 0..30u64, keep, any::<bool>()).prop_map(
        |(priority, expires, backoff, keep, to_grave)| Job {
            state: State::Gone,
            priority,
            attempts: 0,
            expires,
            backoff,
            keep,
            to_grave,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let worker = 0..3usize;
    let delay = prop_oneof![1 => Just(0), 1 => 1..100u64];
    let again = prop_oneof![1 => Just(None), 1 => (0..60u64).prop_map(Some)];
    let pick = 0..9usize;
    prop_oneof![
        6 => (job(), delay).prop_map(|(job, delay)| Step::Add(job, delay)),
        6 => (worker.clone(), 1..4usize).prop_map(|(worker, n)| Step::Take(worker, n)),
        3 => (worker.clone(), pick.clone()).prop_map(|(worker, n)| Step::Ack(worker, n)),
        2 => (worker.clone(), pick.clone(), again).prop_map(|(w, n, ms)| Step::Nack(w, n, ms)),
        1 => (worker.clone(), pick.clone()).prop_map(|(worker, n)| Step::Touch(worker, n)),
        1 => worker.prop_map(Step::Crash),
        1 => Just(Step::Revive),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => pick.prop_map(Step::Delete),
        6 => (1..40u64).prop_map(Step::Wait),
        4 => Just(Step::Expire),
        1 => Just(Step::Reload),
        1 => Just(Step::Compare),
    ]
}

/// A job that a worker has taken and not yet acknowledged, and its token.
type Given = (usize, u64);

struct Run {
    fixture: Fixture,
    replica: Fixture,
    /// The jobs in the order of their addition. The index of a job is its ID.
    jobs: Vec<Job>,
    paused: bool,
    given: [Vec<Given>; 3],
    finished: BTreeMap<usize, u32>,
}

impl Run {
    fn new(shards: usize) -> Self {
        let mut fixture = Fixture::sharded(shards);
        fixture.set_logged(true);
        Self {
            fixture,
            // Another number of shards: 4 for 1, and 1 for 4.
            replica: Fixture::sharded(5 - shards),
            jobs: Vec::new(),
            paused: false,
            given: Default::default(),
            finished: BTreeMap::new(),
        }
    }

    fn now(&self) -> u64 {
        self.fixture.now.read_ms()
    }

    fn settle(&mut self) {
        let now = self.now();
        self.jobs.iter_mut().for_each(|job| job.settle(now));
    }

    fn run(&mut self, line: &str) -> String {
        let reply = self.fixture.run(line);
        let log = self.fixture.take_log();
        self.replica.now = self.fixture.now;
        self.replica.apply(&log);
        reply
    }

    /// Returns a job that the worker has taken, and whether its lease still holds.
    fn pick(&self, worker: usize, pick: usize) -> Option<(Given, bool)> {
        let given = &self.given[worker];
        let (id, token) = *given.get(pick % given.len().max(1))?;
        let holds =
            matches!(self.jobs[id].state, State::Leased(_, lease_token) if lease_token == token);
        Some(((id, token), holds))
    }

    fn take(&mut self, worker: usize, count: usize) {
        let now = self.now();
        let reply = self.run(&format!("JOB TAKE q COUNT {count}"));
        let words: Vec<&str> = reply.split(' ').collect();
        let got = words.split(|word| *word == "*6").skip(1);
        let got = got.filter(|words| !words.is_empty()).map(|words| {
            let number = |at: usize| words[at].strip_prefix(':').unwrap().parse().unwrap();
            let id: usize = words[3].parse().unwrap();
            (id, number(4), number(5), number(6))
        });
        let got: Vec<(usize, u64, u64, u64)> = got.collect();
        let mut ready: Vec<(i16, u64, usize)> = Vec::new();
        for (id, job) in self.jobs.iter().enumerate() {
            if let State::Waits(due) = job.state
                && due <= now
                && !self.paused
            {
                ready.push((-job.priority, due, id));
            }
        }
        ready.sort_unstable();
        ready.truncate(count);
        let expected: Vec<(u64, usize)> = ready.iter().map(|(_, due, id)| (*due, *id)).collect();
        let ids: Vec<(u64, usize)> = got.iter().map(|(id, .., due)| (*due, *id)).collect();
        assert_eq!(ids, expected, "at {now}: {reply}");
        for (id, token, attempt, _) in got {
            let job = &mut self.jobs[id];
            job.attempts += 1;
            assert_eq!(attempt, u64::from(job.attempts));
            assert!(!self.finished.contains_key(&id), "{id} was acknowledged");
            job.state = State::Leased(now + LEASE_MS, token);
            self.given[worker].push((id, token));
        }
    }

    fn revive(&mut self, now: u64) {
        let reply = self.run("JOB REVIVE q ALL");
        let mut revived = 0;
        for job in &mut self.jobs {
            if job.state == State::Dead {
                (job.state, job.attempts) = (State::Waits(now), 0);
                revived += 1;
            }
        }
        assert!(
            reply == format!(":{revived}") || self.jobs.is_empty(),
            "{reply}, not {revived}"
        );
    }

    fn step(&mut self, step: &Step) {
        self.settle();
        let now = self.now();
        match *step {
            Step::Add(mut job, delay) => {
                let id = self.jobs.len();
                let mut line = format!(
                    "JOB ADD q {id} ID {id} DELAY {delay} PRIORITY {} LEASE {LEASE_MS} RETRY {RETRIES} BACKOFF {} {} KEEP {}",
                    job.priority,
                    job.backoff,
                    4 * job.backoff,
                    job.keep
                );
                if job.to_grave {
                    line.push_str(" DEAD grave");
                }
                if job.expires < u64::MAX {
                    line.push_str(&format!(" TTL {}", job.expires));
                    job.expires += now;
                }
                job.state = State::Waits(now + delay);
                self.run(&line);
                self.jobs.push(job);
            }
            Step::Take(worker, count) => self.take(worker, count),
            Step::Ack(worker, pick) => {
                let Some(((id, token), holds)) = self.pick(worker, pick) else {
                    return;
                };
                let reply = self.run(&format!("JOB ACK q {id} {token}"));
                assert_eq!(reply, format!(":{}", u8::from(holds)));
                if holds {
                    *self.finished.entry(id).or_default() += 1;
                    self.jobs[id].state = match self.jobs[id].keep {
                        0 => State::Gone,
                        keep => State::Kept(now + keep),
                    };
                }
            }
            Step::Nack(worker, pick, delay) => {
                let Some(((id, token), holds)) = self.pick(worker, pick) else {
                    return;
                };
                let option = delay.map_or(String::new(), |ms| format!(" DELAY {ms}"));
                let reply = self.run(&format!("JOB NACK q {id} {token}{option} ERROR no"));
                assert_eq!(reply, format!(":{}", u8::from(holds)));
                if holds {
                    let job = &mut self.jobs[id];
                    job.state = match () {
                        () if job.attempts > RETRIES && job.to_grave => State::Gone,
                        () if job.attempts > RETRIES => State::Dead,
                        () => State::Waits(now + delay.unwrap_or(job.backoff_ms())),
                    };
                }
            }
            Step::Touch(worker, pick) => {
                let Some(((id, token), holds)) = self.pick(worker, pick) else {
                    return;
                };
                let reply = self.run(&format!("JOB TOUCH q {id} {token}"));
                assert_eq!(reply, format!(":{}", u8::from(holds)));
                if holds {
                    self.jobs[id].state = State::Leased(now + LEASE_MS, token);
                }
            }
            Step::Crash(worker) => self.given[worker].clear(),
            Step::Revive => self.revive(now),
            Step::Pause(paused) => {
                self.run(if paused {
                    "JOB PAUSE q"
                } else {
                    "JOB RESUME q"
                });
                self.paused = paused;
            }
            Step::Delete(pick) => {
                let Some(id) = pick.checked_rem(self.jobs.len()) else {
                    return;
                };
                self.run(&format!("JOB DEL q {id}"));
                self.jobs[id].state = State::Gone;
            }
            Step::Wait(ms) => self.fixture.advance(ms),
            Step::Expire => self.expire(),
            Step::Reload => {
                self.fixture.set_logged(false);
                self.fixture.reload();
                self.fixture.set_logged(true);
                self.fixture.take_log();
            }
            Step::Compare => self.compare(),
        }
    }

    fn expire(&mut self) {
        self.settle();
        self.fixture.expire();
        let log = self.fixture.take_log();
        self.replica.now = self.fixture.now;
        self.replica.apply(&log);
        let count = |is: fn(State) -> bool| self.jobs.iter().filter(|job| is(job.state)).count();
        let waiting = count(|state| matches!(state, State::Waits(_)));
        let leased = count(|state| matches!(state, State::Leased(..)));
        let dead = count(|state| state == State::Dead);
        let kept = count(|state| matches!(state, State::Kept(_)));
        let info = counts_of(&self.fixture.run("JOB INFO q"));
        assert_eq!(info, [waiting, leased, dead, kept], "at {}", self.now());
        self.count();
        self.fixture.check();
        self.replica.check();
    }

    /// Compares the replies of JOB COUNT with the model.
    fn count(&mut self) {
        let now = self.now();
        let delayed: Vec<u64> = self
            .jobs
            .iter()
            .filter_map(|job| match job.state {
                State::Waits(due) if due > now => Some(due),
                _ => None,
            })
            .collect();
        let within = |from: u64, to: u64| {
            delayed
                .iter()
                .filter(|due| (from..to).contains(*due))
                .count() as u64
        };
        let edge = |part: u64| now + 90 * part / 4;
        let expected: Vec<u64> = (0..4)
            .map(|part| within(edge(part), edge(part + 1)))
            .collect();
        let args = [
            "JOB",
            "COUNT",
            &now.to_string(),
            &(now + 90).to_string(),
            "BUCKETS",
            "4",
        ];
        let words: OwnedArgs = args.iter().collect();
        let mut out = Vec::new();
        let (counts, all) = self.fixture.with_turn(|turn| {
            let mut reply = Reply::new(&mut out, Protocol::Resp2);
            super::look::count(turn, 0, &|name| name == b"q", words.as_args(), &mut reply).unwrap();
            let mut census = JobCensus::default();
            let steps = (0..10).find_map(|_| turn.count_jobs(&mut census, 1));
            (steps, turn.count_jobs(&mut JobCensus::default(), 100))
        });
        let shown: String = expected
            .iter()
            .map(|count| format!(":{count}\r\n"))
            .collect();
        assert_eq!(
            String::from_utf8_lossy(&out),
            format!("*4\r\n{shown}"),
            "at {now}"
        );
        assert_eq!(counts, all, "in steps, and at once");
        let (q, grave) = ("JOB INFO q", "JOB INFO grave");
        let infos = [q, grave].map(|line| counts_of(&self.fixture.run(line)));
        let sum: Vec<u64> = (0..3)
            .map(|at| infos.iter().map(|info| info[at] as u64).sum())
            .collect();
        let all = all.unwrap();
        assert_eq!([all.ready + all.delayed, all.leased, all.dead], sum[..]);
        assert_eq!(all.due, [within(now, now + 60_000); 3]);
        assert_eq!(all.delayed, delayed.len() as u64);
    }

    /// Promotes a copy of the replica, whose timers then run, and compares it with the primary.
    fn compare(&mut self) {
        self.expire();
        let file = self.replica.snapshot();
        let mut promoted = Fixture::sharded(2);
        promoted.now = self.fixture.now;
        promoted.load(&file);
        // No timer of the copy has fired yet. A job may need several steps: its lease ends, then
        // its waiting time.
        for _ in 0..3 {
            promoted.expire();
        }
        for line in [
            "JOB RANGE q READY 0 -1",
            "JOB RANGE q DELAYED 0 -1",
            "JOB RANGE q LEASED 0 -1",
            "JOB RANGE q DEAD 0 -1",
            "JOB RANGE q DONE 0 -1",
            "JOB RANGE grave READY 0 -1",
            "JOB INFO q",
            "JOB INFO grave",
        ] {
            assert_eq!(promoted.run(line), self.fixture.run(line), "{line}");
        }
    }

    /// Takes and acknowledges jobs until no job is left.
    fn drain(&mut self) {
        self.step(&Step::Pause(false));
        for _ in 0..100 {
            self.step(&Step::Revive);
            self.fixture.advance(2 * LEASE_MS);
            self.expire();
            self.given[0].clear();
            self.settle();
            self.take(0, 10_000);
            for pick in 0..self.given[0].len() {
                self.step(&Step::Ack(0, pick));
            }
            if self.jobs.iter().all(|job| job.state == State::Gone) {
                break;
            }
        }
        assert!(self.jobs.iter().all(|job| job.state == State::Gone));
        assert!(self.finished.values().all(|times| *times == 1));
        self.expire();
        self.compare();
    }
}

/// Returns the numbers of waiting, leased, dead and done jobs.
fn counts_of(info: &str) -> [usize; 4] {
    let words: Vec<&str> = info.split(' ').collect();
    let number = |name: &str| -> usize {
        let at = words.iter().position(|word| *word == name);
        at.map_or(0, |at| words[at + 1][1..].parse().unwrap())
    };
    [
        number("ready") + number("delayed"),
        number("leased"),
        number("dead"),
        number("done"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// No job is lost, taken early or late, or taken again after its acknowledgement, and the
    /// replica has the same jobs.
    #[test]
    fn a_queue_matches_its_model(
        steps in proptest::collection::vec(step(), 1..200),
        shards in prop_oneof![Just(1usize), Just(4)],
    ) {
        let mut run = Run::new(shards);
        for step in &steps {
            run.step(step);
        }
        run.drain();
    }
}
