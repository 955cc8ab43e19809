//! Renders the tables of `docs/reference/performance.md`, ratios first, between two markers.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use anyhow::Context as _;

use crate::results::{BenchResults, ProbeTool, SampleSpread, WindowSample, count};

const BEGIN: &str = "<!-- bench: begin, written by `make bench` -->";
const END: &str = "<!-- bench: end -->";

/// Cores that other programs may use; beyond that, the figures say more about them than about Parallax.
const MAX_FOREIGN_CORES: f64 = 0.2;

/// Rows of the first table and their titles.
const ROWS: &[(&str, &str)] = &[
    ("http-200", "HTTP, 200/s"),
    ("http-1000", "HTTP, 1 000/s"),
    ("https-500", "HTTPS, full handshake, 500/s"),
    ("tcp-1000", "TCP connect, 1 000/s"),
    ("dns-1000", "DNS over UDP, 1 000/s"),
];

/// Writes the tables into the document.
pub(crate) fn write(results: &BenchResults, document: &Path) -> anyhow::Result<()> {
    let text = fs::read_to_string(document).with_context(|| format!("read {}", document.display()))?;
    let (before, rest) = text
        .split_once(BEGIN)
        .with_context(|| format!("{}: no line {BEGIN:?}", document.display()))?;
    let (_, after) = rest
        .split_once(END)
        .with_context(|| format!("{}: no line {END:?}", document.display()))?;
    let new = format!("{before}{BEGIN}\n{}{END}{after}", tables(results));
    fs::write(document, new).with_context(|| format!("write {}", document.display()))
}

/// Renders all tables as Markdown.
pub(crate) fn tables(results: &BenchResults) -> String {
    let mut out = String::new();
    let parts = [
        facts(results),
        costs(results),
        budgets(results),
        limits(results),
        validity(results),
    ];
    for part in parts {
        out.push('\n');
        out.push_str(&part);
    }
    out.push('\n');
    out
}

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {{ let _ = writeln!($out, $($arg)*); }};
}

fn facts(results: &BenchResults) -> String {
    let m = &results.machine;
    let mut out = String::new();
    line!(
        out,
        "{}: `{}` at commit {}. {}, {} cores, {} GB, Linux {}; {}; {}. Load average {:.2} before, {:.2} after. Medians of {} \
         interleaved windows of {} s, least to most in brackets.",
        results.date,
        results.command,
        m.commit,
        m.cpu,
        m.cores,
        m.memory_gb,
        m.kernel,
        m.rustc,
        m.blackbox.trim(),
        results.load_before,
        results.load_after,
        results.repeats,
        results.window_s,
    );
    out
}

fn costs(results: &BenchResults) -> String {
    let mut out = String::new();
    line!(
        out,
        "| load | of blackbox_exporter's CPU | times the floor | Parallax | bare `run()` | blackbox_exporter | floor | memory: Parallax, blackbox | start lateness p50, p99 |"
    );
    line!(out, "|---|---|---|---|---|---|---|---|---|");
    for (row, name) in ROWS {
        let cpu = |tool| results.spread(row, tool, WindowSample::per_thousand);
        let memory = |tool| results.spread(row, tool, |s| s.rss_mb);
        let Some(parallax_cpu) = cpu(ProbeTool::Parallax) else {
            continue;
        };
        let (blackbox, floor) = (cpu(ProbeTool::Blackbox), cpu(ProbeTool::Floor));
        let part = blackbox.map_or("–".into(), |b| {
            format!("**1/{:.1}**", b.median / parallax_cpu.median)
        });
        let times = floor.map_or("–".into(), |f| format!("{:.1}", parallax_cpu.median / f.median));
        line!(
            out,
            "| {name} | {part} | {times} | {} | {} | {} | {} | {}, {} MB | {} |",
            seconds(Some(parallax_cpu)),
            seconds(cpu(ProbeTool::Bare)),
            seconds(blackbox),
            seconds(floor),
            whole(memory(ProbeTool::Parallax)),
            whole(memory(ProbeTool::Blackbox)),
            lateness(results, row),
        );
    }
    line!(out, "\nCPU seconds of the probing process for 1 000 probes.");
    out
}

fn seconds(spread: Option<SampleSpread>) -> String {
    spread.map_or("–".into(), |s| {
        format!("{:.3} ({:.3}–{:.3})", s.median, s.min, s.max)
    })
}

fn whole(spread: Option<SampleSpread>) -> String {
    spread.map_or("–".into(), |s| format!("{:.0}", s.median))
}

fn lateness(results: &BenchResults, row: &str) -> String {
    let at = |value: fn(&WindowSample) -> Option<u64>| {
        SampleSpread::of(results.of(row, ProbeTool::Parallax).filter_map(value).map(count))
            .map(|s| s.median / 1000.0)
    };
    match (at(|s| s.late_p50_us), at(|s| s.late_p99_us)) {
        (Some(p50), Some(p99)) => format!("{p50:.1}, {p99:.1} ms"),
        _ => "–".into(),
    }
}

fn budgets(results: &BenchResults) -> String {
    let mut out = String::new();
    let quiet = foreign_cores(results).is_none_or(|f| f.median <= MAX_FOREIGN_CORES);
    line!(out, "| budget | measured | |");
    line!(out, "|---|---|---|");
    let mut row = |text: &str, measured: Option<SampleSpread>, most: f64, digits: usize| {
        if let Some(measured) = measured {
            let met = match (measured.median <= most, quiet) {
                (true, _) => "met",
                (false, true) => "**missed**",
                (false, false) => "missed, on a busy machine",
            };
            line!(
                out,
                "| {text} | {:.digits$} ({:.digits$}–{:.digits$}) | {met} |",
                measured.median,
                measured.min,
                measured.max
            );
        }
    };
    let spread = |row, value: fn(&WindowSample) -> f64| results.spread(row, ProbeTool::Parallax, value);
    row(
        "HTTP at 1 000/s: ≤ 0.15 CPU-s per 1 000 probes",
        spread("http-1000", WindowSample::per_thousand),
        0.15,
        3,
    );
    // The budget was set where blackbox_exporter takes 0.57 to 0.64; this varies between kernels, the ratio hardly
    // does.
    let yardstick = results.spread("http-1000", ProbeTool::Blackbox, WindowSample::per_thousand);
    row(
        "the same as a share of blackbox_exporter's: ≤ 0.25",
        spread("http-1000", WindowSample::per_thousand)
            .zip(yardstick)
            .map(|(ours, theirs)| SampleSpread {
                median: ours.median / theirs.median,
                min: ours.min / theirs.max,
                max: ours.max / theirs.min,
            }),
        0.25,
        3,
    );
    row(
        "HTTP at 1 000/s: ≤ 40 MB",
        spread("http-1000", |s| s.peak_mb),
        40.0,
        1,
    );
    row(
        "60 targets every 10 s: ≤ 5 m CPU",
        spread("small", WindowSample::milli_cores),
        5.0,
        2,
    );
    row(
        "60 targets every 10 s: ≤ 20 MB",
        spread("small", |s| s.peak_mb),
        20.0,
        1,
    );
    out
}

fn limits(results: &BenchResults) -> String {
    let mut out = String::new();
    line!(
        out,
        "| limit, HTTP on one core | probes a second | CPU-s per 1 000 there |"
    );
    line!(out, "|---|---|---|");
    // The last window of each repeat that passed.
    let mut best = BTreeMap::new();
    for sample in results.of("max", ProbeTool::Parallax) {
        best.insert(sample.repeat, (sample.rate, sample.per_thousand()));
    }
    let rows = [
        (
            "Parallax: 99.9 % made, p99 less than a tenth of the interval late",
            SampleSpread::of(best.values().map(|(rate, _)| *rate)),
            SampleSpread::of(best.values().map(|(_, cpu)| *cpu)),
        ),
        limit(results, "bare `run()`, 16 at a time", ProbeTool::Bare),
        limit(results, "blackbox_exporter, 16 at a time", ProbeTool::Blackbox),
        limit(results, "floor, one at a time", ProbeTool::Floor),
    ];
    for (name, rate, cpu) in rows {
        if rate.is_some() {
            line!(out, "| {name} | {} | {} |", thousands(rate), seconds(cpu));
        }
    }
    if let Some(slope) = memory_slope(results) {
        line!(
            out,
            "\nMemory for each further target in the plan: {slope:.1} kB (500 against 4 000 targets every 10 s)."
        );
    }
    out
}

fn limit<'a>(
    results: &BenchResults,
    name: &'a str,
    tool: ProbeTool,
) -> (&'a str, Option<SampleSpread>, Option<SampleSpread>) {
    (
        name,
        results.spread("max", tool, |s| s.rate),
        results.spread("max", tool, WindowSample::per_thousand),
    )
}

fn thousands(spread: Option<SampleSpread>) -> String {
    spread.map_or("–".into(), |s| {
        format!("{:.0} ({:.0}–{:.0})", s.median, s.min, s.max)
    })
}

/// Returns the kilobytes per target, between the smallest and the largest plan.
fn memory_slope(results: &BenchResults) -> Option<f64> {
    let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for sample in results.of("memory", ProbeTool::Parallax) {
        by_size.entry(sample.targets).or_default().push(sample.rss_mb);
    }
    let (small, large) = (by_size.first_key_value()?, by_size.last_key_value()?);
    let targets = large.0.checked_sub(*small.0).filter(|more| *more > 0)?;
    let more =
        SampleSpread::of(large.1.iter().copied())?.median - SampleSpread::of(small.1.iter().copied())?.median;
    Some(more * 1000.0 / count(targets))
}

/// Returns the CPU that other programs used during the windows.
fn foreign_cores(results: &BenchResults) -> Option<SampleSpread> {
    SampleSpread::of(results.samples.iter().map(|s| s.foreign_cores))
}

fn validity(results: &BenchResults) -> String {
    let fixed: Vec<&WindowSample> = results.samples.iter().filter(|s| s.row != "max").collect();
    let counted = fixed.iter().filter(|s| s.valid).count();
    let foreign = foreign_cores(results);
    let mut out = String::new();
    line!(
        out,
        "{counted} of {} windows at a fixed rate counted. Other programs used {} cores meanwhile.",
        fixed.len(),
        foreign.map_or("–".into(), |f| format!(
            "{:.2} ({:.2}–{:.2})",
            f.median, f.min, f.max
        )),
    );
    if foreign.is_some_and(|f| f.median > MAX_FOREIGN_CORES) {
        line!(
            out,
            "\n**The machine was not quiet.** Cold caches and further switches make every figure larger than on an idle \
             one; ratios within a row hold, budgets are judged by a quiet run only."
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineFacts;

    fn sample(row: &str, tool: ProbeTool, cpu_s: f64) -> WindowSample {
        WindowSample {
            row: row.to_owned(),
            tool,
            repeat: 1,
            seconds: 10.0,
            probes: 1_000,
            rate: 100.0,
            failures: 0,
            cpu_s,
            cpu_stat_s: cpu_s,
            rss_mb: 10.0,
            peak_mb: 12.0,
            targets: 60,
            late_p50_us: Some(500),
            late_p99_us: Some(1_200),
            foreign_cores: 0.0,
            valid: true,
        }
    }

    fn results() -> BenchResults {
        BenchResults {
            command: "parallax-bench run".to_owned(),
            date: "2026-01-01 00:00 UTC".to_owned(),
            machine: MachineFacts {
                cpu: "cpu".to_owned(),
                cores: 2,
                memory_gb: 1.0,
                kernel: "6".to_owned(),
                rustc: "rustc 1".to_owned(),
                blackbox: "blackbox_exporter, version 0".to_owned(),
                commit: "abc".to_owned(),
            },
            load_before: 0.1,
            load_after: 0.2,
            window_s: 10,
            repeats: 1,
            samples: vec![
                sample("http-1000", ProbeTool::Parallax, 0.1),
                sample("http-1000", ProbeTool::Blackbox, 0.6),
                sample("http-1000", ProbeTool::Floor, 0.02),
                sample("small", ProbeTool::Parallax, 0.06),
            ],
        }
    }

    #[test]
    fn ratios_come_first_and_a_missed_budget_is_called_so() {
        let text = tables(&results());
        assert!(
            text.contains("| HTTP, 1 000/s | **1/6.0** | 5.0 | 0.100 (0.100–0.100) |"),
            "{text}"
        );
        assert!(
            text.contains("≤ 0.15 CPU-s per 1 000 probes | 0.100 (0.100–0.100) | met |"),
            "{text}"
        );
        assert!(
            text.contains("≤ 5 m CPU | 6.00 (6.00–6.00) | **missed** |"),
            "{text}"
        );
    }

    #[test]
    fn a_busy_machine_is_named_and_no_judge_of_budgets() {
        let mut results = results();
        for sample in &mut results.samples {
            sample.foreign_cores = 1.2;
        }
        let text = tables(&results);
        assert!(text.contains("missed, on a busy machine"), "{text}");
        assert!(text.contains("**The machine was not quiet.**"), "{text}");
    }

    #[test]
    fn a_window_that_does_not_count_is_in_no_figure() {
        let mut results = results();
        results.samples.push(WindowSample {
            valid: false,
            ..sample("http-1000", ProbeTool::Parallax, 9.0)
        });
        let text = tables(&results);
        assert!(
            text.contains("0.100 (0.100–0.100)") && text.contains("4 of 5 windows"),
            "{text}"
        );
    }

    #[test]
    fn what_stands_around_the_markers_stays() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("before\n{BEGIN}\nold\n{END}\nafter\n")).unwrap();
        write(&results(), file.path()).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(text.starts_with("before\n") && text.ends_with("after\n") && !text.contains("old"));
    }
}
