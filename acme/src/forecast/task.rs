//! The task that checks names and publishes the forecasts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parallax_api::forecasts::{NOTE, RenewalForecastList};
use parallax_diagnosis::view::View;
use parallax_kubernetes::{replicas::ReplicaState, topology_state::TopologyState};
use parallax_model::{AssignmentId, EventTime, HostName, Micros, Placement, Recorded};
use parallax_preflight::{VantageAnswer, token};
use parallax_runs::{CA, LookError, LookedHost, NAMES, ReplySet, RunManager, SELF_CHECK};
use parallax_runtime::{Clock, SnapshotReader};
use tokio::{sync::watch, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    judge::{Evidence, judge},
    next_check,
    subjects::{RenewalSubjects, not_checked},
};
use crate::cert_manager::CertManagerState;

/// The maximum number of concurrent checks. A check takes up to twenty seconds if there is no response.
const AT_ONCE: usize = 4;

/// The minimum and the maximum time between two judgements of all names; the topology may change in between.
const LEAST: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_secs(30);

/// Evidence older than this many intervals is discarded: the name could not be checked since.
const STALE: u64 = 3;

/// Checks the names of Certificates and publishes forecasts.
#[derive(Debug)]
pub struct ForecastTask {
    /// Event time.
    pub clock: Clock,
    /// Makes the runs that check names.
    pub desk: Arc<RunManager>,
    /// Whether this replica leads; only the leader checks.
    pub replica: ReplicaState,
    /// The objects of cert-manager.
    pub picture: watch::Receiver<CertManagerState>,
    /// The current topology.
    pub topology: watch::Receiver<TopologyState>,
    /// The current incidents.
    pub views: SnapshotReader<View>,
    /// The interval between checks of a name; `None` disables checks.
    pub every: Option<Micros>,
    /// Receives the forecasts.
    pub out: watch::Sender<Arc<RenewalForecastList>>,
}

/// The state of one name.
#[derive(Debug)]
struct NameForecast {
    next: EventTime,
    looking: bool,
    turn: usize,
    evidence: Option<Evidence>,
}

impl ForecastTask {
    /// Checks names until cancelled.
    pub async fn run(mut self, cancelled: CancellationToken) {
        let mut hosts: BTreeMap<HostName, NameForecast> = BTreeMap::new();
        let mut looks: JoinSet<(HostName, Evidence)> = JoinSet::new();
        let mut leading = self.replica.changes();
        let mut subjects = RenewalSubjects::of(&self.picture.borrow_and_update());
        let mut published = EventTime(i64::MIN);
        let mut changed = true;
        loop {
            if self.replica.leads() {
                if let Some(every) = self.every {
                    self.settle(&subjects, &mut hosts, every);
                    self.set_out(&subjects, &mut hosts, &mut looks, every);
                }
                // Limits the rate: otherwise every finished check would cause a judgement of all names.
                let age = self.clock.now() - published;
                if age.0 >= Micros::from(if changed { LEAST } else { AGAIN }).0 {
                    self.publish(&subjects, &hosts);
                    published = self.clock.now();
                    changed = false;
                }
            } else {
                // Another replica checks and publishes.
                looks.abort_all();
                hosts.clear();
                self.show(not_checked(&self.picture.borrow()));
                (published, changed) = (EventTime(i64::MIN), true);
            }
            let wait = self
                .until_next(&hosts, looks.len())
                .min(if changed { LEAST } else { AGAIN });
            tokio::select! {
                () = cancelled.cancelled() => return,
                told = self.picture.changed() => {
                    if told.is_err() {
                        return;
                    }
                    changed = true;
                    subjects = RenewalSubjects::of(&self.picture.borrow_and_update());
                }
                () = leading.next() => {}
                Some(ended) = looks.join_next() => match ended {
                    Ok((host, evidence)) => {
                        if let Some(known) = hosts.get_mut(&host) {
                            known.looking = false;
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
    fn settle(
        &self,
        subjects: &RenewalSubjects,
        hosts: &mut BTreeMap<HostName, NameForecast>,
        every: Micros,
    ) {
        let now = self.clock.now();
        let wanted: BTreeSet<&HostName> = subjects.all.iter().map(|subject| &subject.host).collect();
        hosts.retain(|host, _| wanted.contains(host));
        for subject in &subjects.all {
            hosts.entry(subject.host.clone()).or_insert_with(|| NameForecast {
                next: next_check::first(subject.host.as_str(), every, now),
                looking: false,
                turn: 0,
                evidence: None,
            });
        }
    }

    /// Starts checks of the names that are due, the longest overdue first.
    fn set_out(
        &self,
        subjects: &RenewalSubjects,
        hosts: &mut BTreeMap<HostName, NameForecast>,
        looks: &mut JoinSet<(HostName, Evidence)>,
        every: Micros,
    ) {
        let now = self.clock.now();
        let mut wanting: Vec<(EventTime, HostName)> = hosts
            .iter()
            .filter(|(_, known)| !known.looking && known.next <= now)
            .map(|(host, known)| (known.next, host.clone()))
            .collect();
        wanting.sort();
        for (_, host) in wanting.into_iter().take(AT_ONCE.saturating_sub(looks.len())) {
            let Some(known) = hosts.get_mut(&host) else {
                continue;
            };
            let renewal = subjects
                .all
                .iter()
                .filter(|subject| subject.host == host)
                .filter_map(|subject| subject.term.renewal)
                .min();
            known.next = next_check::next(host.as_str(), every, renewal, now);
            known.looking = true;
            known.turn += 1;
            let looking = ForecastRound {
                clock: self.clock,
                desk: self.desk.clone(),
                topology: self.topology.borrow().clone(),
                view: self.views.latest(),
            };
            looks.spawn(looking.at(host, known.turn));
        }
    }

    fn publish(&self, subjects: &RenewalSubjects, hosts: &BTreeMap<HostName, NameForecast>) {
        let now = self.clock.now();
        let topology = self.topology.borrow().topology.clone();
        let Some(every) = self.every else {
            return self.show(RenewalForecastList {
                certificates: subjects.terms.clone(),
                ..RenewalForecastList::missing("forecast.every is off in the aggregator's configuration")
            });
        };
        let fresh = |evidence: &&Evidence| (now - evidence.at).0 <= every.0.saturating_mul(STALE);
        let forecasts = subjects.all.iter().map(|subject| {
            let evidence = hosts.get(&subject.host).and_then(|known| known.evidence.as_ref());
            judge(subject, evidence.filter(fresh), &topology)
        });
        self.show(RenewalForecastList {
            note: NOTE.to_owned(),
            missing: subjects.missing.clone(),
            forecasts: forecasts.collect(),
            certificates: subjects.terms.clone(),
            left_out: subjects.left_out,
        });
    }

    fn show(&self, new: RenewalForecastList) {
        self.out.send_if_modified(|out| {
            let changed = **out != new;
            if changed {
                *out = Arc::new(new);
            }
            changed
        });
    }

    fn until_next(&self, hosts: &BTreeMap<HostName, NameForecast>, looks: usize) -> Duration {
        let now = self.clock.now();
        let next = hosts
            .values()
            // A name that is due but has no slot waits for a check to end.
            .filter(|known| !known.looking && (looks < AT_ONCE || known.next > now))
            .map(|known| Duration::from(known.next - now))
            .min();
        next.unwrap_or(AGAIN).clamp(Duration::from_millis(10), AGAIN)
    }
}

/// One check, with its inputs.
struct ForecastRound {
    clock: Clock,
    desk: Arc<RunManager>,
    topology: TopologyState,
    view: Arc<View>,
}

impl ForecastRound {
    async fn at(self, host: HostName, turn: usize) -> (HostName, Evidence) {
        let mut random = [0; 32];
        let words = std::iter::repeat_with(parallax_runtime::random).take(4);
        for (bytes, word) in random.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        let token = token(random);
        let at = LookedHost {
            host: &host,
            token: &token,
            turn,
        };
        let looked = self.desk.look_at(at, &self.topology.topology, &self.view).await;
        let evidence = self.evidence(looked);
        (host, evidence)
    }

    fn evidence(&self, looked: Result<ReplySet, LookError>) -> Evidence {
        let at = self.clock.now();
        let (looked, nobody) = match looked {
            Ok(looked) if looked.seen.is_empty() => (
                looked,
                Some("no vantage responded in time; older probers may not support this query".to_owned()),
            ),
            Ok(looked) => (looked, None),
            Err(why) => {
                let none = ReplySet {
                    seen: Vec::new(),
                    wanted: parallax_preflight::QueriedResolvers {
                        public: false,
                        authorities: false,
                    },
                };
                (none, Some(why.to_string()))
            }
        };
        let of = |what: &str| -> Vec<&Recorded> {
            let ends = |id: &AssignmentId| id.as_str().rsplit('|').next() == Some(what);
            looked
                .seen
                .iter()
                .filter(|seen| seen.observation.assignment.as_ref().is_some_and(ends))
                .collect()
        };
        let answers = |what: &str| of(what).into_iter().map(|seen| self.answer(seen)).collect();
        Evidence {
            at,
            sights: of(NAMES)
                .into_iter()
                .filter_map(|seen| Some((seen.vantage.clone(), (**seen.observation.names.as_ref()?).clone())))
                .collect(),
            wanted: looked.wanted,
            self_check: answers(SELF_CHECK),
            ca: answers(CA),
            nobody,
        }
    }

    fn answer(&self, seen: &Recorded) -> VantageAnswer {
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
            total: observation.times.total,
        }
    }
}
