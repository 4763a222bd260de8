//! Random words for the arguments of commands, by type and name.

use crate::command::Command;
use crate::draw::{Draw, Kind};

/// Returns a word for an argument of this type and name, after `token`. The word is sometimes
/// extreme or wrong, but never a time for which a command would block for long.
pub(super) fn of(draw: &mut Draw, group: &str, name: &str, kind: &str, token: &str) -> Vec<u8> {
    if name == "timeout" || token == "block" {
        return timeout(draw, kind);
    }
    if draw.chance(4) {
        return extreme(draw);
    }
    match kind {
        "key" => key(draw, group),
        "integer" => integer(draw, group, name),
        "double" => double(draw, name),
        "unix-time" => unix_time(draw, name),
        "pattern" => draw.pattern(),
        _ => string(draw, group, name),
    }
}

/// Returns a key, in most cases a key whose value has the type of the command's group.
pub(super) fn key(draw: &mut Draw, group: &str) -> Vec<u8> {
    let kind = match group {
        "list" => Kind::List,
        "hash" => Kind::Hash,
        "set" => Kind::Set,
        "sorted-set" | "sorted_set" => Kind::Zset,
        "stream" => return marked(draw, "stream"),
        "geo" => return draw.geo_key(),
        "hyperloglog" => return draw.hll_key(),
        _ => return draw.any_key(),
    };
    draw.key_of(kind)
}

/// Returns a command from a template without `$command` and `$script`.
pub(super) fn fill(draw: &mut Draw, template: &str) -> Command {
    let mut args = template.split(' ').map(|word| match word.split_once('$') {
        Some((before, mark)) if !mark.is_empty() => {
            [before.as_bytes(), &marked(draw, mark)].concat()
        }
        _ => word.into(),
    });
    let mut command = Command::new(args.next().unwrap_or_default());
    command.extend(args);
    command
}

/// Returns a random word for `$mark` in a template.
pub(super) fn marked(draw: &mut Draw, mark: &str) -> Vec<u8> {
    match mark {
        "n" => draw.between(0..=5).to_string().into(),
        "ms" => draw.between(1..=150).to_string().into(),
        "key" => draw.any_key(),
        "value" => draw.value(),
        "list" => key(draw, "list"),
        "zset" => key(draw, "sorted-set"),
        "stream" => one_of(draw, "x0 x1 x2 events:0 events:1"),
        "events" => one_of(draw, "A $ x g$lshz t n"),
        "pattern" => draw.pattern(),
        "library" => {
            let name = draw.between(0..=3);
            format!(
                "#!lua name=l{name}\nredis.register_function('f{name}', function(keys, args) \
                 redis.call('APPEND', keys[1], args[1]) return redis.call('STRLEN', keys[1]) end)"
            )
            .into()
        }
        _ => mark.into(),
    }
}

/// Returns one of the words of a text.
fn one_of(draw: &mut Draw, words: &str) -> Vec<u8> {
    let words: Vec<&str> = words.split(' ').collect();
    draw.pick(&words).into()
}

/// Returns a value, a number, a key, the name of an option, or an extreme word.
pub(super) fn any(draw: &mut Draw) -> Vec<u8> {
    const OPTIONS: &str = "COUNT MATCH EX PX NX XX GET LIMIT WITHSCORES STORE ASYNC REPLACE FIELDS MAXLEN STREAMS BY ON OFF \
        TYPE ID AT IN EVERY DO";
    match draw.between(0..=4) {
        0 => draw.any_key(),
        1 => draw.integer(),
        2 => one_of(draw, OPTIONS),
        3 => extreme(draw),
        _ => draw.value(),
    }
}

/// Returns an empty, very long or binary word, or an extreme number. A server refuses such a
/// number; it does not allocate that much memory or return that many elements.
pub(super) fn extreme(draw: &mut Draw) -> Vec<u8> {
    match draw.between(0..=49) {
        0 => draw.big_value(),
        1 => vec![b'x'; 100_000],
        2..=5 => draw
            .pick(&[&b"\0"[..], b"\0\0k\0", b"*\r\n$-1\r\n", b"\xff\xfe"])
            .to_vec(),
        _ => one_of(
            draw,
            " -1 -0 -9223372036854775808 9223372036854775807 9223372036854775808 18446744073709551615 \
             99999999999999999999999 nan inf -inf 1e400",
        ),
    }
}

/// Returns a short timeout, or a word that is not a valid timeout.
fn timeout(draw: &mut Draw, kind: &str) -> Vec<u8> {
    match kind {
        "double" => one_of(draw, "0.001 0.01 0.03 0.1 -1 nan x "),
        _ => one_of(draw, "1 10 30 100 -1 1.5 x "),
    }
}

fn unix_time(draw: &mut Draw, name: &str) -> Vec<u8> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ms = now.map_or(0, |now| now.as_millis() as i64);
    let at_ms = now_ms + draw.between(-1_000..=1_000);
    match name.contains("milli") || draw.chance(10) {
        true => at_ms.to_string().into(),
        false => (at_ms / 1_000 + 1).to_string().into(),
    }
}

fn integer(draw: &mut Draw, group: &str, name: &str) -> Vec<u8> {
    match name {
        // A large negative count would be wrong here: SRANDMEMBER and similar commands return as
        // many elements as it says, even from a small set.
        "count" => draw.sample_size(),
        "db" | "destination-db" | "index1" | "index2" => draw.database(),
        "index" if group == "connection" => draw.database(),
        "start" | "stop" | "end" | "index" | "offset" | "rank" => draw.index(),
        "seconds" | "milliseconds" | "ttl" | "ms" => marked(draw, "ms"),
        "cursor" => draw.between(0..=3).to_string().into(),
        "client-id" => draw.between(1..=200).to_string().into(),
        _ => draw.integer(),
    }
}

fn double(draw: &mut Draw, name: &str) -> Vec<u8> {
    match name {
        "score" | "increment" => draw.score(),
        "longitude" => draw.longitude(),
        "latitude" => draw.latitude(),
        "radius" | "width" | "height" => draw.between(0..=3_000).to_string().into(),
        _ => draw.float(),
    }
}

fn string(draw: &mut Draw, group: &str, name: &str) -> Vec<u8> {
    let words = match name {
        "id" | "start" | "end" | "lastid" | "last-id" if group == "stream" => {
            "0 0-0 $ > * - + 1-1 5-* (1-0 99999999999999-1"
        }
        "min" | "max" if draw.chance(50) => return draw.score_bound(),
        "min" | "max" => return draw.lex_bound(),
        "group" => "g0 g1",
        "consumer" => "c0 c1 c2",
        "channel" | "shardchannel" => "ch0 ch1 ch2",
        "username" => "u0 u1 u2",
        "password" => "pw x",
        "rule" => {
            "on off nopass >pw <pw resetpass ~* ~k* %R~k* %W~l* &* resetchannels +@all -@all +get -set +client|id +@read \
             reset clearselectors"
        }
        "category" => "read write dangerous x",
        "function" => "f0 f1 f2 f3",
        "library-name" => "l0 l1",
        "function-code" => return marked(draw, "library"),
        "script" => return b"return redis.call('GET', KEYS[1])".to_vec(),
        // The first word is the digest of the script "return 1".
        "sha1" => "e0e1f9fabfc9d4800c877a703b823ac0578ff831 0",
        "encoding" => "u8 i5 u63 i64 u64 u0",
        "section" => "all everything keyspace stats commandstats x",
        "parameter" => "* max* save x",
        "host" | "ip" | "ip:port" => "127.0.0.1 127.0.0.1:1",
        "member" | "element" | "field" | "member1" | "member2" | "pivot" => return draw.element(),
        _ => return draw.value(),
    };
    one_of(draw, words)
}
