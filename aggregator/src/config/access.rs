//! `tls` and `identity`: how probers connect and authenticate.

use std::{net::IpAddr, path::Path};

use parallax_kubernetes::object_key::ObjectKey;
use parallax_model::InvalidName;

use super::raw::{RawIdentity, RawTls};
use crate::{identity::IdentityOptions, tls::TlsOptions};

/// Validates both sections, alone and in combination.
pub(super) fn validate(
    tls: Option<RawTls>,
    identity: Option<RawIdentity>,
    shared_secret: bool,
    folder: &Path,
    report: &mut impl FnMut(&str, String),
) -> (Option<TlsOptions>, Option<IdentityOptions>) {
    if identity.is_some() && tls.is_none() {
        report(
            "identity",
            "expected tls as well: tokens must not travel in the clear".to_owned(),
        );
    }
    if identity.is_some() && shared_secret {
        report(
            "tokenFile",
            "expected either tokenFile or identity: a shared secret would admit probers that identity rejects"
                .to_owned(),
        );
    }
    let tls = tls.and_then(|raw| tls_options(raw, folder, report));
    (tls, identity.map(|raw| identity_options(raw, report)))
}

fn tls_options(raw: RawTls, folder: &Path, wrong: &mut impl FnMut(&str, String)) -> Option<TlsOptions> {
    if raw.hosts.is_empty() {
        wrong(
            "tls.hosts",
            "expected at least one name or address that probers use".to_owned(),
        );
    }
    for (i, host) in raw.hosts.iter().enumerate() {
        if !is_valid_host(host) {
            wrong(
                &format!("tls.hosts[{i}]"),
                format!("expected a host name or an IP address, without a port, found {host:?}"),
            );
        }
    }
    let publish = parse_object_keys(&raw.publish, "tls.publish", wrong);
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
        publish_to: publish,
        ca_folder: raw.directory.map(|directory| folder.join(directory)),
    })
}

fn identity_options(raw: RawIdentity, wrong: &mut impl FnMut(&str, String)) -> IdentityOptions {
    if raw.audience.trim().is_empty() {
        wrong(
            "identity.audience",
            "expected an audience, found an empty text".to_owned(),
        );
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
        probers: parse_object_keys(&raw.probers, "identity.probers", wrong),
        responders: parse_object_keys(&raw.responders, "identity.responders", wrong),
        audience: raw.audience,
        vantages,
    }
}

fn parse_object_keys(given: &[String], field: &str, wrong: &mut impl FnMut(&str, String)) -> Vec<ObjectKey> {
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

fn is_valid_host(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    text.parse::<IpAddr>().is_ok()
        || (text.len() <= 253
            && text.chars().all(plain)
            && text
                .split('.')
                .all(|label| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')))
}
