//! Histograms of the sizes of values, which an incremental count of all values collects. Each
//! scrape continues the count, so the work of a scrape is bounded.

use parking_lot::Mutex;
use punctual_store::keyspace::sizes::{SizeCensus, Sizes};

use super::exposition::{Exposition, Kind};
use crate::node::Shared;

/// Maximum number of records that a scrape visits.
const VISITED_MAX: u32 = 262_144;

/// Numbers of the buckets: bucket n counts the sizes less than 4^n, from 3 to 2^30 - 1.
const BUCKETS: std::ops::RangeInclusive<usize> = 1..=15;

/// The count, and the sizes of the last complete count.
#[derive(Default)]
pub(super) struct ValueSizes(Mutex<SizeCensus>);

impl ValueSizes {
    /// Continues the count, and adds the sizes of the last complete count.
    pub(super) fn add_to(&self, shared: &Shared, page: &mut Exposition) {
        let mut census = self.0.lock();
        census.advance(&shared.store, VISITED_MAX);
        let all = census
            .complete()
            .iter()
            .enumerate()
            .flat_map(|(db, sizes)| {
                let by_type = sizes.by_type().filter(|(_, sizes)| sizes.count() > 0);
                by_type.map(move |(kind, sizes)| (format!("db{db}"), kind, sizes))
            });
        let (strings, collections): (Vec<_>, Vec<_>) = all.partition(|row| row.1 == "string");
        let name = "punctual_string_bytes";
        if !strings.is_empty() {
            page.family(name, Kind::Histogram, "Lengths of strings.");
        }
        for (db, _, sizes) in strings {
            add_histogram(page, name, &[("db", &db)], sizes);
        }
        let name = "punctual_collection_elements";
        if !collections.is_empty() {
            let help = "Numbers of elements of lists, sets, sorted sets, hashes and streams.";
            page.family(name, Kind::Histogram, help);
        }
        for (db, kind, sizes) in collections {
            add_histogram(page, name, &[("db", &db), ("type", kind)], sizes);
        }
    }
}

fn add_histogram(page: &mut Exposition, name: &str, labels: &[(&str, &str)], sizes: &Sizes) {
    let buckets = BUCKETS.map(|bucket| {
        let bound = (1_u64 << (2 * bucket)) - 1;
        (bound as f64, sizes.below(2 * bucket))
    });
    page.histogram(name, labels, buckets, sizes.count(), sizes.sum() as f64);
}
