//! Clients that set timers, add jobs, and process jobs until the server is killed.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use punctual_harness::Wire;
use punctual_resp::Value;

use super::ledger::{Job, KINDS, LONG_MS, Ledger, Taken, kind, lines};

const WORKERS: usize = 2;
/// Maximum number of open jobs; above it, no jobs are added.
const OPEN: usize = 200;
/// A connection whose replies prove that the effects of commands survive a kill.
pub(super) struct Sure {
    client: Wire,
    /// Whether a WAIT follows each batch.
    waits: bool,
}

impl Sure {
    /// Sends lines, and returns their replies when the effects survive a kill.
    pub(super) fn ask(&mut self, lines: &[String]) -> io::Result<Vec<Value>> {
        let mut all = lines.to_vec();
        all.extend(self.waits.then(|| "WAIT 1 0".into()));
        self.client.try_send(&all)?;
        let mut replies = Vec::new();
        for line in &all {
            let reply = self.client.try_value()?;
            assert!(!reply.is_error(), "{line}: {reply:?}");
            replies.push(reply);
        }
        if self.waits {
            assert!(replies.pop().unwrap().as_int() >= Some(1));
        }
        Ok(replies)
    }
}

/// State that the threads of a round share.
pub(super) struct Load<'a> {
    pub(super) port: u16,
    pub(super) waits: bool,
    pub(super) ledger: &'a Mutex<Ledger>,
    /// Number of added and ended jobs that survive a kill.
    pub(super) progress: AtomicU64,
    pub(super) stop: AtomicBool,
    /// Whether this is the last round. It adds no jobs, and workers end every job that they take:
    /// with NACK a job of `kind::DEAD`, with ACK all others.
    pub(super) last: bool,
}

impl Load<'_> {
    pub(super) fn sure(&self) -> io::Result<Sure> {
        let client = Wire::try_to(self.port)?;
        Ok(Sure {
            client,
            waits: self.waits,
        })
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sets timers and adds jobs until the server is killed or the round stops.
    pub(super) fn add(&self) -> io::Result<()> {
        let mut sure = self.sure()?;
        while !self.stopped() {
            let mut ledger = self.ledger.lock().unwrap();
            if ledger.open.len() >= OPEN {
                drop(ledger);
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let numbers = ledger.next..ledger.next + rand::random_range(1..=8_u64);
            ledger.next = numbers.end;
            for n in numbers.clone() {
                ledger.timers.insert(n, false);
                ledger.jobs.insert(n, Job::default());
                ledger.open.insert(n);
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

    /// Processes jobs until the server is killed or the round stops.
    pub(super) fn work(&self) -> io::Result<()> {
        let mut sure = self.sure()?;
        let held = std::mem::take(&mut self.ledger.lock().unwrap().held);
        self.finish(&mut sure, held)?;
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
                let touch = |ms| format!("{} LEASE {ms}", job.line("TOUCH", job.token));
                let line = match job.n % KINDS {
                    kind::LAPSED | kind::MOVED_LATE if first => touch(job.n % 15 + 1),
                    kind::NACKED | kind::MOVED if first => job.line("NACK", job.token),
                    kind::HELD if first => touch(LONG_MS),
                    _ => {
                        ready.push(job);
                        continue;
                    }
                };
                let reply = &sure.ask(&[line])?[0];
                assert_eq!(reply.as_int(), Some(1), "job {}: its lease is lost", job.n);
                if job.n % KINDS == kind::HELD {
                    self.ledger.lock().unwrap().held.push(job);
                }
            }
            self.finish(&mut sure, ready)?;
        }
        Ok(())
    }

    /// Ends jobs whose leases have not ended.
    fn finish(&self, sure: &mut Sure, jobs: Vec<Taken>) -> io::Result<()> {
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
            assert_eq!(reply.as_int(), Some(1), "job {}: its lease is lost", job.n);
            ledger.end(job);
            self.progress.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Runs the clients until `end` returns. `end` may kill the server.
    pub(super) fn run(&self, end: impl FnOnce()) {
        self.stop.store(false, Ordering::Relaxed);
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
