//! The scripts and functions of `bench server`, as programs use them.

use sha1::{Digest, Sha1};

use crate::client::Client;
use crate::error::Result;

/// Maximum number of calls of `eval_loop` in one measurement: each call takes some milliseconds.
const LOOPS: u64 = 40;

/// A script, or a library of functions, of one workload.
#[derive(Debug)]
pub(crate) struct Script {
    /// Name of the workload.
    test: &'static str,
    /// The command that loads the script, without the source.
    load: &'static [&'static str],
    source: &'static str,
}

const LOAD: &[&str] = &["SCRIPT", "LOAD"];

const SCRIPTS: &[Script] = &[
    Script {
        test: "eval_get",
        load: LOAD,
        source: "return redis.call('GET', KEYS[1])",
    },
    Script {
        test: "eval_set_get",
        load: LOAD,
        source: "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])",
    },
    // A rate limiter with a sliding window: a sorted set has the times of accepted requests. The
    // measurement sends random times. A request keeps only the times after its own, so the set has
    // about ten members.
    Script {
        test: "eval_limiter",
        load: LOAD,
        source: "local now, window, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
if redis.call('ZCARD', KEYS[1]) >= limit then return 0 end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('PEXPIRE', KEYS[1], 60000)
return 1",
    },
    Script {
        test: "eval_cjson",
        load: LOAD,
        source: "local job = cjson.decode(ARGV[1])
job.attempts = job.attempts + 1
job.state = 'active'
return cjson.encode(job)",
    },
    Script {
        test: "eval_loop",
        load: LOAD,
        source: "local sum = 0 for i = 1, 1000000 do sum = sum + i end return sum",
    },
    Script {
        test: "fcall",
        load: &["FUNCTION", "LOAD", "REPLACE"],
        source:
            "#!lua name=punctual_bench
redis.register_function('punctual_bench_get', function(keys) return redis.call('GET', keys[1]) end)",
    },
];

/// The argument of `eval_cjson`: a JSON text of 1,024 bytes, like the jobs of job queues.
pub(crate) const JOB: &str = r#"{"id":"9f0c6f1e-5a0b-4b7e-8d1c-2f6f0f7f9a31","name":"send_invoice","queue":"billing","state":"waiting","attempts":0,"max_attempts":5,"priority":10,"delay":0,"created_at":1763800000123,"timeout_ms":30000,"progress":0.25,"options":{"remove_on_complete":true,"remove_on_fail":false,"backoff":{"type":"exponential","delay":1500,"jitter":0.1},"repeat":null},"data":{"customer":{"id":48213,"name":"Zo\u00eb Müller","email":"zoe.mueller@example.org","tags":["vip","newsletter","eu"]},"currency":"EUR","lines":[{"sku":"A-1001","text":"Paper, 80 g\/m2","count":12,"price":4.99,"tax":0.19},{"sku":"B-2040","text":"Toner \"black\"","count":1,"price":89.5,"tax":0.19},{"sku":"C-0007","text":"Delivery","count":1,"price":5.95,"tax":0.07}],"total":155.33,"note":"Please deliver to the back door.\nRing twice.","address":{"street":"Hauptstrasse 5","zip":"10115","city":"Berlin","position":[52.5323,13.3846]}},"parents":["billing:1","billing:7"],"log":["queued by api-3","validated"],"trace":"00-4bf92f3577b34da6a3ce929d0e0e4736-00000000"}"#;

/// Returns the script of a workload.
pub(crate) fn of(test: &str) -> Option<&'static Script> {
    SCRIPTS.iter().find(|script| script.test == test)
}

/// Returns the number of calls to measure for `requests` of the options.
pub(crate) fn requests(test: &str, requests: u64) -> u64 {
    if test == "eval_loop" {
        requests.min(LOOPS)
    } else {
        requests
    }
}

/// Returns true if a workload is measured at this pipeline depth. The long script is measured only
/// at 1.
pub(crate) fn allows(test: &str, pipeline: u32) -> bool {
    test != "eval_loop" || pipeline == 1
}

impl Script {
    /// Returns the script's SHA1 for EVALSHA.
    pub(crate) fn sha(&self) -> String {
        let digest = Sha1::digest(self.source);
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Loads the script.
    pub(crate) fn load(&self, client: &mut Client) -> Result<()> {
        let words: Vec<&str> = self.load.iter().copied().chain([self.source]).collect();
        client.expect(&words).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_has_its_size() {
        assert_eq!(JOB.len(), 1024);
    }
}
