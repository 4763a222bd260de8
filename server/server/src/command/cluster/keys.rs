//! CLUSTER subcommands about the keys of a slot: KEYSLOT, COUNTKEYSINSLOT, GETKEYSINSLOT.

use punctual_cluster::slot::{SLOTS, of_key};
use punctual_resp::decimal::parse_i64;
use punctual_resp::{Args, Reply};
use punctual_store::{Error, Turn};

use super::node;
use crate::node::call::Call;

pub(super) fn key_slot(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    node(call.shared)?;
    reply.int(of_key(args.at(2)).into());
    Ok(())
}

pub(super) fn count(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    node(call.shared)?;
    let slot = parse_i64(args.at(2)).ok_or(Error::NotInteger)?;
    let slot = in_range(slot).ok_or(Error::fixed("ERR Invalid slot"))?;
    reply.int(count_keys(call.turn, slot) as i64);
    Ok(())
}

pub(super) fn get(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    node(call.shared)?;
    let number = |at| parse_i64(args.at(at)).ok_or(Error::NotInteger);
    let (slot, most) = (number(2)?, number(3)?);
    let (Some(slot), Ok(most)) = (in_range(slot), usize::try_from(most)) else {
        return Err(Error::fixed("ERR Invalid slot or number of keys"));
    };
    let mut keys: Vec<Box<[u8]>> = Vec::new();
    each_key(call.turn, slot, most, |key| keys.push(key.into()));
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

fn in_range(slot: i64) -> Option<u16> {
    u16::try_from(slot).ok().filter(|slot| *slot < SLOTS)
}

/// Returns the number of keys in a slot.
pub(super) fn count_keys(turn: &mut Turn, slot: u16) -> usize {
    each_key(turn, slot, usize::MAX, |_| {})
}

/// Visits at most `most` keys of a slot. Returns their number.
fn each_key(turn: &mut Turn, slot: u16, most: usize, mut visit: impl FnMut(&[u8])) -> usize {
    let mut found = 0;
    for number in 0..turn.store.shards() {
        turn.lock_one(number);
        for (_, part) in turn.held_dbs(0).filter(|(held, _)| *held == number) {
            for (_, record) in part.iter() {
                let key = record.key.as_bytes();
                if found < most && of_key(key) == slot {
                    found += 1;
                    visit(key);
                }
            }
        }
    }
    found
}
