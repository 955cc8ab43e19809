//! Starts the controller and the command.

use std::{fs, process::Output};

use kube::Client;
use parallax_control_plane::{ControlPlane, RunningProgram, TokenHolder};

use crate::{discovery::SmallMesh, parallax::binary};

/// With the permissions of the installed account. It connects to the aggregator directly, because there is no kubelet
/// to forward a port.
pub(super) struct StartedController<'a> {
    plane: &'a ControlPlane,
    arguments: Vec<String>,
    kubeconfig: String,
}

impl<'a> StartedController<'a> {
    pub(super) async fn with(plane: &'a ControlPlane, client: &Client, mesh: &SmallMesh, entry: u16) -> Self {
        let token = async |audience| {
            let account = TokenHolder {
                namespace: "parallax",
                account: "parallax-preflight",
                audience,
                pod: None,
            };
            account.token(client.clone()).await.unwrap()
        };
        let kubeconfig = plane
            .kubeconfig("preflight", "parallax", &token(None).await)
            .unwrap();
        let file = plane.folder().join("preflight.token");
        fs::write(&file, token(Some("parallax-api")).await).unwrap();
        let words = [
            "--server",
            mesh.aggregator.page(),
            "--token-file",
            file.to_str().unwrap(),
        ];
        let mut arguments: Vec<String> = words.map(ToOwned::to_owned).into();
        arguments.extend(["--port".to_owned(), entry.to_string()]);
        Self {
            plane,
            arguments,
            kubeconfig: kubeconfig.to_str().unwrap().to_owned(),
        }
    }

    pub(super) fn start(&self) -> RunningProgram {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.controller(&arguments)
    }

    /// Starts it with the installation's arguments, so that it connects through the API server.
    pub(super) fn as_installed(&self) -> RunningProgram {
        self.controller(&["--parallax-namespace", "parallax"])
    }

    fn controller(&self, arguments: &[&str]) -> RunningProgram {
        let own = ["preflight", "controller", "--backoff-ms", "500"];
        let environment = [("KUBECONFIG", self.kubeconfig.as_str())];
        let arguments = own.iter().chain(arguments);
        RunningProgram::start(
            self.plane.folder(),
            "preflight",
            &binary(),
            arguments,
            &environment,
        )
        .unwrap()
    }

    /// Runs the command with the same permissions.
    pub(super) async fn command(&self, words: &[&str]) -> Output {
        let mut command = std::process::Command::new(binary());
        command
            .arg("preflight")
            .args(words)
            .args(&self.arguments)
            .env("KUBECONFIG", &self.kubeconfig);
        tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap()
    }
}
