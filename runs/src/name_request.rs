//! Runs of a name: its DNS facts, from a few vantages with different views.
//!
//! As for challenges, only known hosts are permitted. The queried servers are each machine's own resolver, the
//! public resolvers of the configuration, and the zone's own servers only if the configuration enables that.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use parallax_api::runs::{NameFactsRequest, NameFactsResult};
use parallax_diagnosis::{plan::PlanConfig, topology::Topology};
use parallax_model::{
    Assignment, AssignmentId, Channel, DialAddress, HostName, Micros, Network, ProbeSpec, Reach, RunId,
    Scope, Target, TargetId, TargetSpec, Vantage,
    dns::{NameSight, NamesProbe},
};
use parallax_preflight::{QueriedResolvers, judge_names, name_facts};

use super::{RunRefusedError, scope::RunScopeError};
use crate::RunOptions;

/// The number of nodes that query: all use the cluster's resolver, and three show whether its responses are equal.
const MAX_NODES: usize = 3;

/// The maximum number of CA identities, and the maximum length of each.
const MAX_IDENTITIES: (usize, usize) = (8, 253);

/// The deadline of all queries.
pub(super) const QUERY_TIMEOUT: Micros = Micros::from_secs(6);

/// A name request that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNames {
    #[error("url: expected dns://HOST, got {0}")]
    Url(String),
    #[error("names.identities: expected at most {} names such as letsencrypt.org", MAX_IDENTITIES.0)]
    Identities,
    #[error("names.account_uri: expected a URL of at most {} visible ASCII characters", 2 * MAX_IDENTITIES.1)]
    Account,
    #[error("challenge and names exclude each other; request two runs")]
    BothRequests,
}

/// A validated name request.
pub(super) struct NameFactsQuery {
    pub(super) id: TargetId,
    /// The topology with the name as a target.
    pub(super) topology: Topology,
    pub(super) probe: NamesProbe,
    /// The deadline of all queries.
    pub(super) timeout: Micros,
}

impl NameFactsQuery {
    pub(super) fn from_request(
        url: &str,
        request: &NameFactsRequest,
        topology: &Topology,
        options: &RunOptions,
    ) -> Result<Self, RunRefusedError> {
        let fits = |text: &String, most: usize| {
            (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if request.identities.len() > MAX_IDENTITIES.0
            || !request.identities.iter().all(|one| fits(one, MAX_IDENTITIES.1))
        {
            return Err(InvalidNames::Identities.into());
        }
        if !request
            .account_uri
            .as_ref()
            .is_none_or(|uri| fits(uri, 2 * MAX_IDENTITIES.1))
        {
            return Err(InvalidNames::Account.into());
        }
        let target = Target::try_from(TargetSpec::new(url))?;
        let ProbeSpec::Dns(question) = &target.probe else {
            return Err(InvalidNames::Url(url.to_owned()).into());
        };
        let name = question.name.clone();
        if !options.allow_any_target && !is_known_host(topology, &name) {
            return Err(RunScopeError::UnknownHost {
                host: name.to_string(),
            }
            .into());
        }
        let mut spec = topology.spec().clone();
        spec.vantages = topology.extra_vantages().to_vec();
        if !topology.targets().contains_key(&target.id) {
            spec.targets.push(TargetSpec::new(url));
        }
        let public = topology.public_resolvers().iter();
        Ok(Self {
            topology: Topology::try_from(spec).map_err(|_| InvalidNames::Url(url.to_owned()))?,
            probe: NamesProbe {
                name,
                public_resolvers: public.map(|address| SocketAddr::new(*address, 53)).collect(),
                query_authorities: topology.queries_authoritative(),
                scope: None,
            },
            timeout: QUERY_TIMEOUT,
            id: target.id,
        })
    }
}

/// Reports whether a target has this host.
pub(super) fn is_known_host(topology: &Topology, name: &HostName) -> bool {
    topology
        .targets()
        .values()
        .any(|placed| placed.target.probe.host() == Some(name))
}

/// Selects the vantages that query: a few nodes (in different zones first), one machine nearby, and every vantage
/// on the internet. Nodes share their resolver, and third-party resolvers are not queried more often than needed.
pub(super) fn select_vantages(topology: &Topology, vantages: &[Vantage]) -> Vec<Vantage> {
    let in_pods = |vantage: &&Vantage| {
        matches!(
            vantage,
            Vantage::Cluster {
                network: Network::Pod,
                ..
            }
        )
    };
    let zone = |vantage: &Vantage| {
        let node = topology.nodes().get(vantage.node()?)?;
        node.zone.clone()
    };
    let mut pods: Vec<&Vantage> = vantages.iter().filter(in_pods).collect();
    if pods.is_empty() {
        pods = vantages
            .iter()
            .filter(|vantage| vantage.node().is_some())
            .collect();
    }
    let mut zones = BTreeSet::new();
    let (first, rest): (Vec<&Vantage>, Vec<&Vantage>) =
        pods.into_iter().partition(|vantage| zones.insert(zone(vantage)));
    let inside = first.into_iter().chain(rest).take(MAX_NODES);
    let outside = |wanted: Reach| {
        vantages
            .iter()
            .filter(move |vantage| matches!(vantage, Vantage::Outside { reach, .. } if *reach == wanted))
    };
    inside
        .chain(outside(Reach::Vpc).take(1))
        .chain(outside(Reach::Internet))
        .cloned()
        .collect()
}

/// Selects one node, a different one each turn, and every vantage on the internet, for a recurring check.
pub(super) fn select_check_vantages(topology: &Topology, vantages: &[Vantage], turn: usize) -> Vec<Vantage> {
    let (inside, outside): (Vec<Vantage>, Vec<Vantage>) = select_vantages(topology, vantages)
        .into_iter()
        .partition(|vantage| vantage.node().is_some());
    let node = inside.get(turn % inside.len().max(1)).cloned();
    let outside = outside.into_iter().filter(Vantage::is_on_internet);
    node.into_iter().chain(outside).collect()
}

/// Returns the assignments of each vantage.
pub(super) fn assignments(
    run: &RunId,
    (target, probe): (&TargetId, &NamesProbe),
    scope: &Scope,
    vantages: &[Vantage],
    config: &PlanConfig,
) -> BTreeMap<Vantage, Vec<Assignment>> {
    let of = |vantage: &Vantage| {
        // Fails only if the id is too long; such a probe is left out.
        let id = AssignmentId::new(format!("{}{run}|dns|{target}", AssignmentId::RUN_PREFIX)).ok()?;
        let assignment = Assignment {
            id,
            target: target.clone(),
            channel: Channel::Dns,
            probe: ProbeSpec::Names(probe.clone()).with_scope(scope),
            dial: DialAddress::Resolve,
            entry: None,
            peer: None,
            interval: config.interval,
            timeout: config.timeout,
        };
        Some((vantage.clone(), vec![assignment]))
    };
    vantages.iter().filter_map(of).collect()
}

/// Returns the facts, and what they mean for the CA in the request.
pub(super) fn name_facts_result(
    (probe, ask): (&NamesProbe, &NameFactsRequest),
    sights: &BTreeMap<Vantage, NameSight>,
) -> NameFactsResult {
    let wanted = QueriedResolvers {
        public: !probe.public_resolvers.is_empty(),
        authoritative: probe.query_authorities,
    };
    let sights: Vec<(Vantage, NameSight)> = sights
        .iter()
        .map(|(vantage, sight)| (vantage.clone(), sight.clone()))
        .collect();
    let facts = name_facts(probe.name.as_str(), &sights, wanted);
    NameFactsResult {
        verdict: judge_names(&facts, &ask.identities, ask.account_uri.as_deref()),
        identities: ask.identities.clone(),
        facts,
    }
}
