//! redis-rs's cluster mode: pipelines, transactions, blocking, sharded pub/sub, tokio, RESP2 and
//! RESP3, a slot that moves, a primary that is killed.
//!
//! Packages: redis

use redis::cluster::{ClusterClient, ClusterConnection, cluster_pipe};
use redis::{AsyncCommands, Commands, ProtocolVersion, PushKind};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fmt::Debug, sync::Mutex, thread};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

static CURRENT: Mutex<&str> = Mutex::new("start");

/// Prints the name of the next step.
fn step(name: &'static str) {
    *CURRENT.lock().unwrap() = name;
    println!("- {name}");
}

fn equal<T: PartialEq<U> + Debug, U: Debug>(actual: T, expected: U) -> Outcome {
    if actual == expected {
        Ok(())
    } else {
        Err(format!("{actual:?}, not {expected:?}").into())
    }
}

/// Sends a command to the control port of scripts/cluster, and waits until it is done.
fn control(command: &str) -> Outcome {
    let address = format!("127.0.0.1:{}", env::var("CLUSTER_CONTROL")?);
    let mut to = TcpStream::connect(address)?;
    writeln!(to, "{command}")?;
    let mut reply = String::new();
    BufReader::new(to).read_line(&mut reply)?;
    equal(reply, "ok\n")
}

fn commands(redis: &mut ClusterConnection) -> Outcome {
    step("keys of all slots");
    for n in 0..300 {
        let () = redis.set(format!("key:{n}"), n)?;
    }
    step("pipelines");
    let mut pipe = cluster_pipe();
    for n in 0..300 {
        pipe.get(format!("key:{n}"));
    }
    equal(pipe.query::<Vec<i32>>(redis)?, (0..300).collect::<Vec<_>>())?;
    step("one tag");
    let () = redis.mset(&[("{tag}1", 1), ("{tag}2", 2)])?;
    equal(redis.mget::<_, Vec<i32>>(&["{tag}1", "{tag}2"])?, [1, 2])
}

fn blocking(client: &ClusterClient) -> Outcome {
    step("blocking");
    let mut redis = client.get_connection()?;
    thread::scope(|scope| {
        let popped = scope.spawn(|| {
            let mut other = client.get_connection()?;
            other.blpop::<_, (String, String)>("{tag}queue", 10.0)
        });
        let () = redis.rpush("{tag}queue", "job")?;
        let popped = popped.join().unwrap()?;
        equal(popped, ("{tag}queue".into(), "job".into()))
    })
}

async fn asynchronous(address: &str) -> Outcome {
    step("tokio");
    let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    let client = ClusterClient::builder([address])
        .use_protocol(ProtocolVersion::RESP3)
        .push_sender(sender)
        .build()?;
    let redis = client.get_async_connection().await?;
    let many = futures_util::future::join_all((0..300).map(|n| {
        let mut redis = redis.clone();
        async move { redis.get::<_, i32>(format!("key:{n}")).await }
    }));
    let values: Vec<i32> = many.await.into_iter().collect::<Result<_, _>>()?;
    equal(values, (0..300).collect::<Vec<_>>())?;
    step("transactions");
    let mut redis = redis;
    let mut transaction = redis::pipe();
    transaction.atomic().incr("{tag}1", 1).incr("{tag}2", 1);
    let replies: (i32, i32) = transaction.query_async(&mut redis).await?;
    equal(replies, (2, 3))?;
    step("sharded pub/sub");
    redis.ssubscribe("{tag}news").await?;
    let () = redis.spublish("{tag}news", "hello").await?;
    let message = async {
        while let Some(push) = received.recv().await {
            if push.kind == PushKind::SMessage {
                return Some(push.data);
            }
        }
        None
    };
    let data = tokio::time::timeout(Duration::from_secs(10), message).await?;
    let data = data.ok_or("no message")?;
    equal(redis::from_redis_value::<String>(data[1].clone())?, "hello")
}

/// Writes keys to the slot of a tag and to other slots, each until it is acknowledged, while
/// `meanwhile` runs, and until a hundred more are acknowledged. Returns the number of keys.
fn write(client: &ClusterClient, tag: &str, meanwhile: &str) -> Outcome<usize> {
    let (acknowledged, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    let more = || -> Outcome {
        let goal = acknowledged.load(Ordering::SeqCst) + 100;
        let end = Instant::now() + Duration::from_secs(15);
        while acknowledged.load(Ordering::SeqCst) < goal {
            if Instant::now() > end {
                return Err("no hundred writes within 15 s".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    };
    let mut redis = client.get_connection()?;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stopped.load(Ordering::SeqCst) {
                let number = acknowledged.load(Ordering::SeqCst);
                match redis.set::<_, _, ()>(name_of(tag, number), number) {
                    Ok(()) => _ = acknowledged.fetch_add(1, Ordering::SeqCst),
                    Err(error) => {
                        println!("again: {error}");
                        thread::sleep(Duration::from_millis(10));
                        // A connection keeps to a node that refuses it. A new one asks for the
                        // owners of the slots.
                        if let Ok(new) = client.get_connection() {
                            redis = new;
                        }
                    }
                }
            }
        });
        let outcome = more()
            .and_then(|()| control(meanwhile))
            .and_then(|()| more());
        stopped.store(true, Ordering::SeqCst);
        outcome
    })?;
    Ok(acknowledged.into_inner())
}

fn name_of(tag: &str, number: usize) -> String {
    if number % 2 == 1 {
        format!("{{{tag}}}:{number}")
    } else {
        format!("{tag}:{number}")
    }
}

fn program() -> Outcome {
    let address = env::var("REDIS_URL")?;
    for protocol in [ProtocolVersion::RESP2, ProtocolVersion::RESP3] {
        let client = ClusterClient::builder([address.as_str()]).use_protocol(protocol);
        let client = client.build()?;
        commands(&mut client.get_connection()?)?;
        blocking(&client)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(asynchronous(&address))?;
    let client = ClusterClient::new([address])?;
    step("a slot moves");
    let written = write(&client, "moved", "move {moved} redirected")?;
    control("replicated")?;
    step("a primary is killed");
    write(&client, "killed", "kill {moved}")?;
    step("acknowledged writes");
    let mut redis = client.get_connection()?;
    for number in 0..written {
        equal(redis.get::<_, usize>(name_of("moved", number))?, number)?;
    }
    equal(redis.mget::<_, Vec<i32>>(&["{tag}1", "{tag}2"])?, [2, 3])
}

fn main() {
    match program() {
        Ok(()) => println!("works"),
        Err(error) => {
            let step = CURRENT.lock().unwrap();
            println!("fails: {step}: {error}");
            std::process::exit(1);
        }
    }
}
