//! Command line options, validated as a whole before anything is sent.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::{
    ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use parallax_model::{ExpectedStatus, HttpProxyUrl, InvalidProxyUrl, Method, ProxyHeader, units};
use parallax_prober::ClientProfile;

/// The resolver configuration of this machine.
pub(super) const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Check URLs from this machine.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 every URL works, 1 a URL fails, 2 invalid usage, 3 a URL could not be checked."
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct CheckOptions {
    #[arg(
        required = true,
        value_name = "URL",
        help = "http://…, https://…, tcp://HOST:PORT, tls://HOST:PORT or dns://NAME; a bare HOST means https"
    )]
    pub(super) urls: Vec<String>,
    /// Print one JSON document per URL, one per line, instead of text.
    #[arg(long)]
    pub(super) json: bool,
    /// Client to imitate. `cert-manager`, `ca` and `pebble` fetch the URL as those clients fetch an HTTP-01 challenge.
    #[arg(long, value_enum, default_value_t = CheckProfile::Generic)]
    pub(super) profile: CheckProfile,
    /// Number of passes. More than one prints counts and percentiles of the times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) repeat: u32,
    /// Time between the starts of two passes.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(super) interval: Duration,
    /// Timeout of one request with all its phases, for example 5s or 500ms [default: 10s, or that of the profile].
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    pub(super) timeout: Option<Duration>,
    /// Resolver to query instead of the machine's. If given several times, the answers of all are compared.
    #[arg(long, value_name = "IP[:PORT]", value_parser = |text: &str| parse_endpoint(text, Some(53)))]
    pub(super) resolver: Vec<Endpoint>,
    /// Address to connect to, whatever the name resolves to; Host and server name stay. Can be given several times.
    #[arg(long, value_name = "IP[:PORT]", conflicts_with = "resolver", value_parser = |text: &str| parse_endpoint(text, None))]
    pub(super) connect_to: Vec<Endpoint>,
    /// Use IPv4 addresses only.
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub(super) ipv4: bool,
    /// Use IPv6 addresses only.
    #[arg(short = '6', long)]
    pub(super) ipv6: bool,
    /// Treat a dead address or a disagreeing resolver as a failure, even if a client can use another one.
    #[arg(long)]
    pub(super) every_address: bool,
    /// Statuses that are a success: 200, 2xx, 200-299,404 [default: <500].
    // The text is also the help of the flag, where defaults are in brackets.
    #[allow(rustdoc::broken_intra_doc_links)]
    #[arg(long, value_name = "STATUSES", value_parser = parse_statuses)]
    pub(super) expect_status: Option<ExpectedStatus>,
    /// Text that the first 64 KiB of the response must contain.
    #[arg(long, value_name = "TEXT")]
    pub(super) contains: Option<String>,
    /// Expected body, byte for byte; with a profile, after that client has trimmed the end.
    #[arg(long, value_name = "TEXT", conflicts_with = "contains")]
    pub(super) expect_body: Option<String>,
    /// Name in CAA records of the authority that they must allow; with `--profile ca`.
    #[arg(long, value_name = "NAME", default_value = "letsencrypt.org")]
    pub(super) caa_issuer: String,
    /// ACME account that requests the certificate, for CAA records bound to an account; with `--profile ca`.
    #[arg(long, value_name = "URI")]
    pub(super) account_uri: Option<String>,
    /// Number of days for which every certificate of the chain must still be valid.
    #[arg(long, value_name = "DAYS")]
    pub(super) days_left: Option<u16>,
    /// Request method.
    #[arg(long, default_value = "GET", value_parser = method_parser())]
    pub(super) method: Method,
    /// Request header, as `NAME: VALUE`. Can be given several times. Use `--bearer-file` or `--basic-file` for secrets.
    #[arg(short = 'H', long, value_name = "HEADER", value_parser = parse_header)]
    pub(super) header: Vec<(String, String)>,
    /// File with a bearer token to send to the host of the URL, over TLS only.
    #[arg(long, value_name = "FILE", conflicts_with = "basic_file")]
    pub(super) bearer_file: Option<PathBuf>,
    /// File with `USER:PASSWORD` to send to the host of the URL (basic authentication), over TLS only.
    #[arg(long, value_name = "FILE")]
    pub(super) basic_file: Option<PathBuf>,
    /// Client certificate (PEM) to present to the host of the URL.
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(super) client_cert: Option<PathBuf>,
    /// Private key (PEM) of the client certificate.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub(super) client_key: Option<PathBuf>,
    /// HTTP proxy to send the requests through. Its addresses are checked, and it resolves the name of the URL.
    #[arg(long, value_name = "http://HOST:PORT", conflicts_with = "connect_to", value_parser = parse_proxy)]
    pub(super) proxy: Option<HttpProxyUrl>,
    /// File with `USER:PASSWORD` to send to the proxy.
    #[arg(long, value_name = "FILE", requires = "proxy")]
    pub(super) proxy_basic_file: Option<PathBuf>,
    /// Use HTTP/2 (https only).
    #[arg(long)]
    pub(super) http2: bool,
    /// Accept a certificate that does not verify; the problem is still reported.
    #[arg(short = 'k', long)]
    pub(super) insecure: bool,
    /// Send a PROXY v1 header first, as a balancer would.
    #[arg(long, value_name = "KIND", value_parser = proxy_header_parser())]
    pub(super) proxy_header: Option<ProxyHeader>,
    /// Check the redirect response itself instead of following it.
    #[arg(long)]
    pub(super) no_follow: bool,
    /// File with the resolvers and the search list.
    #[arg(long, value_name = "FILE", default_value = RESOLV_CONF)]
    pub(super) resolv_conf: PathBuf,
    /// File with static host names.
    #[arg(long, value_name = "FILE", default_value = "/etc/hosts")]
    pub(super) hosts_file: PathBuf,
    /// Root certificates (PEM) to trust in addition to the machine's own.
    #[arg(long, value_name = "FILE")]
    pub extra_roots: Vec<PathBuf>,
}

impl CheckOptions {
    /// The flag that sets the `Authorization` of the requests.
    pub(super) fn authorization_flag(&self) -> Option<&'static str> {
        match (&self.bearer_file, &self.basic_file) {
            (Some(_), _) => Some("--bearer-file"),
            (None, Some(_)) => Some("--basic-file"),
            (None, None) => None,
        }
    }
}

/// The values of `--profile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CheckProfile {
    /// Probes every address separately.
    Generic,
    /// cert-manager's self check.
    CertManager,
    /// Let's Encrypt's servers.
    Ca,
    /// Let's Encrypt's test server.
    Pebble,
}

impl CheckProfile {
    /// The client to imitate; `None` for the default of probing every address.
    pub(super) const fn client(self) -> Option<ClientProfile> {
        match self {
            Self::Generic => None,
            Self::CertManager => Some(ClientProfile::CertManager),
            Self::Ca => Some(ClientProfile::Boulder),
            Self::Pebble => Some(ClientProfile::Pebble),
        }
    }
}

/// An address with an optional port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) ip: IpAddr,
    pub(super) port: Option<u16>,
}

impl Endpoint {
    pub(super) fn with_default_port(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.unwrap_or(port))
    }
}

fn parse_endpoint(text: &str, usual: Option<u16>) -> Result<Endpoint, String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    if let Ok(ip) = bare.parse() {
        return Ok(Endpoint { ip, port: usual });
    }
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => Ok(Endpoint {
            ip: address.ip(),
            port: Some(address.port()),
        }),
        _ => Err(
            "expected an address like 192.0.2.1, 192.0.2.1:8080, 2001:db8::1 or [2001:db8::1]:8080"
                .to_owned(),
        ),
    }
}

/// Parses `NAME: VALUE`. The value may be a secret by mistake, so no message repeats it.
fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("expected NAME: VALUE, with a colon after the name")?;
    Ok((name.to_owned(), value.trim().to_owned()))
}

fn parse_proxy(text: &str) -> Result<HttpProxyUrl, String> {
    text.parse::<HttpProxyUrl>().map_err(|wrong| match wrong {
        InvalidProxyUrl::Password => {
            "expected http://HOST:PORT; use --proxy-basic-file for a user name and password".to_owned()
        }
        InvalidProxyUrl::Form => wrong.to_string(),
    })
}

fn parse_statuses(text: &str) -> Result<ExpectedStatus, String> {
    ExpectedStatus::try_from(text.to_owned()).map_err(|wrong| wrong.to_string())
}

/// Parses a duration: `500ms`, `5s`, `2m`, or seconds without a unit.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let milliseconds = units::parse_with_unit(text, &units::MILLISECONDS)
        .ok_or_else(|| format!("expected a time like 500ms, 5s or 2m, got {text:?}"))?;
    Ok(Duration::from_millis(milliseconds.min(24 * 3_600_000)))
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text)?;
    if (Duration::from_millis(50)..=Duration::from_mins(1)).contains(&span) {
        Ok(span)
    } else {
        Err(format!("expected 50ms to 60s, got {text:?}"))
    }
}

fn method_parser() -> impl TypedValueParser<Value = Method> {
    one_of(&[(Method::Get, "GET"), (Method::Head, "HEAD")])
}

fn proxy_header_parser() -> impl TypedValueParser<Value = ProxyHeader> {
    one_of(&[(ProxyHeader::Tcp, "tcp"), (ProxyHeader::Unknown, "unknown")])
}

fn one_of<T: Copy + Send + Sync + 'static>(
    values: &'static [(T, &'static str)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(values.iter().map(|(_, label)| *label)).try_map(|chosen| {
        let found = values.iter().find(|(_, label)| *label == chosen);
        found.map(|(value, _)| *value).ok_or("no such value")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_means_seconds() {
        for (text, ms) in [("500ms", 500), ("5s", 5_000), ("2", 2_000), ("2m", 120_000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for wrong in ["", "s", "-1s", "1h", "1.5s", "١s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_has_a_port_or_the_usual_one() {
        let read = |text| {
            parse_endpoint(text, Some(53))
                .ok()
                .map(|endpoint| endpoint.with_default_port(1).to_string())
        };
        for (text, expected) in [
            ("192.0.2.1", Some("192.0.2.1:53")),
            ("192.0.2.1:5353", Some("192.0.2.1:5353")),
            ("2001:db8::1", Some("[2001:db8::1]:53")),
            ("[2001:db8::1]", Some("[2001:db8::1]:53")),
            ("[2001:db8::1]:8053", Some("[2001:db8::1]:8053")),
            ("dns.example.test", None),
            ("192.0.2.1:0", None),
        ] {
            assert_eq!(read(text).as_deref(), expected, "{text}");
        }
    }
}
