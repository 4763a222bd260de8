//! The section `keysizes`: how many values of each type have how many bytes or elements, with the
//! field names of Redis 8. Redis keeps the counts up to date; here the request counts all values.

use punctual_store::keyspace::sizes::{DbSizes, Sizes};

use crate::observe::figures::Figure;

/// Returns the names of the fields after `db`, and their values.
pub(super) fn fields(databases: &[DbSizes]) -> impl Iterator<Item = (String, Figure)> {
    databases.iter().enumerate().flat_map(|(db, sizes)| {
        let used = sizes.by_type().filter(|(_, sizes)| sizes.count() > 0);
        used.map(move |(kind, sizes)| {
            let unit = if kind == "string" { "sizes" } else { "items" };
            let plural = if kind == "hash" { "es" } else { "s" };
            (format!("{db}_distrib_{kind}{plural}_{unit}"), bins(sizes))
        })
    })
}

fn bins(sizes: &Sizes) -> Figure {
    let bins = sizes.bins();
    Figure::Parts(
        bins.map(|(size, count)| (short(size).into(), count.into()))
            .collect(),
    )
}

/// Writes a power of two with the unit that divides it, as in `512`, `1K` and `4M`.
fn short(size: u64) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let unit = (size.max(1).ilog2() / 10) as usize;
    format!("{}{}", size >> (10 * unit), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn powers_of_two_have_units() {
        let shown: Vec<String> = [0, 1, 512, 1 << 10, 1 << 19, 1 << 20, 1 << 63]
            .map(short)
            .into();
        assert_eq!(shown, ["0", "1", "512", "1K", "512K", "1M", "8E"]);
    }
}
