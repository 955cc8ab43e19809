//! `parallax manifests`: everything that an installation consists of, from Kubernetes' own types.

mod aggregator;
mod echo;
mod meta;
mod monitor;
mod network;
pub(crate) mod outside;
mod pod;
mod preflight;
mod prober;
mod rbac;
mod settings;
mod storage;
mod values;
mod yaml;

use std::path::PathBuf;

use values::Values;
use yaml::YamlStream;

use crate::exit::Failure;

/// What stands above the objects.
const HEAD: &str = "\
# Written by `parallax manifests`; do not edit. The whole installation: kubectl apply -f, and kubectl delete -f leaves
# nothing behind. What each object is for: docs/use/install.md. Other values: parallax manifests --values FILE, or the
# kustomize overlays beside this file.
";

/// Print the objects of an installation as YAML.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is to differ from the defaults; deploy/values.yaml lists every key.
    #[arg(long, value_name = "FILE")]
    values: Option<PathBuf>,
    /// Only the definitions of the custom resources Target, Run and Preflight, as in deploy/crds.yaml.
    #[arg(long, conflicts_with = "values")]
    crds: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.crds {
        return super::print(
            &parallax_aggregator::custom_resource_definitions().map_err(Failure::could_not)?,
        );
    }
    let values = match &args.values {
        Some(path) => Values::load(path).map_err(Failure::usage)?,
        None => Values::default(),
    };
    let text = format!("{HEAD}{}", documents(&values).map_err(Failure::could_not)?);
    super::print(&text)
}

/// Every object, in the order in which they can be created.
fn documents(values: &Values) -> Result<YamlStream, serde_saphyr::ser::Error> {
    let mut out = YamlStream::default();
    if values.custom_resources {
        for definition in parallax_aggregator::custom_resources() {
            out.add(&definition)?;
        }
    }
    if values.preflight.is_some() {
        out.add(&parallax_aggregator::crd::preflights::definition())?;
    }
    for space in meta::namespaces(values) {
        out.add(&space)?;
    }
    for account in rbac::accounts(values) {
        out.add(&account)?;
    }
    out.add(&rbac::cluster_role(values))?;
    out.add(&rbac::cluster_binding(values))?;
    for role in rbac::people() {
        out.add(&role)?;
    }
    for role in rbac::roles(values) {
        out.add(&role)?;
    }
    out.add(&rbac::reach(values))?;
    for binding in rbac::bindings(values) {
        out.add(&binding)?;
    }
    if let Some(wanted) = &values.preflight {
        for role in preflight::cluster_roles() {
            out.add(&role)?;
        }
        for binding in preflight::cluster_bindings(values, wanted) {
            out.add(&binding)?;
        }
        out.add(&preflight::role(values))?;
        for binding in preflight::bindings(values, wanted) {
            out.add(&binding)?;
        }
    }
    for settings in settings::config_maps(values) {
        out.add(&settings)?;
    }
    if let Some(claim) = storage::claim(values) {
        out.add(&claim)?;
    }
    for policy in network::policies(values) {
        out.add(&policy)?;
    }
    for service in echo::services(values) {
        out.add(&service)?;
    }
    for service in aggregator::services(values) {
        out.add(&service)?;
    }
    out.add(&aggregator::disruption_budget(values))?;
    out.add(&aggregator::deployment(values))?;
    if let Some(wanted) = &values.preflight {
        out.add(&preflight::deployment(values, wanted))?;
    }
    for daemon_set in prober::daemon_sets(values) {
        out.add(&daemon_set)?;
    }
    if let Some(monitors) = monitor::pod_monitors(values) {
        for monitor in monitors {
            out.add_custom(&monitor)?;
        }
    }
    if let Some(rules) = monitor::rules(values) {
        out.add_custom(&rules)?;
    }
    Ok(out)
}
