//! Log lines about the start of a server.

use std::path::Path;

use crate::config::Settings;
use crate::log::{self, Logger};
use crate::node::Shared;
use crate::world::process;

/// Logs the server's parameters and warnings.
pub(super) fn announce(shared: &Shared, settings: &Settings, port: u16) {
    let logger = &shared.logger;
    log::notice!(
        logger,
        "Running mode={}, port={port}, PID: {}, threads={}, shards={}.",
        shared.mode(),
        std::process::id(),
        shared.mailboxes.len(),
        shared.store.shards()
    );
    if port != 0
        && let Some(max) = process::listen_backlog_max()
        && max < settings.tcp_backlog
    {
        log::warning!(
            logger,
            "WARNING: The TCP backlog setting of {} cannot be enforced because /proc/sys/net/core/somaxconn is set to the \
             lower value of {max}.",
            settings.tcp_backlog
        );
    }
    if shared.clock.is_virtual() {
        log::warning!(
            logger,
            "The clock is virtual: time stands still until CLOCK ADVANCE or CLOCK SET."
        );
    }
    shared.warn_of_base_format(settings);
    log::notice!(logger, "Server initialized");
}

/// Logs that the server accepts connections, for each kind of socket.
pub(super) fn announce_ready(logger: &Logger, tcp: bool, tls: bool, unix: Option<&Path>) {
    let unix = unix.map(|path| format!("unix {}", path.display()));
    let tcp = tcp.then(|| "tcp".to_owned());
    for socket in [tcp, tls.then(|| "tls".to_owned()), unix]
        .into_iter()
        .flatten()
    {
        log::notice!(logger, "Ready to accept connections {socket}");
    }
}
