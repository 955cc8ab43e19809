//! The task that checks names and publishes the forecasts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parallax_api::forecasts::{COVERAGE_NOTE, RenewalForecastList};
use parallax_diagnosis::view::View;
use parallax_kubernetes::{replicas::ReplicaState, topology_state::TopologyState};
use parallax_model::{AssignmentId, EventTime, HostName, Micros, Placement, Recorded};
use parallax_preflight::{VantageAnswer, encode_token};
use parallax_runs::{
    CA_SUFFIX, CheckObservations, HostCheck, HostCheckError, NAMES_SUFFIX, RunManager, SELF_CHECK_SUFFIX,
};
use parallax_runtime::{Clock, SnapshotReader};
use tokio::{sync::watch, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    judge::{Evidence, forecast},
    next_check,
    subjects::{RenewalSubjects, empty_forecasts},
};
use crate::cert_manager::CertManagerState;

/// The maximum number of concurrent checks. A check takes up to twenty seconds if there is no response.
const MAX_CONCURRENT_CHECKS: usize = 4;

/// The minimum and the maximum time between two judgements of all names; the topology may change in between.
const MIN_PUBLISH_INTERVAL: Duration = Duration::from_secs(1);
const MAX_PUBLISH_INTERVAL: Duration = Duration::from_secs(30);

/// Evidence older than this many intervals is discarded: the name could not be checked since.
const STALE_INTERVALS: u64 = 3;

/// Checks the names of Certificates and publishes forecasts.
#[derive(Debug)]
pub struct ForecastTask {
    /// Event time.
    pub clock: Clock,
    /// Makes the runs that check names.
    pub runs: Arc<RunManager>,
    /// Whether this replica leads; only the leader checks.
    pub replica: ReplicaState,
    /// The objects of cert-manager.
    pub cert_manager: watch::Receiver<CertManagerState>,
    /// The current topology.
    pub topology: watch::Receiver<TopologyState>,
    /// The current incidents.
    pub views: SnapshotReader<View>,
    /// The interval between checks of a name; `None` disables checks.
    pub interval: Option<Micros>,
    /// Receives the forecasts.
    pub forecasts: watch::Sender<Arc<RenewalForecastList>>,
}

/// The state of one name.
#[derive(Debug)]
struct NameState {
    next: EventTime,
    in_progress: bool,
    turn: usize,
    evidence: Option<Evidence>,
}

impl ForecastTask {
    /// Checks names until cancelled.
    pub async fn run(mut self, cancelled: CancellationToken) {
        let mut hosts: BTreeMap<HostName, NameState> = BTreeMap::new();
        let mut looks: JoinSet<(HostName, Evidence)> = JoinSet::new();
        let mut leading = self.replica.changes();
        let mut subjects = RenewalSubjects::from_state(&self.cert_manager.borrow_and_update());
        let mut published = EventTime(i64::MIN);
        let mut changed = true;
        loop {
            if self.replica.is_leader() {
                if let Some(every) = self.interval {
                    self.sync_names(&subjects, &mut hosts, every);
                    self.start_due_checks(&subjects, &mut hosts, &mut looks, every);
                }
                // Limits the rate: otherwise every finished check would cause a judgement of all names.
                let age = self.clock.now() - published;
                if age.0
                    >= Micros::from(if changed {
                        MIN_PUBLISH_INTERVAL
                    } else {
                        MAX_PUBLISH_INTERVAL
                    })
                    .0
                {
                    self.publish(&subjects, &hosts);
                    published = self.clock.now();
                    changed = false;
                }
            } else {
                // Another replica checks and publishes.
                looks.abort_all();
                hosts.clear();
                self.publish_if_changed(empty_forecasts(&self.cert_manager.borrow()));
                (published, changed) = (EventTime(i64::MIN), true);
            }
            let wait = self.time_to_next_check(&hosts, looks.len()).min(if changed {
                MIN_PUBLISH_INTERVAL
            } else {
                MAX_PUBLISH_INTERVAL
            });
            tokio::select! {
                () = cancelled.cancelled() => return,
                update = self.cert_manager.changed() => {
                    if update.is_err() {
                        return;
                    }
                    changed = true;
                    subjects = RenewalSubjects::from_state(&self.cert_manager.borrow_and_update());
                }
                () = leading.next() => {}
                Some(ended) = looks.join_next() => match ended {
                    Ok((host, evidence)) => {
                        if let Some(known) = hosts.get_mut(&host) {
                            known.in_progress = false;
                            known.evidence = Some(evidence);
                        }
                        changed = true;
                    }
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    // Aborted because another replica leads.
                    Err(_) => {}
                },
                () = sleep(wait) => {}
            }
        }
    }

    /// Removes names that no Certificate contains any more, and adds new ones.
    fn sync_names(
        &self,
        subjects: &RenewalSubjects,
        hosts: &mut BTreeMap<HostName, NameState>,
        every: Micros,
    ) {
        let now = self.clock.now();
        let wanted: BTreeSet<&HostName> = subjects.subjects.iter().map(|subject| &subject.host).collect();
        hosts.retain(|host, _| wanted.contains(host));
        for subject in &subjects.subjects {
            hosts.entry(subject.host.clone()).or_insert_with(|| NameState {
                next: next_check::first_check_time(subject.host.as_str(), every, now),
                in_progress: false,
                turn: 0,
                evidence: None,
            });
        }
    }

    /// Starts checks of the names that are due, the longest overdue first.
    fn start_due_checks(
        &self,
        subjects: &RenewalSubjects,
        hosts: &mut BTreeMap<HostName, NameState>,
        looks: &mut JoinSet<(HostName, Evidence)>,
        every: Micros,
    ) {
        let now = self.clock.now();
        let mut wanting: Vec<(EventTime, HostName)> = hosts
            .iter()
            .filter(|(_, known)| !known.in_progress && known.next <= now)
            .map(|(host, known)| (known.next, host.clone()))
            .collect();
        wanting.sort();
        for (_, host) in wanting
            .into_iter()
            .take(MAX_CONCURRENT_CHECKS.saturating_sub(looks.len()))
        {
            let Some(known) = hosts.get_mut(&host) else {
                continue;
            };
            let renewal = subjects
                .subjects
                .iter()
                .filter(|subject| subject.host == host)
                .filter_map(|subject| subject.validity.renewal)
                .min();
            known.next = next_check::next_check_time(host.as_str(), every, renewal, now);
            known.in_progress = true;
            known.turn += 1;
            let looking = HostCheckTask {
                clock: self.clock,
                runs: self.runs.clone(),
                topology: self.topology.borrow().clone(),
                view: self.views.latest(),
            };
            looks.spawn(looking.run(host, known.turn));
        }
    }

    fn publish(&self, subjects: &RenewalSubjects, hosts: &BTreeMap<HostName, NameState>) {
        let now = self.clock.now();
        let topology = self.topology.borrow().topology.clone();
        let Some(every) = self.interval else {
            return self.publish_if_changed(RenewalForecastList {
                certificates: subjects.validities.clone(),
                ..RenewalForecastList::unavailable(
                    "forecast.interval is off in the aggregator's configuration",
                )
            });
        };
        let fresh =
            |evidence: &&Evidence| (now - evidence.checked_at).0 <= every.0.saturating_mul(STALE_INTERVALS);
        let forecasts = subjects.subjects.iter().map(|subject| {
            let evidence = hosts.get(&subject.host).and_then(|known| known.evidence.as_ref());
            forecast(subject, evidence.filter(fresh), &topology)
        });
        self.publish_if_changed(RenewalForecastList {
            note: COVERAGE_NOTE.to_owned(),
            unavailable_because: subjects.missing.clone(),
            forecasts: forecasts.collect(),
            certificates: subjects.validities.clone(),
            skipped: subjects.left_out,
        });
    }

    fn publish_if_changed(&self, new: RenewalForecastList) {
        self.forecasts.send_if_modified(|out| {
            let changed = **out != new;
            if changed {
                *out = Arc::new(new);
            }
            changed
        });
    }

    fn time_to_next_check(&self, hosts: &BTreeMap<HostName, NameState>, looks: usize) -> Duration {
        let now = self.clock.now();
        let next = hosts
            .values()
            // A name that is due but has no slot waits for a check to end.
            .filter(|known| !known.in_progress && (looks < MAX_CONCURRENT_CHECKS || known.next > now))
            .map(|known| Duration::from(known.next - now))
            .min();
        next.unwrap_or(MAX_PUBLISH_INTERVAL)
            .clamp(Duration::from_millis(10), MAX_PUBLISH_INTERVAL)
    }
}

/// One check, with its inputs.
struct HostCheckTask {
    clock: Clock,
    runs: Arc<RunManager>,
    topology: TopologyState,
    view: Arc<View>,
}

impl HostCheckTask {
    async fn run(self, host: HostName, turn: usize) -> (HostName, Evidence) {
        let mut random = [0; 32];
        let words = std::iter::repeat_with(parallax_runtime::random).take(4);
        for (bytes, word) in random.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        let token = encode_token(random);
        let at = HostCheck {
            host: &host,
            token: &token,
            turn,
        };
        let looked = self
            .runs
            .check_host(at, &self.topology.topology, &self.view)
            .await;
        let evidence = self.to_evidence(looked);
        (host, evidence)
    }

    fn to_evidence(&self, looked: Result<CheckObservations, HostCheckError>) -> Evidence {
        let at = self.clock.now();
        let (looked, not_checked_reason) = match looked {
            Ok(looked) if looked.observations.is_empty() => (
                looked,
                Some("no vantage responded in time; older probers may not support this query".to_owned()),
            ),
            Ok(looked) => (looked, None),
            Err(reason) => {
                let none = CheckObservations {
                    observations: Vec::new(),
                    resolvers: parallax_preflight::QueriedResolvers {
                        public: false,
                        authoritative: false,
                    },
                };
                (none, Some(reason.to_string()))
            }
        };
        let of = |suffix: &str| -> Vec<&Recorded> {
            let ends = |id: &AssignmentId| id.as_str().rsplit('|').next() == Some(suffix);
            looked
                .observations
                .iter()
                .filter(|seen| seen.observation.assignment.as_ref().is_some_and(ends))
                .collect()
        };
        let answers = |suffix: &str| {
            of(suffix)
                .into_iter()
                .map(|seen| self.to_vantage_answer(seen))
                .collect()
        };
        Evidence {
            checked_at: at,
            name_sights: of(NAMES_SUFFIX)
                .into_iter()
                .filter_map(|seen| Some((seen.vantage.clone(), (**seen.observation.names.as_ref()?).clone())))
                .collect(),
            resolvers: looked.resolvers,
            self_check: answers(SELF_CHECK_SUFFIX),
            ca: answers(CA_SUFFIX),
            not_checked_reason,
        }
    }

    fn to_vantage_answer(&self, seen: &Recorded) -> VantageAnswer {
        let observation = &seen.observation;
        let placement = observation.front.map_or(Placement::Unknown, |front| {
            self.topology
                .topology
                .placement(&seen.vantage, Some(&front), observation.entry.as_ref())
        });
        VantageAnswer {
            vantage: seen.vantage.clone(),
            placement,
            outcome: observation.outcome.clone(),
            sight: observation.challenge.as_deref().cloned().unwrap_or_default(),
            total_duration: observation.times.total,
        }
    }
}
