//! DEBUG DIGEST and DIGEST-VALUE: digests of the keyspace's content, independent of encodings.
//!
//! The digest is Redis's: SHA-1 chained where order counts (list elements), combined by XOR where it does not. Two
//! servers with the same keys have the same digest.

use punctual_resp::{Args, Reply, decimal};
use sha1::{Digest as _, Sha1};

use crate::error::Error;
use crate::keyspace::records::Record;
use crate::spec::{Flags, Group};
use crate::time::NEVER;
use crate::turn::{Command, Cx};
use crate::value::Value;

/// DEBUG DIGEST: the digest of all databases. The container DEBUG is a server command.
pub const DEBUG_DIGEST: Command = Command::new(
    "digest",
    2,
    Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::WHOLE),
    Group::Server,
    digest,
);

/// DEBUG DIGEST-VALUE: the digest of each key's value.
pub const DEBUG_DIGEST_VALUE: Command = Command::new(
    "digest-value",
    -2,
    Flags::ADMIN.or(Flags::NOSCRIPT),
    Group::Server,
    digest_value,
)
.keys(2, -1, 1);

#[derive(Default)]
struct Digest([u8; 20]);

impl Digest {
    /// Adds a text; the order does not count.
    fn add(&mut self, text: &[u8]) {
        let hash = Sha1::digest(text);
        for (byte, hashed) in self.0.iter_mut().zip(hash) {
            *byte ^= hashed;
        }
    }

    /// Adds a text; the order counts.
    fn chain(&mut self, text: &[u8]) {
        self.add(text);
        self.0 = Sha1::digest(self.0).into();
    }

    /// Adds a key's value, and whether it has a deadline.
    fn value(&mut self, record: &Record) {
        let kind: u32 = match &record.value {
            Value::Str(_) => 0,
            Value::List(_) => 1,
            Value::Set(_) => 2,
            Value::Zset(_) => 3,
            Value::Hash(_) => 4,
            // Where Redis has its modules.
            Value::Timer(_) | Value::Jobs(_) => 5,
            Value::Stream(_) => 6,
        };
        self.chain(&kind.to_be_bytes());
        match &record.value {
            Value::Str(string) => self.chain(&string.bytes()),
            Value::List(list) => list
                .iter()
                .for_each(|element| element.with_text(|text| self.chain(text))),
            Value::Set(set) => set
                .iter()
                .for_each(|member| member.with_text(|text| self.add(text))),
            Value::Zset(zset) => {
                let mut score_text = Vec::new();
                for (name, score) in zset.iter() {
                    score_text.clear();
                    decimal::write_f64_rounded(&mut score_text, score, 17);
                    let mut entry = Self::default();
                    name.with_text(|text| entry.chain(text));
                    entry.chain(&score_text);
                    self.add(&entry.0);
                }
            }
            Value::Hash(hash) => {
                for field in hash.iter() {
                    let mut entry = Self::default();
                    field.name.with_text(|text| entry.chain(text));
                    field.value.with_text(|text| entry.chain(text));
                    if field.deadline != NEVER {
                        entry.add(b"!!hexpire!!");
                    }
                    self.add(&entry.0);
                }
            }
            Value::Timer(timer) => self.chain(timer.as_bytes()),
            Value::Jobs(jobs) => {
                let mut bytes = Vec::new();
                for job in jobs.iter() {
                    bytes.clear();
                    job.write(&mut bytes);
                    self.add(&bytes);
                }
            }
            Value::Stream(stream) => {
                for entry in stream.iter() {
                    self.chain(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
                    for (name, value) in entry.pairs() {
                        name.with_text(|text| self.chain(text));
                        value.with_text(|text| self.chain(text));
                    }
                }
            }
        }
        if record.deadline != NEVER {
            self.add(b"!!expire!!");
        }
    }

    fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn digest(cx: &mut Cx, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let (mut all, now) = (Digest::default(), cx.now());
    for db in 0..cx.store().databases() {
        let parts: Vec<_> = cx
            .turn
            .held_dbs(db)
            .filter(|(_, part)| !part.is_empty())
            .collect();
        if parts.is_empty() {
            continue;
        }
        all.chain(&(db as u32).to_be_bytes());
        for (_, part) in parts {
            let living = part.iter().filter(|(_, r)| !r.has_expired(now));
            for (_, record) in living {
                let mut key = Digest::default();
                key.chain(record.key.as_bytes());
                key.value(record);
                all.add(&key.0);
            }
        }
    }
    reply.simple(all.hex());
    Ok(())
}

fn digest_value(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.array(args.len() - 2);
    for key in args.skip(2) {
        let mut digest = Digest::default();
        // As in Redis, due keys are shown.
        let db = cx.db_of(key);
        if let Some(id) = db.find(key) {
            digest.value(db.get(id));
        }
        reply.simple(digest.hex());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{DEBUG_DIGEST, DEBUG_DIGEST_VALUE};
    use crate::command::testing::Fixture;

    #[test]
    fn the_same_content_has_the_same_digest() {
        let (mut one, mut other) = (Fixture::new(), Fixture::sharded(8));
        for line in [
            "SET a 1",
            "SADD s 1 2 x",
            "RPUSH l 1 2",
            "HSET h f v g w",
            "ZADD z 1.5 m 2 n",
        ] {
            one.run(line);
        }
        for line in [
            "ZADD z 2 n 1.5 m",
            "HSET h g w f v",
            "RPUSH l 1 2",
            "SADD s x 2 1",
            "SET a 1",
        ] {
            other.run(line);
        }
        let all = |fixture: &mut Fixture| fixture.run_row(&DEBUG_DIGEST, "DEBUG DIGEST");
        let same = all(&mut one);
        assert_eq!(all(&mut other), same);
        // The digest of redis-server 7.0 for these keys.
        assert_eq!(same, "+056e78d8c4f7f4e5501f95703d221fe0b3e8bc2d");
        for line in ["PEXPIRE a 100", "RPUSH l 3", "HSET h f w"] {
            let before = all(&mut other);
            other.run(line);
            assert_ne!(all(&mut other), before, "{line}");
        }
        let of = |fixture: &mut Fixture| {
            fixture.run_row(&DEBUG_DIGEST_VALUE, "DEBUG DIGEST-VALUE s nope")
        };
        assert_eq!(of(&mut one), of(&mut other));
        assert!(of(&mut one).ends_with(" +0000000000000000000000000000000000000000"));
    }
}
