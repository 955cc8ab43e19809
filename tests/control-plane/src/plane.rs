//! The control plane.

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
    assets::start_timeout,
    audit,
    credentials::{self, ADMINISTRATOR, CredentialFiles},
};

/// Command that runs the tests that need a control plane.
const TEST_COMMAND: &str = "KUBEBUILDER_ASSETS=FOLDER cargo test --workspace --locked --test control-plane";

/// Interval of readiness checks.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Enabled controllers: derived objects, namespaces, garbage collection.
const CONTROLLERS: &str = "endpointslice-controller,garbage-collector-controller,namespace-controller,serviceaccount-controller,\
     persistentvolumeclaim-protection-controller";
/// Enabled only on request: it would replace Pods that a test has created.
const DAEMON_SET_CONTROLLER: &str = "daemonset-controller";

/// A running control plane; stopped on drop, with its data.
#[derive(Debug)]
pub struct ControlPlane {
    // In the order in which they must stop.
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
    /// Starts one and waits until it is ready. `None`, with a message, if the environment names no programs.
    pub async fn start(test: &str) -> anyhow::Result<Option<Self>> {
        let Some(assets) = ControlPlaneBinaries::from_env()? else {
            skip(
                test,
                "KUBEBUILDER_ASSETS does not name a directory with etcd and kube-apiserver",
                TEST_COMMAND,
            );
            return Ok(None);
        };
        // Fails only if the same one is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().context("creating a directory for the control plane")?;
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

    /// Reports whether controllers derive objects, empty namespaces and collect garbage.
    #[must_use]
    pub const fn has_controllers(&self) -> bool {
        !self.controllers.is_empty()
    }

    /// Reports that a part of a test needs kube-controller-manager, which the environment does not name.
    pub fn skip_without_controllers(part: &str) {
        skip(
            part,
            "the directory in KUBEBUILDER_ASSETS has no kube-controller-manager",
            TEST_COMMAND,
        );
    }

    /// Enables the DaemonSet controller, which creates a Pod per matching node.
    pub fn follow_daemon_sets(&mut self) -> anyhow::Result<()> {
        self.start_controllers("daemonset-controller", DAEMON_SET_CONTROLLER)
    }

    /// Returns the administrator's kubectl; `None`, with a message, if the environment names none.
    pub fn kubectl(&self, test: &str) -> anyhow::Result<Option<Kubectl>> {
        let Some(program) = self.assets.kubectl.clone() else {
            skip(
                test,
                "the directory in KUBEBUILDER_ASSETS has no kubectl",
                TEST_COMMAND,
            );
            return Ok(None);
        };
        Ok(Some(Kubectl {
            program,
            kubeconfig: self.administrator_kubeconfig()?,
            home: self.folder.path().to_owned(),
        }))
    }

    /// Returns a directory for files of the test; deleted with the control plane.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a client with all permissions.
    pub async fn admin(&self) -> anyhow::Result<Client> {
        self.client("default", ADMINISTRATOR).await
    }

    /// Returns a client that authenticates with a token.
    pub async fn client(&self, namespace: &str, token: &str) -> anyhow::Result<Client> {
        let parsed = Kubeconfig::from_yaml(&self.kubeconfig_text(namespace, token))?;
        let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
            .await
            .context("loading the generated kubeconfig")?;
        Ok(Client::try_from(config)?)
    }

    /// Writes a kubeconfig with all permissions.
    pub fn administrator_kubeconfig(&self) -> anyhow::Result<PathBuf> {
        self.kubeconfig("administrator", "default", ADMINISTRATOR)
    }

    /// Writes a kubeconfig that authenticates with a token.
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

    /// Kills the API server with SIGKILL. etcd keeps running.
    pub fn kill_api_server(&mut self) {
        self.api_server.kill();
    }

    /// Restarts it at the same address, and waits until it is ready.
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

    /// Returns every request that the API server has answered or rejected so far.
    pub fn audited_requests(&self) -> anyhow::Result<Vec<AuditedRequest>> {
        let log = fs::read(self.folder.path().join("audit.log")).context("reading the audit log")?;
        Ok(audit::read(&String::from_utf8_lossy(&log)))
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let (begin, patience) = (Instant::now(), start_timeout()?);
        let client = self.admin().await?;
        loop {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            let answer = client.request_text(request).await;
            if answer.is_ok() {
                return Ok(());
            }
            if let Some(status) = self.api_server.exit_status() {
                bail!("kube-apiserver exited ({status}); {}", self.api_server.tail());
            }
            if begin.elapsed() > patience {
                bail!(
                    "kube-apiserver is not ready after {patience:?}: {}; {}",
                    answer.err().map(|error| error.to_string()).unwrap_or_default(),
                    self.api_server.tail()
                );
            }
            sleep(POLL_INTERVAL).await;
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
                // An emptied namespace is deleted at once; by default it is checked again after a minute.
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
            // Its own Service is not used, and a machine may have no route to advertise.
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
    let listener = TcpListener::bind("127.0.0.1:0").context("binding a free port")?;
    Ok(listener.local_addr().context("binding a free port")?.port())
}
