//! Collects addresses, aliases and CAA records of a name at the machine's own resolvers, at public resolvers and at the
//! authoritative servers of its zone. [`parallax_model::dns`] interprets them.
//!
//! ```text
//! facts ─▶ view (one server: A, AAAA, CAA)
//!   ├────▶ authority (the zone's authoritative servers)
//!   └────▶ climb (CAA of the name and of all its parent domains)
//! ```

mod authority;
mod server_view;

use std::{net::SocketAddr, time::Duration};

use futures_util::future::join_all;
use hickory_proto::rr::Name;
use parallax_model::{
    FailureKind, Scope,
    dns::{CaaAnswer, CaaAt, NameSight, ServerOwner, caa_names},
};

use crate::{clock::Deadline, context::ProbeContext, resolution::ResolverChoice};

/// The servers to query for a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameServerSet {
    /// The machine's own resolvers; for a Pod those of the cluster.
    pub machine: Vec<SocketAddr>,
    /// Resolvers with the public view.
    pub public: Vec<SocketAddr>,
    /// Whether to query the zone's authoritative servers too. They are found through the first public resolver, or the
    /// machine's own if there is none.
    pub authorities: bool,
    /// The allowed addresses of authoritative servers; any if `None`.
    pub scope: Option<Scope>,
}

/// Queries all servers for a name concurrently. Never fails itself: failures are in the result. For a wildcard it
/// queries the name after `*.`.
pub async fn collect(name: &str, viewers: &NameServerSet, deadline: Duration) -> NameSight {
    collect_until(name, viewers, Deadline::within(deadline)).await
}

/// Like [`facts`], with an absolute deadline.
pub(crate) async fn collect_until(name: &str, viewers: &NameServerSet, deadline: Deadline) -> NameSight {
    let name = without_wildcard(name);
    let guides = if viewers.public.is_empty() {
        &viewers.machine
    } else {
        &viewers.public
    };
    let of = |by: ServerOwner, servers: &[SocketAddr]| {
        let views: Vec<_> = servers
            .iter()
            .map(|server| server_view::query_server(&name, by.clone(), *server, true, deadline))
            .collect();
        join_all(views)
    };
    let authorities = async {
        match guides.first() {
            Some(guide) if viewers.authorities => {
                authority::query_authorities(&name, *guide, viewers.scope.as_ref(), deadline).await
            }
            _ => Ok(Vec::new()),
        }
    };
    let (mut views, public, authorities, caa) = tokio::join!(
        of(ServerOwner::Local, &viewers.machine),
        of(ServerOwner::Public, &viewers.public),
        authorities,
        look_up_caa(&name, guides, deadline),
    );
    views.extend(public);
    let no_authority = match authorities {
        Ok(authorities) => {
            views.extend(authorities);
            None
        }
        Err(kind) => Some(kind),
    };
    NameSight {
        views,
        authority_failure: no_authority,
        caa,
    }
}

/// Looks up the CAA records of a name and of all its parent domains, for [`parallax_model::dns::evaluate_caa`].
pub async fn caa_of(
    context: &ProbeContext,
    name: &str,
    choice: &ResolverChoice,
    deadline: Duration,
) -> Vec<CaaAt> {
    let servers = match choice {
        ResolverChoice::Machine => context.resolver.conf().servers.clone(),
        ResolverChoice::Servers(servers) => servers.clone(),
    };
    look_up_caa(&without_wildcard(name), &servers, Deadline::within(deadline)).await
}

/// Queries all names concurrently, as Boulder does, each at the servers in turn until one answers.
async fn look_up_caa(name: &str, servers: &[SocketAddr], deadline: Deadline) -> Vec<CaaAt> {
    join_all(caa_names(name).into_iter().map(async |name| {
        let mut answer = CaaAnswer::Failed(FailureKind::ResolverUnreachable);
        for server in servers {
            answer = server_view::query_caa(&name, *server, true, deadline).await;
            if !matches!(answer, CaaAnswer::Failed(_)) {
                break;
            }
        }
        CaaAt { name, answer }
    }))
    .await
}

fn without_wildcard(name: &str) -> String {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name.strip_prefix("*.").map_or(name.clone(), str::to_owned)
}

/// Converts a name to its wire form; `None` if it is not a domain name.
fn wire_name(name: &str) -> Option<Name> {
    let mut name = Name::from_ascii(name).ok()?;
    name.set_fqdn(true);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_looked_up_below_its_asterisk() {
        assert_eq!(without_wildcard("*.Example.org."), "example.org");
        assert_eq!(without_wildcard("shop.example.org"), "shop.example.org");
    }
}
