//! A real control plane for tests: etcd, kube-apiserver and optionally kube-controller-manager, as children of the
//! test on free ports. Nodes and Pods are only objects: there is no kubelet, no scheduler and no network.
//!
//! The programs are located as for controller-runtime's envtest, see [`ControlPlaneBinaries`]. Without them a test
//! prints a message that it was skipped:
//!
//! ```no_run
//! # async fn test() -> anyhow::Result<()> {
//! let Some(plane) = parallax_control_plane::ControlPlane::start("what_the_test_holds").await? else {
//!     return Ok(());
//! };
//! let nodes = kube::Api::<k8s_openapi::api::core::v1::Node>::all(plane.admin().await?);
//! # Ok(()) }
//! ```

mod assets;
mod audit;
mod credentials;
mod everything;
mod kubectl;
mod manifest;
mod plane;
mod process;

pub use assets::ControlPlaneBinaries;
pub use audit::AuditedRequest;
pub use credentials::TokenHolder;
pub use everything::everything;
pub use kubectl::Kubectl;
pub use manifest::Manifest;
pub use plane::ControlPlane;
pub use process::RunningProgram;

/// Prints a message past the capture of the test harness: skips and measurements must be visible for passing tests too.
pub fn print_uncaptured(text: &str) {
    use std::io::Write as _;
    // A closed stderr cannot be reported.
    let _ = writeln!(std::io::stderr(), "{text}");
}
