//! Prober authentication: a token identifies the Pod, and the Pod the node and network, so that a prober cannot report
//! for another vantage.
//!
//! ```text
//! token ─▶ claims (early rejection) ─▶ cache ─▶ TokenReview ─▶ ServiceAccount ─▶ Pod UID ─▶ watched Pod ─▶ vantage
//!                                                                   └─▶ labels of an enrolled account ─▶ vantage
//! ```

mod cache;
mod claims;
mod enrolled;
mod metrics;
mod options;
mod refusal;
mod review;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::http::{HeaderMap, header};
use parallax_model::Vantage;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};

pub(crate) use enrolled::EnrolledAccounts;
pub(crate) use metrics::IdentityMetrics;
pub use options::IdentityOptions;
pub(crate) use refusal::{AuthenticationError, RefusalReason};
pub use review::{REACH_LABEL, VANTAGE_LABEL};

use cache::{CachedIdentity, TokenCache, TokenHash, TokenHolder};
use claims::TokenClaims;
use parallax_kubernetes::{
    api_client::ApiClient,
    prober_pods::{PodLookup, ProberPods},
};
use review::{TokenReviewer, TokenSubject};

/// Maximum number of concurrent reviews; a flood of tokens queues here instead of loading the API server.
const REVIEWS: usize = 16;
/// Assumed lifetime of a token without expiry.
const WITHOUT_END: Duration = Duration::from_hours(1);
/// Minimum time between two log lines with the same reason.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// An authenticated prober.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthenticatedProber {
    /// Its vantage.
    pub(crate) vantage: Vantage,
    /// Whether it probes or only serves the echo.
    pub(crate) role: ProberRole,
    /// When its token expires; what was granted with it ends then too.
    pub(crate) until: Instant,
}

/// Role of an authenticated caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProberRole {
    /// Follows a plan and reports.
    Prober,
    /// Serves the echo: receives the nonce and reports nothing.
    Responder,
}

/// Authenticates probers by their tokens.
#[derive(Debug)]
pub(crate) struct ProberAuthenticator {
    options: IdentityOptions,
    reviewer: Box<dyn TokenReviewer>,
    pods: Arc<dyn ProberPods>,
    cache: Mutex<TokenCache>,
    reviews: Semaphore,
    /// Notified when an enrolled vantage authenticates: it may not have been listed yet.
    newcomer: Arc<Notify>,
    metrics: IdentityMetrics,
    log: RefusalLog,
}

impl ProberAuthenticator {
    pub(crate) fn new(
        options: IdentityOptions,
        client: ApiClient,
        pods: Arc<dyn ProberPods>,
        metrics: IdentityMetrics,
    ) -> Self {
        Self::asking(options, Box::new(client), pods, metrics)
    }

    fn asking(
        options: IdentityOptions,
        reviewer: Box<dyn TokenReviewer>,
        pods: Arc<dyn ProberPods>,
        metrics: IdentityMetrics,
    ) -> Self {
        Self {
            options,
            reviewer,
            pods,
            cache: Mutex::default(),
            reviews: Semaphore::new(REVIEWS),
            newcomer: Arc::default(),
            metrics,
            log: RefusalLog::default(),
        }
    }

    /// Returns the notification of authenticated enrolled vantages.
    pub(crate) fn newcomer(&self) -> Arc<Notify> {
        self.newcomer.clone()
    }

    /// Authenticates the sender of a request. Rejections are counted and logged.
    pub(crate) async fn admit(
        &self,
        headers: &HeaderMap,
    ) -> Result<AuthenticatedProber, AuthenticationError> {
        self.identify(headers)
            .await
            .inspect_err(|refused| self.note(refused))
    }

    /// Checks that a caller acts for its own vantage. Rejections are counted and logged.
    pub(crate) fn speaks_for(
        &self,
        caller: &AuthenticatedProber,
        vantage: &Vantage,
    ) -> Result<(), AuthenticationError> {
        if caller.vantage == *vantage {
            return Ok(());
        }
        let refused = AuthenticationError::of(
            RefusalReason::OtherVantage,
            format!("{} for {vantage}", caller.vantage),
        );
        self.note(&refused);
        Err(refused)
    }

    /// Rejects reports of responders.
    pub(crate) fn may_report(&self, caller: &AuthenticatedProber) -> Result<(), AuthenticationError> {
        if caller.role == ProberRole::Prober {
            return Ok(());
        }
        let refused = AuthenticationError::of(RefusalReason::WrongAccount, caller.vantage.to_string());
        self.note(&refused);
        Err(refused)
    }

    fn note(&self, refused: &AuthenticationError) {
        self.metrics.refused(refused.reason);
        self.log.say(refused);
    }

    async fn identify(&self, headers: &HeaderMap) -> Result<AuthenticatedProber, AuthenticationError> {
        let token = bearer(headers).ok_or(AuthenticationError::because(RefusalReason::Missing))?;
        let claims =
            TokenClaims::read(token).ok_or(AuthenticationError::because(RefusalReason::Malformed))?;
        if !claims.meant_for(&self.options.audience) {
            return Err(AuthenticationError::because(RefusalReason::WrongAudience));
        }
        let good_for = good_for(&claims).ok_or(AuthenticationError::because(RefusalReason::Expired))?;
        let hash = TokenHash::of(token);
        let until = Instant::now() + good_for;
        let holder = self.holder(token, hash, good_for).await?;
        self.place(&holder, &hash, until)
    }

    /// Returns the holder of a token, from the cache or the API server.
    async fn holder(
        &self,
        token: &str,
        hash: TokenHash,
        good_for: Duration,
    ) -> Result<TokenHolder, AuthenticationError> {
        let known = self.cache.lock().look(&hash);
        let before = match known {
            CachedIdentity::Fresh(holder) => return Ok(holder),
            CachedIdentity::Refused(reason) => return Err(AuthenticationError::because(reason)),
            CachedIdentity::Stale(holder) => Some(holder),
            CachedIdentity::Nothing => None,
        };
        // The semaphore is never closed.
        let _turn = self.reviews.acquire().await;
        match self.ask(token).await {
            Ok(Ok(holder)) => {
                self.cache.lock().hold(hash, holder.clone(), good_for);
                Ok(holder)
            }
            Ok(Err(refused)) => {
                self.cache.lock().refuse(hash, refused.reason);
                Err(refused)
            }
            Err(review::ReviewerUnavailable(why)) => {
                self.cache.lock().postpone(&hash);
                before.ok_or_else(|| AuthenticationError::of(RefusalReason::ReviewUnavailable, why))
            }
        }
    }

    async fn ask(
        &self,
        token: &str,
    ) -> Result<Result<TokenHolder, AuthenticationError>, review::ReviewerUnavailable> {
        let subject = match self.reviewer.review(token, &self.options.audience).await? {
            Ok(subject) => subject,
            Err(reason) => return Ok(Err(AuthenticationError::because(reason))),
        };
        if self.role(&subject).is_some() {
            let bound = subject.pod_uid.is_some();
            let refused = || AuthenticationError::of(RefusalReason::NotBound, subject.account.to_string());
            return Ok(if bound {
                Ok(TokenHolder {
                    subject,
                    outside: None,
                })
            } else {
                Err(refused())
            });
        }
        let outside = if self.options.vantages.as_ref() == Some(&subject.account.namespace) {
            self.reviewer.enrolment(&subject.account).await?
        } else {
            None
        };
        Ok(match outside {
            Some(vantage) => {
                self.newcomer.notify_one();
                Ok(TokenHolder {
                    subject,
                    outside: Some(vantage),
                })
            }
            None => Err(AuthenticationError::of(
                RefusalReason::WrongAccount,
                subject.account.to_string(),
            )),
        })
    }

    fn role(&self, subject: &TokenSubject) -> Option<ProberRole> {
        if self.options.probers.contains(&subject.account) {
            Some(ProberRole::Prober)
        } else if self.options.responders.contains(&subject.account) {
            Some(ProberRole::Responder)
        } else {
            None
        }
    }

    /// Returns the holder's vantage. The Pod is looked up on each request, so that its token is rejected once it is
    /// deleted.
    fn place(
        &self,
        holder: &TokenHolder,
        hash: &TokenHash,
        until: Instant,
    ) -> Result<AuthenticatedProber, AuthenticationError> {
        let subject = &holder.subject;
        if let Some(vantage) = &holder.outside {
            return Ok(AuthenticatedProber {
                vantage: vantage.clone(),
                role: ProberRole::Prober,
                until,
            });
        }
        let role = self.role(subject).ok_or_else(|| {
            AuthenticationError::of(RefusalReason::WrongAccount, subject.account.to_string())
        })?;
        let uid = subject
            .pod_uid
            .as_deref()
            .ok_or_else(|| AuthenticationError::of(RefusalReason::NotBound, subject.account.to_string()))?;
        let pod = match self.pods.find(uid) {
            PodLookup::Known(pod) => pod,
            PodLookup::Unknown => {
                self.cache.lock().forget(hash);
                let who = format!("a Pod of {}", subject.account);
                return Err(AuthenticationError::of(RefusalReason::UnknownPod, who));
            }
            PodLookup::NotYet => return Err(AuthenticationError::because(RefusalReason::PodsUnknown)),
        };
        if subject
            .node
            .as_ref()
            .is_some_and(|node| node != pod.node.as_str())
        {
            return Err(AuthenticationError::of(
                RefusalReason::OtherNode,
                pod.name.to_string(),
            ));
        }
        Ok(AuthenticatedProber {
            vantage: Vantage::Cluster {
                node: pod.node,
                network: pod.network,
            },
            role,
            until,
        })
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .strip_prefix("Bearer ")
        .map(str::trim)
}

/// Returns the remaining lifetime of a token; `None` if it has expired.
fn good_for(claims: &TokenClaims) -> Option<Duration> {
    let Some(end) = claims.expires else {
        return Some(WITHOUT_END);
    };
    let end = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(end).ok()?))?;
    end.duration_since(SystemTime::now())
        .ok()
        .filter(|left| !left.is_zero())
}

/// Rate-limits log lines per reason and counts the suppressed ones.
#[derive(Debug, Default)]
struct RefusalLog(Mutex<BTreeMap<RefusalReason, (Instant, u64)>>);

impl RefusalLog {
    /// Returns the number of suppressed lines if the reason is due to be logged; `None` otherwise.
    fn due(&self, reason: RefusalReason) -> Option<u64> {
        let now = Instant::now();
        let mut said = self.0.lock();
        let Some((last, unsaid)) = said.get_mut(&reason) else {
            said.insert(reason, (now, 0));
            return Some(0);
        };
        if now.duration_since(*last) < LOG_EVERY {
            *unsaid += 1;
            return None;
        }
        *last = now;
        Some(std::mem::take(unsaid))
    }

    fn say(&self, refused: &AuthenticationError) {
        let Some(unsaid) = self.due(refused.reason) else {
            return;
        };
        tracing::warn!(
            reason = refused.reason.label(),
            who = %refused.who,
            unsaid,
            "rejected a prober: {}",
            refused.reason.sentence()
        );
    }
}
