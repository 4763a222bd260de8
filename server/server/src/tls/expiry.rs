//! Serial numbers and ends of validity of the certificates in use, for INFO.
//!
//! Reads only these two fields of a certificate (RFC 5280, section 4.1). rustls verifies
//! certificates and does not return the fields. A certificate that cannot be read counts as absent.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustls::pki_types::CertificateDer;

const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The serial number and the end of validity of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    /// Serial number in hexadecimal digits.
    pub(crate) serial: String,
    /// End of validity in Unix seconds.
    pub(crate) at_s: i64,
}

/// The certificates of a TLS configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificates {
    /// The server's own certificate.
    pub(crate) server: Option<Expiry>,
    /// The certificate for links to other servers, if it is not the server's own.
    pub(crate) client: Option<Expiry>,
    /// The certificate of an authority that expires first.
    pub(crate) authority: Option<Expiry>,
    /// Number of the authorities' certificates.
    pub(crate) authorities: usize,
}

impl Certificates {
    /// Adds the certificate of an authority.
    pub(super) fn add_authority(&mut self, certificate: &CertificateDer<'_>) {
        if let Some(new) = Expiry::of(certificate) {
            self.authorities += 1;
            let earlier = |known: &Expiry| new.at_s < known.at_s;
            if self.authority.as_ref().is_none_or(earlier) {
                self.authority = Some(new);
            }
        }
    }
}

impl Expiry {
    /// Reads a certificate.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (certificate, _) = element(certificate, SEQUENCE)?;
        let (body, _) = element(certificate, SEQUENCE)?;
        let body = element(body, VERSION).map_or(body, |(_, rest)| rest);
        let (serial, rest) = element(body, INTEGER)?;
        let (_algorithm, rest) = element(rest, SEQUENCE)?;
        let (_issuer, rest) = element(rest, SEQUENCE)?;
        let (validity, _) = element(rest, SEQUENCE)?;
        let (_, rest) = time(validity)?;
        // A leading zero byte only says that the number is not negative.
        let digits = match serial {
            [0, rest @ ..] if !rest.is_empty() => rest,
            all => all,
        };
        Some(Self {
            serial: digits.iter().map(|byte| format!("{byte:02X}")).collect(),
            at_s: time(rest)?.0,
        })
    }
}

/// Splits off an element with this tag. Returns its content, and the bytes after it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (&length, rest) = rest.split_first()?;
    // A length of 128 or more has its own bytes, whose number is in the low bits.
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            let digit = |sum, byte: &u8| sum << 8 | usize::from(*byte);
            (digits.iter().fold(0, digit), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    (*first == tag).then_some((content, rest))
}

/// Splits off a time, in Unix seconds. A year of two digits is 1950 to 2049.
fn time(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (text, rest, century) = match element(bytes, UTC_TIME) {
        Some((text @ [b'5'..=b'9', ..], rest)) => (text, rest, "19"),
        Some((text, rest)) => (text, rest, "20"),
        None => {
            let (text, rest) = element(bytes, GENERALIZED_TIME)?;
            (text, rest, "")
        }
    };
    let text = format!("{century}{}", std::str::from_utf8(text).ok()?);
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    let at = time.to_zoned(TimeZone::UTC).ok()?;
    Some((at.timestamp().as_second(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, SerialNumber, date_time_ymd};

    fn certificate(serial: &[u8], year: i32) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.serial_number = Some(SerialNumber::from_slice(serial));
        params.not_after = date_time_ymd(year, 3, 1);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn serial_and_end_are_read() {
        for (serial, shown, year, at_s) in [
            (&[0x01, 0xa2][..], "01A2", 2030, 1_898_553_600),
            // The encoding has a zero byte before a high bit.
            (&[0x82, 0x6f], "826F", 1999, 920_246_400),
            // Years from 2050 on have four digits.
            (&[7], "07", 2051, 2_561_241_600),
        ] {
            let read = Expiry::of(&certificate(serial, year)).unwrap();
            assert_eq!((&*read.serial, read.at_s), (shown, at_s));
        }
    }

    #[test]
    fn the_authority_that_expires_first_is_kept() {
        let mut all = Certificates::default();
        for year in [2040, 2031, 2035] {
            all.add_authority(&certificate(&[1], year));
        }
        assert_eq!(all.authorities, 3);
        assert_eq!(all.authority, Expiry::of(&certificate(&[1], 2031)));
    }

    #[test]
    fn no_bytes_are_read_beyond_a_broken_certificate() {
        let whole = certificate(&[1], 2030);
        for len in 0..whole.len() {
            assert_eq!(
                Expiry::of(&CertificateDer::from(whole[..len].to_vec())),
                None
            );
        }
        let mut bytes = whole.to_vec();
        for at in 0..bytes.len() {
            let before = std::mem::replace(&mut bytes[at], 0x84);
            let _ = Expiry::of(&CertificateDer::from(bytes.clone()));
            bytes[at] = before;
        }
    }
}
