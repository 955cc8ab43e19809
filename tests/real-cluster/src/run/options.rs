//! What to run, on which cluster, and where the reports go.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};

use super::{Report, StepRecord};
use crate::{report, step::Step};

/// What to run, on which cluster, and where the reports go.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The kubeconfig of an administrator of a cluster that may be broken.
    #[arg(long, env = "PARALLAX_REAL_CLUSTER", value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// An executable that does to the cluster what kubectl cannot.
    #[arg(long, env = "PARALLAX_REAL_CLUSTER_HOOK", value_name = "FILE")]
    pub hook: Option<PathBuf>,
    /// What the cluster calls things.
    #[arg(long, env = "PARALLAX_REAL_CLUSTER_SETTINGS", value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// The product's image in a registry, instead of one that is built and loaded by the hook.
    #[arg(long, env = "PARALLAX_REAL_CLUSTER_IMAGE", value_name = "NAME")]
    pub image: Option<String>,
    /// The suite's own image in a registry, likewise.
    #[arg(long, env = "PARALLAX_REAL_CLUSTER_SUITE_IMAGE", value_name = "NAME")]
    pub suite_image: Option<String>,
    /// A statically linked `parallax` to test, instead of the one of this workspace.
    #[arg(long, env = "PARALLAX_REAL_CLUSTER_BINARY", value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// Only steps whose id begins so; may be repeated.
    #[arg(long, value_name = "START")]
    pub only: Vec<String>,
    /// How often each step runs.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub repeat: u32,
    /// Runs ordinary steps in random order for so many hours, instead of each step once.
    #[arg(long, value_name = "HOURS")]
    pub night: Option<f64>,
    /// The order of a night.
    #[arg(long, default_value_t = 1, value_name = "N", requires = "night")]
    pub seed: u64,
    /// The report for people, as one HTML file.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The report for machines.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Leaves everything installed at the end.
    #[arg(long)]
    pub keep: bool,
    /// Folder of the step files.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/steps"), value_name = "FOLDER")]
    pub steps: PathBuf,
    /// Folder for images, logs and pictures.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/real-cluster"), value_name = "FOLDER")]
    pub folder: PathBuf,
}

impl Options {
    /// The steps that are wanted.
    pub(super) fn select(&self, all: Vec<Step>) -> anyhow::Result<Vec<Step>> {
        let wanted = |step: &Step| {
            self.only.is_empty() || self.only.iter().any(|start| step.id.starts_with(start.as_str()))
        };
        let steps: Vec<Step> = all.into_iter().filter(wanted).collect();
        ensure!(
            !steps.is_empty(),
            "no step begins with {}",
            self.only.join(" or ")
        );
        Ok(steps)
    }

    /// Writes both reports.
    pub(super) fn write(&self, report: &Report) -> anyhow::Result<()> {
        if let Some(path) = &self.report {
            write(path, &report::page(report))?;
        }
        if let Some(path) = &self.json {
            write(path, &serde_json::to_string_pretty(report)?)?;
        }
        Ok(())
    }

    /// Writes what there is so far, for machines: a run takes hours.
    pub(super) fn write_partial(&self, records: &[StepRecord]) -> anyhow::Result<()> {
        match &self.json {
            Some(path) => write(path, &serde_json::to_string_pretty(records)?),
            None => Ok(()),
        }
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
