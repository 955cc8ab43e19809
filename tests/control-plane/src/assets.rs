//! Paths of the control plane's programs.

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};

/// The programs, named as for controller-runtime's envtest: `KUBEBUILDER_ASSETS` is a directory with all of them;
/// `TEST_ASSET_ETCD`, `TEST_ASSET_KUBE_APISERVER`, `TEST_ASSET_KUBE_CONTROLLER_MANAGER` and `TEST_ASSET_KUBECTL` name
/// them individually.
#[derive(Debug, Clone)]
pub struct ControlPlaneBinaries {
    /// etcd 3.5 or newer.
    pub etcd: PathBuf,
    /// kube-apiserver, 1.29 or newer.
    pub api_server: PathBuf,
    /// kube-controller-manager; without it no objects are derived and no namespace is emptied.
    pub controller_manager: Option<PathBuf>,
    /// kubectl, needed only for tests of its use.
    pub kubectl: Option<PathBuf>,
}

impl ControlPlaneBinaries {
    /// Reads the programs from the environment; `None` if it names none. A name without a program is an error, so that
    /// tests that were requested are not skipped silently.
    pub fn from_env() -> anyhow::Result<Option<Self>> {
        let folder = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let find = |variable: &str, name: &str| -> Option<PathBuf> {
            env::var_os(variable)
                .map(PathBuf::from)
                .or_else(|| folder.as_ref().map(|folder| folder.join(name)))
        };
        let etcd = find("TEST_ASSET_ETCD", "etcd");
        let api_server = find("TEST_ASSET_KUBE_APISERVER", "kube-apiserver");
        let (etcd, api_server) = match (etcd, api_server) {
            (None, None) => return Ok(None),
            (Some(etcd), Some(api_server)) => (etcd, api_server),
            _ => bail!("set both TEST_ASSET_ETCD and TEST_ASSET_KUBE_APISERVER, or KUBEBUILDER_ASSETS"),
        };
        // These are optional; a name without a program is nevertheless an error.
        let if_there = |variable: &str, name: &str| match env::var_os(variable) {
            Some(named) => program(Path::new(&named)).map(Some),
            None => Ok(find("", name).filter(|path| path.is_file())),
        };
        Ok(Some(Self {
            etcd: program(&etcd)?,
            api_server: program(&api_server)?,
            controller_manager: if_there("TEST_ASSET_KUBE_CONTROLLER_MANAGER", "kube-controller-manager")?,
            kubectl: if_there("TEST_ASSET_KUBECTL", "kubectl")?,
        }))
    }
}

fn program(path: &Path) -> anyhow::Result<PathBuf> {
    path.canonicalize()
        .ok()
        .filter(|path| path.is_file())
        .with_context(|| {
            format!(
                "cannot find {}; see KUBEBUILDER_ASSETS in docs/contributing/testing.md",
                path.display()
            )
        })
}

/// Timeout of each component's start: `KUBEBUILDER_CONTROLPLANE_START_TIMEOUT` (`60s`), by default two minutes.
pub(crate) fn start_timeout() -> anyhow::Result<Duration> {
    let Ok(text) = env::var("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT") else {
        return Ok(Duration::from_mins(2));
    };
    let seconds: u64 = text.strip_suffix('s').unwrap_or(&text).parse().with_context(|| {
        format!("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT is {text:?}; expected seconds, such as 60s")
    })?;
    Ok(Duration::from_secs(seconds))
}
