//! What a run is about, who takes part, and what each of them is asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parallax_api::runs::{ChallengeRequest, NameFactsRequest, RunVantages};
use parallax_diagnosis::{
    plan::{PlanConfig, mesh, on_demand},
    topology::Topology,
    view::{VantageState, View},
};
use parallax_model::{
    Assignment, AssignmentId, ChallengeProbe, InvalidTarget, Micros, ProbeSpec, RunId, Scope, Target,
    TargetId, TargetSpec, Vantage, dns::NamesProbe,
};

use super::{RunRefusedError, challenge, judge, names, scope};
use crate::RunOptions;

/// What is asked for in place of a URL when the network between nodes is meant.
pub const MESH: &str = "mesh";

/// Beyond this many vantages the endpoints are asked by some of them only, and controls by none.
const SMALL: usize = 24;

/// What a run is about, and what it is held to.
pub(super) struct RunSubject {
    pub(super) id: TargetId,
    /// Every prober asks the others' echoes, and no target at all.
    pub(super) of_the_mesh: bool,
    /// The present topology, with the target where it was not in it.
    pub(super) topology: Arc<Topology>,
    /// Where its probes may go.
    scope: Scope,
    /// The target's own.
    pub(super) timeout: Option<Micros>,
    /// How it is fetched where it is a challenge.
    pub(super) challenge: Option<ChallengeProbe>,
    /// Who is asked where the facts of a name are wanted.
    pub(super) names: Option<NamesProbe>,
}

impl RunSubject {
    pub(super) fn of(
        url: &str,
        topology: &Arc<Topology>,
        options: &RunOptions,
    ) -> Result<Self, RunRefusedError> {
        if url == MESH {
            return Ok(Self {
                id: TargetId::new(MESH).map_err(InvalidTarget::from)?,
                of_the_mesh: true,
                topology: Arc::clone(topology),
                scope: scope::scope(topology, options),
                timeout: None,
                challenge: None,
                names: None,
            });
        }
        // A target's own id names it wholly, also where it says more than a URL (`…#keep-alive`).
        let named = TargetId::new(url).ok();
        let target = match named.and_then(|id| topology.targets().get(&id)) {
            Some(placed) => placed.target.clone(),
            None => Target::try_from(TargetSpec::of(url))?,
        };
        let topology = match scope::admitted(topology, &target, options)? {
            Some(with) => Arc::new(with),
            None => Arc::clone(topology),
        };
        let scope = scope::scope(&topology, options);
        let placed = &topology.targets()[&target.id];
        scope::literal(
            &placed.target.probe,
            placed.dial.map(|address| address.ip()),
            &scope,
        )?;
        Ok(Self {
            timeout: placed.target.timeout,
            id: target.id,
            of_the_mesh: false,
            topology,
            scope,
            challenge: None,
            names: None,
        })
    }

    /// A challenge, fetched as one client does.
    pub(super) fn challenge(
        url: &str,
        ask: &ChallengeRequest,
        topology: &Arc<Topology>,
        options: &RunOptions,
    ) -> Result<Self, RunRefusedError> {
        let asked = challenge::ChallengeQuery::of(url, ask, topology, options)?;
        let scope = scope::scope(&asked.topology, options);
        scope::literal(&ProbeSpec::Challenge(asked.probe.clone()), None, &scope)?;
        Ok(Self {
            id: asked.id,
            of_the_mesh: false,
            topology: Arc::new(asked.topology),
            scope,
            timeout: Some(asked.timeout),
            challenge: Some(asked.probe),
            names: None,
        })
    }

    /// The facts of a name.
    pub(super) fn names(
        url: &str,
        ask: &NameFactsRequest,
        topology: &Arc<Topology>,
        options: &RunOptions,
    ) -> Result<Self, RunRefusedError> {
        let asked = names::NameFactsQuery::of(url, ask, topology, options)?;
        Ok(Self {
            id: asked.id,
            of_the_mesh: false,
            scope: scope::scope(&asked.topology, options),
            topology: Arc::new(asked.topology),
            timeout: Some(asked.timeout),
            challenge: None,
            names: Some(asked.probe),
        })
    }

    /// Who of the vantages takes part.
    pub(super) fn asked_of(&self, vantages: Vec<Vantage>) -> Vec<Vantage> {
        if self.names.is_some() {
            names::few(&self.topology, &vantages)
        } else {
            vantages
        }
    }

    /// The longest time that one probe may take.
    pub(super) fn longest(&self, timeout: Micros) -> Micros {
        match &self.challenge {
            Some(probe) => challenge::longest(probe, timeout),
            None => timeout,
        }
    }

    /// What each vantage is asked; those that cannot ask are left out.
    pub(super) fn parts(
        &self,
        run: &RunId,
        vantages: &[Vantage],
        config: &PlanConfig,
    ) -> BTreeMap<Vantage, Vec<Assignment>> {
        if let Some(probe) = &self.names {
            return names::parts(run, (&self.id, probe), &self.scope, vantages, config);
        }
        let few = vantages.len() <= SMALL;
        let mut parts = BTreeMap::new();
        for (i, vantage) in vantages.iter().enumerate() {
            let endpoints = few || i % (vantages.len() / SMALL + 1) == 0;
            let planned = if self.of_the_mesh {
                mesh(&self.topology, config, vantage)
            } else {
                on_demand(&self.topology, config, vantage, &self.id, endpoints)
            };
            let planned = match &self.challenge {
                Some(probe) => challenge::planned(probe, vantage, planned),
                None => planned,
            };
            let own: Vec<Assignment> = planned
                .into_iter()
                .filter(|a| few || self.of_the_mesh || a.peer.is_none())
                .filter_map(|assignment| {
                    // Only a length could be refused; such a probe is left out.
                    let id =
                        AssignmentId::new(format!("{}{run}|{}", AssignmentId::RUN, assignment.id)).ok()?;
                    Some(Assignment {
                        id,
                        probe: assignment.probe.within(&self.scope),
                        interval: config.interval,
                        timeout: config.timeout,
                        ..assignment
                    })
                })
                .collect();
            if own.iter().any(|a| judge::counts(a.channel, self.of_the_mesh)) {
                parts.insert(vantage.clone(), own);
            }
        }
        parts
    }
}

/// The vantages that report and are meant.
pub(super) fn chosen(topology: &Topology, view: &View, from: RunVantages) -> Vec<Vantage> {
    let reporting: BTreeSet<&Vantage> = view
        .vantages
        .iter()
        .filter(|vantage| vantage.state == VantageState::Reporting)
        .map(|vantage| &vantage.vantage)
        .collect();
    let expected = topology.vantages();
    let known = expected.iter().filter(|vantage| reporting.contains(vantage));
    let mut zones = BTreeSet::new();
    known
        .filter(|vantage| match from {
            RunVantages::All => true,
            RunVantages::Nodes => vantage.node().is_some(),
            RunVantages::Outside => vantage.node().is_none(),
            RunVantages::Zones => vantage.node().is_some_and(|node| {
                let zone = topology.nodes().get(node).and_then(|node| node.zone.clone());
                zones.insert(zone)
            }),
        })
        .cloned()
        .collect()
}
