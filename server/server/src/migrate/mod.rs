//! MIGRATE: keys on their way to another server.
//!
//! Redis stops for the whole transfer. Here the keys stay readable and writable:
//!
//! 1. Under the locks of the keys, the client's event loop copies them
//!    ([`moving::Migration::pack`]) and watches each.
//! 2. The loop sends the copies over an outgoing connection ([`target::Transfer`]), between other
//!    commands.
//! 3. The loop locks the keys again and deletes those that the target has accepted and that have
//!    not changed since. Changed ones are copied again; after [`moving::TRIES`] transfers the loop
//!    itself sends the rest with the locks held, so a key that changes all the time moves too.
//!
//! So no write is lost: a key goes only if the target has its last value. Until the delete, both
//! servers have the key. In a transaction or a script the transfer happens in place, as in Redis.

pub(crate) mod moving;
pub(crate) mod target;
