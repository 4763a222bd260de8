//! Runs the examples of the time API and of the futures to their end. Each example checks its own
//! results.

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
fn a_client_retries() {
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
