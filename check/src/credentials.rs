//! The credentials of a check: files, which are read for each request and sent to the host of the URL only.

use parallax_model::{CredentialName, HostName};
use parallax_prober::{CredentialFiles, CredentialSource, HostRule};

use super::{
    args::CheckOptions,
    subject::{CheckAction, CheckSubject},
};

/// The names that the probes of a check use.
const AUTHORIZATION: &str = "authorization";
const CERTIFICATE: &str = "client-certificate";
const PROXY: &str = "proxy";

impl CheckOptions {
    /// The credential that the probes send as `Authorization`.
    pub(super) fn credential(&self) -> Option<CredentialName> {
        let given = self.bearer_file.is_some() || self.basic_file.is_some();
        given.then(|| name(AUTHORIZATION))
    }

    /// The client certificate that the probes present.
    pub(super) fn client_certificate(&self) -> Option<CredentialName> {
        self.client_cert.as_ref().map(|_| name(CERTIFICATE))
    }

    /// The credential that the probes send to the proxy.
    pub(super) fn proxy_credential(&self) -> Option<CredentialName> {
        self.proxy_basic_file.as_ref().map(|_| name(PROXY))
    }

    /// The files of all credentials, each for the hosts of the URLs or for the proxy.
    pub(super) fn credential_sources(&self, subjects: &[CheckSubject]) -> Vec<CredentialSource> {
        let hosts: Vec<HostRule> = subjects.iter().filter_map(host).map(HostRule::exact).collect();
        let authorization = match (&self.bearer_file, &self.basic_file) {
            (Some(file), _) => Some(CredentialFiles::BearerToken(file.clone())),
            (None, Some(file)) => Some(CredentialFiles::BasicAuth(file.clone())),
            (None, None) => None,
        };
        let certificate = self.client_cert.clone().zip(self.client_key.clone());
        let certificate =
            certificate.map(|(certificate, key)| CredentialFiles::ClientCertificate { certificate, key });
        let own = [(AUTHORIZATION, authorization), (CERTIFICATE, certificate)];
        let own = own.into_iter().filter_map(|(known, files)| {
            Some(CredentialSource {
                name: name(known),
                files: files?,
                header: None,
                hosts: hosts.clone(),
                allow_plaintext: false,
            })
        });
        let proxy = self.proxy_basic_file.as_ref().zip(self.proxy.as_ref());
        let proxy = proxy.map(|(file, proxy)| CredentialSource {
            name: name(PROXY),
            files: CredentialFiles::BasicAuth(file.clone()),
            header: None,
            hosts: vec![HostRule::exact(&proxy.host)],
            // A proxy is asked in plain text, and this one was named together with the file.
            allow_plaintext: true,
        });
        own.chain(proxy).collect()
    }
}

fn host(subject: &CheckSubject) -> Option<&HostName> {
    match &subject.action {
        CheckAction::Http(probe) => Some(&probe.host),
        CheckAction::Stream(probe) => Some(&probe.host),
        CheckAction::Name(_) => None,
    }
}

fn name(known: &str) -> CredentialName {
    known
        .parse()
        .unwrap_or_else(|error| unreachable!("{known} is the name of a credential: {error}"))
}
