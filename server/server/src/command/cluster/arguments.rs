//! What the handlers share: the state of cluster mode, and nodes and slots that arguments name.

use punctual_cluster::NodeId;
use punctual_cluster::nodes::{Node, Nodes};
use punctual_cluster::slot::SLOTS;
use punctual_cluster::state::OperatorError;
use punctual_resp::decimal::parse_i64;
use punctual_store::Error;

use crate::cluster::Cluster;
use crate::node::Shared;

/// Returns the state of cluster mode.
pub(super) fn node(shared: &Shared) -> Result<&Cluster, Error> {
    shared.cluster.as_ref().ok_or(Error::fixed(
        "ERR This instance has cluster support disabled",
    ))
}

/// Returns the node that an argument names.
pub(super) fn find<'a>(table: &'a Nodes, argument: &[u8]) -> Option<&'a Node> {
    table.get(NodeId::from_digits(argument).ok()?)
}

/// Same as [`find`], with an error for an unknown node.
pub(super) fn named<'a>(table: &'a Nodes, argument: &[u8]) -> Result<&'a Node, Error> {
    find(table, argument).ok_or_else(|| unknown(argument))
}

pub(super) fn unknown(argument: &[u8]) -> Error {
    Error::repeating("ERR Unknown node ", argument, "")
}

pub(super) fn refused(error: OperatorError) -> Error {
    Error::Text(format!("ERR {error}").into())
}

/// Returns the slot with this number, if there is one.
pub(super) fn slot_of_number(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|slot| *slot < SLOTS)
}

/// Reads a slot's number.
pub(super) fn slot(argument: &[u8]) -> Result<u16, Error> {
    let slot = parse_i64(argument).and_then(slot_of_number);
    slot.ok_or(Error::fixed("ERR Invalid or out of range slot"))
}

/// Reads a range of slots. `start` is the first word of the error for a range that ends before it
/// starts.
pub(super) fn range(first: &[u8], last: &[u8], start: &str) -> Result<(u16, u16), Error> {
    let (first, last) = (slot(first)?, slot(last)?);
    if first > last {
        let text =
            format!("ERR {start} slot number {first} is greater than end slot number {last}");
        return Err(Error::Text(text.into()));
    }
    Ok((first, last))
}
