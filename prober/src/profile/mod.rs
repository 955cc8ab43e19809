//! Clients as data: who fetches an HTTP-01 challenge, and by which rules. The self check is not the certificate
//! authority; they differ in both directions, so each has its own profile and its own verdict.
//!
//! Read in the sources of cert-manager (`pkg/issuer/acme/http/http.go`, 1.21), Boulder (`va/http.go`, August 2026) and
//! Pebble 2.4.0 (`va/va.go`).

mod client;
mod proxy;

use std::time::Duration;

pub use self::{
    client::{Challenge, DialTried, Validation, validate},
    proxy::proxied_by,
};
use crate::{
    http::USER_AGENT,
    probe::redirect::{CODES, Hosts, Ports, Rules},
};

/// One client's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// What it is called.
    pub client: ClientProfile,
    /// How it introduces itself.
    pub user_agent: &'static str,
    /// Its `Accept` header, where it sends one.
    pub accept: Option<&'static str>,
    /// Whether `Host` carries the port even where it is the scheme's own.
    pub host_with_port: bool,
    /// Deadline of one fetch with all its redirects.
    pub timeout: Duration,
    /// Deadline of one connect, and of one TLS handshake, where it has its own.
    pub dial_timeout: Option<Duration>,
    /// Which of a host's addresses it connects to.
    pub addresses: AddressRule,
    /// Whether it connects to private and reserved addresses.
    pub reserved_allowed: bool,
    /// Which redirects it follows.
    pub redirects: RedirectRules,
    /// When the answer's body is the right one. The status must be 200 in all of them.
    pub body: BodyRule,
    /// Fetches in a row that must all succeed; the first failure ends them.
    pub passes: u32,
    /// Time between two of those.
    pub pause: Duration,
    /// Whether it goes through the proxy its environment names (see [`proxied_by`]).
    pub honours_proxy_environment: bool,
}

/// Who fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientProfile {
    /// A plain careful client: the probe's own manners.
    Generic,
    /// cert-manager's self check.
    CertManager,
    /// Let's Encrypt's server.
    Boulder,
    /// Its test server.
    Pebble,
}

/// Which addresses a client connects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressRule {
    /// Both families raced (Go's dialer, RFC 8305): a dead IPv6 address is invisible to it.
    Raced,
    /// The first AAAA; the first A only after a dial error. The fallback belongs to the first host alone, and starts
    /// again from the first URL.
    V6ThenV4OnDialError,
    /// The first address, IPv6 before IPv4, and no other.
    FirstOnly,
}

/// Which redirects a client follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedirectRules {
    /// Most redirects followed.
    pub most: usize,
    /// Statuses that are redirects and yet refused.
    pub refused_codes: &'static [u16],
    /// The only ports allowed; any where empty.
    pub ports: &'static [u16],
    /// Whether a URL seen before is refused at once.
    pub notices_loops: bool,
    /// Whether reserved addresses, names without a dot and names that lack a slash (`….well-known`) are refused.
    pub public_hosts_only: bool,
    /// Longest path, in bytes.
    pub longest_path: Option<usize>,
}

/// When a body is the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyRule {
    /// Most bytes; one more fails whatever they are.
    pub most: Option<u64>,
    /// What is cut off its end before it is compared.
    pub trim: Trim,
}

/// What is cut off the end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trim {
    /// Nothing: a trailing newline is a wrong body.
    Nothing,
    /// Unicode white space.
    WhiteSpace,
    /// `\n`, `\r` and `\t`, but not the blank.
    LineEnds,
}

impl Trim {
    fn cut(self, body: &str) -> &str {
        match self {
            Self::Nothing => body,
            Self::WhiteSpace => body.trim_end(),
            Self::LineEnds => body.trim_end_matches(['\n', '\r', '\t']),
        }
    }
}

impl Profile {
    /// The rules of a client.
    #[must_use]
    pub const fn of(client: ClientProfile) -> Self {
        match client {
            ClientProfile::Generic => Self::generic(),
            ClientProfile::CertManager => Self::cert_manager(),
            ClientProfile::Boulder => Self::boulder(),
            ClientProfile::Pebble => Self::pebble(),
        }
    }

    const fn generic() -> Self {
        Self {
            client: ClientProfile::Generic,
            user_agent: USER_AGENT,
            accept: Some("*/*"),
            host_with_port: false,
            timeout: Duration::from_secs(10),
            dial_timeout: None,
            addresses: AddressRule::Raced,
            reserved_allowed: true,
            redirects: RedirectRules {
                most: 10,
                refused_codes: &[],
                ports: &[],
                notices_loops: true,
                public_hosts_only: false,
                longest_path: None,
            },
            body: BodyRule {
                most: None,
                trim: Trim::WhiteSpace,
            },
            passes: 1,
            pause: Duration::ZERO,
            honours_proxy_environment: false,
        }
    }

    /// `http.Client{Timeout: 10s}` with Go's own redirect policy: an error once ten requests have been made, any host
    /// and port, no notice of loops. Five passes, two seconds apart.
    const fn cert_manager() -> Self {
        Self {
            client: ClientProfile::CertManager,
            user_agent: "cert-manager-challenges/v1.21.1 (linux/amd64) cert-manager/parallax-preflight",
            accept: None,
            addresses: AddressRule::Raced,
            redirects: RedirectRules {
                most: 9,
                refused_codes: &[],
                ports: &[],
                notices_loops: false,
                public_hosts_only: false,
                longest_path: None,
            },
            body: BodyRule {
                most: None,
                trim: Trim::Nothing,
            },
            passes: 5,
            pause: Duration::from_secs(2),
            honours_proxy_environment: true,
            ..Self::generic()
        }
    }

    /// Eleven redirects: the test `numRedirects > 10` precedes the increment. The whole time is that of its test
    /// configuration, less the 200 ms it keeps back; production's is not published.
    const fn boulder() -> Self {
        Self {
            client: ClientProfile::Boulder,
            user_agent: "Mozilla/5.0 (compatible; Let's Encrypt validation server; +https://www.letsencrypt.org)",
            timeout: Duration::from_millis(19_800),
            dial_timeout: Some(Duration::from_secs(10)),
            addresses: AddressRule::V6ThenV4OnDialError,
            reserved_allowed: false,
            redirects: RedirectRules {
                most: 11,
                refused_codes: &[303],
                ports: &[80, 443],
                notices_loops: true,
                public_hosts_only: true,
                longest_path: Some(2000),
            },
            body: BodyRule {
                most: Some(127),
                trim: Trim::WhiteSpace,
            },
            ..Self::generic()
        }
    }

    /// Stricter than Boulder where IPv6 is dead, laxer nearly everywhere else.
    const fn pebble() -> Self {
        Self {
            client: ClientProfile::Pebble,
            user_agent: "LetsEncrypt-Pebble-VA (https://github.com/letsencrypt/pebble)",
            host_with_port: true,
            timeout: Duration::from_secs(15),
            addresses: AddressRule::FirstOnly,
            redirects: RedirectRules {
                most: 9,
                refused_codes: &[],
                ports: &[],
                notices_loops: false,
                public_hosts_only: false,
                longest_path: None,
            },
            body: BodyRule {
                most: None,
                trim: Trim::LineEnds,
            },
            ..Self::generic()
        }
    }

    fn rules(&self) -> Rules {
        let rules = self.redirects;
        Rules {
            codes: CODES,
            refused_codes: rules.refused_codes,
            most: rules.most,
            notices_loops: rules.notices_loops,
            schemes: Vec::new(),
            hosts: if rules.public_hosts_only {
                Hosts::Public
            } else {
                Hosts::Any
            },
            ports: if rules.ports.is_empty() {
                Ports::Any
            } else {
                Ports::Only(rules.ports.to_vec())
            },
            longest_path: rules.longest_path,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;
    use crate::{
        classify::Fault,
        probe::{place::Place, redirect::Trail},
    };

    /// Whether the profile follows a redirect of this code from `http://shop.example.org/` to there.
    fn follows(client: ClientProfile, code: u16, to: &str) -> bool {
        let at = Place::of_url(
            &"http://shop.example.org/.well-known/acme-challenge/t"
                .parse()
                .unwrap(),
        )
        .unwrap();
        let head = Response::builder()
            .status(code)
            .header("location", to)
            .body(())
            .unwrap()
            .into_parts()
            .0;
        let next = Trail::begin(&at).next(&at, &head, &Profile::of(client).rules());
        matches!(next, Ok(Some(_)))
    }

    #[test]
    fn each_client_follows_the_redirects_it_follows_in_its_source() {
        use ClientProfile::{Boulder, CertManager, Pebble};
        let long = format!("https://shop.example.org/{}", "x".repeat(2001));
        // Boulder, cert-manager, Pebble.
        for (code, to, expected) in [
            (301, "https://shop.example.org/", [true, true, true]),
            (302, "https://www.example.org/", [true, true, true]),
            (307, "/elsewhere", [true, true, true]),
            (308, "https://shop.example.org/", [true, true, true]),
            (303, "https://shop.example.org/", [false, true, true]),
            (301, "http://shop.example.org:8080/", [false, true, true]),
            // Explicit ports are held against both, whatever the scheme.
            (301, "https://shop.example.org:80/", [true, true, true]),
            (301, "ftp://shop.example.org/", [false, false, false]),
            (301, "https://10.0.0.1/", [false, true, true]),
            (301, "https://8.8.8.8/", [true, true, true]),
            (301, "https://shop.example.org.well-known/", [false, true, true]),
            (301, "https://shop/", [false, true, true]),
            (301, &long, [false, true, true]),
            // The same URL again.
            (
                301,
                "http://shop.example.org/.well-known/acme-challenge/t",
                [false, true, true],
            ),
        ] {
            let got = [Boulder, CertManager, Pebble].map(|client| follows(client, code, to));
            assert_eq!(got, expected, "{code} {to}");
        }
    }

    #[test]
    fn each_client_gives_up_after_its_own_number_of_redirects() {
        for (client, most) in [
            (ClientProfile::CertManager, 9),
            (ClientProfile::Boulder, 11),
            (ClientProfile::Pebble, 9),
        ] {
            let mut at = Place::of_url(&"http://shop.example.org/0".parse().unwrap()).unwrap();
            let mut trail = Trail::begin(&at);
            let rules = Profile::of(client).rules();
            let mut followed = 0;
            let ended = loop {
                let to = format!("/{}", followed + 1);
                let head = Response::builder()
                    .status(302)
                    .header("location", to)
                    .body(())
                    .unwrap()
                    .into_parts()
                    .0;
                match trail.next(&at, &head, &rules) {
                    Ok(next) => at = next.unwrap(),
                    Err(stop) => break stop.fault,
                }
                followed += 1;
            };
            assert_eq!(followed, most, "{client:?}");
            assert_eq!(ended, Fault::Target(parallax_model::FailureKind::RedirectTooMany));
        }
    }

    #[test]
    fn a_body_is_compared_after_each_clients_own_trimming() {
        use ClientProfile::{Boulder, CertManager, Pebble};
        for (body, expected) in [
            ("key", [true, true, true]),
            ("key\n", [true, false, true]),
            ("key\r\n\t", [true, false, true]),
            ("key\r\n  ", [true, false, false]),
            ("key\u{a0}", [true, false, false]),
            ("\nkey", [false, false, false]),
        ] {
            let got =
                [Boulder, CertManager, Pebble].map(|client| Profile::of(client).body.trim.cut(body) == "key");
            assert_eq!(got, expected, "{body:?}");
        }
    }
}
