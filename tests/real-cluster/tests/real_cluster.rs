//! Runs all steps on the cluster in `PARALLAX_REAL_CLUSTER`.

use std::env;

use clap::Parser;
use parallax_real_cluster::run::{self, Options, RunResult};
use parallax_skip::{is_skipped, skip};

/// The options of `parallax-real-cluster run`, whose values also come from the environment.
#[derive(Debug, Parser)]
struct RunArgs {
    #[command(flatten)]
    options: Options,
}

#[test]
fn parallax_says_what_it_should_on_a_real_cluster() {
    const NAME: &str = "parallax_says_what_it_should_on_a_real_cluster";
    const COMMAND: &str =
        "PARALLAX_REAL_CLUSTER=KUBECONFIG cargo test --workspace --locked --test real-cluster";
    if is_skipped(NAME, "PARALLAX_REAL_CLUSTER", COMMAND) {
        return;
    }
    if env::var_os("PARALLAX_REAL_CLUSTER").is_none_or(|named| named.is_empty()) {
        skip(
            NAME,
            "PARALLAX_REAL_CLUSTER is not set to the kubeconfig of a cluster that may be broken",
            COMMAND,
        );
        return;
    }
    let only = env::var("PARALLAX_REAL_CLUSTER_ONLY").unwrap_or_default();
    let only = only.split_whitespace().flat_map(|start| ["--only", start]);
    let RunArgs { mut options } = RunArgs::try_parse_from(["real-cluster"].into_iter().chain(only)).unwrap();
    options.report = Some(options.folder.join("report.html"));
    options.json = Some(options.folder.join("report.json"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ended = runtime.block_on(run::run(&options)).unwrap();
    assert_eq!(
        ended,
        RunResult::Passed,
        "see {}",
        options.folder.join("report.html").display()
    );
}
