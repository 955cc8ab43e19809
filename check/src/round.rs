//! One look: the name is resolved, then each of its addresses is probed on its own, all at once.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use futures_util::future::join_all;
use parallax_model::{Outcome, TtlEvidence};
use parallax_prober::{NoEvidence, ProbeContext, ask_ttl};

use super::{
    alternatives::AlternativeAnswer,
    args::Endpoint,
    names::{NameLookup, QueriedServer},
    subject::{CheckAction, CheckSubject},
    walk::{RedirectChain, RedirectLeg},
};

/// Most addresses of one name that are probed; the rest is counted.
const MOST_ADDRESSES: usize = 16;

/// How long an address may take to show its TTL. It answers as fast as a ping, or never.
const TTL_WAIT: Duration = Duration::from_secs(1);

/// How looks are made.
#[derive(Debug, Clone)]
pub(super) struct RoundOptions {
    pub(super) whom: QueriedServer,
    pub(super) connect_to: Vec<Endpoint>,
    pub(super) family: Option<AddressFamily>,
    pub(super) follow: bool,
    /// Of one request.
    pub(super) timeout: Duration,
}

/// The only family wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressFamily {
    V4,
    V6,
}

impl AddressFamily {
    pub(super) const fn holds(self, address: IpAddr) -> bool {
        match self {
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// What one look showed.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckRound {
    pub(super) lookup: NameLookup,
    /// The only family that was wanted, where its addresses are missing though the name has others.
    pub(super) lacks: Option<AddressFamily>,
    pub(super) reached: Vec<AddressResult>,
    /// Addresses that were not probed because there are so many.
    pub(super) left_out: usize,
}

/// What became of one address.
#[derive(Debug, Clone)]
pub(super) struct AddressResult {
    pub(super) address: SocketAddr,
    /// Whether the address is one of this machine's own.
    pub(super) local: bool,
    /// Who answers for it; asked in the first look only.
    pub(super) ttl: Option<Result<TtlEvidence, NoEvidence>>,
    /// One request each: the first, and one a redirect.
    pub(super) legs: Vec<RedirectLeg>,
    pub(super) outcome: Outcome,
    /// What a library or the kernel said of a failure.
    pub(super) detail: Option<String>,
    /// The URL where it ended.
    pub(super) at: String,
    /// What the same address does when spoken to in another way.
    pub(super) otherwise: Option<AlternativeAnswer>,
}

impl RoundOptions {
    /// Looks once. The first look also asks what later ones would only repeat.
    pub(super) async fn look(
        &self,
        subject: &CheckSubject,
        context: &ProbeContext,
        first: bool,
    ) -> CheckRound {
        let lookup = if self.connect_to.is_empty() {
            NameLookup::ask(subject.host(), &self.whom, context, self.timeout).await
        } else {
            NameLookup::forced(self.connect_to.iter().map(|endpoint| endpoint.ip))
        };
        let Some(port) = subject.port() else {
            let found = lookup.addresses();
            let none =
                |family: &AddressFamily| !found.is_empty() && !found.iter().any(|one| family.holds(*one));
            return CheckRound {
                lacks: self.family.filter(none),
                lookup,
                ..CheckRound::default()
            };
        };
        let mut addresses: Vec<SocketAddr> = if self.connect_to.is_empty() {
            let all = lookup.addresses().into_iter();
            all.map(|address| SocketAddr::new(address, port)).collect()
        } else {
            self.connect_to
                .iter()
                .map(|endpoint| endpoint.or_port(port))
                .collect()
        };
        let found = addresses.len();
        if let Some(family) = self.family {
            addresses.retain(|address| family.holds(address.ip()));
        }
        let lacks = self.family.filter(|_| addresses.is_empty() && found > 0);
        let left_out = addresses.len().saturating_sub(MOST_ADDRESSES);
        addresses.truncate(MOST_ADDRESSES);
        let reached = join_all(
            addresses
                .into_iter()
                .map(|address| self.reach(subject, address, context, first)),
        )
        .await;
        CheckRound {
            lookup,
            lacks,
            reached,
            left_out,
        }
    }

    async fn reach(
        &self,
        subject: &CheckSubject,
        address: SocketAddr,
        context: &ProbeContext,
        first: bool,
    ) -> AddressResult {
        let ttl = async {
            if first {
                Some(ask_ttl(address.ip(), self.timeout.min(TTL_WAIT)).await)
            } else {
                None
            }
        };
        // Boxed: a probe's future is large, and here are many.
        let (walked, ttl) = tokio::join!(Box::pin(self.walk(subject, address, context)), ttl);
        let RedirectChain {
            legs,
            outcome,
            detail,
            at,
        } = walked;
        let otherwise = if first {
            Box::pin(self.otherwise(subject, address, &outcome, context)).await
        } else {
            None
        };
        AddressResult {
            address,
            local: is_local(address.ip()),
            ttl,
            legs,
            outcome,
            detail,
            at,
            otherwise,
        }
    }

    async fn walk(
        &self,
        subject: &CheckSubject,
        address: SocketAddr,
        context: &ProbeContext,
    ) -> RedirectChain {
        match &subject.what {
            // On the heap: a walk takes kilobytes.
            CheckAction::Http(probe) => Box::pin(self.walk_http(&subject.url, probe, address, context)).await,
            CheckAction::Stream(probe) => self.walk_stream(&subject.url, probe, address, context).await,
            CheckAction::Name(_) => unreachable!("a name has no port to be reached at"),
        }
    }
}

/// Whether an address is this machine's own: only those can be bound. Nothing is sent.
fn is_local(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}
