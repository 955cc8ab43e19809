//! A real control plane for tests: etcd, kube-apiserver and, where there is one, kube-controller-manager, as children of
//! the test on free ports. Nodes and Pods are only objects in it: there is no kubelet, no scheduler and no network.
//!
//! Where the programs are is said as for controller-runtime's envtest, see [`ControlPlaneBinaries`]. Without them a test says loudly
//! that it has shown nothing:
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

/// Says something past the capture of the test harness: who skips or measures must be heard also when all is well.
pub fn say(text: &str) {
    use std::io::Write as _;
    // Nothing can be done for who cannot be told.
    let _ = writeln!(std::io::stderr(), "{text}");
}
