//! A client that retries, on tokio: each attempt has a time limit, and so have all attempts
//! together.
//!
//!     cargo run -p punctual --features async --example retries
use std::time::{Duration, Instant};

use punctual::future::{Elapsed, sleep, timeout, timeout_at};
use tokio::sync::{mpsc, oneshot};

/// A request: a number, and the channel of the reply.
type Request = (u32, oneshot::Sender<u32>);

/// Ignores two of three requests.
async fn server(mut requests: mpsc::Receiver<Request>) {
    let mut seen = 0;
    while let Some((number, reply)) = requests.recv().await {
        seen += 1;
        if seen % 3 == 0 {
            let _ = reply.send(number * number); // the client may have given up
        } else {
            tokio::spawn(async move {
                sleep(Duration::from_secs(3600)).await;
                drop(reply);
            });
        }
    }
}

/// Retries until there is a reply or `deadline` has passed. Waits 2 ms after the first failure,
/// then twice as long each time.
async fn ask(
    server: &mpsc::Sender<Request>,
    number: u32,
    deadline: Instant,
) -> Result<(u32, u32), Elapsed> {
    timeout_at(deadline, async {
        let mut pause = Duration::from_millis(2);
        for attempt in 1.. {
            let (sender, reply) = oneshot::channel();
            server.send((number, sender)).await.expect("it runs");
            match timeout(Duration::from_millis(10), reply).await {
                Ok(Ok(answer)) => return (answer, attempt),
                Ok(Err(_)) => println!("attempt {attempt}: the server has hung up"),
                Err(Elapsed) => println!("attempt {attempt}: no answer within 10 ms"),
            }
            sleep(pause).await;
            pause *= 2;
        }
        unreachable!("it goes on until its time is up")
    })
    .await
}

/// One question that is answered in time, and one that is not.
#[tokio::main]
pub async fn main() {
    let (sender, requests) = mpsc::channel(10);
    let server = tokio::spawn(server(requests));

    let patient = Instant::now() + Duration::from_secs(60);
    let (answer, attempts) = ask(&sender, 12, patient).await.expect("an answer");
    println!("{answer} after {attempts} attempts");
    assert_eq!((answer, attempts % 3), (144, 0));
    let hurried = Instant::now() + Duration::from_millis(15);
    assert_eq!(ask(&sender, 12, hurried).await, Err(Elapsed));

    drop(sender);
    server.await.expect("the server ends in peace");
    // The runtime drops tasks that still sleep.
}
