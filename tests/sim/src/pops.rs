//! Missing items of a list, and the pops without a reply that may have taken them.

use crate::kernel::Nanos;

/// The true times between which something happened.
pub type Times = (Nanos, Nanos);

/// Returns whether each missing item may have been taken by a lost pop of its own. An item was
/// taken between its RPUSH and the pop of a later item; a pop took its item before the server
/// closed the pop's connection. (Kuhn's algorithm for a bipartite matching.)
pub fn explain(items: &[Times], pops: &[Times]) -> bool {
    let mut taken_by: Vec<Option<usize>> = vec![None; pops.len()];
    (0..items.len()).all(|item| {
        let mut tried = vec![false; pops.len()];
        assign(item, items, pops, &mut taken_by, &mut tried)
    })
}

fn assign(
    item: usize,
    items: &[Times],
    pops: &[Times],
    taken_by: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    let (from, until) = items[item];
    for (pop, (sent, settled)) in pops.iter().enumerate() {
        if tried[pop] || *sent > until || *settled < from {
            continue;
        }
        tried[pop] = true;
        if taken_by[pop].is_none_or(|other| assign(other, items, pops, taken_by, tried)) {
            taken_by[pop] = Some(item);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_needs_a_pop_of_its_own() {
        let pops = [(10, 20), (15, 40)];
        assert!(explain(&[(5, 12), (30, 99)], &pops));
        assert!(explain(&[(5, 99), (12, 18)], &pops));
        assert!(!explain(&[(41, 99)], &pops), "no pop ran so late");
        assert!(!explain(&[(1, 9)], &pops), "no pop ran so early");
        assert!(!explain(&[(5, 12), (6, 13)], &pops));
    }
}
