//! Comparison of two servers that must hold the same data: one has applied the log of changes of the other.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use punctual_resp::Value;

use crate::command::{Command, Quoted};
use crate::link::{Link, LinkError, Side};

/// Number of databases; redis's default.
const DATABASES: usize = 16;
/// Number of comparisons before a difference counts: a key may fall due between the questions to both servers.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// The names, digests and deadlines of a server's keys, by database.
fn contents(link: &mut Link) -> Result<Vec<String>, LinkError> {
    let mut lines = Vec::new();
    for db in 0..DATABASES {
        link.ask(&Command::of(&["SELECT", &db.to_string()]))?;
        // Looks at every key, so redis-server removes those that are due.
        let keys = link.ask(&Command::of(&["KEYS", "*"]))?;
        let keys = keys.as_slice().unwrap_or_default();
        for key in keys.iter().filter_map(Value::as_bytes) {
            let digest = link.ask(&Command::of(&["DEBUG", "DIGEST-VALUE"]).arg(key))?;
            let deadline = link.ask(&Command::new("PEXPIRETIME").arg(key))?;
            let digest = digest.as_slice().unwrap_or_default();
            // The digest of a stream has its entries alone. The key may be no stream.
            let groups = link.ask(&Command::of(&["XINFO", "GROUPS"]).arg(key))?;
            lines.push(format!(
                "{db} {} {digest:?} {deadline:?} {groups:?}",
                Quoted(key)
            ));
        }
    }
    lines.sort_unstable();
    Ok(lines)
}

/// Compares the DEBUG DIGEST of two servers, and the digest and the deadline of every key. Returns the first differences,
/// which have lasted for two seconds.
///
/// # Errors
/// A [`LinkError`] if a server does not reply.
pub fn differences(a: SocketAddr, b: SocketAddr) -> Result<Option<String>, LinkError> {
    let (mut a, mut b) = (Link::connect(Side::A, a)?, Link::connect(Side::B, b)?);
    let mut found = None;
    for _ in 0..ATTEMPTS {
        let (ours, theirs) = (contents(&mut a)?, contents(&mut b)?);
        let digest = Command::of(&["DEBUG", "DIGEST"]);
        let digests = (a.ask(&digest)?, b.ask(&digest)?);
        if ours == theirs && digests.0 == digests.1 {
            return Ok(None);
        }
        let only = |these: &[String], those: &[String], side| {
            let lines = these
                .iter()
                .filter(|line| those.binary_search(line).is_err());
            let lines: Vec<String> = lines.take(5).map(|l| format!("{side}: {l}\n")).collect();
            lines.concat()
        };
        found = Some(format!(
            "{:?} and {:?}\n{}{}",
            digests.0,
            digests.1,
            only(&ours, &theirs, Side::A),
            only(&theirs, &ours, Side::B)
        ));
        thread::sleep(PAUSE);
    }
    Ok(found)
}
