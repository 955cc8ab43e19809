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
use tokio::time::Instant;

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

use crate::review_slots::{ReviewSlots, TokenOwner};

/// Assumed lifetime of a token without expiry.
const DEFAULT_TOKEN_LIFETIME: Duration = Duration::from_hours(1);
/// Minimum time between two log lines with the same reason.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// An authenticated prober.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthenticatedProber {
    /// Its vantage.
    pub(crate) vantage: Vantage,
    /// Whether it probes or only serves the echo.
    pub(crate) role: ProberRole,
    /// When its token expires; what was granted with it ends then too.
    pub(crate) expires: Instant,
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
    review_slots: ReviewSlots,
    metrics: IdentityMetrics,
    rejection_log: RefusalLog,
}

impl ProberAuthenticator {
    pub(crate) fn new(
        options: IdentityOptions,
        client: ApiClient,
        pods: Arc<dyn ProberPods>,
        metrics: IdentityMetrics,
    ) -> Self {
        Self::with_reviewer(options, Box::new(client), pods, metrics)
    }

    fn with_reviewer(
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
            review_slots: ReviewSlots::new(),
            metrics,
            rejection_log: RefusalLog::default(),
        }
    }

    /// Authenticates the sender of a request. Rejections are counted and logged.
    pub(crate) async fn authenticate(
        &self,
        headers: &HeaderMap,
    ) -> Result<AuthenticatedProber, AuthenticationError> {
        self.identify(headers)
            .await
            .inspect_err(|refused| self.record_rejection(refused))
    }

    /// Checks that a caller acts for its own vantage. Rejections are counted and logged.
    pub(crate) fn check_vantage(
        &self,
        caller: &AuthenticatedProber,
        vantage: &Vantage,
    ) -> Result<(), AuthenticationError> {
        if caller.vantage == *vantage {
            return Ok(());
        }
        let refused = AuthenticationError::new(
            RefusalReason::OtherVantage,
            format!("{} for {vantage}", caller.vantage),
        );
        self.record_rejection(&refused);
        Err(refused)
    }

    /// Rejects reports of responders.
    pub(crate) fn check_may_report(&self, caller: &AuthenticatedProber) -> Result<(), AuthenticationError> {
        if caller.role == ProberRole::Prober {
            return Ok(());
        }
        let refused = AuthenticationError::new(RefusalReason::WrongAccount, caller.vantage.to_string());
        self.record_rejection(&refused);
        Err(refused)
    }

    fn record_rejection(&self, refused: &AuthenticationError) {
        self.metrics.count_rejected(refused.reason);
        self.rejection_log.log(refused);
    }

    async fn identify(&self, headers: &HeaderMap) -> Result<AuthenticatedProber, AuthenticationError> {
        let token =
            bearer_token(headers).ok_or(AuthenticationError::without_sender(RefusalReason::Missing))?;
        let claims =
            TokenClaims::parse(token).ok_or(AuthenticationError::without_sender(RefusalReason::Malformed))?;
        if !claims.has_audience(&self.options.audience) {
            return Err(AuthenticationError::without_sender(RefusalReason::WrongAudience));
        }
        let good_for =
            remaining_lifetime(&claims).ok_or(AuthenticationError::without_sender(RefusalReason::Expired))?;
        let hash = TokenHash::of(token);
        let until = Instant::now() + good_for;
        let holder = self.resolve_holder((token, &claims), hash, good_for).await?;
        self.vantage_of(&holder, &hash, until)
    }

    /// Returns the holder of a token, from the cache or the API server.
    async fn resolve_holder(
        &self,
        (token, claims): (&str, &TokenClaims),
        hash: TokenHash,
        good_for: Duration,
    ) -> Result<TokenHolder, AuthenticationError> {
        let known = self.cache.lock().get(&hash);
        let before = match known {
            CachedIdentity::Fresh(holder) => return Ok(holder),
            CachedIdentity::Rejected(reason) => return Err(AuthenticationError::without_sender(reason)),
            CachedIdentity::Stale(holder) => Some(holder),
            CachedIdentity::Unknown => None,
        };
        let running = |uid: &&str| matches!(self.pods.find(uid), PodLookup::Known(_));
        let owner = match (&before, claims.pod_uid().filter(running)) {
            (Some(_), _) => TokenOwner::Known,
            (None, Some(uid)) => TokenOwner::Pod(uid),
            (None, None) => TokenOwner::Stranger,
        };
        let _slot = self.review_slots.acquire(owner).await;
        match self.review(token).await {
            Ok(Ok(holder)) => {
                self.cache.lock().insert(hash, holder.clone(), good_for);
                Ok(holder)
            }
            Ok(Err(refused)) => {
                self.cache.lock().insert_rejection(hash, refused.reason);
                Err(refused)
            }
            Err(review::ReviewerUnavailable(detail)) => {
                self.cache.lock().extend(&hash);
                before.ok_or_else(|| AuthenticationError::new(RefusalReason::ReviewUnavailable, detail))
            }
        }
    }

    async fn review(
        &self,
        token: &str,
    ) -> Result<Result<TokenHolder, AuthenticationError>, review::ReviewerUnavailable> {
        let subject = match self.reviewer.review(token, &self.options.audience).await? {
            Ok(subject) => subject,
            Err(reason) => return Ok(Err(AuthenticationError::without_sender(reason))),
        };
        if self.role(&subject).is_some() {
            let bound = subject.pod_uid.is_some();
            let refused = || AuthenticationError::new(RefusalReason::NotBound, subject.account.to_string());
            return Ok(if bound {
                Ok(TokenHolder {
                    subject,
                    enrolled_vantage: None,
                })
            } else {
                Err(refused())
            });
        }
        let outside = if self.options.vantages.as_ref() == Some(&subject.account.namespace) {
            self.reviewer.enrolled_vantage(&subject.account).await?
        } else {
            None
        };
        Ok(match outside {
            Some(vantage) => Ok(TokenHolder {
                subject,
                enrolled_vantage: Some(vantage),
            }),
            None => Err(AuthenticationError::new(
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
    fn vantage_of(
        &self,
        holder: &TokenHolder,
        hash: &TokenHash,
        until: Instant,
    ) -> Result<AuthenticatedProber, AuthenticationError> {
        let subject = &holder.subject;
        if let Some(vantage) = &holder.enrolled_vantage {
            return Ok(AuthenticatedProber {
                vantage: vantage.clone(),
                role: ProberRole::Prober,
                expires: until,
            });
        }
        let role = self.role(subject).ok_or_else(|| {
            AuthenticationError::new(RefusalReason::WrongAccount, subject.account.to_string())
        })?;
        let uid = subject
            .pod_uid
            .as_deref()
            .ok_or_else(|| AuthenticationError::new(RefusalReason::NotBound, subject.account.to_string()))?;
        let pod = match self.pods.find(uid) {
            PodLookup::Known(pod) => pod,
            PodLookup::Unknown => {
                self.cache.lock().remove(hash);
                let sender = format!("a Pod of {}", subject.account);
                return Err(AuthenticationError::new(RefusalReason::UnknownPod, sender));
            }
            PodLookup::NotSynced => {
                return Err(AuthenticationError::without_sender(RefusalReason::PodsUnknown));
            }
        };
        if subject
            .node
            .as_ref()
            .is_some_and(|node| node != pod.node.as_str())
        {
            return Err(AuthenticationError::new(
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
            expires: until,
        })
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .strip_prefix("Bearer ")
        .map(str::trim)
}

/// Returns the remaining lifetime of a token; `None` if it has expired.
fn remaining_lifetime(claims: &TokenClaims) -> Option<Duration> {
    let Some(end) = claims.expires else {
        return Some(DEFAULT_TOKEN_LIFETIME);
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
    fn take_suppressed(&self, reason: RefusalReason) -> Option<u64> {
        let now = Instant::now();
        let mut logged = self.0.lock();
        let Some((last, unsaid)) = logged.get_mut(&reason) else {
            logged.insert(reason, (now, 0));
            return Some(0);
        };
        if now.duration_since(*last) < LOG_INTERVAL {
            *unsaid += 1;
            return None;
        }
        *last = now;
        Some(std::mem::take(unsaid))
    }

    fn log(&self, refused: &AuthenticationError) {
        let Some(unsaid) = self.take_suppressed(refused.reason) else {
            return;
        };
        tracing::warn!(
            reason = refused.reason.label(),
            who = %refused.sender,
            unsaid,
            "rejected a prober: {}",
            refused.reason.message()
        );
    }
}
