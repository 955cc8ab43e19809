//! Pseudonyms: equal values stay equal, and the original cannot be recovered.
//!
//! Each part of a name between dots becomes its keyed hash (HMAC-SHA-256), so that hosts under the same domain stay
//! under the same domain, and a Service's name is still the first label of its DNS name. Addresses keep their common
//! prefixes, as in "Prefix-Preserving IP Address Anonymization" (Fan, Xu, Ammar, Moon, Computer Networks 2004): two
//! addresses of one subnet map to one subnet. The key is generated for each recording and stored nowhere.
//!
//! Unchanged: ports, times, address family, loopback and unspecified addresses, schemes, and whether a name belongs to
//! the cluster's domain (`.svc`, `.cluster.local`).

mod redact;

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use ring::{hmac, rand::SystemRandom};
use url::Url;

use super::RecordError;

/// Letters and digits that are not easily confused.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Characters of a pseudonym after its `x`: 50 bits.
const WORD_LENGTH: usize = 10;
/// A name with more parts becomes one word, so that the pseudonym does not exceed the maximum length of a name.
const MAX_PARTS: usize = 40;
/// Maximum number of cached address pseudonyms.
const MAX_CACHED_ADDRESSES: usize = 50_000;
/// Suffixes of names inside a cluster, longest first.
const CLUSTER_SUFFIXES: [&str; 4] = [
    ".svc.cluster.local",
    ".pod.cluster.local",
    ".cluster.local",
    ".svc",
];

/// Maps names and addresses to pseudonyms with the key of one recording.
pub(super) struct Pseudonymizer {
    key: hmac::Key,
    addresses: HashMap<IpAddr, IpAddr>,
}

impl std::fmt::Debug for Pseudonymizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key must not reach a log.
        f.debug_struct("Pseudonymizer").finish_non_exhaustive()
    }
}

impl Pseudonymizer {
    pub(super) fn new() -> Result<Self, RecordError> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| RecordError::NoRandomness)?;
        Ok(Self {
            key,
            addresses: HashMap::new(),
        })
    }

    /// The pseudonym of a whole text.
    fn word(&self, text: &str) -> String {
        let tag = hmac::sign(&self.key, format!("name {text}").as_bytes());
        let mut bits = tag
            .as_ref()
            .iter()
            .take(8)
            .fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        let mut word = String::from("x");
        for _ in 0..WORD_LENGTH {
            // Five bits are an index below 32.
            word.push(char::from(ALPHABET[(bits & 31) as usize]));
            bits >>= 5;
        }
        word
    }

    /// The pseudonym of a name, part by part.
    fn name(&mut self, name: &str) -> String {
        if let Ok(address) = name.parse::<IpAddr>() {
            return self.ip(address).to_string();
        }
        let kept = CLUSTER_SUFFIXES.iter().find(|end| name.ends_with(**end)).copied();
        let (own, end) = name.split_at(name.len() - kept.map_or(0, str::len));
        if own.split('.').count() > MAX_PARTS {
            return format!("{}{end}", self.word(own));
        }
        let parts: Vec<String> = own.split('.').map(|part| self.name_part(part)).collect();
        format!("{}{end}", parts.join("."))
    }

    fn name_part(&self, part: &str) -> String {
        if part.is_empty() {
            String::new()
        } else {
            self.word(part)
        }
    }

    pub(super) fn ip(&mut self, address: IpAddr) -> IpAddr {
        if address.is_loopback() || address.is_unspecified() {
            return address;
        }
        if let Some(known) = self.addresses.get(&address) {
            return *known;
        }
        let veiled = match address {
            IpAddr::V4(v4) => {
                let bits = self.permute_prefixes(u128::from(v4.to_bits()) << 96, 32) >> 96;
                // The upper 96 bits are shifted away.
                IpAddr::V4(Ipv4Addr::from_bits(bits as u32))
            }
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(self.permute_prefixes(v6.to_bits(), 128))),
        };
        if self.addresses.len() >= MAX_CACHED_ADDRESSES {
            self.addresses.clear();
        }
        self.addresses.insert(address, veiled);
        veiled
    }

    /// Flips each bit or not, depending on a keyed hash of the bits before it.
    fn permute_prefixes(&self, address: u128, length: u32) -> u128 {
        (0..length).fold(address, |veiled, i| {
            let before = if i == 0 { 0 } else { address >> (128 - i) };
            let tag = hmac::sign(&self.key, format!("address {length} {i} {before:x}").as_bytes());
            let turn = u128::from(tag.as_ref().first().is_some_and(|byte| byte & 1 == 1));
            veiled ^ turn << (127 - i)
        })
    }

    fn socket(&mut self, address: SocketAddr) -> SocketAddr {
        SocketAddr::new(self.ip(address.ip()), address.port())
    }

    /// The pseudonym of a target id; scheme, port and structure are kept.
    fn target_id(&mut self, id: &str) -> String {
        let Some((scheme, rest)) = id.split_once("://") else {
            return self.word(id);
        };
        let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(r, f)| (r, Some(f)));
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(r, q)| (r, Some(q)));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let mut out = format!("{}://{}", self.scheme(scheme), self.authority(authority));
        let segments: Vec<&str> = path.split('/').collect();
        if segments.len() > MAX_PARTS {
            out.push('/');
            out.push_str(&self.word(path));
        } else {
            let parts: Vec<String> = segments
                .into_iter()
                .map(|segment| self.name_part(segment))
                .collect();
            out.push_str(&parts.join("/"));
        }
        if let Some(query) = query {
            out.push('?');
            out.push_str(&self.name_part(query));
        }
        if let Some(fragment) = fragment {
            out.push('#');
            let words: Vec<String> = fragment.split(',').map(|word| self.fragment_word(word)).collect();
            out.push_str(&words.join(","));
        }
        out
    }

    fn scheme(&self, scheme: &str) -> String {
        match scheme {
            "http" | "https" | "tcp" | "tls" | "dns" | "echo" => scheme.to_owned(),
            other => self.word(other),
        }
    }

    /// The fragment distinguishes targets that probe the same name differently.
    fn fragment_word(&mut self, word: &str) -> String {
        match word {
            "keep-alive" | "A" | "AAAA" | "udp" | "tcp" | "glibc" | "musl" | "" => word.to_owned(),
            _ if is_silent_from(word) => word.to_owned(),
            _ => {
                // A resolver, or an address at which the host is probed although it is not published there.
                let addressed = ["@", "at=", "silent-at="].into_iter().find_map(|before| {
                    let address: SocketAddr = word.strip_prefix(before)?.parse().ok()?;
                    Some((before, address))
                });
                if let Some((before, address)) = addressed {
                    return format!("{before}{}", self.socket(address));
                }
                if let Some(proxy) = word.strip_prefix("proxy=") {
                    return format!("proxy={}", self.authority(proxy));
                }
                match word.split_once('=') {
                    Some((kind @ ("credential" | "certificate"), name)) => {
                        format!("{kind}={}", self.word(name))
                    }
                    _ => self.word(word),
                }
            }
        }
    }

    fn authority(&mut self, authority: &str) -> String {
        if let Some((address, after)) = authority.strip_prefix('[').and_then(|a| a.split_once(']')) {
            return format!("[{}]{}", self.name(address), self.port_suffix(after));
        }
        match authority.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => {
                format!("{}{}", self.name(host), self.port_suffix(&format!(":{port}")))
            }
            _ => self.name(authority),
        }
    }

    /// `:8080`; anything that is not a number becomes a pseudonym.
    fn port_suffix(&self, after: &str) -> String {
        let number = after.is_empty() || after.strip_prefix(':').is_some_and(|n| n.parse::<u16>().is_ok());
        if number {
            after.to_owned()
        } else {
            self.name_part(after)
        }
    }

    /// The pseudonym of a target's URL as written. The URL is normalized to the form of the target id first, so that
    /// the case of a host name makes no difference.
    fn url(&mut self, url: &str) -> String {
        let plain = Url::parse(url).map_or_else(|_| url.to_owned(), String::from);
        self.target_id(&plain)
    }

    /// The pseudonym of a host as written in an Ingress, normalized to lower case like a URL.
    fn host(&mut self, host: &str) -> String {
        let plain = Url::parse(&format!("http://{host}/"))
            .ok()
            .and_then(|url| url.host_str().map(ToOwned::to_owned));
        self.name(plain.as_deref().unwrap_or(host))
    }
}

/// Whether a word of the fragment lists vantages that must get no response; it contains no names.
fn is_silent_from(word: &str) -> bool {
    word.strip_prefix("silent-from=").is_some_and(|kinds| {
        kinds.split('+').all(|kind| {
            parallax_model::Whence::ALL
                .iter()
                .any(|whence| whence.label() == kind)
        })
    })
}
