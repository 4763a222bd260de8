//! MIGRATE: moves keys to another server.
//!
//! Redis stops for the whole transfer. Here the keys stay readable and writable:
//!
//! 1. Under the locks of the keys, the client's event loop copies the keys and watches them
//!    ([`moving::Migration::pack`]).
//! 2. The loop sends the copies over an outgoing connection ([`target::Transfer`]), between other
//!    commands.
//! 3. The loop locks the keys again and deletes those that the target has accepted and that have
//!    not changed since the copy. Keys that have changed are copied and sent again; after
//!    [`moving::TRIES`] transfers the loop sends them with the locks held, so that even a key that
//!    changes all the time is moved.
//!
//! So no write is lost: a key is deleted only if the target has its last value. Between the
//! transfer and the deletion both servers have the key. In a transaction or a script the loop
//! transfers the keys with the locks held, as Redis does.

pub(crate) mod kept;
pub(crate) mod moving;
pub(crate) mod target;
