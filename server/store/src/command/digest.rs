//! DEBUG DIGEST and DIGEST-VALUE: digests of the keyspace's content. Two servers with the same keys
//! and values have the same digest (see [`Digest`]).

use punctual_resp::{Args, Reply};

use crate::error::Error;
use crate::keyspace::records::Record;
use crate::spec::{Flags, Group};
use crate::time::NEVER;
use crate::turn::{Command, Cx};
use crate::value::digest::Digest;

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

/// Adds a key's value to a digest, and whether the key has a deadline.
fn add_record(to: &mut Digest, record: &Record) {
    let content = record.value.content();
    to.chain(&content.facts().number.to_be_bytes());
    content.digest(to);
    if record.deadline != NEVER {
        to.add(b"!!expire!!");
    }
}

fn hex(digest: &Digest) -> String {
    digest.0.iter().map(|byte| format!("{byte:02x}")).collect()
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
                add_record(&mut key, record);
                all.add(&key.0);
            }
        }
    }
    reply.simple(hex(&all));
    Ok(())
}

fn digest_value(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    reply.array(args.len() - 2);
    for key in args.skip(2) {
        let mut digest = Digest::default();
        // As in Redis, due keys are shown.
        let db = cx.db_of(key);
        if let Some(id) = db.find(key) {
            add_record(&mut digest, db.get(id));
        }
        reply.simple(hex(&digest));
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
        // redis-server 7.0 has this digest for these keys.
        assert_eq!(same, "+056e78d8c4f7f4e5501f95703d221fe0b3e8bc2d");
        for line in ["PEXPIRE a 100", "RPUSH l 3", "HSET h f w"] {
            let before = all(&mut other);
            other.run(line);
            assert_ne!(all(&mut other), before, "{line}");
        }
        let digest_values = |fixture: &mut Fixture| {
            fixture.run_row(&DEBUG_DIGEST_VALUE, "DEBUG DIGEST-VALUE s nope")
        };
        assert_eq!(digest_values(&mut one), digest_values(&mut other));
        assert!(digest_values(&mut one).ends_with(" +0000000000000000000000000000000000000000"));
    }
}
