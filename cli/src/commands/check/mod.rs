//! `parallax check URL…`: look at URLs from this machine, without any configuration.
//!
//! ```text
//! args ─▶ subject ─▶ round (names ─▶ walk: one probe an address and redirect ─▶ otherwise) ─▶ judge (findings, words) ─▶ text · json
//!                 └▶ profile (one fetch as another client makes it) ──────────────────────────┘
//! ```

mod alternatives;
mod args;
mod caa;
mod duration_text;
mod escape;
mod facts;
mod findings;
mod json;
mod judge;
mod names;
mod profile;
mod progress;
mod reasons;
mod report;
mod round;
mod subject;
mod tally;
mod text;
mod walk;
mod wording;

use std::io::{ErrorKind, Write};

use futures_util::{StreamExt, stream};
use parallax_diagnosis::text::ColorMode;
use parallax_prober::ProbeContext;
use tokio_util::sync::CancellationToken;

pub(crate) use self::args::Args;
use self::{
    args::RESOLV_CONF,
    judge::Verdict,
    names::AskedServer,
    profile::ChallengeFetcher,
    progress::LookProgress,
    report::{LookOptions, Report},
    round::{AddressFamily, RoundOptions},
    subject::CheckSubject,
};
use super::{prober::read_roots, stop_on_signal, style};
use crate::exit::Failure;

/// URLs that are looked at together: enough to hide each other's waiting, too few to disturb each other's times.
const AT_ONCE: usize = 8;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let subjects = subjects(args)?;
    let roots = args
        .extra_roots
        .iter()
        .map(|path| read_roots(path))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    // One thread: timings stay free of what other work would do to them.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::could_not)?;
    let done = runtime.block_on(async {
        let stop = stop_on_signal()?;
        let context = ProbeContext::new(args.resolv_conf.clone(), &roots);
        let looking = LookOptions {
            how: how(args),
            fetcher: ChallengeFetcher::of(args),
            context,
            looks: args.repeat,
            interval: args.interval,
            every_address: args.every_address,
            progress: LookProgress::of(u64::from(args.repeat) * subjects.len() as u64),
        };
        look_at_all(&subjects, &looking, args, &stop).await
    });
    // The C library's resolver cannot be told to stop; a thread that still waits for it is left behind.
    runtime.shutdown_background();
    exit(&done?)
}

/// All arguments are read before anything is sent; the complaint names each one that cannot be used.
fn subjects(args: &Args) -> Result<Vec<CheckSubject>, Failure> {
    let mut subjects = Vec::new();
    let mut complaints = Vec::new();
    for given in &args.urls {
        match CheckSubject::read(given, args) {
            Ok(subject) => subjects.push(subject),
            Err(complaint) => complaints.push(complaint),
        }
    }
    if complaints.is_empty() {
        Ok(subjects)
    } else {
        Err(Failure::Usage(complaints.join("\nparallax: ")))
    }
}

fn how(args: &Args) -> RoundOptions {
    let whom = if args.resolver.is_empty() {
        AskedServer::Machine {
            hosts: args.hosts_file.clone(),
            name_service: args.resolv_conf == std::path::Path::new(RESOLV_CONF),
        }
    } else {
        AskedServer::Resolvers(
            args.resolver
                .iter()
                .map(|resolver| resolver.or_port(53))
                .collect(),
        )
    };
    RoundOptions {
        whom,
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

/// Several at once, printed in the order of the arguments as soon as each is done.
async fn look_at_all(
    subjects: &[CheckSubject],
    looking: &LookOptions,
    args: &Args,
    stop: &CancellationToken,
) -> Result<Vec<Verdict>, Failure> {
    let mut reports =
        stream::iter(subjects.iter().map(|subject| looking.at(subject, stop))).buffered(AT_ONCE);
    let style = style();
    let mut verdicts = Vec::new();
    while let Some(report) = reports.next().await {
        looking.progress.clear();
        verdicts.push(report.judgement.verdict);
        match print(&report, args, style, verdicts.len() > 1) {
            Ok(()) => {}
            // A reader that has seen enough, like `head`, ends the looking.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            Err(error) => return Err(Failure::CouldNot(format!("write the result: {error}"))),
        }
    }
    Ok(verdicts)
}

fn print(report: &Report<'_>, args: &Args, style: ColorMode, apart: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &json::document(report)).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        if apart {
            writeln!(out)?;
        }
        write!(out, "{}", text::report(report, style))?;
    }
    out.flush()
}

/// A failure outweighs what could not be told: it is certain.
fn exit(verdicts: &[Verdict]) -> Result<(), Failure> {
    let count = |verdict| verdicts.iter().filter(|one| **one == verdict).count();
    match (count(Verdict::Fails), count(Verdict::Unknown)) {
        (0, 0) => Ok(()),
        (0, unknown) => Err(Failure::CouldNot(format!(
            "{unknown} of {} could not be told, see above",
            verdicts.len()
        ))),
        _ => Err(Failure::No),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_outweighs_what_could_not_be_told_and_that_outweighs_success() {
        use Verdict as V;
        let code = |verdicts: &[Verdict]| match exit(verdicts) {
            Ok(()) => 0,
            Err(Failure::No) => 1,
            Err(Failure::Usage(_)) => 2,
            Err(Failure::CouldNot(_) | Failure::NotNow(_)) => 3,
        };
        for (verdicts, expected) in [
            (&[V::Works, V::Warned][..], 0),
            (&[V::Works, V::Fails, V::Unknown], 1),
            (&[V::Works, V::Unknown], 3),
        ] {
            assert_eq!(code(verdicts), expected, "{verdicts:?}");
        }
    }
}
