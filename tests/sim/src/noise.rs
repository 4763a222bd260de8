//! Noise: commands of all families with random arguments on a few keys that several clients share.
//! Nobody checks the replies. Replicas and replayed files must have the same data in the end.

use crate::kernel::draws::Draws;
use crate::kernel::{MILLI, Nanos};
use crate::link::{Link, Prepared};
use crate::party::{Common, Party};
use crate::verdict;

/// Commands; `k` is replaced by a key, `f` by a short name, `n` by a number, `t` by a time in ms.
const COMMANDS: &[&str] = &[
    "SET k n",
    "SET k n PX t",
    "APPEND k f",
    "INCRBYFLOAT k 0.1",
    "SETRANGE k n f",
    "SETBIT k n 1",
    "GETDEL k",
    "GETEX k PX t",
    "MSETNX k n k n",
    "BITFIELD k INCRBY u8 n 7",
    "LPUSH k f f",
    "RPUSH k f n f",
    "LPOP k",
    "LINSERT k BEFORE f n",
    "LMOVE k k LEFT RIGHT",
    "LMPOP 2 k k RIGHT COUNT 2",
    "LREM k 1 f",
    "LTRIM k 0 n",
    "BLPOP k k 0.05",
    "BLMOVE k k LEFT LEFT 0.05",
    "BZPOPMIN k k 0.05",
    "HSET k f n f n",
    "HINCRBY k f n",
    "HDEL k f",
    "HPEXPIRE k t FIELDS 1 f",
    "HGETEX k PX t FIELDS 1 f",
    "HPERSIST k FIELDS 1 f",
    "SADD k f n f n",
    "SPOP k",
    "SREM k f",
    "SMOVE k k f",
    "SINTERSTORE k k k",
    "SUNIONSTORE k k k",
    "ZADD k n f n n",
    "ZINCRBY k n f",
    "ZPOPMIN k",
    "ZRANGESTORE k k 0 n",
    "ZUNIONSTORE k 2 k k",
    "ZREMRANGEBYRANK k 0 0",
    "GEOADD k 13.4 52.5 f",
    "PFADD k f n",
    "PFMERGE k k k",
    "XADD k * f n",
    "XADD k MAXLEN 5 * f n",
    "XTRIM k MAXLEN 3",
    "XGROUP CREATE k g 0 MKSTREAM",
    "XREADGROUP GROUP g f COUNT 2 STREAMS k >",
    "XAUTOCLAIM k g f 0 0",
    "XGROUP SETLEASE k g t",
    "XRETAIN k MAXAGE t",
    "PEXPIRE k t",
    "PEXPIREAT k n",
    "EXPIRE k 1 NX",
    "PERSIST k",
    "DEL k k",
    "UNLINK k",
    "RENAME k k",
    "COPY k k REPLACE",
    "COPY k k DB 7 REPLACE",
    "MOVE k 6",
    "SORT k ALPHA STORE k",
    "SELECT 5",
    "SELECT 6",
    "SWAPDB 5 6",
    "SWAPDB 6 7",
    "FLUSHDB",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "WATCH k",
    "EVAL return{redis.call('INCR',KEYS[1]),redis.call('SPOP',KEYS[2])} 2 k k",
    "EVAL return(redis.pcall('LPUSH',KEYS[1],'a','b')) 1 k",
    "TIMER SET k IN t DO LPUSH k f",
    "TIMER SET k EVERY 500 LIMIT 3 DO INCR k",
    // Ends of delays and leases are not logged, so the digests of primary and replica may differ.
    "JOB ADD k p",
    "PUBLISH f n",
    "RESTORE k 0 f",
    "DUMP k",
    "SCAN 0",
    "KEYS *",
    "RANDOMKEY",
    "MGET k k k",
    "HGETALL k",
    "XREAD STREAMS k 0",
    "SINTER k k",
    "OBJECT ENCODING k",
];

/// A client whose replies are only counted.
pub struct Noise {
    link: Link,
    keys: u64,
    pipeline: u64,
    missing: usize,
    has_selected: bool,
    done: u64,
}

impl Noise {
    pub fn new(nodes: usize, draws: &mut Draws) -> Self {
        Self {
            link: Link::new(nodes),
            keys: draws.between(2, 12),
            pipeline: draws.one_of(&[1, 3, 10]),
            missing: 0,
            has_selected: false,
            done: 0,
        }
    }

    fn line(&self, draws: &mut Draws) -> Vec<String> {
        let keys = self.keys;
        let command = COMMANDS[draws.index(COMMANDS.len())];
        let word = |word: &str| match word {
            "k" => format!("noise:{}", draws.below(keys)),
            "f" => format!("f{}", draws.below(5)),
            "n" => draws.below(12).to_string(),
            "t" => draws.between(1, 3_000).to_string(),
            word => word.to_owned(),
        };
        command.split(' ').map(word).collect()
    }
}

impl Party for Noise {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    fn act(&mut self, common: &mut Common, draws: &mut Draws) -> Option<Nanos> {
        match self.link.prepare() {
            Prepared::Later(pause) => return Some(pause),
            Prepared::Ready { .. } if self.missing == 0 => {}
            _ => return None,
        }
        if common.drains {
            return Some(50 * MILLI);
        }
        let mut lines = Vec::new();
        if !std::mem::replace(&mut self.has_selected, true) {
            lines.push(vec!["SELECT".to_owned(), "5".to_owned()]);
        }
        for _ in 0..draws.between(1, self.pipeline) {
            lines.push(self.line(draws));
        }
        self.missing = lines.len();
        lines.iter().for_each(|line| self.link.push(line));
        self.link.flush();
        None
    }

    fn changed(&mut self, _common: &mut Common, _draws: &mut Draws) -> bool {
        let arrived = self.link.read();
        for reply in &arrived.replies {
            let Some(left) = self.missing.checked_sub(1) else {
                verdict::stop(&format!("a reply without a command: {reply:.200?}"));
            };
            self.missing = left;
            self.done += 1;
            self.link.note_place(reply);
        }
        if arrived.lost || self.missing == 0 && self.link.moves() {
            self.lose();
        }
        arrived.lost || arrived.connected || self.missing == 0
    }

    fn lose(&mut self) {
        self.link.lose();
        self.missing = 0;
        self.has_selected = false;
    }

    fn done(&self) -> u64 {
        self.done
    }
}
