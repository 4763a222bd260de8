//! Ships orders in batches: when ten orders have come, or 20 ms after the first order of the batch.
//! `select!` waits for a channel, a timer and a ticker at once.
//!
//!     cargo run -p punctual --example batches
use std::thread;
use std::time::Duration;

use punctual::time::crossbeam_channel::{Receiver, bounded};
use punctual::time::{Ticker, Timer, select, sleep};

const FULL: usize = 10;
const MAX_WAIT: Duration = Duration::from_millis(20);

/// Ships orders until the channel is disconnected. Returns the batches.
fn ship(orders: &Receiver<u32>) -> Vec<Vec<u32>> {
    let mut shipped = Vec::new();
    let mut batch = Vec::new();
    // Armed while a batch has orders and is not full.
    let wait_limit = Timer::new(MAX_WAIT);
    wait_limit.stop();
    let report = Ticker::new(Duration::from_millis(50)).expect("the period is not zero");
    loop {
        select! {
            recv(orders) -> order => {
                let Ok(order) = order else { break };
                batch.push(order);
                if batch.len() == 1 {
                    wait_limit.reset(MAX_WAIT).expect("the timer was stopped or has fired");
                }
            }
            recv(wait_limit.c()) -> _ => {
                println!("the first order has waited {MAX_WAIT:?}: {} orders", batch.len());
                shipped.push(std::mem::take(&mut batch));
            }
            recv(report.c()) -> _ => println!("{} batches so far", shipped.len()),
        }
        if batch.len() == FULL {
            wait_limit.stop(); // also empties its channel if it has just fired
            println!("a full batch");
            shipped.push(std::mem::take(&mut batch));
        }
    }
    if !batch.is_empty() {
        shipped.push(batch);
    }
    shipped
}

/// Sends 25 orders at once, and one more after a pause.
pub fn main() {
    let (sender, orders) = bounded(100);
    let shop = thread::spawn(move || {
        (0..25).for_each(|order| sender.send(order).expect("the orders are received"));
        sleep(3 * MAX_WAIT);
        sender.send(25).expect("the orders are received");
    });
    let shipped = ship(&orders);
    shop.join().expect("the shop does not panic");

    // Usually four batches: two full batches, five orders that waited, and the last order.
    assert!(
        shipped
            .iter()
            .all(|batch| (1..=FULL).contains(&batch.len()))
    );
    assert!(shipped.len() >= 3, "{} batches", shipped.len());
    assert!(shipped.into_iter().flatten().eq(0..26));
}
