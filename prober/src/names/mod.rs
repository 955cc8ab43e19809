//! What is said of a name, by whom: addresses, aliases and CAA records at the cluster's resolver, at public ones and at
//! the zone's own servers, compared. And what its CAA records mean for a certificate.
//!
//! ```text
//! facts ─▶ view (one server: A, AAAA, CAA) ─▶ compare (pure)
//!   └────▶ authority (the zone's own servers) ┘
//! caa_of ─▶ climb (the name and all above it) ─▶ caa::judge (pure, RFC 8659)
//! ```

mod authority;
mod caa;
mod compare;
mod view;

use std::{net::SocketAddr, time::Duration};

use futures_util::future::join_all;
use hickory_proto::rr::Name;
use parallax_model::FailureKind;
use serde::Serialize;

pub use self::{
    caa::{CaaAnswer, CaaAsk, CaaAt, CaaRecord, CaaRefusal, CaaVerdict, caa_names, judge_caa},
    compare::{Difference, Opinion, Record, differences},
    view::{RecordAnswer, View, Who},
};
use crate::{clock::Deadline, probe::Context, resolve::ResolverChoice};

/// Who is asked about a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Viewers {
    /// The cluster's resolvers, as its pods have them.
    pub cluster: Vec<SocketAddr>,
    /// Resolvers that see what the world sees.
    pub public: Vec<SocketAddr>,
    /// Whether the zone's own servers are asked too. They are found with the help of the first public resolver, or of the
    /// cluster's where there is none.
    pub authorities: bool,
}

/// Everything that is said of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NameFacts {
    /// The name, without a dot at its end.
    pub name: String,
    /// What each server says: the cluster's, the public ones, the zone's own.
    pub views: Vec<View>,
    /// Why there are none of the zone's own servers; absent where there are some, or where none were wanted.
    pub no_authority: Option<FailureKind>,
    /// Where they do not agree.
    pub differences: Vec<Difference>,
    /// The name and all above it with their CAA records, as the first public resolver gives them, or the cluster's.
    pub caa: Vec<CaaAt>,
}

/// Collects what is said of a name, from everybody at once. Never fails itself: what became of each question is in the
/// result. A wildcard's name is that below its asterisk.
pub async fn facts(name: &str, viewers: &Viewers, deadline: Duration) -> NameFacts {
    let deadline = Deadline::within(deadline);
    let name = plain(name);
    let guide = viewers
        .public
        .first()
        .or_else(|| viewers.cluster.first())
        .copied();
    let of = |who: Who, servers: &[SocketAddr]| {
        let views: Vec<_> = servers
            .iter()
            .map(|server| view::view(&name, who.clone(), *server, true, deadline))
            .collect();
        join_all(views)
    };
    let own = async {
        match guide {
            Some(guide) if viewers.authorities => authority::views(&name, guide, deadline).await,
            _ => Ok(Vec::new()),
        }
    };
    let servers: Vec<SocketAddr> = guide.into_iter().collect();
    let (cluster, public, own, caa) = tokio::join!(
        of(Who::Cluster, &viewers.cluster),
        of(Who::Public, &viewers.public),
        own,
        climb(&name, &servers, deadline),
    );
    let mut views = cluster;
    views.extend(public);
    let no_authority = match own {
        Ok(own) => {
            views.extend(own);
            None
        }
        Err(kind) => Some(kind),
    };
    NameFacts {
        differences: differences(&views),
        name,
        views,
        no_authority,
        caa,
    }
}

/// The CAA records of a name and of all above it; [`judge_caa`] says what they mean.
pub async fn caa_of(
    context: &Context,
    name: &str,
    choice: &ResolverChoice,
    deadline: Duration,
) -> Vec<CaaAt> {
    let servers = match choice {
        ResolverChoice::Machine => context.resolver.conf().servers.clone(),
        ResolverChoice::Servers(servers) => servers.clone(),
    };
    climb(&plain(name), &servers, Deadline::within(deadline)).await
}

/// Asks for all of them at once, as Boulder does, each at the first of the servers that answers.
async fn climb(name: &str, servers: &[SocketAddr], deadline: Deadline) -> Vec<CaaAt> {
    join_all(caa_names(name).into_iter().map(async |name| {
        let mut answer = CaaAnswer::Failed(FailureKind::ResolverUnreachable);
        for server in servers {
            answer = view::caa(&name, *server, true, deadline).await;
            if !matches!(answer, CaaAnswer::Failed(_)) {
                break;
            }
        }
        CaaAt { name, answer }
    }))
    .await
}

fn plain(name: &str) -> String {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name.strip_prefix("*.").map_or(name.clone(), str::to_owned)
}

/// A name as it stands on the wire; absent where it cannot.
fn wire(name: &str) -> Option<Name> {
    let mut name = Name::from_ascii(name).ok()?;
    name.set_fqdn(true);
    Some(name)
}

#[cfg(test)]
mod tests;
