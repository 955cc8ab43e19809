//! Current state, read from the latest view at each scrape.

mod view_gauges;

use std::{collections::BTreeMap, fmt, sync::Arc};

use parallax_acme::cert_manager;
use parallax_api::{challenges::WaitingChallenge, forecasts::RenewalForecastList};
use parallax_diagnosis::{verdict::Incident, view::View};
use parallax_history::store::{Status, StoreState};
use parallax_kubernetes::{
    objects::resource::WatchSource,
    topology_state::TopologyState,
    watch::{WatchCondition, WatchFailureReason, WatchHealth, WatchState},
};
use parallax_model::EventTime;
use parallax_notify::{self, incident_actions};
use parallax_runtime::{Clock, SnapshotReader};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet},
    metrics::MetricType,
};
use tokio::sync::watch;

use super::{
    families::{self, FamilyDescription},
    renewals, verdicts,
};
use crate::catch_up::is_catching_up;
use view_gauges::{
    challenge_counts, evidence_age, never_ok_targets, node_counts, reachable_ratios, silence_seconds,
    vantage_counts, vantage_states,
};

/// The sources that a scrape reads.
#[derive(Debug)]
pub(crate) struct ScrapeSources {
    pub(crate) clock: Clock,
    pub(crate) views: SnapshotReader<View>,
    /// Time from which the probers' observations are known.
    pub(crate) evidence_since: watch::Receiver<EventTime>,
    pub(crate) topology: watch::Receiver<TopologyState>,
    pub(crate) store: watch::Receiver<Arc<StoreState>>,
    pub(crate) watch_health: watch::Receiver<WatchHealth<WatchSource>>,
    /// Watches of cert-manager's objects.
    pub(crate) cert_manager_watches: watch::Receiver<WatchHealth<cert_manager::CertManagerKind>>,
    /// Pending Challenges.
    pub(crate) challenges: watch::Receiver<Arc<[WaitingChallenge]>>,
    /// Renewal forecasts.
    pub(crate) forecasts: watch::Receiver<Arc<RenewalForecastList>>,
    /// User actions on incidents.
    pub(crate) actions: Arc<incident_actions::ActionManager>,
    /// Notifications.
    pub(crate) notifications: Arc<parallax_notify::NotificationState>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ResourceLabel {
    resource: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ResourceReason {
    resource: &'static str,
    reason: &'static str,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ReceiverLabel {
    receiver: String,
}

impl Collector for ScrapeSources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let encoder = &mut encoder;
        let view = self.views.latest();
        let now = self.clock.now();
        let action = |incident: &Incident| self.actions.state(&incident.id, &incident.verdict.targets);
        encode_gauges(encoder, families::REACHABLE, reachable_ratios(&view))?;
        encode_gauges(encoder, families::TARGET_VANTAGES, vantage_states(&view))?;
        encode_gauges(encoder, families::NEVER_OK, never_ok_targets(&view))?;
        encode_gauges(
            encoder,
            families::INCIDENT,
            verdicts::incident_series(&view, action),
        )?;
        encode_gauges(encoder, families::INCIDENTS, verdicts::incident_counts(&view))?;
        encode_gauges(
            encoder,
            families::TARGET_INCIDENT,
            verdicts::target_incidents(&view),
        )?;
        encode_gauges(encoder, families::VERDICTS, verdicts::probabilities(&view))?;
        encode_gauge(
            encoder,
            families::UNEXPLAINED_FAILURES,
            count_value(view.investigations.len()),
        )?;
        encode_gauges(encoder, families::FINDINGS, verdicts::finding_counts(&view))?;
        encode_gauges(encoder, families::HAZARDS, verdicts::hazard_series(&view))?;
        renewals::encode(encoder, &self.forecasts.borrow().clone())?;
        encode_gauges(encoder, families::VANTAGES, vantage_counts(&view))?;
        encode_gauges(
            encoder,
            families::SILENT,
            silence_seconds(&view, now, self.clock.start()),
        )?;
        encode_gauges(
            encoder,
            families::VANTAGE_INCIDENT,
            verdicts::vantage_incidents(&view),
        )?;
        {
            let topology = self.topology.borrow();
            encode_gauges(encoder, families::NODES, node_counts(&topology.topology))?;
            encode_gauge(encoder, families::ROUND, view.interval.as_secs_f64())?;
            encode_gauge(
                encoder,
                families::EVIDENCE_AGE,
                evidence_age(&view, now, self.clock.start()),
            )?;
            encode_gauge(encoder, families::TOPOLOGY_AGE, topology.age(now).as_secs_f64())?;
            encode_gauge(
                encoder,
                families::TOPOLOGY_PROBLEMS,
                count_value(topology.notes.len()),
            )?;
        }
        let evidence = *self.evidence_since.borrow();
        let catching_up = is_catching_up(&view, now, self.clock.start(), evidence);
        encode_gauge(encoder, families::CATCHING_UP, f64::from(u8::from(catching_up)))?;
        encode_gauges(
            encoder,
            families::CHALLENGES_WAITING,
            challenge_counts(&self.challenges.borrow().clone()),
        )?;
        encode_notifications(encoder, &self.notifications)?;
        let mut watches = self.watch_health.borrow().by_kind();
        watches.extend(self.cert_manager_watches.borrow().by_kind());
        encode_watches(encoder, &watches)?;
        encode_store(encoder, &self.store.borrow().clone())
    }
}

/// Encodes pending notifications; no series without receivers.
fn encode_notifications(
    encoder: &mut DescriptorEncoder<'_>,
    notifications: &parallax_notify::NotificationState,
) -> Result<(), fmt::Error> {
    let pending = notifications.pending();
    let no_receivers = pending.is_empty();
    let label = |receiver: &String| ReceiverLabel {
        receiver: receiver.clone(),
    };
    let counts = pending
        .iter()
        .map(|(name, pending_count, _)| (label(name), count_value(*pending_count)));
    encode_gauges(encoder, families::NOTIFICATIONS_PENDING, counts.collect())?;
    let ages = pending.iter().map(|(name, _, age)| (label(name), *age));
    encode_gauges(encoder, families::NOTIFICATIONS_OLDEST, ages.collect())?;
    let family = families::NOTIFICATIONS_UNPERSISTED;
    let mut family = encoder.encode_descriptor(family.name, family.help, None, MetricType::Gauge)?;
    if !no_receivers {
        family.encode_gauge(&f64::from(u8::from(notifications.is_unpersisted())))?;
    }
    Ok(())
}

/// Encodes the health of the watches; no series without a cluster.
fn encode_watches(
    encoder: &mut DescriptorEncoder<'_>,
    watches: &BTreeMap<&'static str, WatchState>,
) -> Result<(), fmt::Error> {
    let label = |resource: &&'static str| ResourceLabel { resource };
    let up = watches.iter().map(|(resource, watch)| {
        let up = matches!(watch.condition, WatchCondition::Live | WatchCondition::Absent);
        (label(resource), f64::from(u8::from(up)))
    });
    encode_gauges(encoder, families::WATCH_UP, up.collect())?;
    let objects = watches
        .iter()
        .map(|(resource, watch)| (label(resource), count_value(watch.objects)));
    encode_gauges(encoder, families::WATCH_OBJECTS, objects.collect())?;
    let mut counters = |family, count: fn(&WatchState) -> u64| {
        let counts = watches
            .iter()
            .map(|(resource, watch)| (label(resource), count(watch)));
        encode_counters(encoder, family, counts)
    };
    counters(families::WATCH_EVENTS, |watch| watch.events)?;
    counters(families::WATCH_LISTS, |watch| watch.lists)?;
    counters(families::WATCH_UNREADABLE, |watch| watch.unreadable)?;
    let errors = watches.iter().flat_map(|(resource, watch)| {
        WatchFailureReason::ALL.into_iter().map(move |reason| {
            let labels = ResourceReason {
                resource,
                reason: reason.label(),
            };
            (labels, watch.errors.get(&reason).copied().unwrap_or(0))
        })
    });
    encode_counters(encoder, families::WATCH_ERRORS, errors)
}

/// Encodes the state of the store; no series without a store, so that no alert fires.
#[expect(
    clippy::cast_precision_loss,
    reason = "a file of 2^52 bytes is beyond any limit"
)]
fn encode_store(encoder: &mut DescriptorEncoder<'_>, state: &StoreState) -> Result<(), fmt::Error> {
    let up = match state.status {
        Status::Off => None,
        Status::Up => Some(1.0),
        Status::Opening | Status::Down { .. } => Some(0.0),
    };
    for (family, value) in [
        (families::STORE_UP, up),
        (families::STORE_BYTES, up.map(|_| state.bytes as f64)),
    ] {
        let mut family = encoder.encode_descriptor(family.name, family.help, None, MetricType::Gauge)?;
        if let Some(value) = value {
            family.encode_gauge(&value)?;
        }
    }
    Ok(())
}

fn encode_gauge(
    encoder: &mut DescriptorEncoder<'_>,
    family: FamilyDescription,
    value: f64,
) -> Result<(), fmt::Error> {
    encoder
        .encode_descriptor(family.name, family.help, None, MetricType::Gauge)?
        .encode_gauge(&value)
}

pub(super) fn encode_gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    family: FamilyDescription,
    values: BTreeMap<L, f64>,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(family.name, family.help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

fn encode_counters<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    family: FamilyDescription,
    values: impl Iterator<Item = (L, u64)>,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(family.name, family.help, None, MetricType::Counter)?;
    for (labels, value) in values {
        family
            .encode_family(&labels)?
            .encode_counter::<NoLabelSet, _, u64>(&value, None)?;
    }
    Ok(())
}

/// Converts a count to a sample value.
pub(super) fn count_value(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
