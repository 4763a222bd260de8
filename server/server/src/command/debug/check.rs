//! DEBUG CHECK: indexes and counters agree with the data. Each structure has its own check, in the
//! store ([`punctual_store::check`]) and in the server.

use punctual_resp::{Args, Reply};
use punctual_store::Error;
use punctual_store::check::Check;

use crate::node::call::Call;

/// Number of attempts to read figures that other loops change meanwhile.
const ATTEMPTS: usize = 1_000;

/// Replies OK, or an error that names the first disagreements. Locks every shard. O(n) for all keys
/// and their elements.
pub(super) fn check(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let (shared, mut found) = (call.shared, Check::default());
    call.turn.check(&mut found);
    shared.durability.changelog.check(&mut found);
    let replication = &shared.replication;
    let replicas = &replication.replicas;
    replicas.check(&mut found, || replication.offset());
    shared.clients.pubsub.check(&mut found);
    shared.clients.trackers.check(&mut found);
    let counted = (0..ATTEMPTS).any(|_| shared.clients.registry.agree());
    found.holds("the counters have each client of the list", counted);
    match &found.into_found()[..] {
        [] => reply.ok(),
        found => return Err(Error::Text(format!("ERR {}", found.join("; ")).into())),
    }
    Ok(())
}
