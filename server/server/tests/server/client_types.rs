//! Lists, hashes, sets, sorted sets, bits and HyperLogLogs through the `redis` crate, in both
//! protocols. The expected results are Redis's.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use punctual_server::Server;
use redis::{Client, Commands, Connection, Direction, ErrorKind, LposOptions, ServerErrorKind};

/// Timeout for a reply, generous for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn in_both_protocols(test: impl Fn(&mut Connection)) {
    for query in ["?protocol=resp2", "?protocol=resp3"] {
        let server = Server::builder().port(0).spawn().unwrap();
        let url = format!("redis://127.0.0.1:{}/{query}", server.port());
        let mut connection = Client::open(url).unwrap().get_connection().unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        test(&mut connection);
    }
}

fn set<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    items
        .into_iter()
        .map(|item| item.as_ref().to_owned())
        .collect()
}

#[test]
fn lists() {
    in_both_protocols(|con| {
        assert_eq!(con.rpush::<_, _, usize>("l", &["b", "c", "b"]).unwrap(), 3);
        assert_eq!(con.lpush::<_, _, usize>("l", "a").unwrap(), 4);
        assert_eq!(con.lpush_exists::<_, _, usize>("no", "a").unwrap(), 0);
        let all: Vec<String> = con.lrange("l", 0, -1).unwrap();
        assert_eq!(all, ["a", "b", "c", "b"]);
        assert_eq!(con.lindex::<_, Option<String>>("l", 9).unwrap(), None);
        assert_eq!(
            con.linsert_before::<_, _, _, isize>("l", "c", "bb")
                .unwrap(),
            5
        );
        let places: Vec<usize> = con.lpos("l", "b", LposOptions::default().count(0)).unwrap();
        assert_eq!(places, [1, 4]);
        assert_eq!(con.lrem::<_, _, usize>("l", -1, "b").unwrap(), 1);
        let () = con.lset("l", 0, "A").unwrap();
        let moved: String = con
            .lmove("l", "m", Direction::Right, Direction::Left)
            .unwrap();
        assert_eq!(moved, "c");
        let popped: Option<(String, Vec<String>)> =
            con.lmpop(2, &["no", "l"], Direction::Left, 2).unwrap();
        assert_eq!(popped, Some(("l".into(), vec!["A".into(), "b".into()])));
        assert_eq!(con.lpop::<_, Vec<String>>("l", None).unwrap(), ["bb"]);
        assert!(!con.exists::<_, bool>("l").unwrap());

        // The list has many nodes, and one item that is larger than a node.
        for chunk in (0..10_000_u32).collect::<Vec<_>>().chunks(1_000) {
            let () = con.rpush("big", chunk).unwrap();
        }
        let huge = "x".repeat(100_000);
        let () = con.rpush("big", &huge).unwrap();
        assert_eq!(con.lindex::<_, u32>("big", 5_000).unwrap(), 5_000);
        assert_eq!(con.lindex::<_, String>("big", -1).unwrap(), huge);
        let () = con.ltrim("big", 10, -11).unwrap();
        assert_eq!(con.llen::<_, usize>("big").unwrap(), 9_981);
    });
}

#[test]
fn hashes() {
    in_both_protocols(|con| {
        let () = con
            .hset_multiple("h", &[("name", "Ada"), ("born", "1815")])
            .unwrap();
        let all: HashMap<String, String> = con.hgetall("h").unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all["name"], "Ada");
        assert_eq!(con.hincr::<_, _, _, i64>("h", "born", 1).unwrap(), 1816);
        assert_eq!(con.hincr::<_, _, _, f64>("h", "share", 0.5).unwrap(), 0.5);
        let some: Vec<Option<String>> = con.hmget("h", &["name", "no"]).unwrap();
        assert_eq!(some, [Some("Ada".into()), None]);
        assert!(!con.hset_nx::<_, _, _, bool>("h", "name", "Grace").unwrap());
        assert_eq!(con.hdel::<_, _, usize>("h", &["share", "no"]).unwrap(), 1);
        assert_eq!(
            con.hkeys::<_, BTreeSet<String>>("h").unwrap(),
            set(["born", "name"])
        );

        for n in 0..1_000 {
            let () = con.hset("many", format!("f{n}"), n).unwrap();
        }
        let seen: HashMap<String, u32> = con
            .hscan::<_, (String, u32)>("many")
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(seen.len(), 1_000);
        assert_eq!(seen["f999"], 999);

        // Deadlines of fields (Redis 7.4).
        let set: Vec<i64> = redis::cmd("HPEXPIRE")
            .arg(&["h", "600000", "FIELDS", "2", "name", "no"])
            .query(con)
            .unwrap();
        assert_eq!(set, [1, -2]);
        let left: Vec<i64> = redis::cmd("HTTL")
            .arg(&["h", "FIELDS", "2", "name", "born"])
            .query(con)
            .unwrap();
        assert!((599..=600).contains(&left[0]) && left[1] == -1, "{left:?}");
    });
}

#[test]
fn sets() {
    in_both_protocols(|con| {
        assert_eq!(con.sadd::<_, _, usize>("odd", &[1, 3, 5, 5]).unwrap(), 3);
        assert_eq!(con.sadd::<_, _, usize>("small", &[1, 2, 3]).unwrap(), 3);
        let both: HashSet<i64> = con.sinter(&["odd", "small"]).unwrap();
        assert_eq!(both, HashSet::from([1, 3]));
        let all: HashSet<i64> = con.sunion(&["odd", "small"]).unwrap();
        assert_eq!(all.len(), 4);
        assert_eq!(
            con.sdiffstore::<_, _, usize>("rest", &["odd", "small"])
                .unwrap(),
            1
        );
        assert_eq!(con.smembers::<_, Vec<i64>>("rest").unwrap(), [5]);
        assert!(con.sismember::<_, _, bool>("odd", 3).unwrap());
        let are: Vec<bool> = con.smismember("odd", &[3, 4]).unwrap();
        assert_eq!(are, [true, false]);
        assert!(con.smove::<_, _, _, bool>("odd", "small", 5).unwrap());
        let drawn: HashSet<i64> = con.srandmember_multiple("small", 10).unwrap();
        assert_eq!(drawn, HashSet::from([1, 2, 3, 5]));
        let popped: Option<i64> = con.spop("odd").unwrap();
        assert!(matches!(popped, Some(1 | 3)));

        let names: HashSet<String> = (0..2_000).map(|n| format!("m{n}")).collect();
        let () = con.sadd("many", names.iter().collect::<Vec<_>>()).unwrap();
        let seen: HashSet<String> = con.sscan("many").unwrap().map(Result::unwrap).collect();
        assert_eq!(seen, names);
    });
}

#[test]
fn sorted_sets() {
    in_both_protocols(|con| {
        let scores = [(3.5, "c"), (1.0, "a"), (2.0, "b"), (f64::INFINITY, "last")];
        assert_eq!(
            con.zadd_multiple::<_, _, _, usize>("z", &scores).unwrap(),
            4
        );
        let all: Vec<(String, f64)> = con.zrange_withscores("z", 0, -1).unwrap();
        assert_eq!(
            all,
            [
                ("a".into(), 1.0),
                ("b".into(), 2.0),
                ("c".into(), 3.5),
                ("last".into(), f64::INFINITY)
            ]
        );
        assert_eq!(
            con.zscore::<_, _, Option<f64>>("z", "c").unwrap(),
            Some(3.5)
        );
        assert_eq!(con.zscore::<_, _, Option<f64>>("z", "no").unwrap(), None);
        assert_eq!(con.zincr::<_, _, _, f64>("z", "a", 0.1).unwrap(), 1.1);
        assert_eq!(con.zrank::<_, _, Option<usize>>("z", "c").unwrap(), Some(2));
        assert_eq!(
            con.zrevrank::<_, _, Option<usize>>("z", "c").unwrap(),
            Some(1)
        );
        let middle: Vec<String> = con.zrangebyscore("z", "(1.1", 3.5).unwrap();
        assert_eq!(middle, ["b", "c"]);
        let first: Vec<String> = con.zrangebyscore_limit("z", "-inf", "+inf", 1, 1).unwrap();
        assert_eq!(first, ["b"]);
        assert_eq!(con.zcount::<_, _, _, usize>("z", 2, "+inf").unwrap(), 3);

        let other = [(10.0, "b"), (20.0, "d")];
        let () = con.zadd_multiple("y", &other).unwrap();
        assert_eq!(con.zunionstore::<_, _, usize>("u", &["z", "y"]).unwrap(), 5);
        assert_eq!(con.zscore::<_, _, f64>("u", "b").unwrap(), 12.0);
        assert_eq!(
            con.zinterstore_min::<_, _, usize>("i", &["z", "y"])
                .unwrap(),
            1
        );
        assert_eq!(con.zscore::<_, _, f64>("i", "b").unwrap(), 2.0);
        let popped: Option<(String, Vec<(String, f64)>)> = con.zmpop_min(&["no", "y"], 1).unwrap();
        assert_eq!(popped, Some(("y".into(), vec![("b".into(), 10.0)])));
        let least: Vec<(String, f64)> = con.zpopmin("z", 1).unwrap();
        assert_eq!(least, [("a".into(), 1.1)]);

        let words: Vec<(u8, String)> = (b'a'..=b'z')
            .map(|c| (0, char::from(c).to_string()))
            .collect();
        let () = con.zadd_multiple("words", &words).unwrap();
        let some: Vec<String> = con.zrangebylex("words", "[b", "(e").unwrap();
        assert_eq!(some, ["b", "c", "d"]);
        assert_eq!(
            con.zrembylex::<_, _, _, usize>("words", "-", "[x").unwrap(),
            24
        );
        let seen: HashMap<String, f64> = con
            .zscan::<_, (String, f64)>("words")
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(seen.len(), 2);
    });
}

#[test]
fn bits_hyperloglogs_and_geo() {
    in_both_protocols(|con| {
        assert!(!con.setbit::<_, bool>("bits", 7, true).unwrap());
        assert!(con.getbit::<_, bool>("bits", 7).unwrap());
        assert_eq!(con.bitcount::<_, usize>("bits").unwrap(), 1);
        let fields: Vec<Option<i64>> = redis::cmd("BITFIELD")
            .arg(&[
                "counts", "OVERFLOW", "FAIL", "INCRBY", "u2", "0", "3", "INCRBY", "u2", "0", "1",
            ])
            .query(con)
            .unwrap();
        assert_eq!(fields, [Some(3), None]);

        for chunk in (0..5_000_u32).collect::<Vec<_>>().chunks(500) {
            let () = con.pfadd("seen", chunk).unwrap();
        }
        let estimate: i64 = con.pfcount("seen").unwrap();
        assert!((4_900..=5_100).contains(&estimate), "{estimate}");

        let added: usize = redis::cmd("GEOADD")
            .arg(&[
                "sicily",
                "13.361389",
                "38.115556",
                "Palermo",
                "15.087269",
                "37.502669",
                "Catania",
            ])
            .query(con)
            .unwrap();
        assert_eq!(added, 2);
        let distance: f64 = redis::cmd("GEODIST")
            .arg(&["sicily", "Palermo", "Catania", "km"])
            .query(con)
            .unwrap();
        assert!((distance - 166.2742).abs() < 1e-9, "{distance}");
        let near: Vec<(String, f64)> = redis::cmd("GEOSEARCH")
            .arg(&[
                "sicily",
                "FROMLONLAT",
                "15",
                "37",
                "BYRADIUS",
                "200",
                "km",
                "ASC",
                "WITHDIST",
            ])
            .query(con)
            .unwrap();
        assert_eq!(
            near.iter()
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>(),
            ["Catania", "Palermo"]
        );
    });
}

#[test]
fn sorting_and_wrong_types() {
    in_both_protocols(|con| {
        let () = con.rpush("ids", &[3, 1, 2]).unwrap();
        for (id, name) in [(1, "one"), (2, "two"), (3, "three")] {
            let () = con.hset(format!("user:{id}"), "name", name).unwrap();
        }
        let names: Vec<String> = redis::cmd("SORT")
            .arg(&["ids", "DESC", "GET", "user:*->name"])
            .query(con)
            .unwrap();
        assert_eq!(names, ["three", "two", "one"]);

        let error = con.sadd::<_, _, usize>("ids", 1).unwrap_err();
        assert!(
            error.code() == Some("WRONGTYPE")
                || matches!(
                    error.kind(),
                    ErrorKind::Server(ServerErrorKind::ResponseError)
                ),
            "{error:?}"
        );
        assert_eq!(con.llen::<_, usize>("ids").unwrap(), 3);
    });
}
