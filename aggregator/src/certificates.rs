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
    options: challenges::Options,
    picture: watch::Sender<CertManagerState>,
    watches: watch::Sender<WatchHealth<CertManagerKind>>,
    waiting: watch::Sender<Arc<[WaitingChallenge]>>,
}

/// The reading side. If cert-manager's objects are not watched, its state contains the reason.
#[derive(Debug)]
pub(crate) struct CertificateSources {
    pub(crate) picture: watch::Receiver<CertManagerState>,
    pub(crate) watches: watch::Receiver<WatchHealth<CertManagerKind>>,
    pub(crate) waiting: watch::Receiver<Arc<[WaitingChallenge]>>,
}

impl CertManager {
    /// Creates both sides; the writing one only if cert-manager's objects are watched.
    pub(crate) fn of(config: &Config) -> (Option<Self>, CertificateSources) {
        let (picture, picture_out) =
            watch::channel(CertManagerState::missing(&UnavailableReason::NotFollowed));
        let (watches, watches_out) = watch::channel(WatchHealth::default());
        let (waiting, waiting_out) = watch::channel(Arc::from([]));
        let known = CertificateSources {
            picture: picture_out,
            watches: watches_out,
            waiting: waiting_out,
        };
        let kubernetes = cert_manager::wanted(config.source.kubernetes.as_ref());
        let follower = kubernetes.map(|kubernetes| Self {
            kubernetes,
            options: config.challenges.clone(),
            picture,
            watches,
            waiting,
        });
        (follower, known)
    }

    /// Starts both tasks.
    pub(crate) fn run(
        self,
        shared: &ServerState,
        parts: &mut JoinSet<()>,
        start: &mut impl FnMut(&'static str, AbortHandle),
        stopping: &CancellationToken,
    ) {
        let explaining = challenges::ChallengeTask {
            options: self.options,
            kubernetes: self.kubernetes.clone(),
            picture: self.picture.subscribe(),
            waiting: self.waiting,
            desk: shared.runs.clone(),
            replica: shared.replica.clone(),
            topology: shared.topology.clone(),
            views: shared.outlook.views.clone(),
            clock: shared.clock,
        };
        let explaining = challenges::follow(explaining, stopping.clone());
        start("Challenge explanation", parts.spawn(explaining));
        let following = cert_manager::follow(
            self.kubernetes,
            self.picture,
            self.watches,
            shared.clock,
            stopping.clone(),
        );
        start("cert-manager watch", parts.spawn(following));
    }
}
