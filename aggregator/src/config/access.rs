//! How probers reach the aggregator and how it knows them: TLS of its own, Kubernetes accounts.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
};

use parallax_model::{InvalidName, Namespace, ObjectName};

use super::raw::{RawIdentity, RawTls};

/// `namespace/name` of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: Namespace,
    /// The name in it.
    pub name: ObjectName,
}

impl FromStr for ObjectKey {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let (namespace, name) = text.split_once('/').ok_or_else(|| InvalidName::NoSlash {
            value: text.to_owned(),
        })?;
        Ok(Self {
            namespace: namespace.parse()?,
            name: name.parse()?,
        })
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Serving probers over TLS, with a certificate of the aggregator's own CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// Where.
    pub listen: SocketAddr,
    /// What probers call it: names and addresses that the certificate is for.
    pub hosts: Vec<String>,
    /// The `ConfigMaps` that get the public part of the CA, as `ca.crt`.
    pub publish: Vec<ObjectKey>,
    /// The folder that keeps the CA over restarts; without one it lives in memory, and a restart makes a new one.
    pub keep: Option<PathBuf>,
}

/// Knowing probers by the tokens of their Kubernetes accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityOptions {
    /// What the tokens must be meant for.
    pub audience: String,
    /// The accounts of probers that run as Pods.
    pub probers: Vec<ObjectKey>,
    /// The accounts of Pods that only answer the echo.
    pub responders: Vec<ObjectKey>,
    /// Where the accounts of enrolled vantages outside the cluster are, if there may be any.
    pub vantages: Option<Namespace>,
}

impl IdentityOptions {
    /// Where the Pods of all these accounts are.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &str> {
        let accounts = self.probers.iter().chain(&self.responders);
        accounts.map(|account| account.namespace.as_str())
    }
}

/// Both parts of the configuration, as far as they make sense together.
pub(super) fn checked(
    tls: Option<RawTls>,
    identity: Option<RawIdentity>,
    shared_secret: bool,
    folder: &Path,
    wrong: &mut impl FnMut(&str, String),
) -> (Option<TlsOptions>, Option<IdentityOptions>) {
    if identity.is_some() && tls.is_none() {
        wrong(
            "identity",
            "expected tls as well: tokens must not travel in the clear".to_owned(),
        );
    }
    if identity.is_some() && shared_secret {
        wrong(
            "tokenFile",
            "expected either tokenFile or identity: a shared secret would let in whom identity refuses"
                .to_owned(),
        );
    }
    let tls = tls.and_then(|raw| tls_options(raw, folder, wrong));
    (tls, identity.map(|raw| identity_options(raw, wrong)))
}

fn tls_options(raw: RawTls, folder: &Path, wrong: &mut impl FnMut(&str, String)) -> Option<TlsOptions> {
    if raw.hosts.is_empty() {
        wrong(
            "tls.hosts",
            "expected at least one name or address that probers use".to_owned(),
        );
    }
    for (i, host) in raw.hosts.iter().enumerate() {
        if !is_host(host) {
            wrong(
                &format!("tls.hosts[{i}]"),
                format!("expected a host name or an IP address, without a port, found {host:?}"),
            );
        }
    }
    let publish = keys(&raw.publish, "tls.publish", wrong);
    let Ok(listen) = raw.listen.parse() else {
        wrong(
            "tls.listen",
            format!(
                "expected ADDRESS:PORT like 127.0.0.1:8443 or [::]:8443, found {:?}",
                raw.listen
            ),
        );
        return None;
    };
    Some(TlsOptions {
        listen,
        hosts: raw.hosts,
        publish,
        keep: raw.keep.map(|keep| folder.join(keep)),
    })
}

fn identity_options(raw: RawIdentity, wrong: &mut impl FnMut(&str, String)) -> IdentityOptions {
    if raw.audience.trim().is_empty() {
        wrong("identity.audience", "expected a word, found nothing".to_owned());
    }
    if raw.probers.is_empty() {
        wrong(
            "identity.probers",
            "expected at least one NAMESPACE/SERVICEACCOUNT".to_owned(),
        );
    }
    let vantages = raw.vantages.as_deref().and_then(|text| {
        text.parse()
            .map_err(|error: InvalidName| wrong("identity.vantages", error.to_string()))
            .ok()
    });
    IdentityOptions {
        probers: keys(&raw.probers, "identity.probers", wrong),
        responders: keys(&raw.responders, "identity.responders", wrong),
        audience: raw.audience,
        vantages,
    }
}

fn keys(given: &[String], field: &str, wrong: &mut impl FnMut(&str, String)) -> Vec<ObjectKey> {
    given
        .iter()
        .enumerate()
        .filter_map(|(i, text)| {
            text.parse()
                .map_err(|error: InvalidName| wrong(&format!("{field}[{i}]"), error.to_string()))
                .ok()
        })
        .collect()
}

fn is_host(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    text.parse::<IpAddr>().is_ok()
        || (text.len() <= 253
            && text.chars().all(plain)
            && text
                .split('.')
                .all(|label| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')))
}
