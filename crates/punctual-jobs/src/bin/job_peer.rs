//! The Rust client of `punctual-bench jobs`. The clients in benchmarks/server/peers have the same
//! two commands, which are described below.
//!
//! `work PORT OUT` runs jobs and appends the lateness of each job in microseconds to the file OUT.
//!
//! `produce PORT COUNT FIRST SPREAD` adds COUNT jobs. They are due at times spread over SPREAD
//! milliseconds, beginning at FIRST, a Unix time in milliseconds. If FIRST is 0, all jobs are due
//! at once.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use punctual_jobs::{Job, Queue, Worker};
use redis::RedisResult;

/// Number of jobs that run at the same time.
const CONCURRENCY: usize = 10;
/// Number of commands in a pipeline.
const PIPELINE: u64 = 500;

#[tokio::main(flavor = "current_thread")]
async fn main() -> RedisResult<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["work", port, out] => work(port, out).await,
        ["produce", port, count, first, spread] => {
            let number = |word: &str| word.parse().expect("a number");
            produce(port, number(count), number(first), number(spread)).await
        }
        _ => panic!("work PORT OUT | produce PORT COUNT FIRST SPREAD"),
    }
}

fn open(port: &str) -> RedisResult<redis::Client> {
    redis::Client::open(format!("redis://127.0.0.1:{port}/"))
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).expect("later than 1970")
}

async fn work(port: &str, out: &str) -> RedisResult<()> {
    let out = OpenOptions::new().append(true).create(true).open(out)?;
    let out = Arc::new(Mutex::new(out));
    let handler = move |job: Job| {
        let out = Arc::clone(&out);
        async move {
            let due = Duration::from_millis(job.text()?[..13].parse()?);
            let late = since_1970(SystemTime::now()).saturating_sub(due);
            let mut out = out.lock().expect("no handler panics");
            out.write_all(format!("{}\n", late.as_micros()).as_bytes())?;
            Ok(())
        }
    };
    let worker = Worker::new(open(port)?, ["bench"], handler);
    worker.concurrency(CONCURRENCY).run().await
}

async fn produce(port: &str, count: u64, first: u64, spread: u64) -> RedisResult<()> {
    let mut connection = open(port)?.get_multiplexed_async_connection().await?;
    let queue = Queue::new(connection.clone(), "bench");
    for begin in (0..count).step_by(PIPELINE as usize) {
        let mut pipe = redis::pipe();
        for index in begin..count.min(begin + PIPELINE) {
            // 7,919 is a prime, so the factor shuffles the due times: the jobs are not due in the
            // order in which they are added.
            let due = first + index * 7919 % count * spread / count;
            let now = since_1970(SystemTime::now()).as_millis() as u64;
            let due = if first == 0 { now } else { due };
            let payload = format!("{due} {:>86}", "");
            let mut add = queue.add(payload);
            if first > 0 {
                add = add.at(UNIX_EPOCH + Duration::from_millis(due));
            }
            pipe.add_command(add.command());
        }
        pipe.query_async::<()>(&mut connection).await?;
    }
    Ok(())
}
