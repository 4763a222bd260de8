//! Ships orders in batches: as soon as there are ten, or 20 ms after the first one. `select!` waits
//! for channels, timers and a ticker at once.
//!
//!     cargo run -p punctual --example batches
use std::thread;
use std::time::Duration;

use punctual::time::crossbeam_channel::{Receiver, bounded};
use punctual::time::{Ticker, Timer, select, sleep};

const FULL: usize = 10;
const PATIENCE: Duration = Duration::from_millis(20);

/// Ships orders until the channel is disconnected. Returns the batches.
fn ship(orders: &Receiver<u32>) -> Vec<Vec<u32>> {
    let mut shipped = Vec::new();
    let mut batch = Vec::new();
    // Armed while a batch is incomplete.
    let patience = Timer::new(PATIENCE);
    patience.stop();
    let report = Ticker::new(Duration::from_millis(50)).expect("more than no time");
    loop {
        select! {
            recv(orders) -> order => {
                let Ok(order) = order else { break };
                batch.push(order);
                if batch.len() == 1 {
                    patience.reset(PATIENCE).expect("it was stopped, or has fired");
                }
            }
            recv(patience.c()) -> _ => {
                println!("patience is at an end: {} orders", batch.len());
                shipped.push(std::mem::take(&mut batch));
            }
            recv(report.c()) -> _ => println!("{} batches so far", shipped.len()),
        }
        if batch.len() == FULL {
            patience.stop(); // also empties its channel if it has just fired
            println!("a full batch");
            shipped.push(std::mem::take(&mut batch));
        }
    }
    if !batch.is_empty() {
        shipped.push(batch);
    }
    shipped
}

/// A busy period, a quiet period, and a last order.
pub fn main() {
    let (sender, orders) = bounded(100);
    let shop = thread::spawn(move || {
        (0..25).for_each(|order| sender.send(order).expect("somebody ships"));
        sleep(3 * PATIENCE);
        sender.send(25).expect("somebody ships");
    });
    let shipped = ship(&orders);
    shop.join().expect("the shop closes in peace");

    // Usually four: two full ones, five orders that waited, and the last.
    assert!(
        shipped
            .iter()
            .all(|batch| (1..=FULL).contains(&batch.len()))
    );
    assert!(shipped.len() >= 3, "{} batches", shipped.len());
    assert!(shipped.into_iter().flatten().eq(0..26));
}
