//! Checks one URL and reports the result.

use std::time::Duration;

use parallax_prober::{ProbeContext, Profile, ValidationResult};
use tokio::time::{self, Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::{
    caa::CaaRecords,
    dates,
    profile::ChallengeFetcher,
    progress::CheckProgress,
    round::CheckRound,
    round_options::RoundOptions,
    subject::{CheckAction, CheckSubject},
    verdict::{self, JudgementRules, UrlJudgement},
};

/// Checks URLs with the same options.
#[derive(Debug)]
pub(super) struct Checker {
    pub(super) round_options: RoundOptions,
    /// `None` if every address is probed.
    pub(super) fetcher: Option<ChallengeFetcher>,
    pub(super) context: ProbeContext,
    pub(super) passes: u32,
    pub(super) interval: Duration,
    pub(super) every_address: bool,
    pub(super) progress: CheckProgress,
}

/// The report on one URL.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) subject: &'a CheckSubject,
    pub(super) result: CheckResult<'a>,
    pub(super) judgement: UrlJudgement,
    /// Number of passes requested; fewer were made if the check was stopped.
    pub(super) planned_passes: u32,
    /// Seconds since the Unix epoch.
    pub(super) now: i64,
}

/// The results of each pass.
#[derive(Debug)]
pub(super) enum CheckResult<'a> {
    /// Every address probed separately.
    Addresses(Vec<CheckRound>),
    /// Fetched as the client of a profile does.
    Fetches {
        profile: &'a Profile,
        client_rules: Vec<String>,
        results: Vec<ValidationResult>,
        /// `None` if the client does not check CAA records, or if the check was stopped before.
        caa: Option<CaaRecords>,
    },
}

impl Checker {
    /// Makes the requested number of passes over one URL. A stop keeps the results collected so far.
    pub(super) async fn check<'a>(
        &'a self,
        subject: &'a CheckSubject,
        stop: &CancellationToken,
    ) -> Report<'a> {
        let rules = JudgementRules {
            every_address: self.every_address,
            now: dates::now(),
        };
        let (seen, judgement) =
            if let (Some(client), CheckAction::Http(probe)) = (&self.fetcher, &subject.action) {
                let fetched = self
                    .run_passes(stop, async |_| client.fetch(probe, &self.context).await)
                    .await;
                let caa = tokio::select! {
                    biased;
                    () = stop.cancelled() => None,
                    caa = client.caa(subject.host(), &self.context) => caa,
                };
                let judgement = verdict::judge_fetches(subject, &fetched, caa.as_ref(), rules);
                let seen = CheckResult::Fetches {
                    profile: &client.profile,
                    client_rules: client.describe_rules(subject.host()),
                    results: fetched,
                    caa,
                };
                (seen, judgement)
            } else {
                let rounds = self
                    .run_passes(stop, async |first| {
                        self.round_options.run_pass(subject, &self.context, first).await
                    })
                    .await;
                let judgement = verdict::judge_rounds(subject, &rounds, rules);
                (CheckResult::Addresses(rounds), judgement)
            };
        Report {
            subject,
            result: seen,
            judgement,
            planned_passes: self.passes,
            now: rules.now,
        }
    }

    async fn run_passes<T>(&self, stop: &CancellationToken, look: impl AsyncFn(bool) -> T) -> Vec<T> {
        let mut seen = Vec::new();
        // Tokio panics on a period of zero.
        let mut ticks = time::interval_at(Instant::now(), self.interval.max(Duration::from_millis(1)));
        // A slow pass delays the next one; passes never come in a burst.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for n in 0..self.passes {
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
