//! One pass: resolves the name, then probes each of its addresses separately and concurrently.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use futures_util::future::join_all;
use parallax_model::{Outcome, TtlEvidence};
use parallax_prober::{NoEvidence, ProbeContext, ttl_evidence};

use super::{
    alternatives::AlternativeAnswer,
    names::NameLookup,
    request_chain::{RedirectChain, RedirectLeg},
    round_options::{AddressFamily, RoundOptions},
    subject::{CheckAction, CheckSubject},
};

/// Maximum number of addresses probed per name; the others are only counted.
const MAX_ADDRESSES: usize = 16;

/// Timeout for TTL evidence. The reply arrives as fast as that to a ping, or never.
const TTL_TIMEOUT: Duration = Duration::from_secs(1);

/// The results of one pass.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckRound {
    pub(super) lookup: NameLookup,
    /// The selected family, if the name has only addresses of the other one.
    pub(super) missing_family: Option<AddressFamily>,
    pub(super) reached: Vec<AddressResult>,
    /// Number of addresses beyond the maximum, which were not probed.
    pub(super) left_out: usize,
}

/// The result of probing one address.
#[derive(Debug, Clone)]
pub(super) struct AddressResult {
    pub(super) address: SocketAddr,
    /// Whether the address is one of this machine's own.
    pub(super) is_local: bool,
    /// Evidence of how far away the responder is; collected in the first pass only.
    pub(super) ttl: Option<Result<TtlEvidence, NoEvidence>>,
    /// The requests: the first one, and one per redirect.
    pub(super) requests: Vec<RedirectLeg>,
    pub(super) outcome: Outcome,
    /// The error text of a library or the kernel.
    pub(super) detail: Option<String>,
    /// The URL of the last request, or of the redirect that was not followed.
    pub(super) final_url: String,
    /// The alternative request that the same address answered; tried in the first pass only.
    pub(super) alternative: Option<AlternativeAnswer>,
}

impl RoundOptions {
    /// Makes one pass. The first one also collects TTL evidence and tries alternative requests.
    pub(super) async fn run_pass(
        &self,
        subject: &CheckSubject,
        context: &ProbeContext,
        first: bool,
    ) -> CheckRound {
        let lookup = if self.connect_to.is_empty() {
            NameLookup::query(subject.dialled_host(), &self.whom, context, self.timeout).await
        } else {
            NameLookup::forced(self.connect_to.iter().map(|endpoint| endpoint.ip))
        };
        let Some(port) = subject.dialled_port() else {
            let found = lookup.addresses();
            let none =
                |family: &AddressFamily| !found.is_empty() && !found.iter().any(|one| family.holds(*one));
            return CheckRound {
                missing_family: self.family.filter(none),
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
                .map(|endpoint| endpoint.with_default_port(port))
                .collect()
        };
        let found = addresses.len();
        if let Some(family) = self.family {
            addresses.retain(|address| family.holds(address.ip()));
        }
        let lacks = self.family.filter(|_| addresses.is_empty() && found > 0);
        let addresses_left_out = addresses.len().saturating_sub(MAX_ADDRESSES);
        addresses.truncate(MAX_ADDRESSES);
        let addresses = join_all(
            addresses
                .into_iter()
                .map(|address| self.probe_address(subject, address, context, first)),
        )
        .await;
        CheckRound {
            lookup,
            missing_family: lacks,
            reached: addresses,
            left_out: addresses_left_out,
        }
    }

    async fn probe_address(
        &self,
        subject: &CheckSubject,
        address: SocketAddr,
        context: &ProbeContext,
        first: bool,
    ) -> AddressResult {
        let ttl = async {
            if first {
                Some(ttl_evidence(address.ip(), self.timeout.min(TTL_TIMEOUT)).await)
            } else {
                None
            }
        };
        // Boxed: the future of a probe is large, and there is one per address.
        let (walked, ttl) = tokio::join!(Box::pin(self.follow(subject, address, context)), ttl);
        let RedirectChain {
            requests: legs,
            outcome,
            detail,
            final_url: at,
        } = walked;
        let otherwise = if first {
            Box::pin(self.try_alternatives(subject, address, &outcome, context)).await
        } else {
            None
        };
        AddressResult {
            address,
            is_local: is_local(address.ip()),
            ttl,
            requests: legs,
            outcome,
            detail,
            final_url: at,
            alternative: otherwise,
        }
    }

    async fn follow(
        &self,
        subject: &CheckSubject,
        address: SocketAddr,
        context: &ProbeContext,
    ) -> RedirectChain {
        match &subject.action {
            // Boxed: the future takes kilobytes.
            CheckAction::Http(probe) => {
                Box::pin(self.follow_http(&subject.url, probe, address, context)).await
            }
            CheckAction::Stream(probe) => self.probe_stream(&subject.url, probe, address, context).await,
            CheckAction::Name(_) => unreachable!("a name has no port to be reached at"),
        }
    }
}

/// Reports whether an address is one of this machine's own: only those can be bound. Sends nothing.
fn is_local(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}
