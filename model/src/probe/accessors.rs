//! What all kinds of probe have in common, computed in one place: a new kind answers these questions here.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{MustNotAnswer, ProbeSpec, Scheme, SearchManner};
use crate::{HostName, Scope, channel::label_enum};

label_enum! {
    /// The kind of a probe, as it is called in metrics.
    ProbeKind {
        /// A request over HTTP or HTTPS.
        Http = "http",
        /// A TCP connection.
        Tcp = "tcp",
        /// A question to a resolver.
        Dns = "dns",
        /// Another prober's echo.
        Echo = "echo",
        /// An ACME challenge.
        Challenge = "challenge",
        /// What servers answer about a name.
        Names = "names",
    }
}

impl ProbeSpec {
    /// Which kind of probe this is.
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

    /// The name or literal address it asks for. An echo has none: its address is always given.
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

    /// The port of the host it connects to. A question about a name connects to no port of that name.
    #[must_use]
    pub const fn port(&self) -> Option<u16> {
        match self {
            Self::Http(probe) => Some(probe.port),
            Self::Tcp(probe) => Some(probe.port),
            Self::Challenge(probe) => Some(probe.port),
            Self::Dns(_) | Self::Echo { .. } | Self::Names(_) => None,
        }
    }

    /// Host and port it connects to where no address is forced; nothing where it connects to no host of its own.
    #[must_use]
    pub fn server(&self) -> Option<(&HostName, u16)> {
        self.host().zip(self.port())
    }

    /// Whether its first connection is over TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        match self {
            Self::Http(probe) => probe.scheme == Scheme::Https,
            Self::Tcp(probe) => probe.tls,
            Self::Dns(_) | Self::Echo { .. } | Self::Challenge(_) | Self::Names(_) => false,
        }
    }

    /// The C library in whose manner it looks names up.
    #[must_use]
    pub fn search(&self) -> SearchManner {
        let asked = match self {
            Self::Http(probe) => probe.search,
            Self::Tcp(probe) => probe.search,
            Self::Dns(probe) => probe.search,
            Self::Echo { .. } | Self::Challenge(_) | Self::Names(_) => None,
        };
        asked.unwrap_or(SearchManner::Glibc)
    }

    /// Where its connections may go; anywhere where absent.
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

    /// The same probe, kept to a scope. A question to a resolver and an echo connect nowhere a name or a redirect
    /// could lead.
    #[must_use]
    pub fn within(mut self, scope: &Scope) -> Self {
        match &mut self {
            Self::Http(probe) => probe.scope = Some(scope.clone()),
            Self::Tcp(probe) => probe.scope = Some(scope.clone()),
            Self::Challenge(probe) => probe.scope = Some(scope.clone()),
            Self::Names(probe) => probe.scope = Some(scope.clone()),
            Self::Dns(_) | Self::Echo { .. } => {}
        }
        self
    }

    /// The same probe of a target that must be silent; nothing for a kind that cannot ask for silence.
    #[must_use]
    pub fn expecting_silence(&self, silence: MustNotAnswer) -> Option<Self> {
        let mut probe = self.clone();
        match &mut probe {
            Self::Http(probe) => probe.must_not_answer = Some(silence),
            Self::Tcp(probe) => probe.must_not_answer = Some(silence),
            Self::Dns(_) | Self::Echo { .. } | Self::Challenge(_) | Self::Names(_) => return None,
        }
        Some(probe)
    }
}
