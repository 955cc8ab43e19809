//! `parallax-corpus`: generates recordings with known truth, and scores verdicts against it. See
//! `docs/reference/diagnosis.md`.

mod published_report;
mod quiet_mesh;
mod scores;
mod whole_cluster;

use std::{
    fs,
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use parallax_diagnosis::replay::Replay;
use parallax_lab::corpus::{
    self,
    sets::{OutputForm, SETS, TrialSet},
    truth::TruthFile,
    whole_cluster::sets::WHOLE_SETS,
};

use self::{
    published_report::{Report, measure},
    quiet_mesh::{QuietArgs, quiet},
    scores::{ScoreArgs, judge},
    whole_cluster::{WholeArgs, judge_whole_clusters},
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
    /// Run the sets of whole clusters, whose paths have several hops, and print what became of each fault
    Whole(WholeArgs),
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

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Quiet(args) => quiet(&args),
        Command::Sets => {
            for set in SETS {
                println!("{:<16} {:>4} trials  {}", set.name, set.trials, set.description);
            }
            for set in WHOLE_SETS {
                println!(
                    "{:<16} {:>4} trials  {} (whole)",
                    set.name, set.trials, set.description
                );
            }
            Ok(())
        }
        Command::Generate(args) => generate(&args),
        Command::Score(args) => judge(&args),
        Command::Ask(args) => ask(&args),
        Command::Report(args) => measure(&args),
        Command::Whole(args) => judge_whole_clusters(&args),
    }
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

fn ask(args: &RequestArgs) -> anyhow::Result<()> {
    let set = named(&args.set)?;
    let mut engine = Replay::default();
    let (truth, output) = if args.unasked {
        let trial = corpus::trial(set, args.seed, args.first);
        let output = corpus::closed_loop::run_recording(&mut engine, &trial.lines);
        (trial.truth, output)
    } else {
        corpus::closed_loop_trial(set, args.seed, args.first, &mut engine)
    };
    let mut out = io::stdout().lock();
    for line in output {
        writeln!(out, "{line}").context("writing the engine's output")?;
    }
    let truth = serde_json::to_string(&truth).context("writing the truth as JSON")?;
    writeln!(out, "{truth}").context("writing the truth")
}
