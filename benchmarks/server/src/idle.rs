//! `bench server --idle`: the cost of idle connections.
//!
//! The servers have a long idle `timeout`, so that they must track each connection: a server that
//! scans all connections periodically has a visible cost. CPU time is measured for some seconds
//! without the connections, then for the same time with them.

use std::time::Duration;

use crate::error::Result;
use crate::launch::{self, Program, Server};
use crate::options::ServerOptions;
use crate::report::Report;
use crate::sheet::{self, Bar, Figures, Sheet};
use crate::table::thousands;

/// Delay until an idle server sleeps and has allocated or released memory.
const SETTLE: Duration = Duration::from_millis(500);

/// Runs the benchmark and prints the report.
pub(crate) fn run(
    options: &ServerOptions,
    programs: &[Program],
    report: &mut Report,
) -> Result<()> {
    let wanted = u64::from(options.idle.unwrap_or(0));
    let window = options.common.seconds(3, 10);
    let most = launch::allow_clients(wanted)?;
    let title = format!(
        "Idle connections: {}, each over {} s",
        thousands(wanted as f64),
        window.as_secs_f64()
    );
    report.header(&title, programs, &["the servers have `timeout 300`"]);
    // 0.1 % is one tick (10 ms) in ten seconds, the resolution of `top`.
    let bars = [("CPU of the connections, %", Bar::AtMost(0.1))];
    let mut sheet = Sheet::new("idle", sheet::columns(programs));
    sheet.measure(
        report,
        "idle",
        &bars,
        options.common.rounds(1, 1),
        |at, _| {
            let server = programs[at].start(&[("timeout", "300"), ("maxclients", &most)])?;
            once(&server, wanted, window)
        },
    )?;
    sheet.show(report)?;
    Ok(())
}

fn once(server: &Server, wanted: u64, window: Duration) -> Result<Figures> {
    let mut control = server.client()?;
    let sleep = || -> Result<()> {
        std::thread::sleep(window);
        Ok(())
    };
    let ((), without) = server.cpu_of(SETTLE, sleep)?;
    let before = server.resident()?;
    let mut connections = Vec::new();
    for _ in 0..wanted {
        let mut client = server.client()?;
        // Each connection is used once, so that buffers allocated at the first command count.
        client.expect(&["PING"])?;
        // Only the socket is kept, without the client's buffers.
        connections.push(client.into_stream());
    }
    let ((), with) = server.cpu_of(SETTLE, sleep)?;
    let bytes = (server.resident()? as f64 - before as f64) / wanted as f64;
    let open = control.info_number("clients", "connected_clients")?;
    Ok(Figures::from([
        ("CPU without, ms", without * 1e3),
        ("CPU with, ms", with * 1e3),
        (
            "CPU of the connections, %",
            (with - without) / window.as_secs_f64() * 100.0,
        ),
        ("resident per connection, bytes", bytes),
        ("still open", open.saturating_sub(1) as f64),
    ]))
}
