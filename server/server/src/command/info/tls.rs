//! The section `tls`: serial numbers and ends of the certificates, with the names of Valkey 9.1.

use crate::command::info::Page;

pub(super) fn tls(page: &mut Page<'_, '_>) {
    let certificates = page.shared.tls.certificates();
    // Peers compare validity with the machine's time, also under a virtual clock.
    let now_s = (page.shared.world.wall_micros() / 1_000_000).cast_signed();
    let fields = [
        (
            "tls_server_cert_serial",
            "tls_server_cert_expires_in_seconds",
            certificates.server,
        ),
        (
            "tls_client_cert_serial",
            "tls_client_cert_expires_in_seconds",
            certificates.client,
        ),
        (
            "tls_ca_cert_serial",
            "tls_ca_cert_expires_in_seconds",
            certificates.authority,
        ),
    ];
    for (serial, expires_in, certificate) in fields {
        match certificate {
            Some(known) => {
                page.line(serial, known.serial);
                page.gauge(expires_in, known.at_s - now_s);
            }
            // No metric, because an alert must not take a missing certificate for an expired one.
            None => {
                page.line(serial, "none");
                page.line(expires_in, 0);
            }
        }
    }
    page.line("tls_ca_cert_count", certificates.authorities);
}
