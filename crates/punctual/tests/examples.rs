//! The examples of the time API and of the futures run to their end. Each checks what it does.

#[path = "../examples/batches.rs"]
mod batches;
#[path = "../examples/idle_connections.rs"]
mod idle_connections;
#[path = "../examples/retries.rs"]
mod retries;
#[path = "../examples/sessions.rs"]
mod sessions;

#[test]
fn orders_are_shipped_in_batches() {
    batches::main();
}

#[test]
fn a_client_tries_again() {
    retries::main();
}

#[test]
fn silent_connections_are_closed() {
    idle_connections::main().unwrap();
}

#[test]
fn a_day_of_sessions_passes() {
    sessions::main();
}
