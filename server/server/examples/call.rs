//! Compares commands that are called in the server's process with a command over a socket. Prints
//! the time of each command: the median of nine rounds.
//!
//!     cargo run --release -p punctual-server --example call

use std::hint::black_box;
use std::time::{Duration, Instant};

use punctual_server::{CommandRow, Flags, Group, Server};

const ROUNDS: usize = 9;

/// Returns the median time of one call in nanoseconds.
fn measure(calls: u32, mut call: impl FnMut()) -> f64 {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                call();
            }
            start.elapsed()
        })
        .collect();
    times.sort();
    times[ROUNDS / 2].as_secs_f64() * 1e9 / f64::from(calls)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let row = CommandRow::new("get-it", 2, Flags::READONLY, Group::String, ()).keys(1, 1, 1);
    let server = Server::builder()
        .port(0)
        .command(row, |call| {
            call.call(&[b"GET", call.arg(1).unwrap_or_default()])
        })
        .spawn()?;
    let mut client = server.client()?;
    let mut redis =
        redis::Client::open(format!("redis://127.0.0.1:{}/", server.port()))?.get_connection()?;
    client.call(&["SET", "key", "a value of 24 bytes ..."])?;
    let get = measure(300_000, || {
        black_box(client.call(&["GET", "key"]).ok());
    });
    let set = measure(300_000, || {
        black_box(client.call(&["SET", "key", "a value of 24 bytes ..."]).ok());
    });
    let any = measure(300_000, || {
        black_box(server.call(&["GET", "key"]).ok());
    });
    let batch = vec![["GET", "key"]; 64];
    let pipeline = measure(5_000, || {
        black_box(client.pipeline(&batch).ok());
    }) / 64.0;
    let own = measure(10_000, || {
        black_box(client.call(&["GET-IT", "key"]).ok());
    });
    let socket = measure(10_000, || {
        black_box(
            redis::cmd("GET")
                .arg("key")
                .query::<Vec<u8>>(&mut redis)
                .ok(),
        );
    });
    println!("| command | ns |\n|---|---|");
    for (name, ns) in [
        ("Client::call, GET", get),
        ("Client::call, SET", set),
        ("Server::call, GET", any),
        ("Client::pipeline, 64 GET, each", pipeline),
        ("Client::call, an own command that calls GET", own),
        ("GET over a socket, redis-rs", socket),
    ] {
        println!("| {name} | {ns:.0} |");
    }
    let verdict = if get <= 500.0 { "PASS" } else { "MISS" };
    println!("GET in the process: {get:.0} ns, bar 500 ns: {verdict}");
    Ok(())
}
