//! DEBUG REPLICATE and CHANGE-REPL-ID.

use punctual_resp::{Args, Reply, encode_command};
use punctual_store::Error;

use crate::log;
use crate::node::call::Call;

/// Sends a command to the replicas, but does not run it here, so that the replicas diverge. Does
/// nothing on a replica, whose stream comes from its primary.
pub(super) fn replicate(call: &mut Call, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let shared = call.shared;
    if !shared.replication.is_replica() {
        let words: Vec<&[u8]> = args.skip(2).iter().collect();
        let mut bytes = Vec::new();
        encode_command(&mut bytes, &words);
        call.turn.lock_all();
        shared.append_to_stream(&bytes);
        call.turn.release();
    }
    reply.ok();
    Ok(())
}

/// Begins a new replication history. The replicas stay connected, and need a full synchronization
/// after they reconnect.
pub(super) fn change_id(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    log::warning!(
        call.shared.logger,
        "Changing replication IDs after receiving DEBUG change-repl-id"
    );
    call.turn.lock_all();
    call.shared.replication.begin_history();
    call.turn.release();
    reply.ok();
    Ok(())
}
