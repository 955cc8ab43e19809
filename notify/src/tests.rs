//! The crate as a whole: which messages are sent, in which order, how often, and what survives a restart.

mod delivery_workers;
mod events;
mod heartbeat;
mod outbox;
mod receiver;
mod store;
mod transports;

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
    outbox::{Outbox, OutboxInput},
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
fn closed() -> View {
    let mut view = open();
    view.incidents[0].state = IncidentState::Closed { closed: NOW };
    make_healthy(&mut view);
    view
}

fn make_healthy(view: &mut View) {
    for cell in view.matrix.iter_mut().flat_map(|row| &mut row.cells) {
        *cell = fixtures::cell(
            cell.vantage,
            parallax_diagnosis::view::CellState::Ok,
            cell.placement,
        );
    }
}

fn content(incident: &Incident, grade: parallax_api::severity::IncidentSeverity) -> NotificationContent {
    NotificationContent::from_incident(
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
fn update(outbox: &mut Outbox, view: &View, now: EventTime, quiet: bool, started: u64) {
    outbox.update(&OutboxInput {
        view,
        now,
        started_at: ago(started),
        is_handled: &|_, _| quiet,
        render: &content,
    });
}

/// A running notifier on views that a test sets.
struct NotifierHarness {
    state: Arc<NotificationState>,
    views: watch::Sender<Arc<View>>,
    actions: Arc<incident_actions::ActionManager>,
    cancelled: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl NotifierHarness {
    fn new(outbox_store: OutboxStore, replica: ReplicaState) -> Self {
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
            actions: handling.clone(),
            views: views_out,
            topology: watch::channel(TopologyState::new(Arc::default())).1,
            links: Arc::default(),
        };
        Self {
            state: Arc::new(NotificationState::new(
                around,
                outbox_store,
                NotifyMetrics::default(),
            )),
            views,
            actions: handling,
            cancelled: CancellationToken::new(),
            task: None,
        }
    }

    fn standalone() -> Self {
        Self::new(OutboxStore::Memory, ReplicaState::standalone(1, "n"))
    }

    /// Starts the delivery workers.
    fn start(&mut self, engage: impl FnOnce(&mut Notifier)) {
        let mut notifier = Notifier::without_receivers(self.state.clone());
        engage(&mut notifier);
        self.task = Some(tokio::spawn(notifier.run(self.cancelled.clone())));
    }

    fn with_receiver(
        mut self,
        name: &str,
        carrier: impl NotificationTransport + Send + Sync + 'static,
    ) -> Self {
        self.start(|notifier| notifier.add_receiver(name, carrier));
        self
    }

    fn show(&self, view: View) {
        self.views.send_replace(Arc::new(view));
    }

    async fn stop(self) {
        self.cancelled.cancel();
        self.task.unwrap().await.unwrap();
    }
}
