//! Runs the sets with an engine, and renders the tables of `docs/reference/diagnosis.md`.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{
    closed_loop::{Reader, run_recording},
    closed_loop_trial,
    score::{self, TrialScore},
    sets::{OutputForm, TrialSet},
    tally::{CountedShare, Row, SetTally, bins, quantile},
    trial,
    truth::TrialTruth,
};

/// Creates a new engine.
pub type Engine<'a> = &'a (dyn Fn() -> Box<dyn Reader> + Sync);

/// A completed set.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedSet {
    /// The set.
    pub set: TrialSet,
    /// Trials, in order.
    pub trials: Vec<(TrialTruth, TrialScore)>,
    /// Their total.
    pub tally: SetTally,
}

/// Runs a set on two threads.
///
/// # Errors
/// If the engine's output cannot be parsed; names the first such trial.
pub fn run(set: &TrialSet, seed: u64, trials: usize, engine: Engine) -> anyhow::Result<FinishedSet> {
    let next = AtomicUsize::new(0);
    let work = || -> anyhow::Result<Vec<(TrialTruth, TrialScore)>> {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= trials {
                return Ok(done);
            }
            let mut reader = engine();
            let (truth, output) = if set.closed_loop {
                closed_loop_trial(set, seed, number, &mut *reader)
            } else {
                let trial = trial(set, seed, number);
                (trial.truth, run_recording(&mut *reader, &trial.lines))
            };
            let verdicts = score::parse_output(output.iter().map(String::as_str))
                .map_err(|e| anyhow::anyhow!("reading the verdicts of {} trial {number}: {e}", set.name))?;
            // Mesh recordings have no trial number.
            let output = match set.form {
                OutputForm::Stream => verdicts.get(&number).cloned(),
                OutputForm::Mesh { .. } => verdicts.into_values().next(),
            };
            let score = score::score(&truth, &output.unwrap_or_default());
            done.push((truth, score));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let second = scope.spawn(work);
        let mut all = work()?;
        match second.join() {
            Ok(more) => all.extend(more?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        anyhow::Ok(all)
    })?;
    all.sort_by_key(|(truth, _)| truth.trial);
    let mut tally = SetTally::default();
    for (_, score) in &all {
        tally.add(score);
    }
    Ok(FinishedSet {
        set: *set,
        trials: all,
        tally,
    })
}

fn percent(share: CountedShare) -> String {
    share
        .get()
        .map_or_else(|| "–".to_owned(), |value| format!("{:.1} %", 100.0 * value))
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

fn median_p90(values: &[f64]) -> String {
    match (quantile(values, 0.5), quantile(values, 0.9)) {
        (Some(median), Some(p90)) => format!("{median:.1} / {p90:.1}"),
        _ => "–".to_owned(),
    }
}

/// Renders the overview, one line per set.
#[must_use]
pub fn overview(done: &[FinishedSet]) -> String {
    let mut text = String::from(
        "| set | trials | faults (not observable) | named | silent despite ample evidence | right class | exact | \
         found | top-1 | class too wide | wrong second verdict | rounds to name: median / p90 | ECE |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for done in done.iter().filter(|done| !done.set.is_healthy()) {
        let (tally, row) = (&done.tally, &done.tally.all);
        let _ = writeln!(
            text,
            "| `{}` | {} | {} ({}) | {} | {} | **{}** | {} | **{}** | {} | {} | {} | {} | {} |",
            done.set.name,
            done.trials.len(),
            row.observable + row.unobservable.of,
            row.unobservable.of,
            percent(row.named),
            row.silent.hits,
            percent(row.class_right),
            percent(row.exact),
            percent(row.recalled),
            percent(row.top),
            percent(row.over_wide),
            percent(tally.wrong_second),
            median_p90(&row.rounds),
            number(tally.calibration_error(), 3),
        );
    }
    text
}

/// Renders the verdicts in healthy trials.
#[must_use]
pub fn false_alarms(done: &[FinishedSet]) -> String {
    let mut text =
        String::from("| set | healthy trials | probes | trials with a verdict |\n|---|--:|--:|--:|\n");
    for done in done.iter().filter(|done| done.tally.false_alarms.of > 0) {
        let probes: usize = done
            .trials
            .iter()
            .filter(|(truth, _)| truth.healthy)
            .map(|(truth, _)| truth.observations)
            .sum();
        let share = done.tally.false_alarms;
        let _ = writeln!(
            text,
            "| `{}` | {} | {probes} | {} |",
            done.set.name, share.of, share.hits
        );
    }
    text
}

/// Renders trials with two faults.
#[must_use]
pub fn two_faults(done: &[FinishedSet]) -> String {
    let mut text = String::from(
        "| set | trials with two observable faults | both named | at least one |\n|---|--:|--:|--:|\n",
    );
    for done in done.iter().filter(|done| done.tally.both_named.of > 0) {
        let tally = &done.tally;
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            done.set.name,
            tally.both_named.of,
            percent(tally.both_named),
            percent(tally.one_of_two)
        );
    }
    text
}

/// Renders the time after the end of a fault.
#[must_use]
pub fn recovery(done: &[FinishedSet]) -> String {
    let mut text = String::from(
        "| set | findings whose fault ended | closed after its end | closed before its end | seconds to close: median / p90 |\n\
         |---|--:|--:|--:|--:|\n",
    );
    for done in done.iter().filter(|done| done.tally.all.closed.of > 0) {
        let row = &done.tally.all;
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} |",
            done.set.name,
            row.closed.of,
            percent(row.closed),
            percent(row.closed_early),
            median_p90(&row.closing_s)
        );
    }
    text
}

/// Renders one line per cause, for sets with many causes.
#[must_use]
pub fn causes(done: &[FinishedSet]) -> String {
    let mut text = String::new();
    for done in done.iter().filter(|done| !done.set.is_healthy()) {
        let _ = writeln!(
            text,
            "### {}\n\n{}.\n",
            done.set.name,
            sentence(done.set.description)
        );
        text.push_str(
            "| cause | faults (not observable) | named | right class | exact | class too wide | rounds: median / p90 | \
             seconds: median / p90 |\n|---|--:|--:|--:|--:|--:|--:|--:|\n",
        );
        for (cause, row) in &done.tally.causes {
            let _ = writeln!(text, "| {cause} {}", cause_row(row));
        }
        text.push('\n');
    }
    text
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn cause_row(row: &Row) -> String {
    format!(
        "| {} ({}) | {} | {} | {} | {} | {} | {} |",
        row.observable + row.unobservable.of,
        row.unobservable.of,
        percent(row.named),
        percent(row.class_right),
        percent(row.exact),
        percent(row.over_wide),
        median_p90(&row.rounds),
        median_p90(&row.seconds)
    )
}

/// Renders the bins of the reliability diagram.
#[must_use]
pub fn reliability(done: &[FinishedSet]) -> String {
    let findings: Vec<(f64, bool)> = done
        .iter()
        .flat_map(|done| done.tally.confidence.clone())
        .collect();
    let mut text =
        String::from("| confidence | findings | mean confidence | class right |\n|---|--:|--:|--:|\n");
    for (i, bin) in bins(&findings, 0.0, 10).iter().enumerate() {
        if let Some((confidence, right)) = bin.means() {
            let _ = writeln!(
                text,
                "| .{i}0 – {} | {} | {confidence:.3} | {right:.3} |",
                upper(i),
                bin.n
            );
        }
    }
    let all = super::tally::calibration_error(&bins(&findings, 0.0, 10));
    let _ = writeln!(
        text,
        "\nExpected calibration error over all {} findings: {}.",
        findings.len(),
        number(all, 3)
    );
    text
}

fn upper(i: usize) -> String {
    if i == 9 {
        "1".to_owned()
    } else {
        format!(".{}0", i + 1)
    }
}

/// Renders the list of sets.
#[must_use]
pub fn sets(done: &[FinishedSet]) -> String {
    let mut text = String::from("| set | trials | description |\n|---|--:|---|\n");
    for done in done {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            done.set.name,
            done.trials.len(),
            done.set.description
        );
    }
    text
}

/// Renders missed and wrongly named faults and findings that match none, one line each: where to improve.
#[must_use]
pub fn misses(done: &[FinishedSet], seed: u64) -> String {
    let mut text = String::new();
    for done in done {
        for (truth, score) in &done.trials {
            for (fault, scored) in truth
                .faults
                .iter()
                .zip(&score.faults)
                .filter(|(_, s)| s.observable)
            {
                let naming = match &scored.naming {
                    None if scored.likeliest => "not named, but the likeliest candidate".to_owned(),
                    None => "not named".to_owned(),
                    Some(n) if !n.class_right => format!("said {} {:?}", n.region.0, n.region.1),
                    Some(n) if n.separable_regions > 0 => {
                        format!("class too wide by {}", n.separable_regions)
                    }
                    Some(n) if n.wrong_subject => "wrong subject".to_owned(),
                    Some(_) => continue,
                };
                let _ = writeln!(
                    text,
                    "--set {} --seed {seed} --first {} | {} {:?} θ1 {:.2} {}/{} {:.1} nats from {} s | {naming}",
                    done.set.name,
                    truth.trial,
                    fault.cause,
                    fault.members,
                    fault.theta1,
                    fault.failures,
                    fault.probes,
                    fault.evidence_nats,
                    fault.start_s
                );
            }
            for wrong in &score.unmatched {
                let injected: Vec<String> = truth
                    .faults
                    .iter()
                    .map(|f| format!("{} {:?}", f.cause, f.members))
                    .collect();
                let _ = writeln!(
                    text,
                    "--set {} --seed {seed} --first {} | injected: {} | matches none: {wrong}",
                    done.set.name,
                    truth.trial,
                    injected.join(", ")
                );
            }
        }
    }
    text
}

/// Replaces the text between `<!-- corpus:NAME -->` and `<!-- /corpus:NAME -->`.
///
/// # Errors
/// If a marker is missing.
pub fn splice(document: &str, name: &str, content: &str) -> anyhow::Result<String> {
    let (open, close) = (
        format!("<!-- corpus:{name} -->"),
        format!("<!-- /corpus:{name} -->"),
    );
    let missing = || anyhow::anyhow!("the document lacks the markers {open} and {close}");
    let (before, rest) = document.split_once(&open).ok_or_else(missing)?;
    let (_, after) = rest.split_once(&close).ok_or_else(missing)?;
    Ok(format!("{before}{open}\n{}\n{close}{after}", content.trim_end()))
}
