//! What the handlers share: the state of cluster mode, and nodes that arguments name.

use punctual_cluster::NodeId;
use punctual_cluster::nodes::{Node, Nodes};
use punctual_cluster::state::OperatorError;
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
