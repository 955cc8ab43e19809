//! The subject of a run, its vantages, and their assignments.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parallax_api::runs::{ChallengeRequest, NameFactsRequest, RunVantages};
use parallax_diagnosis::{
    plan::{PlanConfig, mesh_run_assignments, run_assignments},
    topology::Topology,
    view::{VantageState, View},
};
use parallax_model::{
    Assignment, AssignmentId, ChallengeProbe, InvalidTarget, Micros, ProbeSpec, RunId, Scope, Target,
    TargetId, TargetSpec, Vantage, dns::NamesProbe,
};

use super::{RunRefusedError, challenge_request, judge, name_request, scope};
use crate::RunOptions;

/// Given in place of a URL, it selects a run of the mesh (the network between nodes).
pub const MESH_SUBJECT: &str = "mesh";

/// With more vantages than this, only some of them probe the endpoints directly, and none the controls.
const SMALL_FLEET: usize = 24;

/// The subject of a run, and its limits.
pub(super) struct RunSubject {
    pub(super) id: TargetId,
    /// Every prober probes the echoes of the others, and no target.
    pub(super) is_mesh: bool,
    /// The current topology, with the target added if it was unknown.
    pub(super) topology: Arc<Topology>,
    /// Where its probes may connect.
    scope: Scope,
    /// The timeout of the target.
    pub(super) timeout: Option<Micros>,
    /// How to fetch it, if it is a challenge.
    pub(super) challenge: Option<ChallengeProbe>,
    /// How to query the name, if its DNS facts are requested.
    pub(super) names: Option<NamesProbe>,
}

impl RunSubject {
    pub(super) fn from_url(
        url: &str,
        topology: &Arc<Topology>,
        options: &RunOptions,
    ) -> Result<Self, RunRefusedError> {
        if url == MESH_SUBJECT {
            return Ok(Self {
                id: TargetId::new(MESH_SUBJECT).map_err(InvalidTarget::from)?,
                is_mesh: true,
                topology: Arc::clone(topology),
                scope: scope::probe_scope(topology, options),
                timeout: None,
                challenge: None,
                names: None,
            });
        }
        // A target's id identifies it even if the id contains more than a URL (`…#keep-alive`).
        let named = TargetId::new(url).ok();
        let target = match named.and_then(|id| topology.targets().get(&id)) {
            Some(placed) => placed.target.clone(),
            None => Target::try_from(TargetSpec::new(url))?,
        };
        let topology = match scope::admit_target(topology, &target, options)? {
            Some(with) => Arc::new(with),
            None => Arc::clone(topology),
        };
        let scope = scope::probe_scope(&topology, options);
        let placed = &topology.targets()[&target.id];
        scope::check_literal_address(
            &placed.target.probe,
            placed.dial_address.map(|address| address.ip()),
            &scope,
        )?;
        Ok(Self {
            timeout: placed.target.timeout,
            id: target.id,
            is_mesh: false,
            topology,
            scope,
            challenge: None,
            names: None,
        })
    }

    /// A challenge, fetched by one client's rules.
    pub(super) fn challenge(
        url: &str,
        request: &ChallengeRequest,
        topology: &Arc<Topology>,
        options: &RunOptions,
    ) -> Result<Self, RunRefusedError> {
        let query = challenge_request::ChallengeQuery::from_request(url, request, topology, options)?;
        let scope = scope::probe_scope(&query.topology, options);
        scope::check_literal_address(&ProbeSpec::Challenge(query.probe.clone()), None, &scope)?;
        Ok(Self {
            id: query.id,
            is_mesh: false,
            topology: Arc::new(query.topology),
            scope,
            timeout: Some(query.timeout),
            challenge: Some(query.probe),
            names: None,
        })
    }

    /// The DNS facts of a name.
    pub(super) fn names(
        url: &str,
        request: &NameFactsRequest,
        topology: &Arc<Topology>,
        options: &RunOptions,
    ) -> Result<Self, RunRefusedError> {
        let query = name_request::NameFactsQuery::from_request(url, request, topology, options)?;
        Ok(Self {
            id: query.id,
            is_mesh: false,
            scope: scope::probe_scope(&query.topology, options),
            topology: Arc::new(query.topology),
            timeout: Some(query.timeout),
            challenge: None,
            names: Some(query.probe),
        })
    }

    /// Returns the vantages that take part.
    pub(super) fn select_vantages(&self, vantages: Vec<Vantage>) -> Vec<Vantage> {
        if self.names.is_some() {
            name_request::select_vantages(&self.topology, &vantages)
        } else {
            vantages
        }
    }

    /// Returns the longest duration of one probe.
    pub(super) fn max_duration(&self, timeout: Micros) -> Micros {
        match &self.challenge {
            Some(probe) => challenge_request::max_duration(probe, timeout),
            None => timeout,
        }
    }

    /// Returns the assignments of each vantage; vantages without a counted probe are left out.
    pub(super) fn assignments(
        &self,
        run: &RunId,
        vantages: &[Vantage],
        config: &PlanConfig,
    ) -> BTreeMap<Vantage, Vec<Assignment>> {
        if let Some(probe) = &self.names {
            return name_request::assignments(run, (&self.id, probe), &self.scope, vantages, config);
        }
        let on_internet = vantages.iter().filter(|vantage| vantage.is_on_internet()).count();
        let few = vantages.len() <= SMALL_FLEET;
        let mut parts = BTreeMap::new();
        for (i, vantage) in vantages.iter().enumerate() {
            let endpoints = few || i % (vantages.len() / SMALL_FLEET + 1) == 0;
            let planned = if self.is_mesh {
                mesh_run_assignments(&self.topology, config, vantage)
            } else {
                run_assignments(&self.topology, config, vantage, &self.id, endpoints)
            };
            let planned = match &self.challenge {
                Some(probe) => challenge_request::challenge_assignments(probe, vantage, on_internet, planned),
                None => planned,
            };
            let own: Vec<Assignment> = planned
                .into_iter()
                .filter(|a| few || self.is_mesh || a.peer.is_none())
                .filter_map(|assignment| {
                    // Fails only if the id is too long; such a probe is left out.
                    let id =
                        AssignmentId::new(format!("{}{run}|{}", AssignmentId::RUN_PREFIX, assignment.id))
                            .ok()?;
                    Some(Assignment {
                        id,
                        probe: assignment.probe.with_scope(&self.scope),
                        interval: config.interval,
                        timeout: config.timeout,
                        ..assignment
                    })
                })
                .collect();
            if own
                .iter()
                .any(|a| judge::decides_outcome(a.channel, self.is_mesh))
            {
                parts.insert(vantage.clone(), own);
            }
        }
        parts
    }
}

/// The vantages of a group.
#[derive(Debug, Default)]
pub(super) struct GroupVantages {
    /// Those that report, and therefore probe.
    pub(super) reporting: Vec<Vantage>,
    /// Those that are expected to report and do not.
    pub(super) silent: Vec<Vantage>,
}

/// Returns the vantages of a group. Of each zone, the first reporting vantage takes part, or a silent one if none
/// reports.
pub(super) fn group_vantages(topology: &Topology, view: &View, from: RunVantages) -> GroupVantages {
    let reporting: BTreeSet<&Vantage> = view
        .vantages
        .iter()
        .filter(|vantage| vantage.state == VantageState::Reporting)
        .map(|vantage| &vantage.vantage)
        .collect();
    let (known, unheard): (Vec<Vantage>, Vec<Vantage>) = topology
        .vantages()
        .into_iter()
        .partition(|vantage| reporting.contains(vantage));
    let mut zones = BTreeSet::new();
    let mut selected = |vantage: &Vantage| match from {
        RunVantages::All => true,
        RunVantages::Nodes => vantage.node().is_some(),
        RunVantages::Outside => vantage.node().is_none(),
        RunVantages::Zones => vantage.node().is_some_and(|node| {
            let zone = topology.nodes().get(node).and_then(|node| node.zone.clone());
            zones.insert(zone)
        }),
    };
    let mut keep = |mut vantages: Vec<Vantage>| {
        vantages.retain(|vantage| selected(vantage));
        vantages
    };
    GroupVantages {
        reporting: keep(known),
        silent: keep(unheard),
    }
}
