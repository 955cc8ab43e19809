//! Looking at one URL until there is a report.

use std::time::Duration;

use parallax_prober::{Context, Profile, Validation};
use tokio::time::{self, Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::{
    caa::Caa,
    judge::{self, Judgement, Rules},
    profile::Fetcher,
    progress::Progress,
    round::{How, Round},
    subject::{Subject, What},
    when,
};

/// How all URLs are looked at.
#[derive(Debug)]
pub(super) struct Looking {
    pub(super) how: How,
    /// Absent where every address is looked at.
    pub(super) fetcher: Option<Fetcher>,
    pub(super) context: Context,
    pub(super) looks: u32,
    pub(super) interval: Duration,
    pub(super) every_address: bool,
    pub(super) progress: Progress,
}

/// What came of one URL.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) subject: &'a Subject,
    pub(super) seen: Seen<'a>,
    pub(super) judgement: Judgement,
    /// Looks that were asked for; fewer were made where somebody stopped them.
    pub(super) planned: u32,
    /// Seconds since the Unix epoch.
    pub(super) now: i64,
}

/// What was seen, look by look.
#[derive(Debug)]
pub(super) enum Seen<'a> {
    /// Every address on its own.
    Addresses(Vec<Round>),
    /// As another client sees it.
    Fetches {
        profile: &'a Profile,
        manners: Vec<String>,
        fetched: Vec<Validation>,
        /// Absent where nobody asks for it, or where it was stopped before.
        caa: Option<Caa>,
    },
}

impl Looking {
    /// Looks at one URL as often as asked. Stopping keeps what was seen until then.
    pub(super) async fn at<'a>(&'a self, subject: &'a Subject, stop: &CancellationToken) -> Report<'a> {
        let rules = Rules {
            every_address: self.every_address,
            now: when::now(),
        };
        let (seen, judgement) = if let (Some(client), What::Http(probe)) = (&self.fetcher, &subject.what) {
            let fetched = self
                .repeated(stop, async |_| client.fetch(probe, &self.context).await)
                .await;
            let caa = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                caa = client.caa(subject.host(), &self.context) => caa,
            };
            let judgement = judge::fetches(subject, &fetched, caa.as_ref(), rules);
            let seen = Seen::Fetches {
                profile: &client.profile,
                manners: client.manners(subject.host()),
                fetched,
                caa,
            };
            (seen, judgement)
        } else {
            let rounds = self
                .repeated(stop, async |first| {
                    self.how.look(subject, &self.context, first).await
                })
                .await;
            let judgement = judge::rounds(subject, &rounds, rules);
            (Seen::Addresses(rounds), judgement)
        };
        Report {
            subject,
            seen,
            judgement,
            planned: self.looks,
            now: rules.now,
        }
    }

    async fn repeated<T>(&self, stop: &CancellationToken, look: impl AsyncFn(bool) -> T) -> Vec<T> {
        let mut seen = Vec::new();
        // A period of zero is no interval to tokio.
        let mut ticks = time::interval_at(Instant::now(), self.interval.max(Duration::from_millis(1)));
        // A slow look delays the next one; they never come in a burst.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for n in 0..self.looks {
            let one = async {
                ticks.tick().await;
                look(n == 0).await
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                one = one => seen.push(one),
            }
            self.progress.step();
        }
        seen
    }
}
