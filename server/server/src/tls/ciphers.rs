//! `tls-protocols`, `tls-ciphers` and `tls-ciphersuites`: maps OpenSSL's names to rustls's
//! protocols and ciphers.
//!
//! rustls has no weak cipher: it has TLS 1.2 and 1.3 with AES-GCM or ChaCha20-Poly1305, and
//! ephemeral keys.

use rustls::crypto::ring::cipher_suite as suites;
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};

/// The cipher suites of TLS 1.3, in rustls's order of preference.
const TLS13_SUITES: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", suites::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", suites::TLS13_AES_128_GCM_SHA256),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        suites::TLS13_CHACHA20_POLY1305_SHA256,
    ),
];

/// The cipher suites of TLS 1.2: OpenSSL's name, and the OpenSSL groups that contain the suite.
#[rustfmt::skip]
const TLS12_SUITES: [(&str, &[&str], SupportedCipherSuite); 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", &["ECDSA", "AES", "AES256", "AESGCM", "SHA384"],
     suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES256-GCM-SHA384", &["aRSA", "AES", "AES256", "AESGCM", "SHA384"],
     suites::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", &["ECDSA", "AES", "AES128", "AESGCM", "SHA256"],
     suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-AES128-GCM-SHA256", &["aRSA", "AES", "AES128", "AESGCM", "SHA256"],
     suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", &["ECDSA", "CHACHA20", "SHA256"],
     suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", &["aRSA", "CHACHA20", "SHA256"],
     suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// OpenSSL groups that contain every suite of [`TLS12_SUITES`].
const ALL: [&str; 8] = [
    "ALL", "DEFAULT", "HIGH", "TLSv1.2", "ECDHE", "EECDH", "kECDHE", "kEECDH",
];

/// The protocols that a value of `tls-protocols` names.
#[derive(Debug)]
pub(super) struct Protocols {
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
    /// The value names a version before TLS 1.2.
    pub(super) too_old: bool,
}

/// Parses `tls-protocols`; empty means all. Returns `None` for an unknown name.
pub(super) fn protocols(text: &str) -> Option<Protocols> {
    let mut protocols = Protocols {
        versions: Vec::new(),
        too_old: false,
    };
    if text.is_empty() {
        protocols.versions = vec![&version::TLS13, &version::TLS12];
    }
    for word in text.split_ascii_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1" | "tlsv1.1" => protocols.too_old = true,
            "tlsv1.2" => protocols.versions.push(&version::TLS12),
            "tlsv1.3" => protocols.versions.push(&version::TLS13),
            _ => return None,
        }
    }
    Some(protocols)
}

/// Parses `tls-ciphersuites`: names separated by colons; empty means all. Returns `None` for an
/// unknown name.
pub(super) fn tls13_suites(text: &str) -> Option<Vec<SupportedCipherSuite>> {
    if text.is_empty() {
        return Some(TLS13_SUITES.iter().map(|(_, suite)| *suite).collect());
    }
    text.split(':')
        .map(|name| TLS13_SUITES.iter().find(|(known, _)| *known == name))
        .map(|found| found.map(|(_, suite)| *suite))
        .collect()
}

/// Parses `tls-ciphers`, a cipher list in OpenSSL's syntax; empty means all. As in OpenSSL, unknown
/// words are ignored. Returns `None` if no cipher is left.
pub(super) fn tls12_suites(text: &str) -> Option<Vec<SupportedCipherSuite>> {
    let text = if text.is_empty() { "ALL" } else { text };
    let (mut picked, mut banned) = (Vec::new(), Vec::new());
    for word in text.split([':', ',', ' ', ';']) {
        let (sign, word) = match word.as_bytes().first() {
            Some(sign @ (b'!' | b'-' | b'+')) => (*sign, &word[1..]),
            _ => (b' ', word),
        };
        let matching: Vec<usize> = (0..TLS12_SUITES.len())
            .filter(|at| is_in(*at, word))
            .collect();
        // As in OpenSSL, `!` removes suites for good, `-` removes them, and `+` moves them to the
        // end.
        match sign {
            b' ' => {
                let known = [picked.clone(), banned.clone()].concat();
                picked.extend(matching.into_iter().filter(|at| !known.contains(at)));
            }
            b'+' => picked.sort_by_key(|at| matching.contains(at)),
            _ => {
                picked.retain(|at| !matching.contains(at));
                if sign == b'!' {
                    banned.extend(matching);
                }
            }
        }
    }
    let suites: Vec<_> = picked.into_iter().map(|at| TLS12_SUITES[at].2).collect();
    (!suites.is_empty()).then_some(suites)
}

/// Returns true if each part of `word` is the suite's name or one of its groups. `+` separates
/// parts.
fn is_in(at: usize, word: &str) -> bool {
    let (name, groups, _) = TLS12_SUITES[at];
    word.split('+').all(|part| {
        part == name
            || ALL.contains(&part)
            || groups.contains(&part)
            || part == "aECDSA" && groups.contains(&"ECDSA")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Option<Vec<&'static str>> {
        let name = |suite: &SupportedCipherSuite| {
            let found = TLS12_SUITES.iter().find(|(_, _, known)| known == suite);
            found.map_or("?", |(name, ..)| *name)
        };
        tls12_suites(text).map(|suites| suites.iter().map(name).collect())
    }

    #[test]
    fn cipher_lists_are_openssls() {
        assert_eq!(names("").map(|all| all.len()), Some(6));
        assert_eq!(names("HIGH:!aNULL:!MD5").map(|all| all.len()), Some(6));
        assert_eq!(
            names("ECDHE+AES256"),
            Some(vec![
                "ECDHE-ECDSA-AES256-GCM-SHA384",
                "ECDHE-RSA-AES256-GCM-SHA384"
            ])
        );
        assert_eq!(
            names("CHACHA20:AES128:+ECDHE-ECDSA-CHACHA20-POLY1305:-aRSA"),
            Some(vec![
                "ECDHE-ECDSA-AES128-GCM-SHA256",
                "ECDHE-ECDSA-CHACHA20-POLY1305"
            ])
        );
        assert_eq!(
            names("ECDHE-RSA-CHACHA20-POLY1305:AES128:!aRSA"),
            Some(vec!["ECDHE-ECDSA-AES128-GCM-SHA256"])
        );
        assert_eq!(names("NONSENSE"), None);
        assert_eq!(names("RC4-MD5:DES-CBC3-SHA"), None);
        assert_eq!(names("ALL:!ALL"), None);
    }

    #[test]
    fn protocols_and_suites_have_fixed_names() {
        assert_eq!(protocols("TLSv1.2 tlsv1.3").unwrap().versions.len(), 2);
        assert!(protocols("TLSv1.1").unwrap().too_old);
        assert!(protocols("TLSv9").is_none());
        assert_eq!(tls13_suites("TLS_AES_128_GCM_SHA256").unwrap().len(), 1);
        assert!(tls13_suites("NONSENSE").is_none());
    }
}
