//! Changes of the configuration, and their effects.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::config::{Changes, SetError, Settings, TlsSettings};
use crate::memory::counters;
use crate::net::listener::{FreePorts, ListenError, Listener};
use crate::net::open_files::make_room_for;
use crate::node::Shared;
use crate::node::order::Order;
use crate::replication::upstream::Address;
use crate::tls::Context;

impl Shared {
    /// Applies changes that need more than new settings: reopens listeners, raises the limit of
    /// open files, renews TLS and sets the log level.
    ///
    /// # Errors
    /// Returns an error for the first change that fails. The caller then restores the
    /// configuration.
    pub(crate) fn apply_changes(
        &self,
        changes: &Changes,
        settings: &Settings,
    ) -> Result<(), SetError> {
        let context = self.changed_tls(changes, settings)?;
        let refusals = [
            ("port", "Unable to listen on this port. Check server logs."),
            (
                "tls-port",
                "Unable to listen on this port. Check server logs.",
            ),
            ("bind", "Failed to bind to specified addresses."),
        ];
        // As in Redis, the error names the first of these directives in the call.
        let first = changes
            .names
            .iter()
            .find_map(|changed| refusals.iter().find(|(name, _)| changed == name));
        let mut listeners = None;
        if let Some(&(name, reason)) = first {
            let refused = |e: ListenError| {
                crate::log::warning!(self.logger, "{e}");
                SetError::refused(name, reason)
            };
            let changed = |port| changes.contains("bind") || changes.contains(port);
            let free = FreePorts::default();
            let plain = changed("port")
                .then(|| Listener::open_plain(settings, free))
                .transpose()
                .map_err(refused)?;
            let tls = changed("tls-port")
                .then(|| Listener::open_tls(settings, free, &self.tls))
                .transpose()
                .map_err(refused)?;
            listeners = Some((plain, tls));
        }
        if changes.contains("maxclients") {
            let possible = make_room_for(settings, &self.logger).unwrap_or(0);
            if possible < settings.max_clients {
                let reason = format!(
                    "The operating system is not able to handle the specified number of clients, try with {possible}"
                );
                return Err(SetError::refused("maxclients", reason));
            }
        }
        if let Some(context) = context {
            self.tls.set(Some(context));
        }
        if let Some((plain, tls)) = listeners {
            self.note_ports(plain.as_deref(), tls.as_deref());
            self.mailboxes[0].order(Order::Listen { plain, tls });
        }
        if changes.contains("aof-use-rdb-preamble") {
            self.warn_of_base_format(settings);
        }
        if changes.contains("maxmemory") && settings.maxmemory > 0 {
            let used = self.memory.used();
            if counters::used().is_none() {
                crate::log::warning!(
                    self.logger,
                    "maxmemory has no effect: this program's allocator does not count the bytes in use."
                );
            } else if used > settings.maxmemory {
                crate::log::warning!(
                    self.logger,
                    "WARNING: the new maxmemory value set via CONFIG SET ({}) is smaller than the current memory usage \
                     ({used}). This will result in key eviction and/or the inability to accept new write commands depending \
                     on the maxmemory-policy.",
                    settings.maxmemory
                );
            }
        }
        self.logger.set_level(settings.log_level);
        self.logger.set_format(settings.log_format);
        Ok(())
    }

    /// Returns the new configuration of encrypted connections, if a change affects it.
    fn changed_tls(
        &self,
        changes: &Changes,
        settings: &Settings,
    ) -> Result<Option<Context>, SetError> {
        let used = settings.tls.is_used() || self.tls_port.load(Ordering::Relaxed) != 0;
        let changed = changes
            .names
            .iter()
            .find(|name| TlsSettings::READ.contains(name));
        let Some(name) = changed.filter(|_| used) else {
            return Ok(None);
        };
        let context = Context::new(self.world, &settings.tls, &self.logger).map_err(|error| {
            crate::log::warning!(self.logger, "{error}");
            let reason = "Unable to update TLS configuration. Check server logs.";
            SetError::refused(*name, reason)
        })?;
        Ok(Some(context))
    }

    /// Replaces the settings and notifies the loops.
    pub fn reconfigure(&self, settings: Arc<Settings>) {
        *self.settings.write() = settings;
        self.apply_settings();
        self.durability.changelog.wake_file();
        self.settings_version.fetch_add(1, Ordering::AcqRel);
        // The periods and limits of the upkeep of replicas may have changed.
        self.request_upkeep();
        self.configure_cluster();
        self.order_all(|| Order::Reconfigure);
    }

    /// Warns that a base file is a snapshot although `aof-use-rdb-preamble` is `no`.
    pub(crate) fn warn_of_base_format(&self, settings: &Settings) {
        if !settings.aof_preamble {
            crate::log::warning!(
                self.logger,
                "aof-use-rdb-preamble no is ignored: the base of the append-only file is always written as RDB."
            );
        }
    }

    /// Sets the directive `replicaof`, for CONFIG GET and CONFIG REWRITE.
    pub(crate) fn remember_primary(&self, primary: Option<&Address>) {
        let mut config = self.config.lock();
        config.set_primary(primary.map(|p| (p.host.as_str(), p.port)));
        let settings = config.settings();
        self.reconfigure(settings);
    }

    pub(super) fn apply_settings(&self) {
        let settings = self.settings();
        self.classes
            .store(settings.notify.bits(), Ordering::Relaxed);
        let slow = settings
            .slowlog_slower_than_us
            .map_or(u64::MAX, |us| us.saturating_mul(1000));
        let latency = match settings.latency_threshold_ms {
            0 => u64::MAX,
            ms => ms.saturating_mul(1_000_000),
        };
        self.observed
            .slow_ns
            .store(slow.min(latency), Ordering::Relaxed);
        self.observed
            .latency_tracking
            .store(settings.latency_tracking, Ordering::Relaxed);
        self.store.set_string_max(settings.max_bulk_len as u64);
        self.store.set_limits(settings.limits);
        self.store.set_ttl_rules(settings.ttl_rules.clone());
        self.store.set_tracked_max(settings.tracking_table_max_keys);
        self.store.set_counts_room(settings.maxmemory > 0);
        self.memory.apply(&settings);
        for mailbox in &self.mailboxes {
            let hard = |class: usize| settings.output_limits[class].hard_bytes;
            mailbox.set_limits(hard(Settings::OUTPUT_PUBSUB), hard(Settings::OUTPUT_NORMAL));
        }
        self.update_read_only();
        self.replication
            .upstream
            .serves_stale
            .store(settings.replica.serves_stale, Ordering::Relaxed);
        if let Some(backlog) = &mut self.replication.replicas.stream().backlog {
            backlog.set_size(settings.repl_backlog_size);
        }
        self.note_save();
        self.count_good_replicas();
    }
}
