//! Options: steps, cluster, and paths of the reports.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};

use super::{Report, StepRecord};
use crate::{report, step::Step};

/// Steps, cluster, and paths of the reports.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Kubeconfig of an administrator of a cluster that may be broken.
    #[arg(long, env = "PARALLAX_REAL_CLUSTER", value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// Executable for what kubectl cannot do.
    #[arg(long, env = "PARALLAX_REAL_CLUSTER_HOOK", value_name = "FILE")]
    pub hook: Option<PathBuf>,
    /// Settings file with the names in the cluster.
    #[arg(long, env = "PARALLAX_REAL_CLUSTER_SETTINGS", value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// The product's image in a registry, instead of one that is built here and loaded by the hook.
    #[arg(long, env = "PARALLAX_REAL_CLUSTER_IMAGE", value_name = "NAME")]
    pub image: Option<String>,
    /// The suite's own image in a registry, instead of one that is built here.
    #[arg(long, env = "PARALLAX_REAL_CLUSTER_SUITE_IMAGE", value_name = "NAME")]
    pub suite_image: Option<String>,
    /// A statically linked `parallax` to test, instead of this workspace's.
    #[arg(long, env = "PARALLAX_REAL_CLUSTER_BINARY", value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// Directory with the version from which users upgrade: its statically linked `parallax`, and its chart in `chart`.
    #[arg(long, env = "PARALLAX_REAL_CLUSTER_PREVIOUS", value_name = "FOLDER")]
    pub previous: Option<PathBuf>,
    /// Only steps whose id starts with this prefix; can be repeated.
    #[arg(long, value_name = "START")]
    pub only: Vec<String>,
    /// Number of repetitions of each step.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub repeat: u32,
    /// Run ordinary steps in random order for this many hours, instead of each step once.
    #[arg(long, value_name = "HOURS")]
    pub night: Option<f64>,
    /// Seed of a night's order.
    #[arg(long, default_value_t = 1, value_name = "N", requires = "night")]
    pub seed: u64,
    /// Path of the HTML report.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Path of the JSON report.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Keep the installation at the end.
    #[arg(long)]
    pub keep: bool,
    /// Directory of the step files.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/steps"), value_name = "FOLDER")]
    pub steps: PathBuf,
    /// Directory for images, logs and screenshots.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/real-cluster"), value_name = "FOLDER")]
    pub folder: PathBuf,
}

impl Options {
    /// Returns the selected steps.
    pub(super) fn select(&self, all: Vec<Step>) -> anyhow::Result<Vec<Step>> {
        let wanted = |step: &Step| {
            self.only.is_empty() || self.only.iter().any(|start| step.id.starts_with(start.as_str()))
        };
        let steps: Vec<Step> = all.into_iter().filter(wanted).collect();
        ensure!(
            !steps.is_empty(),
            "no step starts with {}",
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

    /// Writes a partial JSON report, because a run takes hours.
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
