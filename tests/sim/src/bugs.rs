//! Prints how many seeds find each bug that is planted in the server.

use std::time::{Duration, Instant};

use punctual_store::planted::Bug;

use crate::apart::Child;
use crate::option;
use crate::options::Options;

/// Prints a row for each planted bug.
pub fn find_all() {
    let seeds = option("--seeds").unwrap_or(2_000);
    let from = option("--from").unwrap_or(1);
    let limit = Duration::from_secs(option("--seconds").unwrap_or(600));
    let only = option("--bug").map(|bug| bug as usize);
    let mut found = 0;
    let mut tried = 0;
    println!("| bug | found after | failure |\n|---|---|---|");
    for (number, bug) in Bug::ALL.into_iter().enumerate() {
        if only.is_some_and(|only| only != number) {
            continue;
        }
        let options = Options {
            bug: Some(number),
            ..Options::default()
        };
        let began = Instant::now();
        let mut ran = 0;
        tried += 1;
        let line = (from..from + seeds).find_map(|seed| {
            if began.elapsed() > limit {
                return None;
            }
            ran += 1;
            let line = Child::start(seed, 0, &options).result();
            (!line.starts_with("passed")).then_some((seed, line))
        });
        let time = began.elapsed().as_secs();
        match line {
            Some((seed, line)) => {
                found += 1;
                println!("| {bug:?} | {ran} seeds, {time} s (seed {seed}) | {line:.110} |");
            }
            None => println!("| {bug:?} | not found in {ran} seeds, {time} s | |"),
        }
    }
    println!("{found} of {tried} found");
}
