//! `parallax-corpus`: generates recordings with known truth, and scores verdicts against it. See
//! `docs/reference/diagnosis.md`.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufWriter, Read as _, Write as _},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, bail};
use clap::{Args, Parser, Subcommand};
use parallax_diagnosis::replay::Replay;
use parallax_lab::corpus::{
    self, plot,
    quiet::{self, QuietOptions},
    report,
    score::{self, TrialOutput, TrialScore},
    sets::{OutputForm, SETS, TrialSet},
    tally::SetTally,
    truth::TruthFile,
};

#[derive(Parser)]
#[command(about = "Generate recordings with known faults, and score verdicts against them")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the named sets
    Sets,
    /// Write recordings and their truth
    Generate(GenerateArgs),
    /// Read verdict lines from standard input and score them
    Score(ScoreArgs),
    /// Estimate the false alarms of a healthy mesh over more target-months than can be simulated directly
    Quiet(QuietArgs),
    /// Run one trial in a closed loop with this build's engine; print its output and the truth
    Ask(RequestArgs),
    /// Run the sets with this build's engine and rewrite the tables and plots of a page
    Report(Report),
}

#[derive(Args)]
struct GenerateArgs {
    /// Name of the set
    #[arg(long, default_value = "mixed")]
    set: String,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of the first trial
    #[arg(long, default_value_t = 0)]
    first: usize,
    /// Number of trials
    #[arg(long, default_value_t = 200)]
    trials: usize,
    /// Recording file; a mesh recording contains one trial, so several trials get `-N` before the extension
    #[arg(long)]
    out: PathBuf,
    /// Truth file
    #[arg(long)]
    truth: PathBuf,
}

#[derive(Args)]
struct ScoreArgs {
    /// Truth file of the recording
    #[arg(long)]
    truth: PathBuf,
    /// Treat the verdicts as those of this trial, whatever their number (mesh recordings have none)
    #[arg(long)]
    trial: Option<usize>,
}

#[derive(Args)]
struct RequestArgs {
    /// Name of the set
    #[arg(long, default_value = "wide-30-ask")]
    set: String,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of the trial
    #[arg(long, default_value_t = 0)]
    first: usize,
    /// Do not make the probes that the engine requests
    #[arg(long)]
    unasked: bool,
}

#[derive(Args)]
struct Report {
    /// Page that contains the markers
    #[arg(long, default_value = "docs/reference/diagnosis.md")]
    out: PathBuf,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only a few trials of each set
    #[arg(long)]
    quick: bool,
    /// Maximum number of trials per set
    #[arg(long)]
    trials: Option<usize>,
    /// Run only these sets; print the tables and do not change the page
    #[arg(long, value_delimiter = ',')]
    sets: Vec<String>,
    /// Do not make requested probes in the sets that usually make them
    #[arg(long)]
    unasked: bool,
    /// Write one line per missed or wrongly named fault to this file
    #[arg(long)]
    misses: Option<PathBuf>,
}

#[derive(Args)]
struct QuietArgs {
    /// Days of five-second rounds
    #[arg(long, default_value_t = 30.0)]
    days: f64,
    /// Targets, each with its own front, endpoints and mesh
    #[arg(long, default_value_t = 2000.0)]
    targets: f64,
    /// Nodes, each with a prober
    #[arg(long, default_value_t = 12)]
    nodes: usize,
    /// Probability that a probe fails without a fault
    #[arg(long, default_value_t = 0.01)]
    background: f64,
    /// Probability that a client stalls in a round
    #[arg(long, default_value_t = 0.0)]
    stalls: f64,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of the first stretch
    #[arg(long, default_value_t = 0)]
    first: usize,
    /// Number of stretches to draw and judge
    #[arg(long, default_value_t = 2000)]
    stretches: usize,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Quiet(args) => quiet(&args),
        Command::Sets => {
            for set in SETS {
                println!("{:<16} {:>4} trials  {}", set.name, set.trials, set.description);
            }
            Ok(())
        }
        Command::Generate(args) => generate(&args),
        Command::Score(args) => judge(&args),
        Command::Ask(args) => ask(&args),
        Command::Report(args) => measure(&args),
    }
}

/// Prints the parameters, the effort, and the expected number of false alarms.
fn quiet(args: &QuietArgs) -> anyhow::Result<()> {
    if !(args.background > 0.0 && args.background < 1.0 && (0.0..1.0).contains(&args.stalls)) {
        bail!("expected --background above 0 and below 1, and --stalls from 0 to below 1");
    }
    if !(3..=200).contains(&args.nodes) || args.stretches < 1 {
        bail!("expected --nodes from 3 to 200, and --stretches of at least 1");
    }
    let quiet = QuietOptions {
        nodes: args.nodes,
        background: args.background,
        stalls: args.stalls,
        seed: args.seed,
        first: args.first,
        stretches: args.stretches,
        target_count: whole(args.targets),
        ..QuietOptions::default()
    };
    let begun = Instant::now();
    let mut said = Instant::now();
    let found = quiet::run(&quiet, |done| {
        if said.elapsed().as_secs() >= 10 {
            said = Instant::now();
            eprintln!("{done} of {} stretches", args.stretches);
        }
    });
    let (expected, at_most) = found.expected(args.targets, quiet::rounds_in(args.days));
    println!(
        "background {} %, stalls {} %, {} nodes, seed {}: {} stretches of {} rounds ({} too unlikely to be judged, counted as alarms), {} rounds judged, {} observations, {:.1} minutes",
        args.background * 100.0,
        args.stalls * 100.0,
        args.nodes,
        args.seed,
        found.stretches,
        quiet.warm_up_rounds + quiet::COUNTED_ROUNDS,
        found.unjudged,
        found.judged_rounds,
        found.observations,
        begun.elapsed().as_secs_f64() / 60.0
    );
    println!(
        "openings: {} in tilted stretches, {} in {} untilted counted rounds; mean weight {:.3}",
        found.opened_tilted, found.opened_plain, found.plain_rounds, found.mean_weight
    );
    let rounds = quiet::rounds_in(args.days);
    let mut by_region = BTreeMap::<(&str, bool), (usize, f64)>::new();
    for opening in &found.openings {
        let sum = by_region
            .entry((opening.region.as_str(), opening.shared))
            .or_default();
        sum.0 += 1;
        sum.1 += found.contribution(opening, args.targets, rounds);
    }
    for ((region, _), (times, sum)) in &by_region {
        println!("  {region:<28} {times:>6} stretches {sum:.4}");
    }
    for opening in found.openings.iter().take(5) {
        println!(
            "  stretch {}: {}, {:.4} of the sum",
            opening.stretch,
            opening.region,
            found.contribution(opening, args.targets, rounds)
        );
    }
    println!(
        "expected false alarms in {} days of {} targets: {expected:.4} (95 %: below {at_most:.4})",
        args.days, args.targets
    );
    Ok(())
}

fn named(name: &str) -> anyhow::Result<&'static TrialSet> {
    TrialSet::named(name).with_context(|| {
        let known: Vec<&str> = SETS.iter().map(|set| set.name).collect();
        format!("unknown set {name:?}; expected one of {}", known.join(", "))
    })
}

fn generate(args: &GenerateArgs) -> anyhow::Result<()> {
    let set = named(&args.set)?;
    let mut truth = TruthFile {
        args: serde_json::json!({"set": set.name, "seed": args.seed, "first": args.first, "trials": args.trials}),
        trials: Vec::new(),
    };
    let one_file = set.form == OutputForm::Stream || args.trials == 1;
    let mut out = one_file.then(|| create(&args.out)).transpose()?;
    for number in args.first..args.first + args.trials {
        let trial = corpus::trial(set, args.seed, number);
        let mut own = if one_file {
            None
        } else {
            Some(create(&numbered(&args.out, number))?)
        };
        if let Some(out) = own.as_mut().or(out.as_mut()) {
            for line in &trial.lines {
                writeln!(out, "{line}").context("writing a recording")?;
            }
            out.flush().context("writing a recording")?;
        }
        truth.trials.push(trial.truth);
    }
    let text = serde_json::to_string_pretty(&truth).context("writing the truth as JSON")?;
    fs::write(&args.truth, text + "\n").with_context(|| format!("writing {}", args.truth.display()))
}

fn create(path: &Path) -> anyhow::Result<BufWriter<fs::File>> {
    fs::File::create(path)
        .map(BufWriter::new)
        .with_context(|| format!("creating {}", path.display()))
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{number}.{extension}"))
}

fn judge(args: &ScoreArgs) -> anyhow::Result<()> {
    let text =
        fs::read_to_string(&args.truth).with_context(|| format!("reading {}", args.truth.display()))?;
    let truth: TruthFile = serde_json::from_str(&text)
        .with_context(|| format!("reading the truth in {}", args.truth.display()))?;
    let mut said = String::new();
    io::stdin()
        .read_to_string(&mut said)
        .context("reading verdict lines from standard input")?;
    let mut verdicts =
        score::parse_output(said.lines()).context("reading verdict lines from standard input")?;
    if let Some(number) = args.trial {
        let mut all = TrialOutput::default();
        for said in std::mem::take(&mut verdicts).into_values() {
            all.verdicts.extend(said.verdicts);
            all.likeliest.extend(said.likeliest);
        }
        verdicts.insert(number, all);
    }
    let wanted = |number: usize| args.trial.is_none_or(|only| only == number);
    let mut tally = SetTally::default();
    for trial in truth.trials.iter().filter(|trial| wanted(trial.trial)) {
        let said = verdicts.get(&trial.trial).cloned().unwrap_or_default();
        let score = score::score(trial, &said);
        print_trial(trial.faults.len(), &score);
        tally.add(&score);
    }
    print_tally(&tally);
    Ok(())
}

fn print_trial(faults: usize, score: &TrialScore) {
    for fault in &score.faults {
        let said = match &fault.naming {
            None if fault.likeliest => "missed, but the likeliest candidate".to_owned(),
            None if fault.observable => "missed".to_owned(),
            None => "not named, and not observable".to_owned(),
            Some(n) if n.class_right && n.separable_regions > 0 => {
                format!("right, class too wide by {}", n.separable_regions)
            }
            Some(n) if n.class_right => if n.exact { "right" } else { "right, by class" }.to_owned(),
            Some(n) => format!("wrong: {} {:?}", n.region.0, n.region.1),
        };
        let after = fault
            .after_s
            .map_or_else(String::new, |s| format!(", after {s:.1} s"));
        println!("trial {}: {}: {said}{after}", score.trial, fault.cause);
    }
    for wrong in &score.unmatched {
        let alarm = if faults == 0 {
            "false alarm"
        } else {
            "matches no fault"
        };
        println!("trial {}: {alarm}: {wrong}", score.trial);
    }
}

fn print_tally(tally: &SetTally) {
    let share = |share: corpus::tally::CountedShare| format!("{}/{}", share.hits, share.of);
    println!(
        "observable faults: {} ({} more were not observable)",
        tally.all.observable, tally.all.unobservable.of
    );
    println!(
        "named {} · class right {} (of all observable {}; top-1 {}) · exact {} · class too wide {}",
        share(tally.all.named),
        share(tally.all.class_right),
        share(tally.all.recalled),
        share(tally.all.top),
        share(tally.all.exact),
        share(tally.all.over_wide)
    );
    println!(
        "false alarms {} · trials with a superfluous finding {} · both of two named {}",
        share(tally.false_alarms),
        share(tally.wrong_second),
        share(tally.both_named)
    );
    if let Some(error) = tally.calibration_error() {
        println!(
            "expected calibration error {error:.3} over {} findings",
            tally.confidence.len()
        );
    }
}

fn ask(args: &RequestArgs) -> anyhow::Result<()> {
    let set = named(&args.set)?;
    let mut engine = Replay::default();
    let (truth, said) = if args.unasked {
        let trial = corpus::trial(set, args.seed, args.first);
        let said = corpus::closed_loop::run_recording(&mut engine, &trial.lines);
        (trial.truth, said)
    } else {
        corpus::closed_loop_trial(set, args.seed, args.first, &mut engine)
    };
    let mut out = io::stdout().lock();
    for line in said {
        writeln!(out, "{line}").context("writing the engine's output")?;
    }
    let truth = serde_json::to_string(&truth).context("writing the truth as JSON")?;
    writeln!(out, "{truth}").context("writing the truth")
}

fn measure(args: &Report) -> anyhow::Result<()> {
    let sets: Vec<&'static TrialSet> = if args.sets.is_empty() {
        SETS.iter().collect()
    } else {
        args.sets
            .iter()
            .map(|name| named(name))
            .collect::<Result<_, _>>()?
    };
    let mut done = Vec::new();
    for set in sets {
        let most = if args.quick {
            set.kinds.len().max(12)
        } else {
            usize::MAX
        };
        let trials = set.trials.min(most).min(args.trials.unwrap_or(usize::MAX));
        let begun = Instant::now();
        let set = TrialSet {
            closed_loop: set.closed_loop && !args.unasked,
            ..*set
        };
        let result = report::run(&set, args.seed, trials, &|| Box::<Replay>::default())?;
        let recalled = &result.tally.all.recalled;
        let (all, unseen) = (&result.tally.all, &result.tally.all.unobservable);
        let asked: usize = result
            .trials
            .iter()
            .map(|(truth, _)| truth.requested_probes)
            .sum();
        let probes: usize = result.trials.iter().map(|(truth, _)| truth.observations).sum();
        eprintln!(
            "{:<16} {trials:>4} trials in {:>6.1} s  right {}/{}  top {}/{}  of all injected {}/{}  both {}/{}  requested {asked} of \
             {probes}  false alarms {}/{}  wrong second {}/{}",
            set.name,
            begun.elapsed().as_secs_f64(),
            recalled.hits,
            recalled.of,
            all.top.hits,
            all.top.of,
            recalled.hits + unseen.hits,
            all.observable + unseen.of,
            result.tally.both_named.hits,
            result.tally.both_named.of,
            result.tally.false_alarms.hits,
            result.tally.false_alarms.of,
            result.tally.wrong_second.hits,
            result.tally.wrong_second.of,
        );
        done.push(result);
        if let Some(path) = &args.misses {
            fs::write(path, report::misses(&done, args.seed))
                .with_context(|| format!("writing {}", path.display()))?;
        }
    }
    if !args.sets.is_empty() {
        println!(
            "{}\n{}\n{}",
            report::overview(&done),
            report::false_alarms(&done),
            report::causes(&done)
        );
        return Ok(());
    }
    publish(args, &done)
}

fn publish(args: &Report, done: &[report::FinishedSet]) -> anyhow::Result<()> {
    let mut page =
        fs::read_to_string(&args.out).with_context(|| format!("reading {}", args.out.display()))?;
    let Some(folder) = args.out.parent() else {
        bail!(
            "cannot place the plots: {} has no parent directory",
            args.out.display()
        );
    };
    let trials: usize = done.iter().map(|done| done.trials.len()).sum();
    let run = format!(
        "Seed {}, {trials} trials{}.",
        args.seed,
        if args.quick {
            ", a quick run with too few trials for conclusions"
        } else {
            ""
        }
    );
    let parts = [
        ("run", run),
        ("sets", report::sets(done)),
        ("overview", report::overview(done)),
        ("false-alarms", report::false_alarms(done)),
        ("two-faults", report::two_faults(done)),
        ("recovery", report::recovery(done)),
        ("reliability", report::reliability(done)),
        ("causes", report::causes(done)),
    ];
    for (name, content) in &parts {
        page = report::splice(&page, name, content)?;
    }
    let images = folder.join("images");
    fs::create_dir_all(&images).with_context(|| format!("creating {}", images.display()))?;
    for (name, svg) in [
        ("diagnosis-reliability.svg", plot::reliability(done)),
        ("diagnosis-time.svg", plot::time_to_naming(done)),
    ] {
        let path = images.join(name);
        fs::write(&path, svg).with_context(|| format!("writing {}", path.display()))?;
    }
    fs::write(&args.out, page).with_context(|| format!("writing {}", args.out.display()))
}

/// Converts a number of targets to the mesh's type, at least one and at most the mesh's limit.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 1 and 100 000"
)]
fn whole(targets: f64) -> usize {
    targets.clamp(1.0, 100_000.0) as usize
}
