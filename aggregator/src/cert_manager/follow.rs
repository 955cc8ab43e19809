//! Follows cert-manager's objects and publishes the picture of them.

use std::{collections::BTreeMap, sync::Arc};

use parallax_model::EventTime;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    kind::{self, Kind, Thing},
    picture::{Missing, Picture, Shelf},
};
use crate::{
    clock::Clock,
    kubernetes::{Condition, Key, Kubernetes, QUEUE, Reason, Reflector, Told, WatchState, Watches, connect},
    preflight::{Certificate, Challenge, Issuer, Meta},
    topology_state::Trouble,
};

/// Changes that one new picture takes in: a first list of thousands makes one, not thousands.
const AT_ONCE: usize = 256;

type Objects<T> = Arc<BTreeMap<Key, Arc<T>>>;

/// Follows them until cancelled.
pub(crate) async fn follow(
    kubernetes: Kubernetes,
    picture: watch::Sender<Picture>,
    watches: watch::Sender<Watches<Kind>>,
    clock: Clock,
    cancelled: CancellationToken,
) {
    let follower = Follower {
        start: clock.now(),
        kubernetes,
        picture,
        watches,
        clock,
        known: Known::default(),
    };
    cancelled.run_until_cancelled(follower.run()).await;
}

struct Follower {
    start: EventTime,
    kubernetes: Kubernetes,
    picture: watch::Sender<Picture>,
    watches: watch::Sender<Watches<Kind>>,
    clock: Clock,
    known: Known,
}

/// Objects as last read, whether or not they are to be shown.
#[derive(Default)]
struct Known {
    certificates: Objects<Certificate>,
    issuers: Objects<Issuer>,
    cluster_issuers: Objects<Issuer>,
    challenges: Objects<Challenge>,
}

impl Follower {
    async fn run(mut self) {
        self.watches.send_replace(Watches::starting(Kind::ALL));
        self.picture.send_replace(Picture::missing(&Missing::NotReadYet));
        let (access, pace) = (&self.kubernetes.access, self.kubernetes.pace);
        let client = connect(access, pace, |message| {
            self.picture
                .send_replace(Picture::missing(&Missing::Unreadable { message }));
        })
        .await;
        let (out, mut told) = mpsc::channel(QUEUE);
        let mut reflectors = JoinSet::new();
        for source in Kind::ALL {
            let reflector = Reflector {
                client: client.clone(),
                source,
                labels: None,
                pace,
                out: out.clone(),
            };
            reflectors.spawn(reflector.run());
        }
        drop(out);
        let mut news = Vec::with_capacity(AT_ONCE);
        loop {
            tokio::select! {
                biased;
                Some(ended) = reflectors.join_next() => match ended {
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    // It ends only when nobody listens, and here we are.
                    _ => unreachable!("a reflector ended by itself"),
                },
                _ = told.recv_many(&mut news, AT_ONCE) => {
                    for (kind, told) in news.drain(..) {
                        self.take(kind, told);
                    }
                    self.publish();
                }
            }
        }
    }

    fn take(&mut self, kind: Kind, told: Told<Thing>) {
        let (now, start) = (self.clock.now(), self.start);
        let known = &mut self.known;
        self.watches.send_modify(|watches| {
            let watch = watches.of(&kind);
            match told {
                Told::All(things, unreadable) => {
                    known.forget(kind);
                    for thing in things {
                        known.put(thing);
                    }
                    watch.lists += 1;
                    watch.unreadable += unreadable;
                    watch.settled = true;
                }
                Told::Put(thing) => {
                    known.put(*thing);
                    watch.events += 1;
                }
                Told::Gone(key) => {
                    known.remove(kind, &key);
                    watch.events += 1;
                }
                Told::Unreadable => {
                    watch.events += 1;
                    watch.unreadable += 1;
                }
                Told::Live => watch.live(),
                Told::Absent => {
                    known.forget(kind);
                    watch.absent();
                }
                Told::Failed(failure) => watch.failed(failure, now, start),
            }
            watch.objects = known.count(kind);
        });
    }

    /// Shows what is known now, if that is something else.
    fn publish(&self) {
        let watches = self.watches.borrow();
        let known = &self.known;
        let now = Picture {
            certificates: shelf(&watches, Kind::Certificates, &known.certificates),
            issuers: shelf(&watches, Kind::Issuers, &known.issuers),
            cluster_issuers: shelf(&watches, Kind::ClusterIssuers, &known.cluster_issuers),
            challenges: shelf(&watches, Kind::Challenges, &known.challenges),
        };
        drop(watches);
        self.picture.send_if_modified(|picture| {
            let changed = *picture != now;
            *picture = now;
            changed
        });
    }
}

impl Known {
    fn put(&mut self, thing: Thing) {
        match thing {
            Thing::Certificate(object) => put(&mut self.certificates, object, |object| &object.metadata),
            Thing::Issuer(object) => put(&mut self.issuers, object, |object| &object.metadata),
            Thing::ClusterIssuer(object) => {
                put(&mut self.cluster_issuers, object, |object| &object.metadata);
            }
            Thing::Challenge(object) => put(&mut self.challenges, object, |object| &object.metadata),
        }
    }

    fn remove(&mut self, kind: Kind, key: &Key) {
        match kind {
            Kind::Certificates => drop(Arc::make_mut(&mut self.certificates).remove(key)),
            Kind::Issuers => drop(Arc::make_mut(&mut self.issuers).remove(key)),
            Kind::ClusterIssuers => drop(Arc::make_mut(&mut self.cluster_issuers).remove(key)),
            Kind::Challenges => drop(Arc::make_mut(&mut self.challenges).remove(key)),
        }
    }

    fn forget(&mut self, kind: Kind) {
        match kind {
            Kind::Certificates => self.certificates = Objects::default(),
            Kind::Issuers => self.issuers = Objects::default(),
            Kind::ClusterIssuers => self.cluster_issuers = Objects::default(),
            Kind::Challenges => self.challenges = Objects::default(),
        }
    }

    fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Certificates => self.certificates.len(),
            Kind::Issuers => self.issuers.len(),
            Kind::ClusterIssuers => self.cluster_issuers.len(),
            Kind::Challenges => self.challenges.len(),
        }
    }
}

fn put<T>(objects: &mut Objects<T>, object: Arc<T>, meta: impl Fn(&T) -> &Meta) {
    let key = kind::key(meta(&object));
    Arc::make_mut(objects).insert(key, object);
}

/// The objects as far as the watch of them vouches for it.
fn shelf<T>(watches: &Watches<Kind>, kind: Kind, objects: &Objects<T>) -> Shelf<T> {
    let Some(watch) = watches.get(&kind) else {
        return Shelf::Missing(Missing::NotReadYet);
    };
    let known = |stale| Shelf::Known {
        objects: Arc::clone(objects),
        stale,
    };
    match &watch.condition {
        Condition::Live => known(None),
        Condition::Absent => Shelf::Missing(Missing::NotInstalled),
        Condition::Starting => Shelf::Missing(Missing::NotReadYet),
        Condition::Failing {
            reason: Reason::Forbidden,
            message,
            ..
        } => Shelf::Missing(Missing::Forbidden {
            rule: kind.rule(),
            message: message.clone(),
        }),
        Condition::Failing { message, .. } if never_read(watch) => Shelf::Missing(Missing::Unreadable {
            message: message.clone(),
        }),
        Condition::Failing { message, since, .. } => known(Some(Trouble {
            message: message.clone(),
            since: *since,
        })),
    }
}

const fn never_read(watch: &WatchState) -> bool {
    watch.lists == 0
}
