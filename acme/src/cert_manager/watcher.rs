//! Watches cert-manager's objects and publishes their state.

use std::{collections::BTreeMap, sync::Arc};

use parallax_kubernetes::{
    topology_state::SourceError,
    watch::{
        Key, KubernetesSettings, QUEUE_CAPACITY, Reflector, WatchCondition, WatchFailureReason, WatchHealth,
        WatchState, WatchUpdate, connect,
    },
};
use parallax_model::EventTime;
use parallax_preflight::{Certificate, Challenge, Issuer, Meta};
use parallax_runtime::Clock;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    kind::{self, CertManagerKind, CertManagerObject},
    state::{CertManagerState, ObjectStore, UnavailableReason},
};

/// The maximum number of changes per published state: an initial list of thousands of objects causes few updates.
const MAX_BATCH: usize = 256;

type ObjectMap<T> = Arc<BTreeMap<Key, Arc<T>>>;

/// Watches the objects until cancelled.
pub async fn watch_objects(
    kubernetes: KubernetesSettings,
    state: watch::Sender<CertManagerState>,
    watches: watch::Sender<WatchHealth<CertManagerKind>>,
    clock: Clock,
    cancelled: CancellationToken,
) {
    let follower = CertManagerWatcher {
        start: clock.now(),
        kubernetes,
        state,
        watches,
        clock,
        objects: WatchedObjects::default(),
    };
    cancelled.run_until_cancelled(follower.run()).await;
}

struct CertManagerWatcher {
    start: EventTime,
    kubernetes: KubernetesSettings,
    state: watch::Sender<CertManagerState>,
    watches: watch::Sender<WatchHealth<CertManagerKind>>,
    clock: Clock,
    objects: WatchedObjects,
}

/// The objects as last read, whether or not the published state may contain them.
#[derive(Default)]
struct WatchedObjects {
    certificates: ObjectMap<Certificate>,
    issuers: ObjectMap<Issuer>,
    cluster_issuers: ObjectMap<Issuer>,
    challenges: ObjectMap<Challenge>,
}

impl CertManagerWatcher {
    async fn run(mut self) {
        self.watches.send_replace(WatchHealth::new(CertManagerKind::ALL));
        self.state
            .send_replace(CertManagerState::missing(&UnavailableReason::NotListedYet));
        let (access, pace) = (&self.kubernetes.access, self.kubernetes.timing);
        let client = connect(access, pace, |message| {
            self.state
                .send_replace(CertManagerState::missing(&UnavailableReason::Unreadable {
                    message,
                }));
        })
        .await;
        let (out, mut updates) = mpsc::channel(QUEUE_CAPACITY);
        let mut reflectors = JoinSet::new();
        for source in CertManagerKind::ALL {
            let reflector = Reflector {
                client: client.clone(),
                source,
                label_selector: None,
                timing: pace,
                updates: out.clone(),
            };
            reflectors.spawn(reflector.run());
        }
        drop(out);
        let mut news = Vec::with_capacity(MAX_BATCH);
        loop {
            tokio::select! {
                biased;
                Some(ended) = reflectors.join_next() => match ended {
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    // Exits only when the receiver is dropped, and this loop owns it.
                    _ => unreachable!("a reflector ended by itself"),
                },
                _ = updates.recv_many(&mut news, MAX_BATCH) => {
                    for (kind, update) in news.drain(..) {
                        self.apply(kind, update);
                    }
                    self.publish();
                }
            }
        }
    }

    fn apply(&mut self, kind: CertManagerKind, update: WatchUpdate<CertManagerObject>) {
        let (now, start) = (self.clock.now(), self.start);
        let known = &mut self.objects;
        self.watches.send_modify(|watches| {
            let watch = watches.state_mut(&kind);
            match update {
                WatchUpdate::Listed(objects, unreadable) => {
                    known.clear(kind);
                    for object in objects {
                        known.insert(object);
                    }
                    watch.lists += 1;
                    watch.unreadable += unreadable;
                    watch.settled = true;
                }
                WatchUpdate::Applied(object) => {
                    known.insert(*object);
                    watch.events += 1;
                }
                WatchUpdate::Deleted(key) => {
                    known.remove(kind, &key);
                    watch.events += 1;
                }
                WatchUpdate::Unreadable => {
                    watch.events += 1;
                    watch.unreadable += 1;
                }
                WatchUpdate::Live => watch.set_live(),
                WatchUpdate::Absent => {
                    known.clear(kind);
                    watch.set_absent();
                }
                WatchUpdate::Failed(failure) => watch.record_failure(failure, now, start),
            }
            watch.objects = known.count(kind);
        });
    }

    /// Publishes the state if it has changed.
    fn publish(&self) {
        let watches = self.watches.borrow();
        let known = &self.objects;
        let now = CertManagerState {
            certificates: object_store(&watches, CertManagerKind::Certificates, &known.certificates),
            issuers: object_store(&watches, CertManagerKind::Issuers, &known.issuers),
            cluster_issuers: object_store(&watches, CertManagerKind::ClusterIssuers, &known.cluster_issuers),
            challenges: object_store(&watches, CertManagerKind::Challenges, &known.challenges),
        };
        drop(watches);
        self.state.send_if_modified(|current| {
            let changed = *current != now;
            *current = now;
            changed
        });
    }
}

impl WatchedObjects {
    fn insert(&mut self, resource: CertManagerObject) {
        match resource {
            CertManagerObject::Certificate(object) => {
                insert(&mut self.certificates, object, |object| &object.metadata);
            }
            CertManagerObject::Issuer(object) => insert(&mut self.issuers, object, |object| &object.metadata),
            CertManagerObject::ClusterIssuer(object) => {
                insert(&mut self.cluster_issuers, object, |object| &object.metadata);
            }
            CertManagerObject::Challenge(object) => {
                insert(&mut self.challenges, object, |object| &object.metadata);
            }
        }
    }

    fn remove(&mut self, kind: CertManagerKind, key: &Key) {
        match kind {
            CertManagerKind::Certificates => drop(Arc::make_mut(&mut self.certificates).remove(key)),
            CertManagerKind::Issuers => drop(Arc::make_mut(&mut self.issuers).remove(key)),
            CertManagerKind::ClusterIssuers => drop(Arc::make_mut(&mut self.cluster_issuers).remove(key)),
            CertManagerKind::Challenges => drop(Arc::make_mut(&mut self.challenges).remove(key)),
        }
    }

    fn clear(&mut self, kind: CertManagerKind) {
        match kind {
            CertManagerKind::Certificates => self.certificates = ObjectMap::default(),
            CertManagerKind::Issuers => self.issuers = ObjectMap::default(),
            CertManagerKind::ClusterIssuers => self.cluster_issuers = ObjectMap::default(),
            CertManagerKind::Challenges => self.challenges = ObjectMap::default(),
        }
    }

    fn count(&self, kind: CertManagerKind) -> usize {
        match kind {
            CertManagerKind::Certificates => self.certificates.len(),
            CertManagerKind::Issuers => self.issuers.len(),
            CertManagerKind::ClusterIssuers => self.cluster_issuers.len(),
            CertManagerKind::Challenges => self.challenges.len(),
        }
    }
}

fn insert<T>(objects: &mut ObjectMap<T>, object: Arc<T>, meta: impl Fn(&T) -> &Meta) {
    let key = kind::key(meta(&object));
    Arc::make_mut(objects).insert(key, object);
}

/// Returns the objects if the condition of their watch allows it, otherwise the reason.
fn object_store<T>(
    watches: &WatchHealth<CertManagerKind>,
    kind: CertManagerKind,
    objects: &ObjectMap<T>,
) -> ObjectStore<T> {
    let Some(watch) = watches.get(&kind) else {
        return ObjectStore::Missing(UnavailableReason::NotListedYet);
    };
    let known = |stale| ObjectStore::Known {
        objects: Arc::clone(objects),
        stale,
    };
    match &watch.condition {
        WatchCondition::Live => known(None),
        WatchCondition::Absent => ObjectStore::Missing(UnavailableReason::NotInstalled),
        WatchCondition::Starting => ObjectStore::Missing(UnavailableReason::NotListedYet),
        WatchCondition::Failing {
            reason: WatchFailureReason::Forbidden,
            message,
            ..
        } => ObjectStore::Missing(UnavailableReason::Forbidden {
            rule: kind.rbac_rule(),
            message: message.clone(),
        }),
        WatchCondition::Failing { message, .. } if never_read(watch) => {
            ObjectStore::Missing(UnavailableReason::Unreadable {
                message: message.clone(),
            })
        }
        WatchCondition::Failing { message, since, .. } => known(Some(SourceError {
            message: message.clone(),
            since: *since,
        })),
    }
}

const fn never_read(watch: &WatchState) -> bool {
    watch.lists == 0
}
