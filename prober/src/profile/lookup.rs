//! Resolves a host by the rules of a client profile.

use std::net::{IpAddr, SocketAddr};

use parallax_model::{FailureKind, Phase, SearchManner};

use super::{ClientProfile, LookupRule, client::ChallengeFetch};
use crate::{
    clock::Deadline,
    failure::{EarlyEnd, FailureOrigin},
    redirect::reserved,
    resolution::{FamilyAnswer, Resolution, ResolverChoice, resolve_all},
};

impl ChallengeFetch<'_> {
    /// Returns the addresses to which the client may connect, IPv6 first.
    pub(super) async fn resolve(&mut self, host: &str, deadline: Deadline) -> Result<Vec<IpAddr>, EarlyEnd> {
        let found = match (self.profile.client, self.choice) {
            (ClientProfile::CertManager, ResolverChoice::Servers(servers)) if servers.len() > 1 => {
                self.resolve_in_rotation(host, servers, deadline).await
            }
            _ => self.query(host, self.choice, deadline).await,
        };
        let ended = usable_addresses(&found, self.profile.lookup, self.profile.reserved_allowed, host);
        host.clone_into(&mut self.stage.host);
        self.stage.resolution = Some(found);
        ended
    }

    async fn query(&self, host: &str, choice: &ResolverChoice, deadline: Deadline) -> Resolution {
        let deadline = match self.profile.lookup {
            LookupRule::EitherFamily => deadline,
            LookupRule::BothAnswered { within } => deadline.at_most(within),
        };
        resolve_all(
            self.context,
            host,
            choice,
            SearchManner::Glibc,
            deadline.remaining(),
        )
        .await
    }

    /// cert-manager sends every query to the next of its solver nameservers, and a lookup is two queries. Which of the
    /// two comes first is a race there; here it is IPv4. No query is repeated at another server.
    async fn resolve_in_rotation(
        &self,
        host: &str,
        servers: &[SocketAddr],
        deadline: Deadline,
    ) -> Resolution {
        let at = |n: usize| ResolverChoice::Servers(servers.get(n).copied().into_iter().collect());
        let (first, second) = (at(0), at(1));
        let (a, aaaa) = tokio::join!(
            self.query(host, &first, deadline),
            self.query(host, &second, deadline)
        );
        let mut addresses = a.addresses;
        addresses.retain(|found| found.address.is_ipv4());
        addresses.extend(aaaa.addresses.into_iter().filter(|found| found.address.is_ipv6()));
        let mut tried = a.tried;
        for one in &mut tried {
            one.aaaa = FamilyAnswer::NotNeeded;
        }
        tried.extend(aaaa.tried.into_iter().map(|mut one| {
            one.a = FamilyAnswer::NotNeeded;
            one
        }));
        Resolution {
            addresses,
            a: a.a,
            aaaa: aaaa.aaaa,
            tried,
        }
    }
}

/// Returns the addresses that a client with these rules uses.
fn usable_addresses(
    found: &Resolution,
    rule: LookupRule,
    reserved_allowed: bool,
    host: &str,
) -> Result<Vec<IpAddr>, EarlyEnd> {
    if matches!(rule, LookupRule::BothAnswered { .. })
        && let Some(silent) = [&found.aaaa, &found.a]
            .into_iter()
            .find(|family| unanswered(family))
    {
        return Err(resolve_failure(silent));
    }
    if let Some(failure) = found.failure() {
        return Err(resolve_failure(failure));
    }
    let mut addresses: Vec<IpAddr> = found.addresses.iter().map(|found| found.address).collect();
    if !reserved_allowed {
        addresses.retain(|address| !reserved(*address));
    }
    if addresses.is_empty() {
        return Err(
            EarlyEnd::new(Phase::Resolve, FailureKind::NoAddress).with_detail(format!(
                "{host} has private or reserved addresses only, which this client does not use"
            )),
        );
    }
    addresses.sort_by_key(IpAddr::is_ipv4);
    Ok(addresses)
}

fn unanswered(family: &FamilyAnswer) -> bool {
    match family {
        FamilyAnswer::Failed { kind, .. } => !matches!(
            kind,
            FailureKind::NoAddress | FailureKind::NxDomain | FailureKind::ServFail | FailureKind::DnsRefused
        ),
        FamilyAnswer::NotQueried { .. } => true,
        FamilyAnswer::Addresses(_) | FamilyAnswer::NotNeeded => false,
    }
}

fn resolve_failure(failure: &FamilyAnswer) -> EarlyEnd {
    let (fault, detail): (FailureOrigin, _) = match failure {
        FamilyAnswer::Failed { kind, detail } => (kind.clone().into(), detail.clone()),
        FamilyAnswer::NotQueried { own, detail } => ((*own).into(), detail.clone()),
        FamilyAnswer::Addresses(_) | FamilyAnswer::NotNeeded => (FailureKind::NoAddress.into(), None),
    };
    let stop = EarlyEnd::new(Phase::Resolve, fault);
    match detail {
        Some(detail) => stop.with_detail(detail),
        None => stop,
    }
}
