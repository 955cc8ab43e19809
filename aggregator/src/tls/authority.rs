//! The aggregator's own certificate authority: made at the start, or kept in a folder.

use data_encoding::HEXLOWER;
use std::{
    fs,
    io::{self, Write as _},
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use ring::digest;
use rustls::{
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    sign::CertifiedKey,
};

/// How long the authority is good for. Its key ends with the process or is kept by the operator, so nothing is gained
/// by a short life, and probers would lose the aggregator at its end.
const AUTHORITY_DAYS: i64 = 3_650;
/// How long a certificate is good for; it is renewed long before.
const LEAF_DAYS: i64 = 30;
/// Clocks of nodes are late now and then.
const BEFORE_DAYS: i64 = 1;

const KEY_FILE: &str = "ca.key";
const CERTIFICATE_FILE: &str = "ca.crt";

/// There is no authority to serve TLS with.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The kept one cannot be read or written.
    #[error(
        "cannot keep the certificate authority in {file}: {source}; make the folder writable, or leave `tls.keep` out"
    )]
    Keep {
        /// The file.
        file: String,
        /// What the system says.
        source: io::Error,
    },
    /// The kept one is damaged.
    #[error(
        "cannot use the certificate authority kept in {file}: {source}; remove the folder to have a new one made"
    )]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong with it.
        source: rcgen::Error,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}; check `tls.hosts`")]
    Make(#[from] rcgen::Error),
    /// The key made for a certificate is not one that TLS can use.
    #[error("cannot use a certificate that was just made: {0}")]
    Unusable(#[from] rustls::Error),
}

/// A certificate authority.
#[derive(Debug)]
pub(crate) struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl CertificateAuthority {
    /// A new one, in memory only.
    pub(crate) fn create() -> Result<Self, AuthorityError> {
        Self::of(KeyPair::generate()?)
    }

    /// The one kept in a folder; at the first time a new one, which is kept there from then on.
    pub(crate) fn kept(folder: &Path) -> Result<Self, AuthorityError> {
        let file = folder.join(KEY_FILE);
        let name = file.display().to_string();
        let keep = |source| AuthorityError::Keep {
            file: name.clone(),
            source,
        };
        match fs::read_to_string(&file) {
            Ok(pem) => {
                let key = KeyPair::from_pem(&pem).map_err(|source| AuthorityError::Damaged {
                    file: name.clone(),
                    source,
                })?;
                let mut authority = Self::of(key)?;
                // The same key and the same name make the same authority, but probers compare bytes.
                authority.certificate = fs::read_to_string(folder.join(CERTIFICATE_FILE)).map_err(keep)?;
                Ok(authority)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(folder).map_err(keep)?;
                let authority = Self::create()?;
                // The key last: where it is, the certificate is.
                write(
                    &folder.join(CERTIFICATE_FILE),
                    authority.certificate.as_bytes(),
                    0o644,
                )
                .map_err(keep)?;
                write(&file, authority.issuer.key().serialize_pem().as_bytes(), 0o600).map_err(keep)?;
                Ok(authority)
            }
            Err(error) => Err(keep(error)),
        }
    }

    fn of(key: KeyPair) -> Result<Self, AuthorityError> {
        let mut params = CertificateParams::new(Vec::new())?;
        // A name of its own for each: a bundle of several is searched by name.
        let mark = digest::digest(&digest::SHA256, key.public_key_raw());
        let mark = HEXLOWER.encode(&mark.as_ref()[..4]);
        params.distinguished_name = named(&format!("parallax aggregator CA {mark}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        bound(&mut params, AUTHORITY_DAYS);
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            certificate,
        })
    }

    /// The public part, as PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A certificate for these hosts with a key of its own.
    pub(crate) fn issue(&self, hosts: &[String]) -> Result<CertifiedKey, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = named("parallax aggregator");
        params.subject_alt_names = hosts
            .iter()
            .map(|host| {
                Ok(match host.parse::<IpAddr>() {
                    Ok(address) => SanType::IpAddress(address),
                    Err(_) => SanType::DnsName(host.as_str().try_into()?),
                })
            })
            .collect::<Result<_, rcgen::Error>>()?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        bound(&mut params, LEAF_DAYS);
        let certificate = params.signed_by(&key, &self.issuer)?;
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(CertifiedKey::from_der(chain, private, &default_provider())?)
    }
}

/// Never readable by others, not even for a moment; whole or not at all.
fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    let _ = fs::remove_file(&unfinished);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(unfinished, path)
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// From yesterday on, for so many days, by the day: certificates need no finer grain.
fn bound(params: &mut CertificateParams, days: i64) {
    let now = Timestamp::now();
    let day = |hours: i64| {
        let date = (now + SignedDuration::from_hours(hours))
            .to_zoned(TimeZone::UTC)
            .date();
        // Months and days of a calendar are small and positive.
        let small = |number: i8| number.unsigned_abs();
        rcgen::date_time_ymd(date.year().into(), small(date.month()), small(date.day()))
    };
    params.not_before = day(-24 * BEFORE_DAYS);
    params.not_after = day(24 * days);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_kept_authority_is_the_same_after_a_restart_and_its_key_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("tls");
        let first = CertificateAuthority::kept(&kept).unwrap();
        let second = CertificateAuthority::kept(&kept).unwrap();
        assert_eq!(first.certificate(), second.certificate());
        let mode = fs::metadata(kept.join(KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_ne!(
            CertificateAuthority::create().unwrap().certificate(),
            first.certificate()
        );
    }

    #[test]
    fn a_damaged_key_is_said_with_its_file_and_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(KEY_FILE), "no key").unwrap();
        let said = CertificateAuthority::kept(folder.path()).unwrap_err().to_string();
        assert!(
            said.contains("ca.key") && said.contains("remove the folder"),
            "{said}"
        );
    }

    #[test]
    fn a_host_that_no_certificate_can_name_is_refused() {
        let authority = CertificateAuthority::create().unwrap();
        let said = authority
            .issue(&["stra\u{df}e".to_owned()])
            .unwrap_err()
            .to_string();
        assert!(said.contains("tls.hosts"), "{said}");
    }
}
