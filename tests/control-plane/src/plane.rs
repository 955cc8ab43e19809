//! The control plane itself.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use parallax_skip::skip;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::{
    AuditedRequest, ControlPlaneBinaries, Kubectl, RunningProgram,
    assets::patience,
    audit,
    credentials::{self, ADMINISTRATOR, CredentialFiles},
};

/// Runs what needs a control plane.
const COMMAND: &str = "KUBEBUILDER_ASSETS=FOLDER cargo test --workspace --locked --test control-plane";

/// Time between two questions whether something is ready.
const PAUSE: Duration = Duration::from_millis(100);

/// What the controller manager does here: what is derived, emptied and collected.
const CONTROLLERS: &str = "endpointslice-controller,garbage-collector-controller,namespace-controller,serviceaccount-controller,\
     persistentvolumeclaim-protection-controller";
/// What it does only on request: it would replace Pods that a test has made in its place.
const DAEMONS: &str = "daemonset-controller";

/// A running control plane; ended when dropped, and its data with it.
#[derive(Debug)]
pub struct ControlPlane {
    // In the order in which they are to end.
    controllers: Vec<RunningProgram>,
    api_server: RunningProgram,
    _etcd: RunningProgram,
    assets: ControlPlaneBinaries,
    files: CredentialFiles,
    etcd_port: u16,
    port: u16,
    folder: TempDir,
}

impl ControlPlane {
    /// Starts one and waits until it is ready. Nothing, said loudly, where the environment names no programs.
    pub async fn start(test: &str) -> anyhow::Result<Option<Self>> {
        let Some(assets) = ControlPlaneBinaries::from_env()? else {
            skip(
                test,
                "KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver",
                COMMAND,
            );
            return Ok(None);
        };
        // An error is only that somebody else has chosen the same one before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().context("a folder for the control plane")?;
        let files = CredentialFiles::write(folder.path())?;
        let (etcd_port, peer_port, port) = (free_port()?, free_port()?, free_port()?);
        let client_url = format!("http://127.0.0.1:{etcd_port}");
        let etcd = RunningProgram::start(
            folder.path(),
            "etcd",
            &assets.etcd,
            [
                "--data-dir=etcd".to_owned(),
                format!("--listen-client-urls={client_url}"),
                format!("--advertise-client-urls={client_url}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"),
                "--unsafe-no-fsync".to_owned(),
                "--log-level=warn".to_owned(),
            ],
            &[],
        )?;
        let api_server = api_server(&assets, folder.path(), &files, etcd_port, port)?;
        let mut plane = Self {
            controllers: Vec::new(),
            api_server,
            _etcd: etcd,
            assets,
            files,
            etcd_port,
            port,
            folder,
        };
        plane.ready().await?;
        plane.start_controllers("kube-controller-manager", CONTROLLERS)?;
        Ok(Some(plane))
    }

    /// Whether objects are derived, namespaces emptied and what belongs to something gone collected.
    #[must_use]
    pub const fn has_controllers(&self) -> bool {
        !self.controllers.is_empty()
    }

    /// Reports that a part of a test needs kube-controller-manager, which the environment does not name.
    pub fn without_controllers(part: &str) {
        skip(
            part,
            "the folder that KUBEBUILDER_ASSETS names has no kube-controller-manager",
            COMMAND,
        );
    }

    /// Has a Pod made for each node that a DaemonSet is for.
    pub fn follow_daemon_sets(&mut self) -> anyhow::Result<()> {
        self.start_controllers("daemonset-controller", DAEMONS)
    }

    /// kubectl of the administrator; nothing, said loudly, where the environment names none.
    pub fn kubectl(&self, test: &str) -> anyhow::Result<Option<Kubectl>> {
        let Some(program) = self.assets.kubectl.clone() else {
            skip(
                test,
                "the folder that KUBEBUILDER_ASSETS names has no kubectl",
                COMMAND,
            );
            return Ok(None);
        };
        Ok(Some(Kubectl {
            program,
            kubeconfig: self.kubeconfig("administrator", "default", ADMINISTRATOR)?,
            home: self.folder.path().to_owned(),
        }))
    }

    /// A folder for files of the test; it goes with the control plane.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A client that may do everything.
    pub async fn admin(&self) -> anyhow::Result<Client> {
        self.client("default", ADMINISTRATOR).await
    }

    /// A client of whoever holds a token.
    pub async fn client(&self, namespace: &str, token: &str) -> anyhow::Result<Client> {
        let parsed = Kubeconfig::from_yaml(&self.kubeconfig_text(namespace, token))?;
        let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
            .await
            .context("our own kubeconfig")?;
        Ok(Client::try_from(config)?)
    }

    /// A kubeconfig of whoever holds a token, as a file.
    pub fn kubeconfig(&self, name: &str, namespace: &str, token: &str) -> anyhow::Result<PathBuf> {
        let path = self.folder.path().join(format!("{name}.kubeconfig"));
        fs::write(&path, self.kubeconfig_text(namespace, token))
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    fn kubeconfig_text(&self, namespace: &str, token: &str) -> String {
        let server = format!("https://127.0.0.1:{}", self.port);
        credentials::kubeconfig(&server, &self.files.certificate, namespace, token)
    }

    /// Ends the API server as SIGKILL does. etcd goes on.
    pub fn kill_api_server(&mut self) {
        self.api_server.kill();
    }

    /// Starts it again at the same address, and waits until it is ready.
    pub async fn start_api_server(&mut self) -> anyhow::Result<()> {
        self.api_server = api_server(
            &self.assets,
            self.folder.path(),
            &self.files,
            self.etcd_port,
            self.port,
        )?;
        self.ready().await
    }

    /// Every request that the API server has answered or refused so far.
    pub fn audited(&self) -> anyhow::Result<Vec<AuditedRequest>> {
        let log = fs::read(self.folder.path().join("audit.log")).context("reading the audit log")?;
        Ok(audit::read(&String::from_utf8_lossy(&log)))
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let (begin, patience) = (Instant::now(), patience()?);
        let client = self.admin().await?;
        loop {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            let answer = client.request_text(request).await;
            if answer.is_ok() {
                return Ok(());
            }
            if let Some(status) = self.api_server.ended() {
                bail!("kube-apiserver ended ({status}); {}", self.api_server.tail());
            }
            if begin.elapsed() > patience {
                bail!(
                    "kube-apiserver is not ready after {patience:?}: {}; {}",
                    answer.err().map(|error| error.to_string()).unwrap_or_default(),
                    self.api_server.tail()
                );
            }
            sleep(PAUSE).await;
        }
    }

    fn start_controllers(&mut self, name: &str, controllers: &str) -> anyhow::Result<()> {
        let Some(program) = self.assets.controller_manager.clone() else {
            return Ok(());
        };
        let kubeconfig = self.kubeconfig("controller-manager", "kube-system", ADMINISTRATOR)?;
        self.controllers.push(RunningProgram::start(
            self.folder.path(),
            name,
            &program,
            [
                format!("--kubeconfig={}", kubeconfig.display()),
                format!("--controllers={controllers}"),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
                // An emptied namespace goes at once; the default looks at it again after a minute.
                "--namespace-sync-period=5s".to_owned(),
                format!(
                    "--service-account-private-key-file={}",
                    self.files.account_key.display()
                ),
            ],
            &[],
        )?);
        Ok(())
    }
}

fn api_server(
    assets: &ControlPlaneBinaries,
    folder: &Path,
    files: &CredentialFiles,
    etcd_port: u16,
    port: u16,
) -> anyhow::Result<RunningProgram> {
    let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    RunningProgram::start(
        folder,
        "kube-apiserver",
        &assets.api_server,
        [
            format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            // Nobody looks for it through its own Service, and a machine may have no route to advertise.
            "--advertise-address=192.0.2.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--audit-log-path=audit.log".to_owned(),
            file("tls-cert-file", &files.certificate),
            file("tls-private-key-file", &files.key),
            file("service-account-key-file", &files.account_public),
            file("service-account-signing-key-file", &files.account_key),
            file("token-auth-file", &files.tokens),
            file("audit-policy-file", &files.audit_policy),
        ],
        &[],
    )
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("a free port")?;
    Ok(listener.local_addr().context("a free port")?.port())
}
