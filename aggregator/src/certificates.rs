//! Watches cert-manager's objects and explains its pending Challenges.

use std::sync::Arc;

use parallax_acme::{
    cert_manager::{self, CertManagerKind, CertManagerState, UnavailableReason},
    challenges,
};
use parallax_api::challenges::WaitingChallenge;
use parallax_kubernetes::watch::{KubernetesSettings, WatchHealth};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

use crate::{config::Config, serve::ServerState};

/// The writing side: watch of cert-manager's objects and explanation of Challenges.
#[derive(Debug)]
pub(crate) struct CertManager {
    kubernetes: KubernetesSettings,
    options: challenges::ChallengeOptions,
    state: watch::Sender<CertManagerState>,
    watch_health: watch::Sender<WatchHealth<CertManagerKind>>,
    challenges: watch::Sender<Arc<[WaitingChallenge]>>,
}

/// The reading side. If cert-manager's objects are not watched, its state contains the reason.
#[derive(Debug)]
pub(crate) struct CertificateSources {
    pub(crate) state: watch::Receiver<CertManagerState>,
    pub(crate) watch_health: watch::Receiver<WatchHealth<CertManagerKind>>,
    pub(crate) challenges: watch::Receiver<Arc<[WaitingChallenge]>>,
}

impl CertManager {
    /// Creates both sides; the writing one only if cert-manager's objects are watched.
    pub(crate) fn channels(config: &Config) -> (Option<Self>, CertificateSources) {
        let (cert_manager, picture_out) =
            watch::channel(CertManagerState::missing(&UnavailableReason::NotWatched));
        let (watches, watches_out) = watch::channel(WatchHealth::default());
        let (waiting, waiting_out) = watch::channel(Arc::from([]));
        let known = CertificateSources {
            state: picture_out,
            watch_health: watches_out,
            challenges: waiting_out,
        };
        let kubernetes = cert_manager::cluster_to_watch(config.source.kubernetes.as_ref());
        let follower = kubernetes.map(|kubernetes| Self {
            kubernetes,
            options: config.challenges.clone(),
            state: cert_manager,
            watch_health: watches,
            challenges: waiting,
        });
        (follower, known)
    }

    /// Starts both tasks.
    pub(crate) fn run(
        self,
        shared: &ServerState,
        tasks: &mut JoinSet<()>,
        register: &mut impl FnMut(&'static str, AbortHandle),
        stopping: &CancellationToken,
    ) {
        let explaining = challenges::ChallengeTask {
            options: self.options,
            kubernetes: self.kubernetes.clone(),
            cert_manager: self.state.subscribe(),
            waiting: self.challenges,
            runs: shared.runs.clone(),
            replica: shared.replica.clone(),
            topology: shared.topology.clone(),
            views: shared.engine_snapshot.views.clone(),
            clock: shared.clock,
        };
        let explaining = challenges::run_until_cancelled(explaining, stopping.clone());
        register("Challenge explanation", tasks.spawn(explaining));
        let following = cert_manager::watch_objects(
            self.kubernetes,
            self.state,
            self.watch_health,
            shared.clock,
            stopping.clone(),
        );
        register("cert-manager watch", tasks.spawn(following));
    }
}
