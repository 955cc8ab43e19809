//! Plans a run within the limits and publishes its order.

use std::{collections::BTreeMap, sync::Arc};

use parallax_api::runs::{PreflightRun, RunRequest, RunState};
use parallax_diagnosis::{Settings, plan::PlanConfig, topology::Topology, view::View};
use parallax_model::{Assignment, Micros, RunId, Vantage};

use super::{
    MAX_PROBES, RunManager,
    error::RunRefusedError,
    known_failures,
    live_run::{self, LiveRun},
    name_request,
    order::ProbeOrder,
    subject::{RunSubject, group_vantages},
};

/// The interval between rounds of a run.
pub(super) const ROUND_INTERVAL: Micros = Micros::from_secs(1);
/// The default and the maximum number of rounds.
const DEFAULT_AND_MAX_ROUNDS: (u32, u32) = (3, 20);
const TIMEOUT_RANGE_MS: (u64, u64) = (50, 60_000);
/// The maximum number of concurrent runs.
pub(super) const MAX_CONCURRENT_RUNS: usize = 8;
/// The maximum number of runs kept in memory; the oldest is dropped first.
const MAX_KEPT_RUNS: usize = 100;
/// The time after the last probe's deadline in which reports may still arrive.
pub(super) const REPORT_GRACE: Micros = Micros::from_secs(1);

impl RunManager {
    pub(super) fn plan(
        &self,
        request: &RunRequest,
        by: &str,
        topology: &Arc<Topology>,
        view: &View,
    ) -> Result<PreflightRun, RunRefusedError> {
        let (_, nonce) = self
            .replica
            .role()
            .plan_identity()
            .ok_or(RunRefusedError::NotLeader)?;
        let requested_at = self.clock.now();
        let rounds = check_range(
            "rounds",
            (1, DEFAULT_AND_MAX_ROUNDS.1.into()),
            request.rounds.map(u64::from),
        )?;
        let once = request.challenge.is_some() || request.names.is_some();
        let usual = if once { 1 } else { DEFAULT_AND_MAX_ROUNDS.0 };
        let rounds = rounds.map_or(usual, |rounds| {
            u32::try_from(rounds).unwrap_or(DEFAULT_AND_MAX_ROUNDS.1)
        });
        let timeout =
            check_range("timeout_ms", TIMEOUT_RANGE_MS, request.timeout_ms)?.map(Micros::from_millis);
        let subject = match (&request.challenge, &request.names) {
            (Some(_), Some(_)) => return Err(name_request::InvalidNames::BothRequests.into()),
            (Some(ask), None) => RunSubject::challenge(&request.url, ask, topology, &self.options)?,
            (None, Some(ask)) => RunSubject::names(&request.url, ask, topology, &self.options)?,
            (None, None) => RunSubject::from_url(&request.url, topology, &self.options)?,
        };
        let timeout = timeout.or(subject.timeout).unwrap_or(self.config.timeout);
        let longest = subject.max_duration(timeout);
        let group = group_vantages(&subject.topology, view, request.from);
        let vantages = subject.select_vantages(group.reporting);
        if vantages.is_empty() {
            return Err(RunRefusedError::NoReportingVantage(request.from));
        }
        let config = PlanConfig {
            interval: ROUND_INTERVAL,
            timeout,
            echo_nonce: nonce.to_string(),
        };
        let id = new_id();
        let parts = subject.assignments(&id, &vantages, &config);
        if parts.is_empty() && subject.is_mesh {
            let nodes = subject.topology.nodes().values();
            let probers = nodes.filter(|node| node.prober.is_some()).count();
            return Err(RunRefusedError::MeshTooSmall(probers));
        }
        if parts.is_empty() {
            return Err(RunRefusedError::Unreachable {
                from: request.from,
                target: request.url.clone(),
            });
        }
        // Silent vantages get no order, and the run does not wait for them, but its result is unknown without them. DNS
        // facts need only some vantages, whichever report.
        let silent = if subject.names.is_some() {
            BTreeMap::new()
        } else {
            subject.assignments(&id, &group.silent, &config)
        };
        let mut vantages = live_run::planned_results(&parts, rounds, subject.is_mesh);
        vantages.extend(live_run::planned_results(&silent, rounds, subject.is_mesh));
        let known_failures = match &subject.challenge {
            Some(probe) => known_failures::known_failures(probe, topology, view),
            None => Vec::new(),
        };
        let probes = parts.values().map(|own| own.len() as u64).sum::<u64>() * u64::from(rounds);
        if probes > MAX_PROBES {
            return Err(RunRefusedError::TooLarge(probes));
        }
        let deadline = requested_at
            .plus(Micros(ROUND_INTERVAL.0 * u64::from(rounds - 1)))
            .plus(longest)
            .plus(REPORT_GRACE);
        let run = PreflightRun {
            id: id.clone(),
            target: subject.id,
            challenge: subject.challenge.as_ref().map(|probe| probe.client),
            nameservers: subject.challenge.map_or_else(Vec::new, |probe| probe.nameservers),
            names: None,
            from: request.from,
            rounds,
            interval: ROUND_INTERVAL,
            timeout,
            requested_by: by.to_owned(),
            requested_at,
            deadline,
            state: RunState::Running,
            first_probe: None,
            expected: probes,
            completed: 0,
            vantages,
            ended: None,
            outcome: None,
            sentence: String::new(),
            known_failures,
            verdict: None,
        };
        let settings = Settings {
            interval: ROUND_INTERVAL,
            timeout,
        };
        let names = subject.names.zip(request.names.clone());
        self.admit((run.clone(), names), subject.topology, settings, parts)?;
        self.run_may_have_ended.notify_one();
        Ok(run)
    }

    /// Checks the limits, stores the run, and publishes its order.
    fn admit(
        &self,
        (run, names): (PreflightRun, Option<live_run::NameRequest>),
        topology: Arc<Topology>,
        settings: Settings,
        parts: BTreeMap<Vantage, Vec<Assignment>>,
    ) -> Result<(), RunRefusedError> {
        let mut inner = self.inner.lock();
        let running = inner.runs.iter().filter(|live| live.is_running()).count();
        if running >= MAX_CONCURRENT_RUNS {
            return Err(RunRefusedError::RateLimited(ROUND_INTERVAL));
        }
        inner
            .limit
            .take(&run.requested_by, run.requested_at)
            .map_err(RunRefusedError::RateLimited)?;
        inner.number += 1;
        let ordered = ProbeOrder {
            number: inner.number,
            id: run.id.clone(),
            rounds: run.rounds,
            expires: run.deadline,
            assignments: Arc::new(parts),
        };
        if inner.runs.len() >= MAX_KEPT_RUNS {
            inner.runs.pop_front();
        }
        inner
            .runs
            .push_back(LiveRun::new((run, names), topology, settings));
        self.publish_order(ordered);
        Ok(())
    }

    /// Publishes an order to the plan streams.
    pub(super) fn publish_order(&self, ordered: ProbeOrder) {
        let now = self.clock.now();
        self.orders.send_modify(|orders| {
            let current = orders.iter().filter(|order| order.expires > now).cloned();
            *orders = current.chain([ordered]).collect();
        });
    }
}

fn check_range(
    field: &'static str,
    (low, high): (u64, u64),
    found: Option<u64>,
) -> Result<Option<u64>, RunRefusedError> {
    match found {
        Some(found) if !(low..=high).contains(&found) => Err(RunRefusedError::OutOfRange {
            field,
            low,
            high,
            found,
        }),
        found => Ok(found),
    }
}

/// Returns an unguessable id. Read access covers all runs, but links to a run are shared.
pub(super) fn new_id() -> RunId {
    let random = parallax_runtime::random();
    RunId::new(format!("r-{:012x}", random >> 16))
        .unwrap_or_else(|error| unreachable!("hexadecimal digits are a valid id: {error}"))
}
