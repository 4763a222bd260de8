//! Errors of the operator's commands.

/// Error of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The host or a port is invalid.
    #[error("Invalid node address specified")]
    Address,
    /// No node has this ID.
    #[error("Unknown node")]
    UnknownNode,
    /// The command cannot name the own node, or the own primary.
    #[error("The node is this node or its primary")]
    Own,
    /// A slot has an owner.
    #[error("Slot is already busy")]
    Busy,
    /// A slot has no owner.
    #[error("Slot is already unassigned")]
    Unassigned,
    /// The command needs a replica.
    #[error("You should send CLUSTER FAILOVER to a replica")]
    NoReplica,
    /// The named node is not a primary.
    #[error("The node is not a master")]
    NoPrimary,
    /// The primary is not connected.
    #[error("Master is down or failed, please use CLUSTER FAILOVER FORCE")]
    NotConnected,
    /// The node knows other nodes.
    #[error("The user can assign a config epoch only when the node does not know any other node.")]
    NotAlone,
    /// The node has an epoch.
    #[error("Node config epoch is already non-zero")]
    HasEpoch,
    /// A primary with slots cannot become a replica.
    #[error("To set a master the node must be empty and without assigned slots.")]
    HasSlots,
}
