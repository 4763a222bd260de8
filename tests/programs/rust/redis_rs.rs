//! redis-rs: types, pipelines, transactions, scripts, EVAL, EVALSHA, FCALL, pub/sub, scans,
//! blocking, RESP2, RESP3, tokio, reconnection.
//!
//! Packages: redis

use futures_util::StreamExt;
use redis::{AsyncCommands, Commands, ErrorKind, Script, Value};
use std::{collections::HashMap, collections::HashSet, env, fmt::Debug, thread, time::Duration};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Prints the name of the next step.
fn step(current: &mut String, name: &str) {
    *current = name.to_owned();
    println!("- {name}");
}

fn equal<T: PartialEq + Debug, U: Debug>(actual: T, expected: U) -> Outcome
where
    T: PartialEq<U>,
{
    if actual == expected {
        Ok(())
    } else {
        Err(format!("{actual:?}, not {expected:?}").into())
    }
}

fn synchronous(client: &redis::Client, protocol: &str, current: &mut String) -> Outcome {
    let mut redis = client.get_connection()?;
    redis::cmd("FLUSHALL").exec(&mut redis)?;
    step(current, &format!("{protocol}: types"));
    let _: () = redis.set_ex("s", 1, 60)?;
    equal(redis.incr::<_, _, i64>("s", 4)?, 5)?;
    let _: () = redis.hset_multiple("h", &[("a", "1"), ("b", "two")])?;
    equal(redis.hgetall::<_, HashMap<String, String>>("h")?.len(), 2)?;
    let _: () = redis.zadd_multiple("z", &[(2, "b"), (1, "a")])?;
    equal(
        redis.zrange_withscores::<_, Vec<(String, f64)>>("z", 0, -1)?,
        [("a".into(), 1.0), ("b".into(), 2.0)],
    )?;
    equal(redis.get::<_, Option<String>>("none")?, None)?;
    step(current, &format!("{protocol}: pipelines and transactions"));
    equal(
        redis::pipe()
            .set("m", 1)
            .ignore()
            .incr("m", 1)
            .get("m")
            .query::<(i64, String)>(&mut redis)?,
        (2, "2".into()),
    )?;
    let mut tries = 0;
    let mut other = client.get_connection()?;
    let (value,): (i64,) = redis::transaction(&mut redis, &["m"], |redis, pipe| {
        tries += 1;
        let value: i64 = redis.get("m")?;
        if tries == 1 {
            let _: () = other.set("m", 10)?;
        }
        pipe.set("m", value + 1).ignore().get("m").query(redis)
    })?;
    equal((value, tries), (11, 2))?;
    step(current, &format!("{protocol}: EVAL and EVALSHA"));
    let reply: (String, String, i64, Option<i64>, Vec<String>) = redis::cmd("EVAL")
        .arg("return {KEYS[1], ARGV[1], 3, false, {'x'}}")
        .arg(1)
        .arg("k")
        .arg("v")
        .query(&mut redis)?;
    equal(reply, ("k".into(), "v".into(), 3, None, vec!["x".into()]))?;
    let add = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    equal(add.key("s").arg(10).invoke::<i64>(&mut redis)?, 15)?;
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut redis)?;
    equal(add.key("s").arg(10).invoke::<i64>(&mut redis)?, 25)?;
    let gone: Result<Value, _> = redis::cmd("EVALSHA")
        .arg("0".repeat(40))
        .arg(0)
        .query(&mut redis);
    equal(
        gone.unwrap_err().kind(),
        ErrorKind::Server(redis::ServerErrorKind::NoScript),
    )?;
    let refused: Result<Value, _> = redis::cmd("EVAL")
        .arg("return redis.error_reply('MINE said no')")
        .arg(0)
        .query(&mut redis);
    let refused = refused.unwrap_err();
    equal(
        (refused.code(), refused.detail()),
        (Some("MINE"), Some("said no")),
    )?;
    step(current, &format!("{protocol}: FCALL"));
    let library = "#!lua name=ours\nredis.register_function('put', function(k, a) return redis.call('SET', k[1], a[1]) end)";
    equal(
        redis::cmd("FUNCTION")
            .arg("LOAD")
            .arg("REPLACE")
            .arg(library)
            .query::<String>(&mut redis)?,
        "ours",
    )?;
    equal(
        redis::cmd("FCALL")
            .arg("put")
            .arg(1)
            .arg("f")
            .arg("v")
            .query::<String>(&mut redis)?,
        "OK",
    )?;
    equal(redis.get::<_, String>("f")?, "v")?;
    step(current, &format!("{protocol}: pub/sub"));
    let mut pubsub = other.as_pubsub();
    pubsub.subscribe("news")?;
    let _: () = redis.publish("news", "hello")?;
    equal(pubsub.get_message()?.get_payload::<String>()?, "hello")?;
    drop(pubsub);
    step(current, &format!("{protocol}: scans"));
    for n in 0..300 {
        let _: () = redis.set(format!("many:{n}"), n)?;
    }
    let found: HashSet<String> = redis.scan_match("many:*")?.collect::<Result<_, _>>()?;
    equal(found.len(), 300)?;
    step(current, &format!("{protocol}: blocking"));
    let popped = thread::spawn({
        let client = client.clone();
        move || {
            client
                .get_connection()?
                .blpop::<_, (String, String)>("queue", 5.0)
        }
    });
    let _: () = redis.rpush("queue", "job")?;
    equal(popped.join().unwrap()?, ("queue".into(), "job".into()))
}

async fn asynchronous(client: &redis::Client, current: &mut String) -> Outcome {
    step(current, "tokio");
    let redis = client.get_multiplexed_async_connection().await?;
    let many = futures_util::future::join_all((0..50).map(|_| {
        let mut redis = redis.clone();
        async move { redis.incr::<_, _, i64>("shared", 1).await }
    }));
    let mut seen: Vec<i64> = many.await.into_iter().collect::<Result<_, _>>()?;
    seen.sort_unstable();
    equal(seen, (1..=50).collect::<Vec<_>>())?;
    let add = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    equal(
        add.key("shared")
            .arg(50)
            .invoke_async::<i64>(&mut redis.clone())
            .await?,
        100,
    )?;
    let (mut sink, mut stream) = client.get_async_pubsub().await?.split();
    sink.psubscribe("n*").await?;
    let _: () = redis.clone().publish("news", "hello").await?;
    equal(
        stream
            .next()
            .await
            .ok_or("no message")?
            .get_payload::<String>()?,
        "hello",
    )?;
    step(current, "reconnection");
    let mut manager = client.get_connection_manager().await?;
    let _: () = manager.set("kept", 1).await?;
    let _: Value = redis::cmd("CLIENT")
        .arg("KILL")
        .arg("TYPE")
        .arg("normal")
        .query_async(&mut redis.clone())
        .await?;
    for _ in 0..500 {
        if let Ok(value) = manager.get::<_, i64>("kept").await {
            return equal(value, 1);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err("not connected again".into())
}

fn program(current: &mut String) -> Outcome {
    let url = env::var("REDIS_URL")?;
    synchronous(&redis::Client::open(url.as_str())?, "RESP2", current)?;
    let resp3 = redis::Client::open(format!("{url}/?protocol=resp3"))?;
    synchronous(&resp3, "RESP3", current)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(asynchronous(&redis::Client::open(url)?, current))
}

fn main() {
    let mut current = String::from("start");
    match program(&mut current) {
        Ok(()) => println!("works"),
        Err(error) => {
            println!("fails: {current}: {error}");
            std::process::exit(1);
        }
    }
}
