//! The run's own CA, and one certificate for all names that the servers use.

use std::{collections::BTreeSet, fs};

use anyhow::Context;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};

use crate::{
    incident::{BalancingMode, Incident},
    run_dir::RunDir,
    workloads::{CA_FILE, CERTIFICATE_FILE},
};

/// Returns the path of the CA certificate, if the incident has TLS servers.
#[must_use]
pub fn ca_path(run: &RunDir, incident: &Incident) -> Option<String> {
    speaks_tls(incident).then(|| run.file(CA_FILE).display().to_string())
}

fn speaks_tls(incident: &Incident) -> bool {
    let mut ports = incident
        .topology
        .services
        .iter()
        .flat_map(|service| &service.ports);
    let mut services = incident.topology.services.iter();
    ports.any(super::incident::ServicePort::is_tls)
        || services.any(|service| service.balancing == BalancingMode::EndsTls)
}

/// Writes both into the run's directory.
pub fn issue(run: &RunDir, incident: &Incident) -> anyhow::Result<()> {
    if !speaks_tls(incident) {
        return Ok(());
    }
    let records = incident.topology.records.iter().map(|record| &record.host);
    let names: BTreeSet<String> = incident.hosts().chain(records).map(ToString::to_string).collect();
    let (authority, certificate) =
        create_certificates(names.into_iter().collect()).context("making certificates")?;
    for (name, text) in [(CA_FILE, authority), (CERTIFICATE_FILE, certificate)] {
        let path = run.file(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Returns the CA certificate, and a server certificate with its key, as PEM.
fn create_certificates(names: Vec<String>) -> Result<(String, String), rcgen::Error> {
    let call = |params: &mut CertificateParams, name: &str| {
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
    };
    let mut authority = CertificateParams::default();
    call(&mut authority, "Parallax lab");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate()?;
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let mut leaf = CertificateParams::new(names)?;
    call(&mut leaf, "a server of the lab");
    let leaf_key = KeyPair::generate()?;
    let leaf_pem = leaf.signed_by(&leaf_key, &issuer)?.pem();
    Ok((authority_pem, leaf_pem + &leaf_key.serialize_pem()))
}
