//! Diagnoses URLs from one machine, without any configuration: `parallax check URL…`.
//!
//! ```text
//! args ─▶ subject ─▶ round (names ─▶ request_chain: a probe per address and redirect ─▶ alternatives) ─▶ verdict ─▶ text · json
//!                 └▶ profile (one fetch as another client makes it) ───────────────────────────────────┘
//! ```
#![forbid(unsafe_code)]

mod alternatives;
mod args;
mod caa;
mod credentials;
mod dates;
mod explanation;
mod explanation_details;
mod facts;
mod finding;
mod findings;
mod json;
mod names;
mod outcome;
mod profile;
mod progress;
mod report;
mod request_chain;
mod round;
mod round_options;
mod subject;
mod tally;
mod text;
mod verdict;

use std::io::{self, ErrorKind, Write};

use futures_util::{StreamExt, stream};
use parallax_prober::{CredentialStore, ProbeContext};
use parallax_terminal::ColorMode;
use rustls_pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;

pub use self::args::CheckOptions;
use self::{
    args::RESOLV_CONF,
    names::NameSources,
    profile::ChallengeFetcher,
    progress::CheckProgress,
    report::{Checker, Report},
    round_options::{AddressFamily, RoundOptions},
    subject::CheckSubject,
    verdict::Verdict,
};

/// Number of URLs checked concurrently: enough to overlap their waits, too few to distort each other's times.
const MAX_CONCURRENT_URLS: usize = 8;

/// URLs to check, read from the options.
#[derive(Debug)]
pub struct Check<'a> {
    options: &'a CheckOptions,
    subjects: Vec<CheckSubject>,
}

/// The outcome over all URLs. A failure outweighs an undetermined result, because it is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckOutcome {
    /// Every URL works.
    Works,
    /// At least one URL fails.
    Fails,
    /// No URL fails, but some could not be checked.
    Unknown {
        /// URLs without a result.
        unknown: usize,
        /// All URLs.
        all: usize,
    },
}

/// Invalid arguments, with one message each.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\nparallax: "))]
pub struct InvalidUrls(Vec<String>);

impl<'a> Check<'a> {
    /// Parses all URLs before anything is sent. The error names each invalid one.
    pub fn new(options: &'a CheckOptions) -> Result<Self, InvalidUrls> {
        let mut subjects = Vec::new();
        let mut complaints = Vec::new();
        for given in &options.urls {
            match CheckSubject::parse(given, options) {
                Ok(subject) => subjects.push(subject),
                Err(complaint) => complaints.push(complaint),
            }
        }
        if complaints.is_empty() {
            Ok(Self { options, subjects })
        } else {
            Err(InvalidUrls(complaints))
        }
    }

    /// Checks the URLs concurrently and writes each report to standard output as soon as it and all reports before it
    /// are complete. `roots` are trusted in addition to the system's. Returns early, without an error, if the reader
    /// closes the pipe, as `head` does.
    pub async fn run(
        self,
        roots: &[CertificateDer<'static>],
        color: ColorMode,
        stop: &CancellationToken,
    ) -> io::Result<CheckOutcome> {
        let options = self.options;
        // The names differ and each has a host, unless no URL connects; then there is nothing to send.
        let credentials =
            CredentialStore::new(options.credential_sources(&self.subjects)).unwrap_or_default();
        let checker = Checker {
            round_options: round_options(options),
            fetcher: ChallengeFetcher::new(options),
            context: ProbeContext::new(options.resolv_conf.clone(), roots).with_credentials(credentials),
            passes: options.repeat,
            interval: options.interval,
            every_address: options.every_address,
            progress: CheckProgress::new(u64::from(options.repeat) * self.subjects.len() as u64),
        };
        let mut reports = stream::iter(self.subjects.iter().map(|subject| checker.check(subject, stop)))
            .buffered(MAX_CONCURRENT_URLS);
        let mut verdicts = Vec::new();
        while let Some(report) = reports.next().await {
            checker.progress.clear();
            verdicts.push(report.judgement.verdict);
            match print(&report, options, color, verdicts.len() > 1) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                Err(error) => return Err(error),
            }
        }
        Ok(outcome(&verdicts))
    }
}

fn round_options(args: &CheckOptions) -> RoundOptions {
    let sources = if args.resolver.is_empty() {
        NameSources::Machine {
            hosts: args.hosts_file.clone(),
            name_service: args.resolv_conf == std::path::Path::new(RESOLV_CONF),
        }
    } else {
        NameSources::Resolvers(
            args.resolver
                .iter()
                .map(|resolver| resolver.with_default_port(53))
                .collect(),
        )
    };
    RoundOptions {
        whom: sources,
        connect_to: args.connect_to.clone(),
        family: match (args.ipv4, args.ipv6) {
            (true, _) => Some(AddressFamily::V4),
            (_, true) => Some(AddressFamily::V6),
            _ => None,
        },
        follow: !args.no_follow,
        timeout: args.timeout.unwrap_or(std::time::Duration::from_secs(10)),
    }
}

fn print(report: &Report<'_>, options: &CheckOptions, color: ColorMode, apart: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer(&mut out, &json::document(report)).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        if apart {
            writeln!(out)?;
        }
        write!(out, "{}", text::render(report, color))?;
    }
    out.flush()
}

fn outcome(verdicts: &[Verdict]) -> CheckOutcome {
    let count = |verdict| verdicts.iter().filter(|one| **one == verdict).count();
    match (count(Verdict::Fails), count(Verdict::Unknown)) {
        (0, 0) => CheckOutcome::Works,
        (0, unknown) => CheckOutcome::Unknown {
            unknown,
            all: verdicts.len(),
        },
        _ => CheckOutcome::Fails,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_outweighs_unknown_and_unknown_outweighs_success() {
        use Verdict as V;
        for (verdicts, expected) in [
            (&[V::Works, V::WorksWithWarning][..], CheckOutcome::Works),
            (&[V::Works, V::Fails, V::Unknown], CheckOutcome::Fails),
            (
                &[V::Works, V::Unknown],
                CheckOutcome::Unknown { unknown: 1, all: 2 },
            ),
        ] {
            assert_eq!(outcome(verdicts), expected, "{verdicts:?}");
        }
    }
}
