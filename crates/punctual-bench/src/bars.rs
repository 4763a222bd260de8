//! The performance bars of Punctual. Results are compared with them and never derived from them.

use std::time::Duration;

/// Lateness of received `expired` events of 1M keys over 45 s, and of `hexpired` events of 1M fields: the percentile's
/// name, the percentile and its bound.
pub(crate) const LATENESS: [(&str, f64, Duration); 3] = [
    ("p50", 50.0, Duration::from_micros(500)),
    ("p99", 99.0, Duration::from_millis(1)),
    ("p99.9", 99.9, Duration::from_millis(5)),
];

/// Server CPU with client-side caches, 10,000 writes a second that invalidate keys, as a ratio to redis-server's.
pub(crate) const TRACKING_CPU_RATIO: f64 = 0.7;

/// CPU time of the server while 1M keys expire over 45 s with a listener.
pub(crate) const EXPIRY_CPU: Duration = Duration::from_millis(1600);

/// p99 of the lateness of 1,000 keys among up to 1M others whose deadlines are far away.
pub(crate) const PROBE_LATENESS: Duration = Duration::from_micros(500);

/// Time until the last of 1M keys that are due in one millisecond is expired.
pub(crate) const STORM_GONE: Duration = Duration::from_millis(1500);
/// Time until the commands of 1M timers that are due in one millisecond have run.
pub(crate) const TIMER_STORM_DONE: Duration = Duration::from_secs(5);
/// p99 of GETs during that storm.
pub(crate) const STORM_GET_P99: Duration = Duration::from_millis(2);
/// Maximum of GETs during that storm.
pub(crate) const STORM_GET_MAX: Duration = Duration::from_millis(20);

/// Server CPU per SET, GET and INCR as a ratio to redis-server's: the pipeline depth and its bound.
pub(crate) const CPU_RATIO: [(u32, f64); 3] = [(64, 0.55), (16, 0.65), (1, 0.95)];

/// The same per encrypted GET: the pipeline depth and its bound.
pub(crate) const TLS_CPU_RATIO: [(u32, f64); 2] = [(1, 0.9), (16, 0.8)];
/// Server CPU per new encrypted connection, as a ratio to redis-server's.
pub(crate) const TLS_CONNECTION_RATIO: f64 = 1.0;
/// p99 of PINGs on the plain port while 1,000 encrypted connections a second are made.
pub(crate) const TLS_PLAIN_PING_P99: Duration = Duration::from_millis(1);

/// The commands to which [`CPU_RATIO`] applies.
pub(crate) const CPU_TESTS: [&str; 3] = ["set", "get", "incr"];

/// The same for commands on collections, at pipeline depths of 16 and 64. Sorted sets have 100,000 members, a range by
/// scores returns 100 of them, and LINDEX reads the middle of a list.
pub(crate) const COLLECTION_CPU_RATIO: [(&str, f64); 10] = [
    ("lpush", 0.7),
    ("rpush", 0.7),
    ("lpop", 0.7),
    ("sadd", 0.7),
    ("hset", 0.7),
    ("zadd", 0.33),
    ("zrank", 0.5),
    ("zrange_100", 0.5),
    ("lindex", 1.0),
    ("lindex_10m", 1.0),
];

/// The depths to which [`COLLECTION_CPU_RATIO`] applies.
pub(crate) const COLLECTION_PIPELINES: [u32; 2] = [16, 64];

/// Server CPU per command of these numbers of event loops, as a ratio to one loop's in the same run, at these pipeline depths.
pub(crate) const LOOPS: [u32; 2] = [2, 4];
/// See [`LOOPS`].
pub(crate) const LOOPS_PIPELINES: [u32; 3] = [1, 16, 64];
/// Commands on many keys, and their bound.
pub(crate) const LOOPS_CPU_RATIO: f64 = 1.15;
/// See [`LOOPS_CPU_RATIO`].
pub(crate) const LOOPS_TESTS: [&str; 7] = [
    "set",
    "get",
    "incr",
    "lpush_many",
    "zadd_many",
    "mset",
    "mixed",
];
/// Commands on one key, or on keys with frequencies after Zipf's law, and their bound.
pub(crate) const CONTENDED_CPU_RATIO: f64 = 1.5;
/// See [`CONTENDED_CPU_RATIO`].
pub(crate) const CONTENDED_TESTS: [&str; 8] = [
    "set_one",
    "get_one",
    "incr_one",
    "lpush",
    "zadd",
    "set_zipf",
    "get_zipf",
    "incr_zipf",
];
/// Batches of the connection that is served least, as a share of the mean, in the contended tests.
pub(crate) const CONTENDED_LEAST_SHARE: f64 = 0.5;

/// Server CPU per call of scripts and functions as a ratio to redis-server's: the pipeline depth and its bound.
pub(crate) const SCRIPT_CPU_RATIO: [(u32, f64); 3] = [(64, 0.75), (16, 0.75), (1, 0.95)];

/// The tests to which [`SCRIPT_CPU_RATIO`] applies.
pub(crate) const SCRIPT_TESTS: [&str; 5] = [
    "eval_get",
    "eval_set_get",
    "eval_limiter",
    "eval_cjson",
    "fcall",
];

/// The same for a script that runs a loop of a million steps.
pub(crate) const LOOP_CPU_RATIO: f64 = 1.0;

/// Resident bytes of collections, as a ratio to redis-server's.
pub(crate) const COLLECTION_BYTES_RATIO: f64 = 1.0;

/// Resident bytes per key of 16 bytes with a value of 16 bytes.
pub(crate) const BYTES_PER_KEY_WITH_TTL: f64 = 80.0;
/// The same without a deadline.
pub(crate) const BYTES_PER_KEY_WITHOUT_TTL: f64 = 68.0;

/// Resident bytes per timer that fires once, with a key of 16 bytes and a command of 32.
pub(crate) const BYTES_PER_TIMER: f64 = 180.0;

/// Lateness of the replies to BLPOPs that time out: the percentile and its bound.
pub(crate) const BLOCKING_PERCENTILE: f64 = 99.0;
/// See [`BLOCKING_PERCENTILE`].
pub(crate) const BLOCKING_LATENESS: Duration = Duration::from_millis(2);

/// Lateness of entries of streams whose lease or age ends: the percentile and its bound.
pub(crate) const STREAMS_PERCENTILE: f64 = 99.0;
/// See [`STREAMS_PERCENTILE`].
pub(crate) const STREAMS_LATENESS: Duration = Duration::from_millis(2);

/// Lateness of delayed jobs at a worker that waits: the percentile and its bound.
pub(crate) const JOBS_PERCENTILE: f64 = 99.0;
/// See [`JOBS_PERCENTILE`].
pub(crate) const JOBS_LATENESS: Duration = Duration::from_millis(1);
/// The bound of [`JOBS_PERCENTILE`] while the queue also has ten million jobs that are due much later.
pub(crate) const JOBS_LATENESS_PENDING: Duration = Duration::from_millis(2);
/// Time until 1M jobs that are due in one millisecond are done. GETs meanwhile: [`STORM_GET_P99`].
pub(crate) const JOB_STORM_DONE: Duration = Duration::from_secs(5);
/// Bytes of a delayed job with a payload of 100 bytes.
pub(crate) const BYTES_PER_JOB: f64 = 260.0;
/// Microseconds of server CPU of JOB ADD, JOB TAKE and JOB ACK, sixteen at once.
pub(crate) const JOB_CPU_US: f64 = 3.0;
/// Server CPU of a job from its addition to its acknowledgement, as a ratio to BullMQ's on redis-server.
pub(crate) const JOB_CPU_RATIO: f64 = 0.2;

/// CPU time of XREADGROUP COUNT 10 and its XACK, to redis-server's.
pub(crate) const STREAMS_GROUP_CPU_RATIO: f64 = 0.6;
/// Bytes of a pending entry, to redis-server's.
pub(crate) const STREAMS_PENDING_BYTES_RATIO: f64 = 0.7;
/// Time of the save and of the load of a stream, to redis-server's.
pub(crate) const STREAMS_FILE_RATIO: f64 = 0.5;

/// CPU time of a SET into a store at its limit of memory, to redis-server's.
pub(crate) const EVICTION_CPU_RATIO: f64 = 0.7;
/// Bytes in use above the limit, in percent of it.
pub(crate) const EVICTION_ABOVE_PERCENT: f64 = 1.0;
/// p99 of GETs beside SETs into a full store, as a ratio to the same in a store that is not full.
pub(crate) const EVICTION_GET_P99_RATIO: f64 = 1.3;
/// Hit rate of a trace, to redis-server's.
pub(crate) const EVICTION_HITS_RATIO: f64 = 1.0;

/// CPU of idle connections, as a share of one core above the same server without them. 0.001 is one tick (10 ms) in ten
/// seconds, the resolution of `top`.
pub(crate) const IDLE_CPU_SHARE: f64 = 0.001;

/// The longest stall of any command while a snapshot of 5M keys is made under full write load.
pub(crate) const SNAPSHOT_STALL: Duration = Duration::from_millis(5);
/// Duration of a start with a snapshot of 5M keys, as a ratio to redis-server's.
pub(crate) const SNAPSHOT_LOAD_RATIO: f64 = 0.6;

/// Pipeline depths at which the CPU per SET of the append-only file and of a replica is measured.
pub(crate) const LOG_PIPELINES: [u32; 2] = [64, 16];
/// Server CPU per SET with `appendfsync everysec`, as a ratio to the same server without an append-only file.
pub(crate) const EVERYSEC_CPU_RATIO: f64 = 1.3;
/// The same as a ratio to redis-server's with its append-only file.
pub(crate) const EVERYSEC_CPU_RATIO_TO_REDIS: f64 = 0.5;
/// SETs a second of 50 clients with `appendfsync always`, as a ratio to redis-server's.
pub(crate) const ALWAYS_SETS_RATIO: f64 = 1.5;
/// p99 of the GETs of 50 other clients meanwhile, as a ratio to the same server's without an append-only file.
pub(crate) const ALWAYS_GET_P99_RATIO: f64 = 1.3;
/// The longest GET while an append-only file of 5M keys is rewritten under full write load.
pub(crate) const REWRITE_STALL: Duration = Duration::from_millis(5);
/// Additional memory during that rewrite, as a share of the memory before it.
pub(crate) const REWRITE_MEMORY: f64 = 0.05;
/// Duration of a full sync of 5M keys, as a ratio to redis-server's to redis-server.
pub(crate) const SYNC_RATIO: f64 = 0.7;
/// The longest GET on the primary during that full sync.
pub(crate) const SYNC_STALL: Duration = Duration::from_millis(3);
/// CPU of a replica per SET that it applies, as a ratio to a redis-server replica of the same primary.
pub(crate) const APPLY_CPU_RATIO: f64 = 0.5;
/// p99 of the lateness of 1M expired keys over 45 s on the replica's own event stream.
pub(crate) const REPLICA_LATENESS: Duration = Duration::from_millis(2);

/// Lateness of a program's sleeps and ticks: the percentile and its bound.
pub(crate) const WAIT_PERCENTILE: f64 = 99.0;
/// See [`WAIT_PERCENTILE`].
pub(crate) const WAIT_LATENESS: Duration = Duration::from_micros(300);
/// CPU of a poller that arms and cancels a timeout at each of 1,000 polls per second, as a ratio to its CPU without.
pub(crate) const POLLER_RATIO: f64 = 1.2;

/// Returns the bound on the CPU ratio of this test at this depth, if there is one.
pub(crate) fn cpu_ratio(test: &str, pipeline: u32) -> Option<f64> {
    let at_depth = |bounds: &[(u32, f64)]| {
        bounds
            .iter()
            .find(|(depth, _)| *depth == pipeline)
            .map(|(_, bound)| *bound)
    };
    if CPU_TESTS.contains(&test) {
        return at_depth(&CPU_RATIO);
    }
    if SCRIPT_TESTS.contains(&test) {
        return at_depth(&SCRIPT_CPU_RATIO);
    }
    if test == "eval_loop" {
        return Some(LOOP_CPU_RATIO);
    }
    COLLECTION_CPU_RATIO
        .iter()
        .find(|(name, _)| *name == test && COLLECTION_PIPELINES.contains(&pipeline))
        .map(|(_, bound)| *bound)
}

/// Returns the bound on the CPU ratio of `loops` event loops to one, if there is one.
pub(crate) fn loops_ratio(test: &str, pipeline: u32, loops: u32) -> Option<f64> {
    if !LOOPS.contains(&loops) || !LOOPS_PIPELINES.contains(&pipeline) {
        return None;
    }
    if LOOPS_TESTS.contains(&test) {
        return Some(LOOPS_CPU_RATIO);
    }
    CONTENDED_TESTS
        .contains(&test)
        .then_some(CONTENDED_CPU_RATIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_bar_names_is_judged() {
        assert_eq!(cpu_ratio("get", 64), Some(0.55));
        assert_eq!(cpu_ratio("get", 2), None);
        assert_eq!(cpu_ratio("lpush", 64), Some(0.7));
        assert_eq!(cpu_ratio("lpush", 1), None);
        assert_eq!(cpu_ratio("rpop", 64), None);
        assert_eq!(cpu_ratio("eval_get", 1), Some(0.95));
        assert_eq!(cpu_ratio("eval_loop", 1), Some(1.0));
        let known = |name: &str| {
            crate::workload::WORKLOADS
                .iter()
                .any(|workload| workload.name == name)
        };
        assert!(COLLECTION_CPU_RATIO.iter().all(|(name, _)| known(name)));
        let of_loops = LOOPS_TESTS.iter().chain(&CONTENDED_TESTS);
        assert!(of_loops.clone().all(|name| known(name)));
        assert_eq!(loops_ratio("set", 16, 2), Some(1.15));
        assert_eq!(loops_ratio("lpush", 64, 4), Some(1.5));
        assert_eq!(loops_ratio("set", 16, 1), None);
        assert!(SCRIPT_TESTS.iter().all(|name| known(name)));
    }
}
