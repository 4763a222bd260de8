//! CLUSTER, READONLY, READWRITE and ASKING.
//!
//! The state machine of `punctual-cluster` has the state. The handlers check the arguments, in
//! Redis's order and with its texts. Without cluster mode every well-formed call gets one error, by
//! which clients detect that there is no cluster.

mod arguments;
mod client;
mod help;
mod keys;
mod nodes;
mod saved;
mod slots;
mod state;
mod topology;

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::spec::{Flags, Group};

use crate::node::call::{Call, ServerCommand, ServerHandler};
use arguments::node;

const FAST: Flags = Flags::LOADING.or(Flags::STALE).or(Flags::FAST);
/// Flags of subcommands that show the state of the cluster.
const LOOK: Flags = Flags::STALE;
const ADMIN: Flags = Flags::ADMIN.or(Flags::STALE);
/// Flags of subcommands that change the cluster.
const CHANGE: Flags = ADMIN.or(Flags::NO_ASYNC_LOADING);

const O_1: &str = "O(1)";
const O_NODES: &str = "O(N) where N is the total number of Cluster nodes";
const O_SLOTS: &str = "O(N) where N is the total number of hash slot arguments";
const O_RANGES: &str =
    "O(N) where N is the total number of the slots between the start slot and end slot arguments.";
const O_REPLICAS: &str = "O(N) where N is the number of replicas.";
const VARIES: &[&str] = &["nondeterministic_output"];

/// Rows of the commands in this file.
pub(crate) static COMMANDS: &[ServerCommand] = &[
    row("asking", 1, Flags::FAST, client::asking)
        .categories(&["connection"])
        .doc(
            "3.0.0",
            O_1,
            "Signals that a cluster client is following an -ASK redirect.",
        ),
    ServerCommand::container("cluster", Group::Cluster, SUBCOMMANDS).doc(
        "3.0.0",
        "Depends on subcommand.",
        "A container for Redis Cluster commands.",
    ),
    row("readonly", 1, FAST, client::read_only)
        .categories(&["connection"])
        .doc(
            "3.0.0",
            O_1,
            "Enables read-only queries for a connection to a Redis Cluster replica node.",
        ),
    row("readwrite", 1, FAST, client::read_write)
        .categories(&["connection"])
        .doc(
            "3.0.0",
            O_1,
            "Enables read-write queries for a connection to a Redis Cluster replica node.",
        ),
];

const fn row(
    name: &'static str,
    arity: i32,
    flags: Flags,
    handler: ServerHandler,
) -> ServerCommand {
    ServerCommand::new(name, arity, flags, Group::Cluster, handler)
}

fn migration(call: &mut Call, _: Args, _: &mut Reply) -> Result<(), Error> {
    node(call.shared)?;
    Err(Error::fixed(
        "ERR CLUSTER MIGRATION is not supported; use CLUSTER SETSLOT and MIGRATE",
    ))
}

const SUBCOMMANDS: &[ServerCommand] = &[
    row("addslots", -3, CHANGE, slots::add).doc("3.0.0", O_SLOTS, "Assigns new hash slots to a node.")
        .syntax("slot ..."),
    row("addslotsrange", -4, CHANGE, slots::add_ranges).doc(
        "7.0.0",
        O_RANGES,
        "Assigns new hash slot ranges to a node.",
    )
    .syntax("(range: start-slot end-slot) ..."),
    row("bumpepoch", 2, CHANGE, nodes::bump_epoch).tips(VARIES).doc(
        "3.0.0",
        O_1,
        "Advances the cluster config epoch.",
    ),
    row("count-failure-reports", 3, ADMIN, nodes::count_reports).tips(VARIES).doc(
        "3.0.0",
        "O(N) where N is the number of failure reports",
        "Returns the number of active failure reports for a node.",
    )
    .syntax("node-id"),
    row("countkeysinslot", 3, LOOK, keys::count).doc(
        "3.0.0",
        O_1,
        "Returns the number of keys in a hash slot.",
    )
    .syntax("slot"),
    row("delslots", -3, CHANGE, slots::remove).doc("3.0.0", O_SLOTS, "Sets hash slots as unbound for a node.")
        .syntax("slot ..."),
    row("delslotsrange", -4, CHANGE, slots::remove_ranges).doc(
        "7.0.0",
        O_RANGES,
        "Sets hash slot ranges as unbound for a node.",
    )
    .syntax("(range: start-slot end-slot) ..."),
    row("failover", -2, CHANGE, nodes::fail_over).doc(
        "3.0.0",
        O_1,
        "Forces a replica to perform a manual failover of its master.",
    )
    .syntax("[options: FORCE | TAKEOVER]"),
    row("flushslots", 2, CHANGE, slots::flush).doc("3.0.0", O_1, "Deletes all slots information from a node."),
    row("forget", 3, CHANGE, nodes::forget).doc("3.0.0", O_1, "Removes a node from the nodes table.")
        .syntax("node-id"),
    row("getkeysinslot", 4, LOOK, keys::get).tips(VARIES).doc(
        "3.0.0",
        "O(N) where N is the number of requested keys",
        "Returns the key names in a hash slot.",
    )
    .syntax("slot count"),
    row("help", 2, Flags::LOADING.or(Flags::STALE), help::help).doc(
        "5.0.0",
        O_1,
        "Returns helpful text about the different subcommands.",
    ),
    row("info", 2, LOOK, state::info).tips(VARIES).doc(
        "3.0.0",
        O_1,
        "Returns information about the state of a node.",
    ),
    row("keyslot", 3, LOOK, keys::key_slot).doc(
        "3.0.0",
        "O(N) where N is the number of bytes in the key",
        "Returns the hash slot for a key.",
    )
    .syntax("key:string"),
    row("links", 2, LOOK, topology::links).tips(VARIES).doc(
        "7.0.0",
        O_NODES,
        "Returns a list of all TCP links to and from peer nodes.",
    ),
    row("meet", -4, CHANGE, nodes::meet)
        .doc("3.0.0", O_1, "Forces a node to handshake with another node.")
        .history(&[("4.0.0", "Added the optional `cluster_bus_port` argument.")])
        .syntax("ip port [cluster-bus-port:integer@4.0.0]"),
    row("migration", -4, CHANGE, migration).doc(
        "8.4.0",
        O_RANGES,
        "Starts, monitors and cancels migrations of hash slots.",
    )
    .syntax(
        "(subcommand: IMPORT (start-slot end-slot) ... | CANCEL (ID task-id | ALL) | \
         STATUS ([ID task-id] | [ALL]))",
    ),
    row("myid", 2, LOOK, state::my_id).doc("3.0.0", O_1, "Returns the ID of a node."),
    row("myshardid", 2, LOOK, state::my_shard_id).tips(VARIES).doc("7.2.0", O_1, "Returns the shard ID of a node."),
    row("nodes", 2, LOOK, state::nodes).tips(VARIES).doc(
        "3.0.0",
        O_NODES,
        "Returns the cluster configuration for a node.",
    ),
    row("replicas", 3, ADMIN, state::replicas).tips(VARIES).doc(
        "5.0.0",
        O_REPLICAS,
        "Lists the replica nodes of a master node.",
    )
    .syntax("node-id"),
    row("replicate", 3, CHANGE, nodes::replicate).doc("3.0.0", O_1, "Configures a node as a replica of a master node.")
        .syntax("node-id"),
    row("reset", -2, ADMIN.or(Flags::NOSCRIPT), nodes::reset).doc(
        "3.0.0",
        "O(N) where N is the number of known nodes. The command may execute a FLUSHALL as a side effect.",
        "Resets a node.",
    )
    .syntax("[reset-type: HARD | SOFT]"),
    row("saveconfig", 2, CHANGE, nodes::save).doc(
        "3.0.0",
        O_1,
        "Forces a node to save the cluster configuration to disk.",
    ),
    row("set-config-epoch", 3, CHANGE, nodes::set_epoch).doc(
        "3.0.0",
        O_1,
        "Sets the configuration epoch for a new node.",
    )
    .syntax("config-epoch:integer"),
    row("setslot", -4, CHANGE, slots::set).doc("3.0.0", O_1, "Binds a hash slot to a node.")
        .syntax(
            "slot (subcommand: (importing: IMPORTING node-id) | (migrating: MIGRATING \
             node-id) | (node: NODE node-id) | STABLE)",
        ),
    row("shards", 2, LOOK, topology::shards).tips(VARIES).doc(
        "7.0.0",
        O_NODES,
        "Returns the mapping of cluster slots to shards.",
    ),
    row("slaves", 3, ADMIN, state::replicas)
        .tips(VARIES)
        .doc("3.0.0", O_REPLICAS, "Lists the replica nodes of a master node.")
        .deprecated("5.0.0", "`CLUSTER REPLICAS`")
        .syntax("node-id"),
    row("slot-stats", -4, LOOK.or(Flags::LOADING), keys::stats)
        .tips(&["nondeterministic_output", "request_policy:all_shards"])
        .doc(
            "8.2.0",
            "O(N) where N is the total number of slots based on arguments. O(N*log(N)) with ORDERBY.",
            "Returns statistics of the usage of hash slots.",
        )
        .syntax(
            "(filter: SLOTSRANGE (start-slot end-slot) | ORDERBY (metric [LIMIT limit] \
             [order: ASC | DESC]))",
        ),
    row("slots", 2, LOOK, topology::slots)
        .tips(VARIES)
        .doc("3.0.0", O_NODES, "Returns the mapping of cluster slots to nodes.")
        .deprecated("7.0.0", "`CLUSTER SHARDS`")
        .history(&[
            ("4.0.0", "Added node IDs."),
            ("7.0.0", "Added additional networking metadata field."),
        ]),
];
