//! A client on tokio that retries requests. Each attempt has a time limit, and all attempts
//! together have another.
//!
//!     cargo run -p punctual --features async --example retries
use std::time::{Duration, Instant};

use punctual::future::{Elapsed, sleep, timeout, timeout_at};
use tokio::sync::{mpsc, oneshot};

/// A number, and the channel for the reply: the number's square.
type Request = (u32, oneshot::Sender<u32>);

/// Answers every third request and lets the other requests time out.
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

/// Sends a request until a reply comes or `deadline` has passed. Returns the reply and the number
/// of attempts. Pauses 2 ms after the first failure, and twice as long after each further failure.
async fn request(
    server: &mpsc::Sender<Request>,
    number: u32,
    deadline: Instant,
) -> Result<(u32, u32), Elapsed> {
    timeout_at(deadline, async {
        let mut pause = Duration::from_millis(2);
        for attempt in 1.. {
            let (sender, reply) = oneshot::channel();
            server
                .send((number, sender))
                .await
                .expect("the server runs");
            match timeout(Duration::from_millis(10), reply).await {
                Ok(Ok(answer)) => return (answer, attempt),
                Ok(Err(_)) => println!("attempt {attempt}: the server has hung up"),
                Err(Elapsed) => println!("attempt {attempt}: no answer within 10 ms"),
            }
            sleep(pause).await;
            pause *= 2;
        }
        unreachable!("the loop ends only with a return")
    })
    .await
}

/// Sends a request that is answered in time, and a request that is not.
#[tokio::main]
pub async fn main() {
    let (sender, requests) = mpsc::channel(10);
    let server = tokio::spawn(server(requests));

    let late_deadline = Instant::now() + Duration::from_secs(60);
    let (answer, attempts) = request(&sender, 12, late_deadline)
        .await
        .expect("an answer");
    println!("{answer} after {attempts} attempts");
    assert_eq!((answer, attempts % 3), (144, 0));
    let early_deadline = Instant::now() + Duration::from_millis(15);
    assert_eq!(request(&sender, 12, early_deadline).await, Err(Elapsed));

    drop(sender);
    server.await.expect("the server does not panic");
    // The runtime drops the tasks that still sleep.
}
