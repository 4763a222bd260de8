//! ASKING, READONLY and READWRITE: states of a client.

use punctual_resp::{Args, Reply};
use punctual_store::Error;

use super::arguments::node;
use crate::node::call::Call;

pub(super) fn asking(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    node(call.shared)?;
    // This command and the next one.
    call.session.asking = 2;
    reply.ok();
    Ok(())
}

pub(super) fn read_only(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    node(call.shared)?;
    call.session.reads_replica = true;
    reply.ok();
    Ok(())
}

pub(super) fn read_write(call: &mut Call, _: Args, reply: &mut Reply) -> Result<(), Error> {
    node(call.shared)?;
    call.session.reads_replica = false;
    reply.ok();
    Ok(())
}
