//! Properties that all probe kinds have in common. A new kind must be handled in each `match` of this module.

use std::{fmt, net::SocketAddr};

use serde::{Deserialize, Serialize};

use super::{HttpProxyUrl, MustNotAnswer, ProbeSpec, Scheme, SearchManner};
use crate::{HostName, Scope, channel::label_enum};

label_enum! {
    /// The kind of a probe, as labelled in metrics.
    ProbeKind {
        /// A request over HTTP or HTTPS.
        Http = "http",
        /// A TCP connection.
        Tcp = "tcp",
        /// A query to a resolver.
        Dns = "dns",
        /// A request to another prober's echo.
        Echo = "echo",
        /// An ACME challenge.
        Challenge = "challenge",
        /// Queries for the DNS records of a name.
        Names = "names",
    }
}

impl ProbeSpec {
    /// Returns the kind of the probe.
    #[must_use]
    pub const fn kind(&self) -> ProbeKind {
        match self {
            Self::Http(_) => ProbeKind::Http,
            Self::Tcp(_) => ProbeKind::Tcp,
            Self::Dns(_) => ProbeKind::Dns,
            Self::Echo { .. } => ProbeKind::Echo,
            Self::Challenge(_) => ProbeKind::Challenge,
            Self::Names(_) => ProbeKind::Names,
        }
    }

    /// The name or literal address that the probe targets. `None` for an echo, whose address is always given.
    #[must_use]
    pub const fn host(&self) -> Option<&HostName> {
        match self {
            Self::Http(probe) => Some(&probe.host),
            Self::Tcp(probe) => Some(&probe.host),
            Self::Dns(probe) => Some(&probe.name),
            Self::Challenge(probe) => Some(&probe.host),
            Self::Names(probe) => Some(&probe.name),
            Self::Echo { .. } => None,
        }
    }

    /// The proxy that the probe sends its requests through.
    #[must_use]
    pub fn proxy(&self) -> Option<&HttpProxyUrl> {
        match self {
            Self::Http(probe) => probe.proxy.as_ref().map(|proxy| &proxy.url),
            Self::Tcp(_) | Self::Dns(_) | Self::Echo { .. } | Self::Challenge(_) | Self::Names(_) => None,
        }
    }

    /// The name or literal address that the prober itself resolves: that of the proxy if there is one, because the proxy
    /// resolves the target's.
    #[must_use]
    pub fn resolved_host(&self) -> Option<&HostName> {
        self.proxy()
            .map_or_else(|| self.host(), |proxy| Some(&proxy.host))
    }

    /// The resolver to query for the name instead of the machine's.
    #[must_use]
    pub const fn resolver(&self) -> Option<SocketAddr> {
        match self {
            Self::Http(probe) => probe.resolver,
            Self::Tcp(probe) => probe.resolver,
            Self::Dns(probe) => probe.resolver,
            Self::Echo { .. } | Self::Challenge(_) | Self::Names(_) => None,
        }
    }

    /// The port of the target. `None` for DNS queries, which do not connect to the name itself.
    #[must_use]
    pub const fn port(&self) -> Option<u16> {
        match self {
            Self::Http(probe) => Some(probe.port),
            Self::Tcp(probe) => Some(probe.port),
            Self::Challenge(probe) => Some(probe.port),
            Self::Dns(_) | Self::Echo { .. } | Self::Names(_) => None,
        }
    }

    /// The host and port to connect to if the assignment gives no address: the proxy if there is one. `None` if the probe
    /// connects to no host of its own.
    #[must_use]
    pub fn server(&self) -> Option<(&HostName, u16)> {
        match self.proxy() {
            Some(proxy) => Some((&proxy.host, proxy.port)),
            None => self.host().zip(self.port()),
        }
    }

    /// Whether the first connection uses TLS. A proxy is asked in plain text for the connection that uses TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        match self {
            Self::Http(probe) => probe.scheme == Scheme::Https && probe.proxy.is_none(),
            Self::Tcp(probe) => probe.tls,
            Self::Dns(_) | Self::Echo { .. } | Self::Challenge(_) | Self::Names(_) => false,
        }
    }

    /// The C library whose resolver behaviour the probe follows; glibc by default.
    #[must_use]
    pub fn search(&self) -> SearchManner {
        let manner = match self {
            Self::Http(probe) => probe.search,
            Self::Tcp(probe) => probe.search,
            Self::Dns(probe) => probe.search,
            Self::Echo { .. } | Self::Challenge(_) | Self::Names(_) => None,
        };
        manner.unwrap_or(SearchManner::Glibc)
    }

    /// The addresses that the probe may connect to; `None` for no restriction.
    #[must_use]
    pub const fn scope(&self) -> Option<&Scope> {
        match self {
            Self::Http(probe) => probe.scope.as_ref(),
            Self::Tcp(probe) => probe.scope.as_ref(),
            Self::Challenge(probe) => probe.scope.as_ref(),
            Self::Names(probe) => probe.scope.as_ref(),
            Self::Dns(_) | Self::Echo { .. } => None,
        }
    }

    /// Returns the probe restricted to a scope. DNS queries and echo probes stay unchanged, because neither
    /// follows a name or a redirect.
    #[must_use]
    pub fn with_scope(mut self, scope: &Scope) -> Self {
        match &mut self {
            Self::Http(probe) => probe.scope = Some(scope.clone()),
            Self::Tcp(probe) => probe.scope = Some(scope.clone()),
            Self::Challenge(probe) => probe.scope = Some(scope.clone()),
            Self::Names(probe) => probe.scope = Some(scope.clone()),
            Self::Dns(_) | Self::Echo { .. } => {}
        }
        self
    }

    /// Reports whether the probe succeeds by getting no answer.
    #[must_use]
    pub const fn requires_silence(&self) -> bool {
        match self {
            Self::Http(probe) => probe.must_not_answer.is_some(),
            Self::Tcp(probe) => probe.must_not_answer.is_some(),
            Self::Dns(_) | Self::Echo { .. } | Self::Challenge(_) | Self::Names(_) => false,
        }
    }

    /// Returns the same probe with a requirement not to answer, or `None` for a kind that does not support
    /// it.
    #[must_use]
    pub fn requiring_no_answer(&self, silence: MustNotAnswer) -> Option<Self> {
        let mut probe = self.clone();
        match &mut probe {
            Self::Http(probe) => probe.must_not_answer = Some(silence),
            Self::Tcp(probe) => probe.must_not_answer = Some(silence),
            Self::Dns(_) | Self::Echo { .. } | Self::Challenge(_) | Self::Names(_) => return None,
        }
        Some(probe)
    }
}
