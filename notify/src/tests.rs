//! The crate as a whole: which messages are sent, in which order, how often, and what survives a restart.

mod carriers;
mod couriers;
mod events;
mod kept;
mod letters;
mod receiver;

use std::sync::Arc;

use parallax_diagnosis::{
    verdict::{Incident, IncidentState},
    view::View,
};
use parallax_fixtures::{self as fixtures, NOW, ago};
use parallax_history::store::StoreHandle;
use parallax_kubernetes::{replicas::ReplicaState, topology_state::TopologyState};
use parallax_model::EventTime;
use parallax_runtime::Clock;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{
    NotificationContext, NotificationState, Notifier, NotifyMetrics, OutboxStore,
    content::NotificationContent,
    delivery_worker::NotificationTransport,
    outbox::{EngineIncidents, Outbox},
};
use crate::incident_actions;

/// A view with one incident, open.
fn open() -> View {
    let mut view = fixtures::outage();
    view.incidents.truncate(1);
    view.incidents[0].state = IncidentState::Open;
    view.incidents[0].occurrences = 1;
    view
}

/// The same view with the incident closed and every cell ok.
fn over() -> View {
    let mut view = open();
    view.incidents[0].state = IncidentState::Closed { closed: NOW };
    well(&mut view);
    view
}

fn well(view: &mut View) {
    for cell in view.matrix.iter_mut().flat_map(|row| &mut row.cells) {
        *cell = fixtures::cell(
            cell.vantage,
            parallax_diagnosis::view::CellState::Ok,
            cell.placement,
        );
    }
}

fn words(incident: &Incident, grade: parallax_api::severity::IncidentSeverity) -> NotificationContent {
    NotificationContent::of(
        incident,
        grade,
        (
            &parallax_diagnosis::topology::Topology::default(),
            &parallax_kubernetes::topology_state::TargetPublishers::default(),
        ),
        &parallax_api::links::ExternalLinks::default(),
    )
}

/// Updates an outbox from a view, in an aggregator that started so many seconds ago.
fn look_at(outbox: &mut Outbox, view: &View, now: EventTime, quiet: bool, started: u64) {
    outbox.look(&EngineIncidents {
        view,
        now,
        start: ago(started),
        quiet: &|_, _| quiet,
        content: &words,
    });
}

/// A running notifier on views that a test sets.
struct Office {
    desk: Arc<NotificationState>,
    views: watch::Sender<Arc<View>>,
    handling: Arc<incident_actions::ActionManager>,
    stop: CancellationToken,
    running: Option<JoinHandle<()>>,
}

impl Office {
    fn of(vault: OutboxStore, replica: ReplicaState) -> Self {
        let clock = Clock::starting_at(NOW);
        let handling = Arc::new(incident_actions::ActionManager::new(
            clock,
            StoreHandle::off(),
            None,
        ));
        let (views, views_out) = watch::channel(Arc::new(fixtures::healthy()));
        let around = NotificationContext {
            clock,
            replica,
            handling: handling.clone(),
            views: views_out,
            topology: watch::channel(TopologyState::new(Arc::default())).1,
            links: Arc::default(),
        };
        Self {
            desk: Arc::new(NotificationState::new(around, vault, NotifyMetrics::default())),
            views,
            handling,
            stop: CancellationToken::new(),
            running: None,
        }
    }

    fn alone() -> Self {
        Self::of(OutboxStore::Nowhere, ReplicaState::alone(1, "n"))
    }

    /// Starts the delivery workers.
    fn begin(&mut self, engage: impl FnOnce(&mut Notifier)) {
        let mut staff = Notifier::of(self.desk.clone());
        engage(&mut staff);
        self.running = Some(tokio::spawn(staff.run(self.stop.clone())));
    }

    fn with(mut self, name: &str, carrier: impl NotificationTransport + Send + Sync + 'static) -> Self {
        self.begin(|staff| staff.engage(name, carrier));
        self
    }

    fn sees(&self, view: View) {
        self.views.send_replace(Arc::new(view));
    }

    async fn end(self) {
        self.stop.cancel();
        self.running.unwrap().await.unwrap();
    }
}
