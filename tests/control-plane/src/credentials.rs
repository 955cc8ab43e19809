//! Credentials: the server's certificate, the administrator, and tokens of accounts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount},
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use rcgen::{CertificateParams, KeyPair};

/// The administrator's token, valid only for the server of one test.
pub(crate) const ADMINISTRATOR: &str = "the-administrator-of-this-test";

/// Files shared by the components of the control plane.
#[derive(Debug)]
pub(crate) struct CredentialFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) account_key: PathBuf,
    pub(crate) account_public: PathBuf,
    pub(crate) tokens: PathBuf,
    pub(crate) audit_policy: PathBuf,
}

impl CredentialFiles {
    /// Writes all of them.
    pub(crate) fn write(folder: &Path) -> anyhow::Result<Self> {
        let file = |name: &str, text: &str| -> anyhow::Result<PathBuf> {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            Ok(path)
        };
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(["127.0.0.1".to_owned()])?.self_signed(&key)?;
        let accounts = KeyPair::generate()?;
        Ok(Self {
            certificate: file("server.crt", &certificate.pem())?,
            key: file("server.key", &key.serialize_pem())?,
            account_key: file("accounts.key", &accounts.serialize_pem())?,
            account_public: file("accounts.pub", &accounts.public_key_pem())?,
            tokens: file(
                "tokens.csv",
                &format!("{ADMINISTRATOR},administrator,1,system:masters\n"),
            )?,
            audit_policy: file(
                "audit.yaml",
                "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n",
            )?,
        })
    }
}

/// Renders a kubeconfig of one user in one namespace.
pub(crate) fn kubeconfig(server: &str, certificate: &Path, namespace: &str, token: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         clusters: [{{name: test, cluster: {{server: '{server}', certificate-authority: '{}'}}}}]\n\
         users: [{{name: test, user: {{token: '{token}'}}}}]\n\
         contexts: [{{name: test, context: {{cluster: test, user: test, namespace: {namespace}}}}}]\n",
        certificate.display()
    )
}

/// The holder of a token, as in a kubelet's requests for projected tokens.
#[derive(Debug, Clone, Copy)]
pub struct TokenHolder<'a> {
    /// The ServiceAccount's namespace.
    pub namespace: &'a str,
    /// The ServiceAccount.
    pub account: &'a str,
    /// The audience; absent for the API server.
    pub audience: Option<&'a str>,
    /// The Pod to which the token is bound.
    pub pod: Option<&'a Pod>,
}

impl TokenHolder<'_> {
    /// Requests a token (`TokenRequest`) that is valid for an hour, like those projected by the installation.
    pub async fn token(&self, client: Client) -> anyhow::Result<String> {
        let bound_object_ref = self.pod.map(|pod| BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.name_any()),
            uid: pod.uid(),
        });
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: self.audience.map(|audience| vec![audience.to_owned()]),
                bound_object_ref,
                expiration_seconds: Some(3_600),
            }),
            ..TokenRequest::default()
        };
        let granted = Api::<ServiceAccount>::namespaced(client, self.namespace)
            .create_token_request(self.account, &PostParams::default(), &request)
            .await
            .with_context(|| format!("requesting a token of {}/{}", self.namespace, self.account))?;
        let status = granted.status.context("the TokenRequest has no status")?;
        status.token.context("the TokenRequest has no token")
    }
}
